//! Texts that stand for no value, and are keys all the same.

/// What programs and people write where there is no value, in any case.
const NULL_WORDS: [&str; 45] = [
    "NULL",
    "NA",
    "N/A",
    "N.A.",
    "NaN",
    "NaT",
    "nil",
    "none",
    "not a number",
    "not applicable",
    "not available",
    "not provided",
    "not specified",
    "no value",
    "unknown",
    "undefined",
    "unspecified",
    "missing",
    "missing value",
    "empty",
    "blank",
    "\\N",
    "(null)",
    "<null>",
    "[null]",
    "{null}",
    "(none)",
    "<none>",
    "<NA>",
    "(blank)",
    "(empty)",
    "<unset>",
    "__HIVE_DEFAULT_PARTITION__",
    "-NaN",
    "-1.#IND",
    "-1.#QNAN",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "#NULL!",
    "#REF!",
    "#VALUE!",
    "#NAME?",
    "#NUM!",
    "#DIV/0!",
];

/// Bytes of the longest of them.
const MAX_BYTES: usize = 26;

/// The lengths that they have, a bit each.
const LENGTHS: u32 = {
    let (mut lengths, mut word) = (0, 0);
    while word < NULL_WORDS.len() {
        lengths |= 1 << NULL_WORDS[word].len();
        word += 1;
    }
    lengths
};

/// Whether a text is a word for null, or has nothing but white space, or punctuation, such as `-` and `?`.
pub(crate) fn is_null_word(text: &[u8]) -> bool {
    let trimmed = text.trim_ascii();
    let Some(first) = trimmed.first() else {
        return !text.is_empty();
    };
    // Nearly all keys are told by their first byte or their length.
    match first.to_ascii_lowercase() {
        _ if trimmed.len() > MAX_BYTES => false,
        b'b' | b'e' | b'm' | b'n' | b'u' => is_word(trimmed),
        first if first.is_ascii_punctuation() => is_punctuation(trimmed) || is_word(trimmed),
        // The dashes.
        0xe2 => is_punctuation(trimmed),
        _ => false,
    }
}

/// Whether a text, which is no longer than the longest of them, is one of the words.
fn is_word(text: &[u8]) -> bool {
    let mut words = NULL_WORDS.iter();
    LENGTHS >> text.len() & 1 == 1 && words.any(|word| word.as_bytes().eq_ignore_ascii_case(text))
}

fn is_punctuation(text: &[u8]) -> bool {
    let is_mark = |c: char| {
        c.is_ascii_punctuation() || matches!(c, '\u{2010}'..='\u{2015}' | '\u{2026}' | '\u{2212}')
    };
    str::from_utf8(text).is_ok_and(|text| text.chars().all(is_mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_case() {
        let longest = NULL_WORDS.iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(MAX_BYTES));
        for word in NULL_WORDS {
            for text in [
                word.to_owned(),
                word.to_lowercase(),
                word.to_uppercase(),
                format!(" {word}\t"),
            ] {
                assert!(is_null_word(text.as_bytes()), "{text}");
            }
        }
        for text in [
            " ",
            "\t \n",
            "-",
            "--",
            "?",
            "???",
            ".",
            "/",
            "*",
            "_",
            "\u{2013}",
            "\u{2014}\u{2026}",
        ] {
            assert!(is_null_word(text.as_bytes()), "{text:?}");
        }
        for text in [
            "",
            "0",
            "a",
            "n",
            "nu",
            "nulls",
            "Nina",
            "nobody",
            "n-a",
            "ann@x.org",
            "-1",
            "?a",
            "\\n1",
            "Missingham",
            "\u{201c}",
            "Müller",
            "unknown person",
            "#1",
            "C++",
        ] {
            assert!(!is_null_word(text.as_bytes()), "{text:?}");
        }
        assert!(!is_null_word(b"\xff"));
        assert!(!is_null_word(b"-\xff"));
    }
}
