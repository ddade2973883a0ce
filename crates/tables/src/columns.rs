//! The columns of a table, which all its files have.

use arrow_schema::{Field, SchemaRef};

use crate::error::{Error, ErrorKind, Result};

/// What is known of the columns from the files that have been read.
#[derive(Clone, Debug, Default)]
pub(crate) enum Columns {
    #[default]
    Unknown,
    /// Of CSV, and the name of the file.
    Names(String, Vec<String>),
    /// Of Parquet and Arrow, and the name of the file.
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

    /// Takes the columns of a file of Parquet or Arrow, or fails if those before had others.
    pub(crate) fn schema(&mut self, file: &str, schema: &SchemaRef) -> Result<()> {
        let Columns::Schema(than, first) = self else {
            *self = Columns::Schema(file.to_owned(), schema.clone());
            return Ok(());
        };
        same_names(than, &names_of(first), &names_of(schema))?;
        let pairs = first.fields().iter().zip(schema.fields());
        for (first, field) in pairs {
            if let Some(how) = other_type(first, field) {
                let than = than.clone();
                return Err(Error::new(ErrorKind::OtherColumns { than, how }));
            }
        }
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
    if first == names {
        return Ok(());
    }
    let (mut sorted, mut others) = (first.to_vec(), names.to_vec());
    sorted.sort_unstable();
    others.sort_unstable();
    let alone = |ones: &[String], others: &[String]| {
        let alone = ones.iter().find(|name| !others.contains(name));
        alone.cloned()
    };
    let how = if sorted == others {
        "the columns are in another order".to_owned()
    } else if let Some(name) = alone(first, names) {
        format!("column {name:?} is missing")
    } else if let Some(name) = alone(names, first) {
        format!("column {name:?} is only here")
    } else {
        format!("there are {} columns, not {}", names.len(), first.len())
    };
    let than = than.to_owned();
    Err(Error::new(ErrorKind::OtherColumns { than, how }))
}

/// How a column differs from that of the first file. What is never null may be where nulls may.
fn other_type(first: &Field, field: &Field) -> Option<String> {
    let (name, found, expected) = (field.name(), field.data_type(), first.data_type());
    if !found.equals_datatype(expected) {
        return Some(format!(
            "column {name:?} is of type {found}, not {expected}"
        ));
    }
    let nullable = field.is_nullable() && !first.is_nullable();
    nullable.then(|| format!("column {name:?} may be null"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Schema};
    use std::collections::HashMap;
    use std::sync::Arc;

    #[test]
    fn differences_of_names_are_told() {
        let names = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (second, how) in [
            ("a b c", None),
            ("b a c", Some("another order")),
            ("a b", Some("\"c\" is missing")),
            ("a b d", Some("\"c\" is missing")),
            ("a b c d", Some("\"d\" is only here")),
            ("a b c c", Some("4 columns, not 3")),
        ] {
            let mut columns = Columns::default();
            columns.names("one", &names("a b c")).unwrap();
            let found = columns.names("two", &names(second)).err();
            let found = found.map(|e| e.to_string());
            match how {
                None => assert_eq!(found, None),
                Some(how) => {
                    let found = found.unwrap();
                    assert!(found.contains(how) && found.contains("one"), "{found}");
                }
            }
        }
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
        assert!(
            columns
                .schema("two", &schema(DataType::Int32, false))
                .is_ok()
        );
        let error = columns.schema("two", &schema(DataType::Int64, true));
        assert!(error.unwrap_err().to_string().contains("Int64, not Int32"));
        let mut columns = Columns::default();
        columns
            .schema("one", &schema(DataType::Int32, false))
            .unwrap();
        assert!(
            columns
                .schema("two", &schema(DataType::Int32, true))
                .is_err()
        );
    }
}
