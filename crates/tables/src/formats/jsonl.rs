//! JSON Lines: one object per line. Blank lines are skipped.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::selection::Selection;
use crate::sink::{At, Facts, Sink};
use crate::source::Source;
use crate::text::{BYTE_ORDER_MARK, Buffer, strip_terminator};
use crate::value::{Kind, Row, Value};
use crate::wanted::Wanted;

pub(crate) fn scan<S: Sink>(source: &Source, wanted: Wanted<'_>, sink: &mut S) -> Result<Facts> {
    let mut buffer = Buffer::new(source.text()?);
    let mark = buffer.byte_order_mark()?;
    buffer.consume(mark);
    let mut facts = Facts {
        byte_order_mark: mark > 0,
        ..Facts::default()
    };
    let mut seen = vec![false; wanted.len()];
    let mut first_names: Option<Vec<String>> = None;
    let mut line = 0;
    loop {
        line += 1;
        let Some(range) = buffer
            .line()
            .map_err(|e| e.at_row(facts.rows + 1, Some(line)))?
        else {
            break;
        };
        let (body, crlf) = strip_terminator(&buffer.pending()[range.clone()]);
        if !body.trim_ascii().is_empty() {
            facts.rows += 1;
            let at = At {
                row: facts.rows,
                line: Some(line),
            };
            let in_place = |e: Error| e.at_row(at.row, at.line);
            facts.crlf_rows += u64::from(crlf);
            let fields = parse(body, wanted).map_err(in_place)?;
            for (seen, value) in seen.iter_mut().zip(&fields.values) {
                *seen |= value.is_some();
            }
            if first_names.is_none() {
                first_names = Some(names(body));
            }
            sink.row(at, &fields).map_err(|e| match e.kind() {
                // The first row that needs a value, and none had one: most likely a wrong name.
                ErrorKind::BadValue { .. } if !seen[wanted.value_index()] => {
                    missing(wanted, wanted.value_index(), first_names.take())
                        .at_row(at.row, at.line)
                }
                _ => e,
            })?;
        }
        buffer.consume(range.end);
    }
    if facts.rows > 0
        && let Some(i) = seen.iter().position(|s| !s)
    {
        return Err(missing(wanted, i, first_names));
    }
    Ok(facts)
}

/// No row has the wanted column.
fn missing(wanted: Wanted<'_>, index: usize, first_names: Option<Vec<String>>) -> Error {
    let available = first_names.unwrap_or_default();
    let name = wanted.names().nth(index).unwrap_or_default();
    Error::new(ErrorKind::MissingColumn { available }).in_column(name)
}

/// Copies the selected lines, byte for byte.
pub(crate) fn copy(source: &Source, mut rows: Selection<'_>, out: &mut dyn Write) -> Result<u64> {
    let mut buffer = Buffer::new(source.text()?);
    let mark = buffer.byte_order_mark()?;
    buffer.consume(mark);
    if mark > 0 {
        rows.write(out, BYTE_ORDER_MARK)?;
    }
    while let Some(range) = buffer.line()? {
        let raw = &buffer.pending()[range.clone()];
        if !raw.trim_ascii().is_empty() && rows.next()? {
            rows.write(out, raw)?;
        }
        buffer.consume(range.end);
    }
    rows.finish()
}

/// The wanted values of one line.
struct Fields<'a> {
    values: Vec<Option<Scalar<'a>>>,
}

enum Scalar<'a> {
    Null,
    Text(Cow<'a, str>),
    Boolean(&'static str),
    Integer(&'a str),
    Decimal(&'a str),
}

impl Row for Fields<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        match &self.values[column] {
            None | Some(Scalar::Null) => Value::Null,
            Some(Scalar::Text(text)) => Value::Text(text.as_bytes()),
            Some(Scalar::Boolean(text)) => Value::Typed(Kind::Boolean, text),
            Some(Scalar::Integer(text)) => Value::Typed(Kind::Integer, text),
            Some(Scalar::Decimal(text)) => Value::Typed(Kind::Decimal, text),
        }
    }
}

fn parse<'a>(line: &'a [u8], wanted: Wanted<'_>) -> Result<Fields<'a>> {
    let mut parser = serde_json::Deserializer::from_slice(line);
    let raw = WantedFields(wanted)
        .deserialize(&mut parser)
        .and_then(|raw| parser.end().map(|()| raw));
    let raw = raw.map_err(bad_json)?;
    let mut values = Vec::with_capacity(raw.len());
    for (i, (name, raw)) in wanted.names().zip(raw).enumerate() {
        let scalar = match i == wanted.value_index() {
            true => Ok(raw.map(|raw| number(raw.get()))),
            false => raw.map(|raw| scalar(raw.get())).transpose(),
        };
        values.push(scalar.map_err(|e| e.in_column(name))?);
    }
    Ok(Fields { values })
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
    let wrong = |found: &str| {
        Error::new(ErrorKind::KeyType {
            found: found.to_owned(),
        })
    };
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
        [b'{', ..] => Err(wrong("object")),
        [b'[', ..] => Err(wrong("array")),
        b"-0" => Ok(Scalar::Integer("0")),
        number if number.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) => {
            Err(wrong("floating-point number"))
        }
        _ => Ok(Scalar::Integer(json)),
    }
}

/// A number to compute with, from its JSON text. Whatever else it is, that text is no decimal number, as whoever
/// reads it will see: the number of a row without a key is not read.
fn number(json: &str) -> Scalar<'_> {
    match json.as_bytes() {
        [b'"' | b'n', ..] => scalar(json).unwrap_or(Scalar::Decimal(json)),
        _ => Scalar::Decimal(json),
    }
}

/// Reads one object and keeps the JSON text of the wanted fields.
struct WantedFields<'k>(Wanted<'k>);

impl<'de> DeserializeSeed<'de> for WantedFields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WantedFields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(column) = map.next_key_seed(ColumnName(self.0))? {
            let Some(i) = column else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if values[i].replace(map.next_value::<&RawValue>()?).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        // A column of the key can have the values as well; its name was found in the key.
        if let Some(column) = self.0.value
            && let Some(found) = self.0.names().position(|name| name == column.name)
        {
            values[self.0.value_index()] = values[found];
        }
        Ok(values)
    }
}

/// Finds a field's name among the wanted columns.
struct ColumnName<'k>(Wanted<'k>);

impl<'de> DeserializeSeed<'de> for ColumnName<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for ColumnName<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.names().position(|column| column == name))
    }
}

/// The names of an object's fields.
fn names(line: &[u8]) -> Vec<String> {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line)
        .map(|object| object.into_iter().map(|(name, _)| name).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;
    use crate::key::KeySpec;

    fn parsed(line: &str) -> Result<Option<Vec<u8>>> {
        let key = KeySpec::parse("k", &[] as &[&str]).unwrap();
        let fields = parse(line.as_bytes(), Wanted::key(&key))?;
        Ok(match fields.value(0) {
            Value::Text(b) | Value::Bytes(b) => Some(b.to_vec()),
            Value::Typed(_, t) => Some(t.as_bytes().to_vec()),
            Value::Null => None,
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
