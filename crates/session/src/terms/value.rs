//! Values of terms, and their forms on the wire.

use std::any::Any;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vesica_psi::{Reveals, Security};
use vesica_wire::Error as WireError;

use super::OptimizeRequest;
use crate::codec::{Reader, bad, put_name};
use crate::parties::Learns;

/// A value that a term can have.
pub trait TermValue:
    Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Appends the form on the wire.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`TermValue::put`] has written; `words` name the term.
    ///
    /// # Errors
    /// `PeerMisbehaved`: anything else.
    fn read(reader: &mut Reader<'_>, words: &'static str) -> Result<Self, WireError>;

    /// As errors name it.
    fn in_words(&self) -> String;
}

/// Values whose code on the wire is their place in a list, counted from 1.
macro_rules! coded_values {
    ($($value:ty: $all:expr, $in_words:expr;)+) => { $(
        impl TermValue for $value {
            fn put(&self, out: &mut Vec<u8>) {
                let place = $all.iter().position(|value| value == self);
                out.push(place.map_or(0, |place| place as u8 + 1));
            }

            fn read(reader: &mut Reader<'_>, words: &'static str) -> Result<Self, WireError> {
                let place = usize::from(reader.u8()?).checked_sub(1);
                let value = place.and_then(|place| $all.get(place).copied());
                value.ok_or_else(|| bad(words, "unknown code"))
            }

            fn in_words(&self) -> String {
                $in_words(*self).to_owned()
            }
        }
    )+ };
}

coded_values! {
    Security: [Security::SemiHonest, Security::Malicious, Security::MaliciousSender], Security::name;
    Reveals: Reveals::all().collect::<Vec<_>>(), |reveals: Reveals| reveals.to_string();
    Learns: [Learns::Receiver, Learns::Both, Learns::Aligned], Learns::name;
    OptimizeRequest: OptimizeRequest::ALL, OptimizeRequest::name;
    bool: [false, true], |is_so| if is_so { "yes" } else { "no" };
}

impl TermValue for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
        reader.u32()
    }

    fn in_words(&self) -> String {
        self.to_string()
    }
}

impl TermValue for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
        reader.u64()
    }

    fn in_words(&self) -> String {
        self.to_string()
    }
}

/// In one byte; 0 for none.
impl TermValue for Option<u32> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.unwrap_or(0) as u8);
    }

    fn read(reader: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
        Ok(Some(u32::from(reader.u8()?)).filter(|number| *number > 0))
    }

    fn in_words(&self) -> String {
        self.map_or("any".into(), |number| number.to_string())
    }
}

impl TermValue for Vec<String> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.len() as u8);
        self.iter().for_each(|name| put_name(out, name));
    }

    fn read(reader: &mut Reader<'_>, words: &'static str) -> Result<Self, WireError> {
        let count = reader.u8()?;
        (0..count)
            .map(|_| Ok(reader.name(words)?.to_owned()))
            .collect()
    }

    fn in_words(&self) -> String {
        self.join(",")
    }
}

/// A value of any type.
pub(super) trait AnyValue: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn copied(&self) -> Box<dyn AnyValue>;
    fn equals(&self, other: &dyn AnyValue) -> bool;
    fn put(&self, out: &mut Vec<u8>);
    fn in_words(&self) -> String;
    fn in_json(&self) -> Value;
}

impl<T: TermValue> AnyValue for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn copied(&self) -> Box<dyn AnyValue> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn AnyValue) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn put(&self, out: &mut Vec<u8>) {
        TermValue::put(self, out);
    }

    fn in_words(&self) -> String {
        TermValue::in_words(self)
    }

    fn in_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Clone for Box<dyn AnyValue> {
    fn clone(&self) -> Self {
        (**self).copied()
    }
}
