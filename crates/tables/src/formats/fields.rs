//! Where the wanted columns are: by their names, or by paths below structs.

use std::collections::HashSet;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields};

use crate::error::{Error, ErrorKind, Result};
use crate::types::columns_read::ColumnsRead;

/// The index of each wanted column among `names`, which are in the first line of a text.
pub(crate) fn find<S: AsRef<str>>(names: &[S], wanted: ColumnsRead<'_>) -> Result<Vec<usize>> {
    wanted.check_added(names.iter())?;
    let find = |column: &str| {
        let kind = match place(names, column) {
            Ok(Some(place)) => return Ok(place),
            Err(kind) => kind,
            Ok(None) => missing(names, wanted.names()),
        };
        Err(Error::new(kind).in_column(column))
    };
    let mut chosen = wanted.chosen.iter();
    let places = wanted.names().map(find).collect();
    chosen.try_for_each(|column| find(column).map(drop))?;
    places
}

/// The index of each column of a result among the names in the first line of a text.
pub(crate) fn find_chosen<S: AsRef<str>>(names: &[S], chosen: &[String]) -> Result<Vec<usize>> {
    let find = |column: &String| match place(names, column) {
        Ok(Some(place)) => Ok(place),
        // The first pass has found it.
        Ok(None) => Err(Error::new(ErrorKind::Changed)),
        Err(kind) => Err(Error::new(kind).in_column(column)),
    };
    chosen.iter().map(find).collect()
}

/// The index of each column of a result among those of a table, at the top; of all if none is chosen.
pub(crate) fn chosen_fields(fields: &Fields, chosen: &[String]) -> Result<Vec<usize>> {
    if chosen.is_empty() {
        return Ok((0..fields.len()).collect());
    }
    let names: Vec<&String> = fields.iter().map(|field| field.name()).collect();
    let find = |column: &String| {
        let kind = match place(&names, column) {
            Ok(Some(place)) => return Ok(place),
            Err(kind) => kind,
            Ok(None) => missing(&names, chosen.iter().map(|name| &**name)),
        };
        Err(Error::new(kind).in_column(column))
    };
    chosen.iter().map(find).collect()
}

/// That a column is not among those of these names, which are shown if they are some.
fn missing<'a, S: AsRef<str>>(
    names: &[S],
    wanted: impl Iterator<Item = &'a str> + Clone,
) -> ErrorKind {
    let available = match are_names(names, wanted) {
        true => names.iter().map(|name| name.as_ref().to_owned()).collect(),
        false => Vec::new(),
    };
    ErrorKind::MissingColumn { available }
}

/// Where a name is, or else one that differs in white space around it alone.
fn place<S: AsRef<str>>(
    names: &[S],
    column: &str,
) -> std::result::Result<Option<usize>, ErrorKind> {
    let only = |is_it: &dyn Fn(&str) -> bool| {
        let mut places = (0..names.len()).filter(|i| is_it(names[*i].as_ref()));
        match (places.next(), places.next()) {
            (_, Some(_)) => Err(ErrorKind::AmbiguousColumn),
            (place, None) => Ok(place),
        }
    };
    match only(&|name| name == column)? {
        None => only(&|name| name.trim() == column.trim()),
        place => Ok(place),
    }
}

/// Whether these are names of all wanted columns, among others.
pub(crate) fn has_all<S: AsRef<str>>(names: &[S], wanted: ColumnsRead<'_>) -> bool {
    let chosen = wanted.chosen.iter().map(|name| &**name);
    let mut columns = wanted.names().chain(chosen);
    columns.all(|column| matches!(place(names, column), Ok(Some(_))))
}

/// Whether the first line has names of columns, and is no row of a table without them, which is not shown: a wanted column is
/// among them, they are numbers in order, or they are like words.
fn are_names<'a, S: AsRef<str>>(
    names: &[S],
    wanted: impl Iterator<Item = &'a str> + Clone,
) -> bool {
    const MAX_DIGITS: usize = 3;
    let is_sign = |c: char| " _-./()#%:".contains(c);
    let is_word = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || is_sign(c))
            && name.chars().filter(|c| c.is_numeric()).count() <= MAX_DIGITS
    };
    let mut names = names.iter().map(AsRef::as_ref);
    let is_wanted = |name: &str| wanted.clone().any(|column| column == name);
    names.clone().any(is_wanted)
        || (1..)
            .zip(names.clone())
            .all(|(i, name): (usize, &str)| name == i.to_string())
        || names.all(is_word)
}

/// Where a column is: the index of the one at the top, and of the field in each struct below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPath {
    pub(crate) root: usize,
    pub(crate) below: Vec<usize>,
}

/// Where each wanted column is in a schema; its type must be usable as a key, or as values.
pub(crate) fn find_fields(fields: &Fields, wanted: ColumnsRead<'_>) -> Result<Vec<FieldPath>> {
    wanted.check_added(fields.iter().map(|field| field.name()))?;
    let find = |(i, name)| {
        let in_column = |kind| Error::new(kind).in_column(name);
        let (path, field) = find_field(fields, name)
            .map_err(in_column)?
            .ok_or_else(|| wanted.missing(i, names(fields)))?;
        let found = || field.data_type().to_string();
        match wanted.is_value(i) {
            true if !can_be_value(field.data_type()) => {
                Err(in_column(ErrorKind::ValueType { found: found() }))
            }
            false
                if !can_be_key(
                    elements_of(field.data_type(), wanted.takes_lists(i)),
                    wanted.takes_floats(i),
                ) =>
            {
                Err(in_column(ErrorKind::KeyType { found: found() }))
            }
            _ => Ok(path),
        }
    };
    let found = wanted.names().enumerate().map(find).collect();
    chosen_fields(fields, wanted.chosen)?;
    found
}

/// Where a field is, by its whole name, or else by a path: a struct's name, a dot, and the rest of the path in it.
pub(crate) fn find_field<'f>(
    fields: &'f Fields,
    name: &str,
) -> std::result::Result<Option<(FieldPath, &'f Field)>, ErrorKind> {
    let called = |name: &str| -> std::result::Result<Option<usize>, ErrorKind> {
        let mut places = (0..fields.len()).filter(|i| fields[*i].name() == name);
        match (places.next(), places.next()) {
            (_, Some(_)) => Err(ErrorKind::AmbiguousColumn),
            (place, None) => Ok(place),
        }
    };
    if let Some(root) = called(name)? {
        let below = Vec::new();
        return Ok(Some((FieldPath { root, below }, &fields[root])));
    }
    let Some((head, rest)) = name.split_once('.') else {
        return Ok(None);
    };
    let Some(root) = called(head)? else {
        return Ok(None);
    };
    let DataType::Struct(children) = fields[root].data_type() else {
        return Ok(None);
    };
    Ok(find_field(children, rest)?.map(|(path, field)| {
        let below = [&[path.root], &path.below[..]].concat();
        (FieldPath { root, below }, field)
    }))
}

/// Fails if two columns have one name.
pub(crate) fn check_each_once<S: AsRef<str>>(names: &[S]) -> Result<()> {
    let mut seen = HashSet::new();
    let mut names = names.iter().map(AsRef::as_ref);
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::new(ErrorKind::AmbiguousColumn).in_column(name)),
        None => Ok(()),
    }
}

/// Whether values of a type have a text.
pub(crate) fn has_text(data_type: &DataType) -> bool {
    can_be_key(data_type, true)
}

/// All names of columns and paths of fields.
fn names(fields: &Fields) -> Vec<String> {
    let mut all = Vec::new();
    for field in fields {
        all.push(field.name().clone());
        if let DataType::Struct(children) = field.data_type() {
            let below = names(children).into_iter();
            all.extend(below.map(|name| format!("{}.{name}", field.name())));
        }
    }
    all
}

/// Floats have no exact text, and their equality is a trap, unless they stand for whole numbers; nested values have no
/// agreed text.
fn can_be_key(data_type: &DataType, floats: bool) -> bool {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => can_be_key(values, floats) && !is_indexed(values),
        T::RunEndEncoded(_, values) => {
            can_be_key(values.data_type(), floats) && !is_indexed(values.data_type())
        }
        T::Float32 | T::Float64 => floats,
        T::Null | T::Boolean | T::Date32 | T::Date64 | T::Time32(_) | T::Time64(_) => true,
        T::Timestamp(_, _) | T::Utf8 | T::LargeUtf8 | T::Utf8View => true,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => true,
        T::Decimal32(_, _) | T::Decimal64(_, _) | T::Decimal128(_, _) | T::Decimal256(_, _) => true,
        other => other.is_integer(),
    }
}

/// The type of the elements of lists, where such are taken; else the type itself.
fn elements_of(data_type: &DataType, takes_lists: bool) -> &DataType {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
            if takes_lists =>
        {
            element.data_type()
        }
        other => other,
    }
}

/// Numbers with an exact text, and text.
fn can_be_value(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => can_be_value(values) && !is_indexed(values),
        T::RunEndEncoded(_, values) => {
            can_be_value(values.data_type()) && !is_indexed(values.data_type())
        }
        T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => true,
        T::Decimal32(_, _) | T::Decimal64(_, _) | T::Decimal128(_, _) | T::Decimal256(_, _) => true,
        other => other.is_integer(),
    }
}

/// The columns at the top without repetition in rising order, and where each of `wanted` is among them:
/// projections keep the order of the schema.
pub(crate) fn projection(wanted: &[FieldPath]) -> (Vec<usize>, Vec<FieldPath>) {
    let Projection { roots, places } = Projection::of(wanted.iter().map(|path| path.root));
    let places = places
        .into_iter()
        .zip(wanted)
        .map(|(root, path)| FieldPath {
            root,
            below: path.below.clone(),
        });
    let places = places.collect();
    (roots, places)
}

/// Columns at the top.
pub(crate) struct Projection {
    /// Those that are read, ascending and each once.
    pub(crate) roots: Vec<usize>,
    /// Where each of the wanted ones is among them.
    places: Vec<usize>,
}

impl Projection {
    pub(crate) fn of(wanted: impl Iterator<Item = usize> + Clone) -> Projection {
        let mut roots: Vec<usize> = wanted.clone().collect();
        roots.sort_unstable();
        roots.dedup();
        let places = wanted.map(|wanted| roots.partition_point(|root| *root < wanted));
        Projection {
            places: places.collect(),
            roots,
        }
    }

    /// The wanted columns of rows as they are read.
    pub(crate) fn project(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let projected = rows.project(&self.places);
        projected.map_err(|e| Error::corrupt(e.to_string()))
    }
}

/// Whether rows of such a column refer to values elsewhere; these are not nested.
pub(crate) fn is_indexed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Dictionary(..) | DataType::RunEndEncoded(..)
    )
}
