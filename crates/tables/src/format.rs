//! File formats.

/// What an Arrow file starts with.
pub(crate) const ARROW_FILE_START: &[u8] = b"ARROW1\0\0";
/// What stands before each message of an Arrow stream.
pub(crate) const ARROW_STREAM_START: &[u8] = &[0xff; 4];

/// The list of formats, which is handed to the macro `$each`. For each format its variant, what people call it, its kind
/// and module in [`formats`](crate::formats), and the feature without which a build leaves it out; the extensions of its files, of
/// which the first is its name; and first bytes. Those of a columnar format leave no doubt. Text that nothing else tells
/// is guessed by them, after white space.
macro_rules! for_formats {
    ($each:ident) => {
        $each! {
            /// Delimited text with a header, possibly in gzip.
            Csv = "CSV", lines csv, ["csv", "tsv", "tab", "psv", "txt"], [];
            /// Parquet.
            Parquet = "Parquet", columnar parquet if "parquet", ["parquet", "pq"], [b"PAR1"];
            /// One JSON object per line, possibly in gzip.
            Jsonl = "JSON Lines", lines jsonl, ["jsonl", "ndjson", "json"], [b"{\"", b"{}", b"{ ", b"{\t", b"{\n", b"{\r"];
            /// Arrow IPC: a file (Feather version 2) or a stream.
            Arrow = "Arrow IPC", columnar ipc, ["arrow", "arrows", "feather", "ipc"], [ARROW_FILE_START, ARROW_STREAM_START];
        }
    };
}
pub(crate) use for_formats;

/// Declares [`Format`].
macro_rules! declare {
    ($($(#[$doc:meta])* $format:ident = $words:literal, $kind:ident $module:ident $(if $feature:tt)?, $extensions:expr, $starts:expr;)*) => {
        /// A file format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "lowercase")]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// All of them.
            pub const ALL: &[Format] = &[$(Format::$format),*];

            pub(crate) fn words(self) -> &'static str {
                match self {
                    $(Format::$format => $words,)*
                }
            }

            /// Extensions of its files, in lower case.
            pub(crate) fn extensions(self) -> &'static [&'static str] {
                match self {
                    $(Format::$format => &$extensions,)*
                }
            }

            /// Whether bytes start as its files do.
            pub(crate) fn starts(self, bytes: &[u8]) -> bool {
                let starts: &[&[u8]] = match self {
                    $(Format::$format => &$starts,)*
                };
                starts.iter().any(|start| bytes.starts_with(start))
            }

            /// Whether it is lines of text.
            pub fn is_text(self) -> bool {
                match self {
                    $(Format::$format => stringify!($kind) == "lines",)*
                }
            }

            /// Whether this build has it.
            pub(crate) fn is_built(self) -> bool {
                match self {
                    $(Format::$format => true $(&& cfg!(feature = $feature))?,)*
                }
            }
        }
    };
}

for_formats!(declare);

impl Format {
    /// The name that the command knows it by: `csv`, `parquet`, `jsonl` or `arrow`.
    pub fn name(self) -> &'static str {
        self.extensions()[0]
    }

    /// The names of all, with `between` them.
    pub fn names(between: &str) -> String {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        names.join(between)
    }

    /// What people call them: `CSV, Parquet, JSON Lines or Arrow IPC`.
    pub(crate) fn all_in_words() -> String {
        let words: Vec<&str> = Format::ALL.iter().map(|format| format.words()).collect();
        let (last, others) = words.split_last().expect("formats");
        format!("{} or {last}", others.join(", "))
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_reports() {
        for format in Format::ALL {
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
            assert_eq!(format.name().parse::<Format>().unwrap(), *format);
        }
        assert_eq!(
            Format::all_in_words(),
            "CSV, Parquet, JSON Lines or Arrow IPC"
        );
    }
}
