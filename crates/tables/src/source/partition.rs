//! Columns that the names of directories say, as in `day=2026-01-01/part-0.parquet`.

use std::path::{Component, Path};

use crate::error::{Error, Result};
use crate::objects::address::unescaped;

/// How Hive writes that a column is null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns that the directories of a file say, from the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) columns: Vec<(String, Option<String>)>,
}

impl Partition {
    /// Of a file below a directory. Directories with other names say nothing.
    ///
    /// # Errors
    /// Data: what an escape stands for is not UTF-8, or two directories say the same column.
    pub(crate) fn of(file: &Path, root: &Path) -> Result<Partition> {
        // Patterns give files without it.
        let root = root.strip_prefix(".").unwrap_or(root);
        let file = file.strip_prefix(".").unwrap_or(file);
        let below = file.strip_prefix(root).map_err(|_| {
            let found = "a file that is not below the directory of its pattern";
            Error::unsupported(found)
        })?;
        let directories = below.parent().into_iter().flat_map(Path::components);
        let mut columns: Vec<(String, Option<String>)> = Vec::new();
        for directory in directories {
            let Component::Normal(name) = directory else {
                continue;
            };
            let Some((name, value)) = name.to_str().and_then(|name| name.split_once('=')) else {
                continue;
            };
            let (name, value) = (text(name)?, text(value)?);
            if columns.iter().any(|(other, _)| *other == name) {
                let found = format!("directories that say the column {name:?} twice");
                return Err(Error::unsupported(found));
            }
            columns.push((name, Some(value).filter(|value| value != NULL)));
        }
        Ok(Partition { columns })
    }
}

/// What the escapes in a name stand for.
fn text(name: &str) -> Result<String> {
    let wrong = || Error::unsupported(format!("the name {name:?}, whose escapes are no UTF-8"));
    unescaped(name).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_say_columns() {
        let of = |file: &str| Partition::of(Path::new(file), Path::new("t"));
        let columns = |file: &str| {
            let columns = of(file).unwrap().columns.into_iter();
            columns
                .map(|(name, value)| format!("{name}:{}", value.as_deref().unwrap_or("null")))
                .collect::<Vec<_>>()
        };
        assert_eq!(columns("t/day=2026-01-01/p.parquet"), ["day:2026-01-01"]);
        assert_eq!(columns("t/a=1/x/b=c=d/p"), ["a:1", "b:c=d"]);
        assert_eq!(columns("t/a%20b=%2F%c3%A9/k=/p=1"), ["a b:/é", "k:"]);
        assert_eq!(columns("t/a=__HIVE_DEFAULT_PARTITION__/p"), ["a:null"]);
        assert!(columns("t/p.parquet").is_empty());
        assert!(of("t/a=1/a=2/p").is_err());
        assert!(of("t/a=%ff/p").is_err());
        assert!(of("t/a=50%/p").is_err());
        // Patterns that begin here.
        for (file, root) in [
            ("a=1/p", "./"),
            ("./a=1/p", ""),
            ("./t/a=1/p", "t"),
            ("t/a=1/p", "./t"),
        ] {
            let found = Partition::of(Path::new(file), Path::new(root)).unwrap();
            assert_eq!(found.columns.len(), 1, "{file} {root}");
        }
        assert!(of("u/a=1/p").is_err());
        let address = Path::new("s3://b/t/a=1/p");
        let found = Partition::of(address, Path::new("s3://b/t/")).unwrap();
        assert_eq!(found.columns, [("a".to_owned(), Some("1".to_owned()))]);
    }
}
