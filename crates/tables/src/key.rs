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
}

impl KeySpec {
    /// A key of the given columns.
    ///
    /// # Errors
    /// Usage: no column, an empty name, or a name given twice.
    pub fn new(columns: Vec<KeyColumn>) -> Result<Self> {
        if columns.is_empty() || columns.iter().any(|c| c.name.is_empty()) {
            return Err(Error::usage(
                "a key column has no name",
                "give column names, separated by commas",
            ));
        }
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|c| c.name == column.name) {
                return Err(Error::usage(
                    format!("the key names column {:?} twice", column.name),
                    "",
                ));
            }
        }
        Ok(KeySpec { columns })
    }

    /// A key as the command line gives it: `key` is `COL[,COL…]`, and each of `normalize` is
    /// `COL=PROFILE`. Columns that `normalize` does not name are `exact`.
    ///
    /// # Errors
    /// Usage: as [`KeySpec::new`]; a profile that does not exist; a normalised column that is
    /// not part of the key or is named twice.
    pub fn parse<S: AsRef<str>>(key: &str, normalize: &[S]) -> Result<Self> {
        let columns = key
            .split(',')
            .map(|name| KeyColumn {
                name: name.to_owned(),
                profile: Profile::Exact,
            })
            .collect();
        let mut spec = KeySpec::new(columns)?;
        let mut seen: Vec<&str> = Vec::new();
        for option in normalize {
            let Some((name, profile)) = option.as_ref().rsplit_once('=') else {
                return Err(Error::usage(
                    format!("{:?} is not COLUMN=PROFILE", option.as_ref()),
                    "for example email=email or phone=phone:GB",
                ));
            };
            let Some(column) = spec.columns.iter_mut().find(|c| c.name == name) else {
                return Err(Error::usage(
                    format!("column {name:?} is normalised but is not part of the key"),
                    format!("the key is: {key}"),
                ));
            };
            if seen.contains(&name) {
                return Err(Error::usage(
                    format!("column {name:?} is normalised twice"),
                    "",
                ));
            }
            seen.push(name);
            column.profile = profile.parse()?;
        }
        Ok(spec)
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
        assert_eq!(spec.normalization(), ["email/1", "phone/2"]);
        assert_eq!(spec.columns()[1].profile.to_string(), "phone:GB");
        assert_eq!(
            KeySpec::parse("id", &[] as &[&str])
                .unwrap()
                .normalization(),
            ["exact/1"]
        );
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
