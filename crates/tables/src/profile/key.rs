//! Which columns make a key, and how.

use crate::error::{Error, Result};
use crate::profile::Profile;

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's name, exactly as in the table.
    pub name: String,
    /// How its values are normalised.
    pub profile: Profile,
}

/// The columns whose values together identify a row. The order matters: both parties must
/// name corresponding columns in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    columns: Vec<KeyColumn>,
    nulls: Vec<String>,
}

/// The names in `COL[,COL…]`. A comma after a backslash is part of a name; that backslash is not.
fn split_names(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut rest = key;
    while let Some(at) = rest.find(',') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let name = names.last_mut().expect("there is a name");
        match before.strip_suffix('\\') {
            Some(before) => name.extend([before, ","]),
            None => {
                name.push_str(before);
                names.push(String::new());
            }
        }
        rest = after;
    }
    names.last_mut().expect("there is a name").push_str(rest);
    names
}

impl KeySpec {
    /// A key of the given columns.
    ///
    /// # Errors
    /// Usage: no column, an empty name, or a name given twice.
    pub fn new(columns: Vec<KeyColumn>) -> Result<Self> {
        if columns.is_empty() || columns.iter().any(|c| c.name.is_empty()) {
            return Err(Error::usage_with(
                "a key column has no name",
                "give column names, separated by commas",
            ));
        }
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|c| c.name == column.name) {
                return Err(Error::usage(format!(
                    "column {:?} is named twice",
                    column.name
                )));
            }
        }
        Ok(KeySpec {
            columns,
            nulls: Vec::new(),
        })
    }

    /// A key as the command line gives it: `key` is `COL[,COL…]`, where `\,` is a comma in a name, and each of
    /// `normalize` is `COL=PROFILE`. Columns that `normalize` does not name are `exact`.
    ///
    /// # Errors
    /// Usage: as [`KeySpec::new`]; a profile that does not exist; a normalised column that is
    /// not part of the key or is named twice.
    pub fn parse<S: AsRef<str>>(key: &str, normalize: &[S]) -> Result<Self> {
        KeySpec::parse_all(&[key], normalize)
    }

    /// A key whose columns are in several texts, each as [`KeySpec::parse`] takes it.
    ///
    /// # Errors
    /// As there.
    pub fn parse_all<K: AsRef<str>, S: AsRef<str>>(keys: &[K], normalize: &[S]) -> Result<Self> {
        let names = keys.iter().flat_map(|key| split_names(key.as_ref()));
        let columns = names.map(|name| KeyColumn {
            name,
            profile: Profile::Exact,
        });
        let mut spec = KeySpec::new(columns.collect())?;
        let mut seen: Vec<&str> = Vec::new();
        for option in normalize {
            let Some((name, profile)) = option.as_ref().rsplit_once('=') else {
                return Err(Error::usage_with(
                    format!("{:?} is not COLUMN=PROFILE", option.as_ref()),
                    "for example email=email or phone=phone:GB",
                ));
            };
            let Some(column) = spec.columns.iter_mut().find(|c| c.name == name) else {
                let names: Vec<_> = spec.columns.iter().map(|c| &*c.name).collect();
                return Err(Error::usage_with(
                    format!("column {name:?} is normalised but is not part of the key"),
                    format!("the key is: {}", names.join(", ")),
                ));
            };
            if seen.contains(&name) {
                return Err(Error::usage(format!("column {name:?} is normalised twice")));
            }
            seen.push(name);
            column.profile = profile.parse()?;
        }
        Ok(spec)
    }

    /// The same key, where a value whose text is one of `nulls` is null, in whatever format. It is compared as it
    /// is, before it is normalised.
    pub fn with_nulls(mut self, nulls: Vec<String>) -> Self {
        self.nulls = nulls;
        self
    }

    /// The texts of [`KeySpec::with_nulls`].
    pub(crate) fn nulls(&self) -> &[String] {
        &self.nulls
    }

    /// Whether a value of this text is null.
    pub(crate) fn is_null(&self, text: &[u8]) -> bool {
        self.nulls.iter().any(|null| null.as_bytes() == text)
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        let names = self.columns.iter().map(|column| column.name.clone());
        names.collect()
    }

    /// The columns, in the key's order.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// The bits of the keys, if they are numbers of a declared width: those of one column with such a profile.
    pub fn bits(&self) -> Option<u32> {
        match &self.columns[..] {
            [column] => column.profile.bits(),
            _ => None,
        }
    }

    /// What the contract says about the key: one profile id per column, in order. Column names are not part
    /// of it; they stay private and may differ.
    pub fn normalization(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|c| c.profile.id().into_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn the_command_line_form() {
        let spec = KeySpec::parse("email,tel", &["tel=phone:gb", "email=email"]).unwrap();
        assert_eq!(spec.normalization(), ["email/1", "phone/3"]);
        assert_eq!(spec.columns()[1].profile.to_string(), "phone:GB");
        assert_eq!(
            KeySpec::parse("id", &[] as &[&str])
                .unwrap()
                .normalization(),
            ["exact/2"]
        );
    }

    #[test]
    fn names_with_commas() {
        for (keys, names) in [
            (&["a,b"][..], &["a", "b"][..]),
            (&["a", "b,c"], &["a", "b", "c"]),
            (&[r"last\, first,x"], &["last, first", "x"]),
            (&[r"\,,x\,"], &[",", "x,"]),
            (&[r"a\b,c\"], &[r"a\b", r"c\"]),
        ] {
            let spec = KeySpec::parse_all(keys, &[] as &[&str]).unwrap();
            let found: Vec<&str> = spec.columns().iter().map(|c| &*c.name).collect();
            assert_eq!(found, names, "{keys:?}");
        }
        let spec = KeySpec::parse(r"a\,b", &["a,b=text"]);
        assert_eq!(spec.unwrap().normalization(), ["text/1"]);
    }

    #[test]
    fn only_a_single_number_has_bits() {
        let bits = |key, normalize: &[&str]| KeySpec::parse(key, normalize).unwrap().bits();
        assert_eq!(bits("ip", &["ip=ipv4"]), Some(32));
        assert_eq!(bits("n", &["n=integer:7"]), Some(7));
        assert_eq!(bits("n", &[]), None);
        assert_eq!(bits("n,m", &["n=integer:7"]), None);
    }

    #[test]
    fn wrong_requests_are_usage_errors() {
        let none: &[&str] = &[];
        for (key, normalize) in [
            ("", none),
            ("a,", none),
            ("a,a", none),
            ("a", &["a"]),
            ("a", &["b=text"]),
            ("a", &["a=text", "a=text"]),
            ("a", &["a=nonsense"]),
            ("a", &["a=phone"]),
            ("a", &["a=phone:XX"]),
        ] {
            let error = KeySpec::parse(key, normalize).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Usage, "{key} {normalize:?}");
            assert!(!error.to_string().contains('\n'));
        }
    }
}
