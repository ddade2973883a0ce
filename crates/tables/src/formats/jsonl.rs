//! JSON Lines: one object per line. Blank lines are skipped.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::lines::{Chosen, LineFormat, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::selection::{Added, AddedKind, Selection};
use crate::formats::sink::{At, Facts};
use crate::profile::canonical::{Element, Row, Value};
use crate::profile::render::{self, Kind};
use crate::source::dialect::Dialect;
use crate::source::part::Part;
use crate::source::records::Records;
use crate::source::text::strip_terminator;
use crate::types::columns::Columns as AllColumns;
use crate::types::columns_read::ColumnsRead;

/// The lines of JSON Lines.
pub(crate) struct Rows;

/// What is wanted of a line.
pub(crate) struct Columns<'a> {
    wanted: ColumnsRead<'a>,
    paths: Paths<'a>,
}

impl LineFormat for Rows {
    const HAS_FIELDS: bool = false;

    type Columns<'a> = Columns<'a>;

    type Row<'r, R: Read + 'r> = Fields<'r>;

    fn columns<'a>(
        _: &Part,
        first: &Text,
        wanted: ColumnsRead<'a>,
        _: &mut Facts,
    ) -> Result<Columns<'a>> {
        check_is_lines(first.raw())?;
        let chosen = wanted.chosen.iter().map(|name| &**name);
        let paths = Paths::new(wanted.names(), wanted.taken()).with_chosen(chosen);
        Ok(Columns { wanted, paths })
    }

    fn is_blank(line: &[u8]) -> bool {
        line.trim_ascii().is_empty()
    }

    fn row<'r, R: Read>(
        columns: &'r Columns<'_>,
        record: &'r Records<R>,
        facts: &mut Facts,
    ) -> Result<Fields<'r>> {
        let (line, _) = strip_terminator(record.raw());
        let fields = parse(line, &columns.paths, columns.wanted)?;
        let wanted = columns.wanted.len() + columns.wanted.chosen.len();
        let known = facts.columns.fields(wanted);
        let values = fields.values.iter().map(Option::is_some);
        for (seen, is_there) in known
            .seen
            .iter_mut()
            .zip(values.chain(fields.chosen.iter().copied()))
        {
            *seen |= is_there;
        }
        known.first.get_or_insert_with(|| names(line));
        Ok(fields)
    }

    fn explain(error: Error, at: At, columns: &Columns<'_>, facts: &Facts) -> Error {
        let (ErrorKind::BadValue { .. }, AllColumns::Fields(known)) =
            (error.kind(), &facts.columns)
        else {
            return error;
        };
        let named = |name: &str| error.place().column.as_deref() == Some(name);
        let is_value = |i: &usize| columns.wanted.is_value(*i);
        let mut values = columns.wanted.names().enumerate();
        let value = values.find(|(i, name)| is_value(i) && named(name));
        match value.filter(|(value, _)| !known.seen[*value]) {
            None => error,
            // The first row that needs a value, and none had one: most likely a wrong name.
            Some((value, _)) => {
                let first = known.first.clone().unwrap_or_default();
                let missing = columns.wanted.missing(value, first);
                missing.at_row(at.row, at.line)
            }
        }
    }

    fn added<'a>(parts: &[Part], _: &Text, rows: &Selection<'a>) -> Result<Vec<Added<'a>>> {
        let added = rows.added(|_| false)?;
        let of_peer = (added.iter()).filter(|column| matches!(column.kind, AddedKind::OfPeer(_)));
        let names: Vec<&str> = of_peer.map(|column| &*column.name).collect();
        if names.is_empty() || !rows.columns().is_empty() {
            return Ok(added);
        }
        let mut taken = HashSet::new();
        for part in parts {
            taken_names(part, &names, &mut taken).map_err(|e| part.named(e))?;
        }
        rows.added(|name| taken.contains(name))
    }

    /// All fields that any line has, as they first come.
    fn names(parts: &[Part]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut last_lines: HashMap<String, u64> = HashMap::new();
        for part in parts {
            each_object(part, |number, object: ObjectFields<'_>| {
                for (name, value) in object.0 {
                    text_of(value)?;
                    match last_lines.get_mut(&*name) {
                        Some(last) if *last == number => return Err(twice()),
                        Some(last) => *last = number,
                        None => {
                            names.push(name.clone().into_owned());
                            last_lines.insert(name.into_owned(), number);
                        }
                    }
                }
                Ok(())
            })?;
            last_lines.values_mut().for_each(|last| *last = 0);
        }
        Ok(names)
    }

    fn texts<R: Read>(
        record: &Records<R>,
        places: &HashMap<&str, usize>,
        put: &mut dyn FnMut(usize, &str),
    ) -> Result<()> {
        let (line, _) = strip_terminator(record.raw());
        let object: ObjectFields<'_> =
            serde_json::from_slice(line).map_err(|e| bad_line(line, e))?;
        for (name, value) in object.0 {
            let column = places.get(&*name);
            let column = *column.ok_or_else(|| Error::new(ErrorKind::Changed))?;
            if let Some(text) = text_of(value)? {
                put(column, &text);
            }
        }
        Ok(())
    }

    fn put_names(_: &[String], _: Dialect, _: &mut Vec<u8>) {}

    fn put_row<V: Row>(names: &[String], row: &V, _: Dialect, out: &mut Vec<u8>) {
        out.push(b'{');
        for (column, name) in names.iter().enumerate() {
            if column > 0 {
                out.push(b',');
            }
            let quoted = |text: &str| serde_json::Value::from(text).to_string();
            out.extend_from_slice(quoted(name).as_bytes());
            out.push(b':');
            let json: Cow<'_, str> = match row.value(column) {
                // Results in text have no columns of lists.
                Value::Null | Value::List(_) => "null".into(),
                Value::Text(text) => quoted(&String::from_utf8_lossy(text)).into(),
                Value::Bytes(bytes) => quoted(&render::hex(bytes)).into(),
                Value::Typed(kind, text) if is_json(kind, text) => text.into(),
                Value::Typed(_, text) => quoted(text).into(),
            };
            out.extend_from_slice(json.as_bytes());
        }
        out.push(b'}');
    }

    /// The fields that the object has, with their JSON texts.
    fn put_chosen<R: Read>(
        record: &Records<R>,
        chosen: &Chosen<'_>,
        _: Dialect,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (line, _) = strip_terminator(record.raw());
        let mut parser = serde_json::Deserializer::from_slice(line);
        let names: Vec<&str> = chosen.names.iter().map(|name| &**name).collect();
        let values = NamedFields(&names).deserialize(&mut parser);
        let values = values.map_err(|e| bad_line(line, e))?;
        out.push(b'{');
        let mut has_fields = false;
        for (name, value) in names.into_iter().zip(values) {
            let Some(value) = value else {
                continue;
            };
            if std::mem::replace(&mut has_fields, true) {
                out.push(b',');
            }
            let name = serde_json::Value::from(name);
            out.extend_from_slice(format!("{name}:{}", value.get()).as_bytes());
        }
        out.push(b'}');
        out.extend_from_slice(&record.raw()[line.len()..]);
        Ok(())
    }

    /// The fields are at the end of the object.
    fn put_with_fields(
        line: &[u8],
        _: Dialect,
        added: &[Added<'_>],
        values: &[Option<Cow<'_, str>>],
        out: &mut Vec<u8>,
    ) {
        let close = memchr::memrchr(b'}', line).unwrap_or(line.len());
        let (object, end) = line.split_at(close);
        out.extend_from_slice(object);
        let mut has_fields = object.trim_ascii() != b"{";
        for (column, value) in added.iter().zip(values) {
            if std::mem::replace(&mut has_fields, true) {
                out.push(b',');
            }
            let name = serde_json::Value::from(&*column.name);
            let value: Cow<'_, str> = match (value, column.kind) {
                (None, _) => "null".into(),
                (Some(text), AddedKind::Name) => {
                    serde_json::Value::from(&**text).to_string().into()
                }
                (Some(text), AddedKind::OfPeer(of))
                    if !of.kind().is_some_and(|kind| is_json(kind, text)) =>
                {
                    serde_json::Value::from(&**text).to_string().into()
                }
                // Truth values and numbers are spelt as in JSON.
                (Some(text), _) => text.clone(),
            };
            out.extend_from_slice(format!("{name}:{value}").as_bytes());
        }
        out.extend_from_slice(end);
    }
}

/// A string as it is, whatever else is not null in the words of JSON.
fn text_of(value: &RawValue) -> Result<Option<Cow<'_, str>>> {
    Ok(match value.get() {
        "null" => None,
        json if json.starts_with('"') && json.contains('\\') => Some(
            serde_json::from_str::<String>(json)
                .map_err(bad_json)?
                .into(),
        ),
        json => {
            let string = json
                .strip_prefix('"')
                .and_then(|json| json.strip_suffix('"'));
            Some(string.unwrap_or(json).into())
        }
    })
}

/// Whether the text of a typed value is a value of JSON as it is.
fn is_json(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Integer | Kind::Decimal | Kind::Boolean => true,
        Kind::Float => text.ends_with(|c: char| c.is_ascii_digit()),
        Kind::Date | Kind::Time | Kind::Timestamp | Kind::Uuid => false,
    }
}

/// Hands each object of a file to `take`, with its number from 1.
fn each_object(
    part: &Part,
    mut take: impl FnMut(u64, ObjectFields<'_>) -> Result<()>,
) -> Result<()> {
    let mut records = part.records()?;
    records.skip_byte_order_mark()?;
    let mut number = 0;
    while records.next(false)? {
        let line = records.raw();
        if !Rows::is_blank(line) {
            number += 1;
            let object = serde_json::from_slice(line).map_err(|e| bad_line(line, e));
            object
                .and_then(|object| take(number, object))
                .map_err(|e| e.at_row(number, Some(records.line())))?;
        }
    }
    Ok(())
}

fn twice() -> Error {
    Error::new(ErrorKind::BadJson {
        reason: TWICE.to_owned(),
    })
}

/// Adds the names in any object that could be those of columns of the peer: a column has one name in all lines, and these are
/// what it begins with.
fn taken_names(part: &Part, of_peer: &[&str], taken: &mut HashSet<String>) -> Result<()> {
    each_object(part, |_, object| {
        let names = object.0.into_iter().map(|(name, _)| name);
        let names = names.filter(|name| of_peer.iter().any(|first| name.starts_with(first)));
        taken.extend(names.map(Cow::into_owned));
        Ok(())
    })
}

/// The fields of an object in order, with their JSON texts.
struct ObjectFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for ObjectFields<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = ObjectFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(ObjectFields(fields))
            }
        }

        input.deserialize_map(Fields)
    }
}

/// The wanted values of one line.
pub(crate) struct Fields<'a> {
    values: Vec<Option<Scalar<'a>>>,
    /// Which of the chosen fields there are.
    chosen: Vec<bool>,
}

enum Scalar<'a> {
    Null,
    Text(Cow<'a, str>),
    Boolean(&'static str),
    Integer(&'a str),
    Decimal(&'a str),
    Float(&'a str),
    List(Vec<Element>),
}

impl Scalar<'_> {
    fn value(&self) -> Value<'_> {
        match self {
            Scalar::Null => Value::Null,
            Scalar::Text(text) => Value::Text(text.as_bytes()),
            Scalar::Boolean(text) => Value::Typed(Kind::Boolean, text),
            Scalar::Integer(text) => Value::Typed(Kind::Integer, text),
            Scalar::Decimal(text) => Value::Typed(Kind::Decimal, text),
            Scalar::Float(text) => Value::Typed(Kind::Float, text),
            Scalar::List(elements) => Value::List(elements),
        }
    }
}

impl Row for Fields<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        match &self.values[column] {
            None => Value::Null,
            Some(scalar) => scalar.value(),
        }
    }
}

/// Which fields of an object are read, and where in them the wanted values are.
pub(crate) struct Paths<'k> {
    fields: Vec<&'k str>,
    wanted: Vec<FieldPath<'k>>,
    /// Fields that no object may have.
    taken: Vec<usize>,
    /// Fields that a result has.
    chosen: Vec<usize>,
}

/// A value's place: the field of the whole name, or else below the field before the first dot.
struct FieldPath<'k> {
    whole: usize,
    /// That field, and the path in it.
    below: Option<(usize, &'k str)>,
}

impl<'k> Paths<'k> {
    fn new(names: impl Iterator<Item = &'k str>, taken: impl IntoIterator<Item = &'k str>) -> Self {
        let mut fields: Vec<&'k str> = Vec::new();
        let mut index = |name| match fields.iter().position(|field| *field == name) {
            Some(index) => index,
            None => {
                fields.push(name);
                fields.len() - 1
            }
        };
        let wanted = names.map(|name| FieldPath {
            whole: index(name),
            below: name.split_once('.').map(|(head, rest)| (index(head), rest)),
        });
        let wanted = wanted.collect();
        let taken = taken.into_iter().map(index).collect();
        Paths {
            fields,
            wanted,
            taken,
            chosen: Vec::new(),
        }
    }

    fn with_chosen(mut self, names: impl Iterator<Item = &'k str>) -> Self {
        for name in names {
            let known = self.fields.iter().position(|field| *field == name);
            self.chosen.push(known.unwrap_or(self.fields.len()));
            if known.is_none() {
                self.fields.push(name);
            }
        }
        self
    }

    /// The JSON text of each wanted value, and which of the chosen fields there are.
    fn find<'a>(&self, object: &'a [u8]) -> Result<(Vec<Option<&'a RawValue>>, Vec<bool>)> {
        let mut parser = serde_json::Deserializer::from_slice(object);
        let raw = NamedFields(&self.fields)
            .deserialize(&mut parser)
            .and_then(|raw| parser.end().map(|()| raw));
        let raw = raw.map_err(|e| bad_line(object, e))?;
        if let Some(taken) = self.taken.iter().find(|taken| raw[**taken].is_some()) {
            return Err(Error::new(ErrorKind::NameTaken).in_column(self.fields[*taken]));
        }
        let find = |path: &FieldPath<'_>| match (raw[path.whole], path.below) {
            (None, Some((field, rest))) => match raw[field].map(RawValue::get) {
                None | Some("null") => Ok(None),
                Some(object) if object.starts_with('{') => {
                    let found = Paths::new(std::iter::once(rest), None).find(object.as_bytes())?;
                    Ok(found.0.into_iter().next().flatten())
                }
                Some(_) => Err(Error::new(ErrorKind::NoObject).in_column(self.fields[path.whole])),
            },
            (whole, _) => Ok(whole),
        };
        let wanted = self.wanted.iter().map(find).collect::<Result<_>>()?;
        let chosen = self.chosen.iter().map(|field| raw[*field].is_some());
        Ok((wanted, chosen.collect()))
    }
}

fn parse<'a>(line: &'a [u8], paths: &Paths<'_>, wanted: ColumnsRead<'_>) -> Result<Fields<'a>> {
    let mut values = Vec::with_capacity(wanted.len());
    let (found, chosen) = paths.find(line)?;
    for (i, (name, raw)) in wanted.names().zip(found).enumerate() {
        let of_key = |json| {
            let takes_points = wanted.takes_floats(i) || wanted.takes_digits(i);
            match scalar(json)? {
                Scalar::Float(_) if !takes_points => Err(wrong_type("floating-point number")),
                found => Ok(found),
            }
        };
        let scalar = match raw.map(RawValue::get) {
            None => Ok(None),
            Some(json) if wanted.is_value(i) => Ok(Some(number(json))),
            Some(json) if json.starts_with('[') && wanted.takes_lists(i) => list(json, of_key),
            Some(json) => of_key(json).map(Some),
        };
        values.push(scalar.map_err(|e| e.in_column(name))?);
    }
    Ok(Fields { values, chosen })
}

/// Refuses a document that is JSON, but whose first line is not the whole of an object.
fn check_is_lines(first: &[u8]) -> Result<()> {
    let line = first.trim_ascii_end();
    let begins = matches!(line.first(), Some(b'{' | b'[')) && first.ends_with(b"\n");
    let goes_on = begins && matches!(line.last(), Some(b'{' | b'[' | b','));
    let found = match serde_json::from_slice::<IgnoredAny>(line) {
        Err(e) if e.is_eof() && goes_on => "a JSON document of several lines, not JSON Lines",
        _ => return Ok(()),
    };
    Err(Error::unsupported(found))
}

/// What is wrong with a line that the parser does not take.
fn bad_line(line: &[u8], e: serde_json::Error) -> Error {
    match str::from_utf8(line) {
        Err(_) => Error::new(ErrorKind::NotUtf8),
        Ok(_) => bad_json(e),
    }
}

/// The parser's own words are never passed on: they can hold values of the table.
fn bad_json(e: serde_json::Error) -> Error {
    let reason = match e.classify() {
        Category::Data if e.to_string().starts_with(TWICE) => TWICE.to_owned(),
        Category::Data => "the line holds another kind of value".to_owned(),
        Category::Syntax | Category::Eof | Category::Io => {
            format!("broken JSON at column {}", e.column())
        }
    };
    Error::new(ErrorKind::BadJson { reason })
}

/// Why an object is refused that has a field more than once.
const TWICE: &str = "a field that is read occurs twice";

/// A key value from its JSON text, which the parser has accepted. Integers of any size keep
/// their digits.
fn scalar(json: &str) -> Result<Scalar<'_>> {
    match json.as_bytes() {
        [b'"', inner @ .., b'"'] => {
            if memchr::memchr(b'\\', inner).is_none() {
                return Ok(Scalar::Text(Cow::Borrowed(&json[1..json.len() - 1])));
            }
            serde_json::from_str(json)
                .map(|s| Scalar::Text(Cow::Owned(s)))
                .map_err(bad_json)
        }
        b"null" => Ok(Scalar::Null),
        b"true" => Ok(Scalar::Boolean("true")),
        b"false" => Ok(Scalar::Boolean("false")),
        [b'{', ..] => Err(wrong_type("object")),
        [b'[', ..] => Err(wrong_type("array")),
        b"-0" => Ok(Scalar::Integer("0")),
        number if number.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) => Ok(Scalar::Float(json)),
        _ => Ok(Scalar::Integer(json)),
    }
}

/// The elements of an array.
fn list<'a>(
    json: &'a str,
    element: impl Fn(&'a str) -> Result<Scalar<'a>>,
) -> Result<Option<Scalar<'a>>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(bad_json)?;
    let elements = elements.into_iter();
    let elements = elements.map(|json| Ok(Element::of(element(json.get())?.value())));
    Ok(Some(Scalar::List(elements.collect::<Result<_>>()?)))
}

fn wrong_type(found: &str) -> Error {
    let found = found.to_owned();
    Error::new(ErrorKind::KeyType { found })
}

/// A number to compute with, from its JSON text. Whatever else it is, that text is no decimal number, as whoever
/// reads it will see: the number of a row without a key is not read.
fn number(json: &str) -> Scalar<'_> {
    match json.as_bytes() {
        [b'"' | b'n', ..] => scalar(json).unwrap_or(Scalar::Decimal(json)),
        _ => Scalar::Decimal(json),
    }
}

/// Reads one object and keeps the JSON text of the fields of these names.
struct NamedFields<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for NamedFields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NamedFields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(field) = map.next_key_seed(FieldName(self.0))? {
            let Some(i) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if values[i].replace(map.next_value::<&RawValue>()?).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(values)
    }
}

/// Finds a field's name among those that are read.
struct FieldName<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|field| *field == name))
    }
}

/// The names of an object's fields, and the paths of those below.
fn names(line: &[u8]) -> Vec<String> {
    fn add(
        object: serde_json::Map<String, serde_json::Value>,
        before: &str,
        all: &mut Vec<String>,
    ) {
        for (name, value) in object {
            let path = format!("{before}{name}");
            all.push(path.clone());
            if let serde_json::Value::Object(object) = value {
                add(object, &format!("{path}."), all);
            }
        }
    }
    let mut all = Vec::new();
    if let Ok(object) = serde_json::from_slice(line) {
        add(object, "", &mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;
    use crate::profile::key::KeySpec;

    fn parsed(line: &str) -> Result<Option<Vec<u8>>> {
        parsed_at("k", line)
    }

    fn parsed_at(path: &str, line: &str) -> Result<Option<Vec<u8>>> {
        let key = KeySpec::parse(path, &[] as &[&str]).unwrap();
        let wanted = ColumnsRead::key(&key);
        let fields = parse(line.as_bytes(), &Paths::new(wanted.names(), None), wanted)?;
        Ok(match fields.value(0) {
            Value::Text(b) | Value::Bytes(b) => Some(b.to_vec()),
            Value::Typed(_, t) => Some(t.as_bytes().to_vec()),
            Value::Null | Value::List(_) => None,
        })
    }

    #[test]
    fn scalars() {
        for (line, expected) in [
            (r#"{"k":"a\"bé"}"#, Some("a\"bé")),
            (
                r#" {"x":[{"k":1}],"k": 340282366920938463463374607431768211456 } "#,
                Some("340282366920938463463374607431768211456"),
            ),
            (r#"{"k":-0}"#, Some("0")),
            (
                r#"{"k":007e}"#.replace("007e", "true").as_str(),
                Some("true"),
            ),
            (r#"{"k":null}"#, None),
            (r#"{"x":1.5}"#, None),
            (r#"{"\u006b":"escaped name"}"#, Some("escaped name")),
        ] {
            let expected = expected.map(|e| e.as_bytes().to_vec());
            assert_eq!(parsed(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn fields_below() {
        for (path, line, expected) in [
            ("a.b", r#"{"a":{"x":{"b":1},"b":2}}"#, Some("2")),
            ("a.b", r#"{"a":{"b":2},"a.b":1}"#, Some("1")),
            ("a.b", r#"{"a.b":null,"a":{"b":2}}"#, None),
            ("a.b.c", r#"{"a":{"b.c":1,"b":{"c":2}}}"#, Some("1")),
            ("a.b.c", r#"{"a":{"b":{"c":2}}}"#, Some("2")),
            ("a.b", r#"{"a":null}"#, None),
            ("a.b", r#"{"a":{}}"#, None),
            ("a.b", r#"{"b":1}"#, None),
            ("a.", r#"{"a":{"":1}}"#, Some("1")),
        ] {
            let expected = expected.map(|e| e.as_bytes().to_vec());
            assert_eq!(parsed_at(path, line).unwrap(), expected, "{path} {line}");
        }
        for line in [
            r#"{"a":"ÿ"}"#,
            r#"{"a":[{"b":1}]}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":{"b":{}}}"#,
        ] {
            let error = parsed_at("a.b", line).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Data, "{line}");
            assert!(!error.to_string().contains('ÿ'), "{error}");
        }
        assert_eq!(
            names(br#"{"a":{"b":{"c":1}},"d":2}"#),
            ["a", "a.b", "a.b.c", "d"]
        );
    }

    #[test]
    fn refusals() {
        for line in [
            r#"{"k":1.5}"#,
            r#"{"k":1e3}"#,
            r#"{"k":{}}"#,
            r#"{"k":[1]}"#,
            r#"{"k":"\ud800"}"#,
            r#"{"k":1"#,
            r#"{"k":1} x"#,
            r#"[1]"#,
            r#""k""#,
            r#"{"k":1,"k":1}"#,
            "nonsense",
            "{\"k\":01}",
        ] {
            let error = parsed(line).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Data, "{line}");
            assert!(!error.to_string().contains("line 1"), "{error}");
        }
        for line in [
            r#""alice@example.com""#,
            r#"{"k":"alice@example.com\ud800"}"#,
            r#"{"k":"alice@example.com","k":"alice@example.com"}"#,
            r#"{"k":"alice@example.com" alice@example.com"#,
            "alice@example.com",
        ] {
            let text = parsed(line).unwrap_err().to_string();
            assert!(!text.contains("alice"), "{text}");
        }
        let deep = format!("{{\"k\":{}", "[".repeat(100_000));
        assert!(parsed(&deep).is_err());
    }
}
