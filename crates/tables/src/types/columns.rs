//! The columns of a table, which all its files have.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use crate::error::{Difference, Error, ErrorKind, Result};
use crate::types::common_type::common;

/// What is known of the columns from the files that have been read.
#[derive(Clone, Debug, Default)]
pub(crate) enum Columns {
    #[default]
    Unknown,
    /// Of CSV, and the name of the file.
    Names(String, Vec<String>),
    /// Of Parquet and Arrow, which hold the values of all files so far, and the name of the first.
    Schema(String, SchemaRef),
    /// JSON Lines have no schema.
    Fields(Fields),
}

/// What is known of the fields of JSON Lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    /// Which of the wanted fields some row had.
    pub(crate) seen: Vec<bool>,
    /// The fields of the first row.
    pub(crate) first: Option<Vec<String>>,
}

impl Fields {
    /// Adds what later rows have shown.
    pub(crate) fn add(&mut self, later: Fields) {
        for (seen, later) in self.seen.iter_mut().zip(later.seen) {
            *seen |= later;
        }
        self.first = self.first.take().or(later.first);
    }
}

impl Columns {
    /// Takes the columns of a file of CSV, or fails if those before had others.
    pub(crate) fn names(&mut self, file: &str, names: &[String]) -> Result<()> {
        if let Columns::Names(than, first) = self {
            return same_names(than, first, names);
        }
        *self = Columns::Names(file.to_owned(), names.to_vec());
        Ok(())
    }

    /// Takes the columns of a file of Parquet or Arrow, or fails if those before are too different.
    pub(crate) fn schema(&mut self, file: &str, schema: &SchemaRef) -> Result<()> {
        let Columns::Schema(than, first) = self else {
            *self = Columns::Schema(file.to_owned(), schema.clone());
            return Ok(());
        };
        same_names(than, &names_of(first), &names_of(schema))?;
        let pairs = first.fields().iter().zip(schema.fields());
        let both = pairs.map(|(first, field)| {
            common(first, field).ok_or_else(|| {
                let how = Difference::Type {
                    column: field.name().clone(),
                    found: field.data_type().to_string(),
                    expected: first.data_type().to_string(),
                };
                let than = than.clone();
                Error::new(ErrorKind::OtherColumns { than, how })
            })
        });
        let both: Vec<Field> = both.collect::<Result<_>>()?;
        *first = Arc::new(Schema::new_with_metadata(both, first.metadata().clone()));
        Ok(())
    }

    /// The fields of JSON Lines, of which `wanted` are wanted.
    pub(crate) fn fields(&mut self, wanted: usize) -> &mut Fields {
        if !matches!(self, Columns::Fields(_)) {
            *self = Columns::Fields(Fields {
                seen: vec![false; wanted],
                first: None,
            });
        }
        match self {
            Columns::Fields(fields) => fields,
            _ => unreachable!("it has just become one"),
        }
    }
}

fn names_of(schema: &SchemaRef) -> Vec<String> {
    let fields = schema.fields().iter();
    fields.map(|field| field.name().clone()).collect()
}

/// Fails if a file has other columns than the file `than`, or in another order.
fn same_names(than: &str, first: &[String], names: &[String]) -> Result<()> {
    let Some(how) = Difference::of_names(first, names) else {
        return Ok(());
    };
    let than = than.to_owned();
    Err(Error::new(ErrorKind::OtherColumns { than, how }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::DataType;
    use std::collections::HashMap;

    #[test]
    fn differences_of_names_are_told() {
        let names = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (second, how) in [
            ("a b c", None),
            ("b a c", Some(Difference::Order)),
            ("a b", Some(Difference::Missing("c".into()))),
            ("a b d", Some(Difference::Missing("c".into()))),
            ("a b c d", Some(Difference::Added("d".into()))),
            (
                "a b c c",
                Some(Difference::Count {
                    found: 4,
                    expected: 3,
                }),
            ),
        ] {
            let mut columns = Columns::default();
            columns.names("one", &names("a b c")).unwrap();
            assert_eq!(found(columns.names("two", &names(second))), how);
        }
    }

    /// How the second file differs from the first one, which is called `one`.
    fn found(result: Result<()>) -> Option<Difference> {
        let error = result.err()?;
        let ErrorKind::OtherColumns { than, how } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(than, "one");
        Some(how.clone())
    }

    #[test]
    fn differences_of_types_are_told() {
        let schema = |data_type, nullable: bool| {
            let metadata = HashMap::from([("writer".to_owned(), nullable.to_string())]);
            let field = Field::new("a", data_type, nullable).with_metadata(metadata);
            Arc::new(Schema::new(vec![field]))
        };
        let mut columns = Columns::default();
        columns
            .schema("one", &schema(DataType::Int32, true))
            .unwrap();
        let same = columns.schema("two", &schema(DataType::Int32, false));
        assert_eq!(found(same), None);
        let other = columns.schema("two", &schema(DataType::Int64, true));
        let how = Difference::Type {
            column: "a".into(),
            found: "Int64".into(),
            expected: "Int32".into(),
        };
        assert_eq!(found(other), Some(how));
        // What is never null may stand beside what is, in either order.
        let mut columns = Columns::default();
        columns
            .schema("one", &schema(DataType::Int32, false))
            .unwrap();
        let other = columns.schema("two", &schema(DataType::Int32, true));
        assert_eq!(found(other), None);
        let Columns::Schema(_, both) = &columns else {
            panic!("{columns:?}");
        };
        assert!(both.field(0).is_nullable());
    }
}
