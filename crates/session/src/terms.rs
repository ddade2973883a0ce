//! What the two sides of a run agree on, term by term.
//!
//! Each [`Term`] is declared once: its name, the value of a run that asks for no other, what makes one value of those
//! that the two sides want, its form on the wire, and for a term that a person sets, what is said of that option.
//! [`Terms`] holds the values. The hello, the contract with its digest, the journal, the report and the options of the
//! command and of the Python package go through that list, so that another term takes one declaration.
//!
//! A program can declare terms of its own and [set](Terms::set) them: both sides have to do so.

mod optimize;
mod request;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use vesica_files::{Argument, Part};
use vesica_plan::auto_version;
use vesica_plan::buckets::{MAX_BUCKET_ITEMS, MAX_ITEMS};
use vesica_psi::{Reveal, Reveals, Security};
use vesica_wire::{Error as WireError, Link};

use crate::codec::{Reader, bad, differ, put_name};
use crate::parties::Learns;
pub use optimize::OptimizeRequest;
use value::AnyValue;
pub use value::TermValue;

/// Maximum number of key columns of a job.
pub const MAX_KEY_COLUMNS: usize = 64;
/// Longest name of a normalisation, in bytes.
pub const MAX_NORMALIZATION: usize = 128;
/// Longest class of a key column in a contract, in bytes.
const MAX_CLASS: usize = 32;
/// Computational security of everything here, in bits.
const KAPPA_BITS: u32 = 128;
/// Maximum number of buckets that run at once.
pub const MAX_BUCKETS_AT_ONCE: u32 = 64;
/// Maximum number of attempts at a bucket.
pub const MAX_BUCKET_ATTEMPTS: u32 = 16;
/// Maximum number of terms that a program adds to ours.
const MAX_MORE: usize = 16;
/// Declares our terms, and the list of them in the order of the hello.
macro_rules! terms {
    ($($(#[$doc:meta])* pub $name:ident: $term:ty = $value:expr;)+) => {
        $($(#[$doc])* pub static $name: $term = $value;)+

        static STANDARD: &[&dyn AnyTerm] = &[$(&$name),+];
    };
}

terms! {
    /// The weakest security that both sides accept.
    pub SECURITY: Term<Security> = Term {
        arguments: &[Argument::Security],
        option: Some(Setting {
            value_name: "LEVEL",
            former_names: &[],
            values: &["malicious", "malicious-sender", "semi-honest"],
            default: "malicious",
            help: &[Part::Words(
                "The weakest security to accept: against peers that deviate in any way, against senders that do and receivers that follow the protocol, or only against peers that follow it",
            )],
            set: |terms, text| terms.set_named(&SECURITY, text),
        }),
        ..Term::new("security", "security", || Security::Malicious, same)
    };

    /// Whether the messages of the run have to hide both sets from a later quantum computer. Neither side can ask for it
    /// alone: what hides the choices of base transfers is then an assumption.
    pub POST_QUANTUM: Term<bool> = Term {
        arguments: &[Argument::PostQuantum],
        option: Some(Setting {
            value_name: "",
            former_names: &[],
            values: &["yes", "no"],
            default: "",
            help: &[Part::Words(
                "Hide both sets from whoever keeps the messages until there are large quantum computers, by ML-KEM-768 beside Curve25519; on both sides the same. 0.4 MB more for each set of base transfers, and fewer protocols",
            )],
            set: |terms, text| {
                terms.set(&POST_QUANTUM, text == "yes");
                Ok(())
            },
        }),
        ..Term::new("post_quantum", "post-quantum", || false, same)
    };

    /// Computational security in bits.
    pub KAPPA: Term<u32> = Term {
        problem: bits_problem,
        ..Term::new("kappa", "kappa", || KAPPA_BITS, same)
    };

    /// Statistical security in bits.
    pub LAMBDA: Term<u32> = Term {
        arguments: &[Argument::Lambda],
        problem: bits_problem,
        option: Some(Setting {
            value_name: "BITS",
            former_names: &[],
            values: &[],
            default: "40",
            help: &[Part::Words("Statistical security in bits, 40 to 128")],
            set: |terms, text| {
                let bits = text.parse().map_err(|_| "give a number of bits")?;
                terms.set(&LAMBDA, bits);
                Ok(())
            },
        }),
        ..Term::new("lambda", "lambda", || 40, same)
    };

    /// What the receiver learns.
    pub REVEAL: Term<Reveals> = Term {
        arguments: &[Argument::Reveal],
        option: Some(Setting {
            value_name: "NAME",
            former_names: &[],
            values: &[],
            default: "matches",
            help: &[
                Part::Words(
                    "What the receiver learns, on both sides the same: matches (which of its rows the sender also \
                     has), size (how many keys both have), sum (of each ",
                ),
                Part::Argument(Argument::Value),
                Part::Words(" of one side, over those keys), inner-product (of both sides' "),
                Part::Argument(Argument::Value),
                Part::Words(
                    "), several of these numbers as size,sum or size,inner-product, threshold:N (the size, if it is \
                     more than N), threshold-matches:N (the matches, if they are more than N), or shares (nothing: both sides write shares of the matches and of their values to ",
                ),
                Part::Argument(Argument::Output),
                Part::Words("), or union (the sender's "),
                Part::Argument(Argument::Payload),
                Part::Words(" of the keys that the receiver lacks, which go to "),
                Part::Argument(Argument::Output),
                Part::Words("), or ids (both sides: a random id for each of its own keys, the same where both have a key, and how many there are; rows with their ids go to "),
                Part::Argument(Argument::Output),
                Part::Words("). All but matches need "),
                Part::Set(Argument::Security, Cow::Borrowed("semi-honest")),
                Part::Words(", on both sides"),
            ],
            set: set_reveal,
        }),
        ..Term::new("reveal", "reveal", || Reveal::Matches.into(), same)
    };

    /// Who gets the result.
    pub LEARNS: Term<Learns> = Term {
        arguments: &[Argument::Both, Argument::Align],
        ..Term::new("learns", "who learns", || Learns::Receiver, same)
    };

    /// The receiver learns the result only if at least this many items match, and otherwise only that fewer do.
    pub MIN_SIZE: Term<u64> = Term {
        arguments: &[Argument::MinSize],
        option: Some(Setting {
            value_name: "K",
            former_names: &[],
            values: &[],
            default: "",
            help: &[
                Part::Words(
                    "The receiver learns a size, sum, inner product or threshold-matches only if at least K keys \
                     match, and otherwise only that fewer do; on both sides the same. Keys whose value is 0 do not \
                     count. Of several numbers all or none are revealed: at least K keys have to count for each. Of a \
                     threshold and this the larger one counts. Values that a dishonest receiver chooses can still make \
                     one result depend on a single key: see ",
                ),
                Part::Argument(Argument::MaxPeerValueBound),
            ],
            set: |terms, text| {
                terms.at_least(parse_size(text)?);
                Ok(())
            },
        }),
        ..Term::new("min_size", "minimum size", || 0, same)
    };

    /// What the run saves where the protocol can choose: traffic if either side asks for that. A side whose request is
    /// `auto` has decided before its hello.
    pub OPTIMIZE: Term<OptimizeRequest> = Term {
        // It matters to runs in one bucket alone, which do not resume.
        is_of_each_run: true,
        option: Some(Setting {
            value_name: "WHAT",
            former_names: &["favour"],
            values: &["time", "traffic", "auto"],
            default: "time",
            help: &[
                Part::Words(
                    "What a circuit protocol is optimised for; traffic, which is faster below some 100 Mb/s, if either side asks for it. \
                     auto decides by this side's ",
                ),
                Part::Argument(Argument::Bandwidth),
                Part::Words(", or else by the round trip"),
            ],
            set: |terms, text| terms.set_named(&OPTIMIZE, text),
        }),
        ..Term::new("optimize", "what to save", || OptimizeRequest::Time, optimize::rule)
    };

    /// Name and version of the normalisation of each key column, in order, as in `email/1`; from one to
    /// [`MAX_KEY_COLUMNS`], each at most [`MAX_NORMALIZATION`] bytes of printable ASCII.
    pub NORMALIZATION: Term<Vec<String>> = Term {
        arguments: &[Argument::Normalize],
        problem: |names| names_problem(names),
        ..Term::new(
            "normalization",
            "normalization",
            Vec::new,
            |term, ours, theirs| match (ours.len(), theirs.len()) {
                (own, other) if own != other => Err(differ("number of key columns", own, other)),
                _ => same(term, ours, theirs),
            },
        )
    };

    /// Of each key column, what its values are before normalisation, as in `integer`, and `decimal/text` where the sides
    /// differ; none where a side does not say.
    pub KEY_CLASSES: Term<Vec<String>> = Term {
        is_of_each_run: true,
        problem: |classes| classes_problem(classes),
        ..Term::new(
            "key_classes",
            "classes of key columns",
            Vec::new,
            |_, ours, theirs| Ok(either(ours, theirs)),
        )
    };

    /// The bits of keys that are numbers of a declared width, 1 to 64: a set has the number of each key beside its digest,
    /// and different digests have different numbers. Some protocols compare such keys as they are.
    pub KEY_BITS: Term<Option<u32>> = Term {
        arguments: &[Argument::Normalize],
        problem: |bits| match bits {
            Some(1..=64) | None => None,
            Some(_) => Some("out of range"),
        },
        ..Term::new("key_bits", "bits of a key", || None, same)
    };

    /// The version of the table by which a run takes a protocol that both sides leave open: two versions may choose
    /// differently.
    pub AUTO: Term<u32> = Term::new("auto", "version of auto", auto_version, same);

    /// Buckets that run at once, 1 to [`MAX_BUCKETS_AT_ONCE`], each over a connection of its own. In an agreed contract
    /// there are as many as memory allows, and 1 where there is one bucket.
    pub BUCKETS_AT_ONCE: Term<u32> = Term {
        is_of_each_run: true,
        problem: |count| out_of_range(count, MAX_BUCKETS_AT_ONCE),
        ..Term::new("buckets_at_once", "buckets at once", || 1, smaller)
    };

    /// Whether each side gives the other a receipt before anything that is derived from an item is sent: if either asks for
    /// that.
    pub RECEIPTS: Term<bool> = Term {
        arguments: &[Argument::Ledger],
        is_of_each_run: true,
        ..Term::new("receipts", "receipts", || false, larger)
    };

    /// How often a bucket may be tried, 1 to [`MAX_BUCKET_ATTEMPTS`]. All attempts together have the statistical security
    /// of the run.
    pub BUCKET_ATTEMPTS: Term<u32> = Term {
        problem: |count| out_of_range(count, MAX_BUCKET_ATTEMPTS),
        ..Term::new("bucket_attempts", "attempts at a bucket", || 1, smaller)
    };
}

/// Version of these terms, and of all messages of a session.
pub const VERSION: u16 = 25;

/// What makes one value of what the two sides want, or the error that names both.
pub type Rule<T> = fn(&Term<T>, &T, &T) -> Result<T, WireError>;

/// What both sides must agree on.
pub struct Term<T: 'static> {
    /// The name in contracts and options: words in lower case, with `_` between them. A program's term has a dot in it,
    /// as `acme.purpose`.
    pub name: &'static str,
    /// The name in errors.
    pub words: &'static str,
    /// The value of a run that asks for no other.
    pub default: fn() -> T,
    /// How the two sides agree.
    pub rule: Rule<T>,
    /// What is wrong with a value that no honest peer sends.
    pub problem: fn(&T) -> Option<&'static str>,
    /// Whether a run may have another value than the one that it resumes.
    pub is_of_each_run: bool,
    /// What a person changes where the two sides differ.
    pub arguments: &'static [Argument],
    /// The option that sets it, if a person does.
    pub option: Option<Setting>,
}

/// An option that sets a term.
pub struct Setting {
    /// What stands for its value in help; empty for a flag, whose value is `yes`.
    pub value_name: &'static str,
    /// Names that it had before.
    pub former_names: &'static [&'static str],
    /// Its values, if they are few.
    pub values: &'static [&'static str],
    /// Its value where none is given; empty if that has no words.
    pub default: &'static str,
    /// What is said of it.
    pub help: &'static [Part],
    /// Reads a value, and sets the term. Fails with what can be given.
    pub set: fn(&mut Terms, &str) -> Result<(), String>,
}

impl Setting {
    /// Whether it is given without a value.
    pub fn is_flag(&self) -> bool {
        self.value_name.is_empty()
    }
}

impl<T: TermValue> Term<T> {
    /// A term that no option sets, each value of which is valid.
    pub const fn new(
        name: &'static str,
        words: &'static str,
        default: fn() -> T,
        rule: Rule<T>,
    ) -> Term<T> {
        Term {
            name,
            words,
            default,
            rule,
            problem: |_| None,
            is_of_each_run: false,
            arguments: &[],
            option: None,
        }
    }
}

/// Both sides must want the same.
pub fn same<T: TermValue>(term: &Term<T>, ours: &T, theirs: &T) -> Result<T, WireError> {
    match ours == theirs {
        true => Ok(ours.clone()),
        false => Err(differ(term.words, ours.in_words(), theirs.in_words())),
    }
}

/// The larger of both.
pub fn larger<T: TermValue + Ord>(_: &Term<T>, ours: &T, theirs: &T) -> Result<T, WireError> {
    Ok(ours.max(theirs).clone())
}

/// The smaller of both.
pub fn smaller<T: TermValue + Ord>(_: &Term<T>, ours: &T, theirs: &T) -> Result<T, WireError> {
    Ok(ours.min(theirs).clone())
}

/// Of each column one class, or both with a `/` between them; none where a side has none.
fn either(ours: &[String], theirs: &[String]) -> Vec<String> {
    let both = |(one, other): (&String, &String)| match one.cmp(other) {
        Ordering::Less => format!("{one}/{other}"),
        Ordering::Equal => one.clone(),
        Ordering::Greater => format!("{other}/{one}"),
    };
    ours.iter().zip(theirs).map(both).collect()
}

/// What is wrong with this statistical security for a run.
pub(crate) fn lambda_problem(bits: u32) -> Option<String> {
    let is_possible = (40..=128).contains(&bits);
    (!is_possible).then(|| format!("lambda is {bits} bits; 40 to 128 are possible"))
}

fn out_of_range(count: &u32, most: u32) -> Option<&'static str> {
    (!(1..=most).contains(count)).then_some("out of range")
}

fn bits_problem(bits: &u32) -> Option<&'static str> {
    (!(1..=256).contains(bits)).then_some("out of range")
}

/// What is wrong with the names of normalisations.
fn names_problem(names: &[String]) -> Option<&'static str> {
    let is_name = |name: &String| (1..=MAX_NORMALIZATION).contains(&name.len());
    if !(1..=MAX_KEY_COLUMNS).contains(&names.len()) {
        Some("a wrong number of key columns")
    } else if !names.iter().all(is_name) {
        Some("a name of a wrong length")
    } else {
        None
    }
}

/// What is wrong with the classes of key columns.
fn classes_problem(classes: &[String]) -> Option<&'static str> {
    let is_class = |class: &String| {
        (1..=MAX_CLASS).contains(&class.len())
            && class
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'/')
    };
    match classes.len() <= MAX_KEY_COLUMNS && classes.iter().all(is_class) {
        true => None,
        false => Some("no classes"),
    }
}

/// Reads what is revealed: `matches`, `size`, `sum`, `inner-product`, several of these numbers with commas between them,
/// `threshold:N`, `threshold-matches:N`, `shares`, `union` or `ids`.
fn set_reveal(terms: &mut Terms, text: &str) -> Result<(), String> {
    let (reveal, least) = match text.split_once(':') {
        Some(("threshold", above)) => (Reveal::Size.into(), parse_size(above)? + 1),
        Some(("threshold-matches", above)) => {
            let reveal = Reveal::ThresholdMatches.into();
            (reveal, parse_size(above)? + 1)
        }
        _ => {
            let known: Option<Reveals> = text.parse().ok();
            let plain = known.filter(|reveal| *reveal != Reveal::ThresholdMatches);
            (plain.ok_or_else(reveal_names)?, 0)
        }
    };
    terms.set(&REVEAL, reveal);
    terms.at_least(least);
    Ok(())
}

/// What [`set_reveal`] reads, in words.
fn reveal_names() -> String {
    let names = Reveals::all().map(|reveal| match reveal {
        // A size that is told only above a number is a reveal of its own in options alone.
        size if size == Reveal::Size => "size, threshold:N".to_owned(),
        // What needs a minimum is given one.
        reveal if !reveal.takes_minimum(0) => format!("{reveal}:N"),
        reveal => reveal.to_string(),
    });
    format!("there are {}", names.collect::<Vec<_>>().join(", "))
}

/// A number of keys for a run in one bucket, as [`parse_items`] takes it; at most 2^28.
///
/// # Errors
/// What can be given.
pub fn parse_size(text: &str) -> Result<u64, &'static str> {
    let size = parse_items(text).filter(|size| *size <= MAX_BUCKET_ITEMS);
    size.ok_or("a size is a number up to 2^28, as 65536, 1M or 2^16")
}

/// The most keys that a peer may bring in all attempts, written as [`parse_size`] takes it; at most 2^35.
///
/// # Errors
/// What can be given.
pub fn parse_max_items(text: &str) -> Result<u64, &'static str> {
    let highest = MAX_ITEMS * u64::from(MAX_BUCKET_ATTEMPTS);
    let most = parse_items(text).filter(|most| *most <= highest);
    most.ok_or("the most keys of a peer are a number up to 2^35, as 65536, 1M or 2^16")
}

/// The number of keys to which a side pads its set, written as [`parse_size`] takes it; at most 2^31.
///
/// # Errors
/// What can be given.
pub fn parse_padded(text: &str) -> Result<u64, &'static str> {
    let padded = parse_items(text).filter(|padded| (1..=MAX_ITEMS).contains(padded));
    padded.ok_or("a set is padded to a number of keys up to 2^31, as 65536, 1M or 2^16")
}

/// A number: digits, with `k`, `M` or `G` in either case after them thousands, millions or thousands of millions, or a power
/// as `2^20`; `None` for anything else.
pub fn parse_items(text: &str) -> Option<u64> {
    if let Some(power) = text.strip_prefix("2^") {
        return power.parse().ok().and_then(|power| 1u64.checked_shl(power));
    }
    let units = [('k', 1_000), ('m', 1_000_000), ('g', 1_000_000_000)];
    let of_unit = units.iter().find_map(|(unit, factor)| {
        let is_unit = |last: char| last.eq_ignore_ascii_case(unit);
        Some((text.strip_suffix(is_unit)?, *factor))
    });
    let (digits, factor) = of_unit.unwrap_or((text, 1u64));
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The values of all terms, of one side or agreed.
#[derive(Clone)]
pub struct Terms {
    /// Ours in the order of their declaration, then those of a program by their names.
    entries: Vec<(&'static dyn AnyTerm, Box<dyn AnyValue>)>,
}

impl Default for Terms {
    /// Those of a run that asks for nothing.
    fn default() -> Terms {
        let entries = STANDARD.iter().map(|term| (*term, term.default()));
        Terms {
            entries: entries.collect(),
        }
    }
}

impl Terms {
    /// The value of a term; its default if it is one of a program that has not been set.
    pub fn get<T: TermValue>(&self, term: &Term<T>) -> T {
        let entry = self.entries.iter().find(|(own, _)| own.name() == term.name);
        let value = entry.and_then(|(_, value)| value.as_any().downcast_ref::<T>());
        value.cloned().unwrap_or_else(term.default)
    }

    /// Sets a term, and adds it if it is none of ours.
    pub fn set<T: TermValue>(&mut self, term: &'static Term<T>, value: T) {
        let value: Box<dyn AnyValue> = Box::new(value);
        let mut entries = self.entries.iter_mut();
        if let Some((_, own)) = entries.find(|(own, _)| own.name() == term.name) {
            *own = value;
            return;
        }
        let more = &self.entries[STANDARD.len()..];
        let place = more.partition_point(|(other, _)| other.name() < term.name);
        self.entries.insert(STANDARD.len() + place, (term, value));
    }

    /// The options that set terms, each with its name in words that `_` separates.
    pub fn options() -> impl Iterator<Item = (&'static str, &'static Setting)> {
        STANDARD
            .iter()
            .filter_map(|term| Some((term.name(), term.option()?)))
    }

    /// What a person changes where the two sides differ on the term with this name in errors.
    pub(crate) fn arguments_of(words: &str) -> &'static [Argument] {
        let term = STANDARD.iter().find(|term| term.words() == words);
        term.map_or(&[], |term| term.arguments())
    }

    /// Sets the value of one of the [options](Terms::options).
    ///
    /// # Errors
    /// What can be given.
    pub fn set_option(&mut self, name: &str, text: &str) -> Result<(), String> {
        let option = Terms::options().find(|(option, _)| *option == name);
        let (_, option) = option.ok_or("there is no such option")?;
        match option.values.is_empty() || option.values.contains(&text) {
            true => (option.set)(self, text),
            false => Err(format!("there are {}", option.values.join(", "))),
        }
    }

    /// The same, with what is left open decided by what is known of the link.
    pub(crate) fn over(mut self, link: Link) -> Terms {
        let request = self.get(&OPTIMIZE).over(link);
        self.set(&OPTIMIZE, request);
        self
    }

    /// Raises the least number of matches.
    fn at_least(&mut self, least: u64) {
        self.set(&MIN_SIZE, least.max(self.get(&MIN_SIZE)));
    }

    fn set_named<T: TermValue>(
        &mut self,
        term: &'static Term<T>,
        name: &str,
    ) -> Result<(), String> {
        let value = serde_json::from_value(name.into()).map_err(|_| "no such value")?;
        self.set(term, value);
        Ok(())
    }

    /// The values of all terms that a run shares with the one that it resumes, in words.
    pub fn in_words(&self) -> String {
        let entries = self
            .entries
            .iter()
            .filter(|(term, _)| !term.is_of_each_run());
        let words = entries.map(|(term, value)| format!("{}={}", term.name(), value.in_words()));
        let words: Vec<String> = words.collect();
        words.join(" ")
    }

    /// The same where a run shares them with the one that it resumes, and defaults elsewhere.
    pub(crate) fn of_all_runs(&self) -> Terms {
        let mut terms = self.clone();
        for (term, value) in &mut terms.entries {
            if term.is_of_each_run() {
                *value = term.default();
            }
        }
        terms
    }

    /// Whether there are terms of a program. What a run keeps cannot be read back then.
    pub fn has_more(&self) -> bool {
        self.entries.len() > STANDARD.len()
    }

    /// The problem with the values, or with terms of a program, if there is one. What comes back from the wire as it is
    /// has one form there, and so in the contract's hash.
    pub(crate) fn problem(&self) -> Option<String> {
        let more = &self.entries[STANDARD.len()..];
        if let Some((term, _)) = more.iter().find(|(term, _)| !term.name().contains('.')) {
            // Terms of ours, of later versions too, and what else a contract has, are words without one.
            return Some(format!(
                "a program's term has a dot in its name, unlike {}",
                term.name()
            ));
        }
        if more.len() > MAX_MORE {
            return Some(format!("more than {MAX_MORE} further terms"));
        }
        if self.get(&KAPPA) != KAPPA_BITS {
            return Some(format!("kappa is {KAPPA_BITS} bits"));
        }
        let mut out = Vec::new();
        self.put(&mut out);
        let mut reader = Reader::new("terms", &out);
        match self.read(&mut reader) {
            Ok(terms) if terms == *self && reader.end().is_ok() => None,
            _ => Some("a term has a value that the peer could not read".to_owned()),
        }
    }

    /// Appends the values of our terms, the names of the others, and their values.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (ours, more) = self.entries.split_at(STANDARD.len());
        ours.iter().for_each(|(_, value)| value.put(out));
        out.push(more.len() as u8);
        more.iter().for_each(|(term, _)| put_name(out, term.name()));
        more.iter().for_each(|(_, value)| value.put(out));
    }

    /// Reads what the peer has put; it must have the terms that this side has.
    ///
    /// Fails with `PeerMisbehaved`, or with `ContractDiffers` for other terms.
    pub(crate) fn read(&self, reader: &mut Reader<'_>) -> Result<Terms, WireError> {
        let (ours, more) = self.entries.split_at(STANDARD.len());
        let read = |entries: &[(&'static dyn AnyTerm, _)], reader: &mut Reader<'_>| {
            let value = |(term, _): &(&'static dyn AnyTerm, _)| Ok((*term, term.read(reader)?));
            entries
                .iter()
                .map(value)
                .collect::<Result<Vec<_>, WireError>>()
        };
        let mut entries = read(ours, reader)?;
        let count = reader.u8()?;
        if usize::from(count) > MAX_MORE {
            return Err(bad("number of terms", "out of range"));
        }
        let names: Vec<&str> = (0..count)
            .map(|_| reader.name("term"))
            .collect::<Result<_, _>>()?;
        let known: Vec<&str> = more.iter().map(|(term, _)| term.name()).collect();
        if names != known {
            return Err(differ("terms", known.join(","), names.join(",")));
        }
        entries.extend(read(more, reader)?);
        Ok(Terms { entries })
    }

    /// All terms on which both sides differ, as a run says of the first one.
    pub fn differences(&self, theirs: &Terms) -> Vec<WireError> {
        let entries = self.entries.iter().zip(&theirs.entries);
        entries
            .filter_map(|((term, ours), (_, theirs))| term.agree(&**ours, &**theirs).err())
            .collect()
    }

    /// What both sides agree on, or the first term on which they differ.
    pub(crate) fn agree(&self, theirs: &Terms) -> Result<Terms, WireError> {
        let entries = self.entries.iter().zip(&theirs.entries);
        let agreed =
            entries.map(|((term, ours), (_, theirs))| Ok((*term, term.agree(&**ours, &**theirs)?)));
        Ok(Terms {
            entries: agreed.collect::<Result<_, WireError>>()?,
        })
    }
}

impl PartialEq for Terms {
    fn eq(&self, other: &Terms) -> bool {
        let mut pairs = self.entries.iter().zip(&other.entries);
        self.entries.len() == other.entries.len()
            && pairs.all(|((term, own), (other_term, other))| {
                term.name() == other_term.name() && own.equals(&**other)
            })
    }
}

impl Eq for Terms {}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.iter();
        f.debug_map()
            .entries(entries.map(|(term, value)| (term.name(), value.in_words())))
            .finish()
    }
}

/// A value by the name of each term.
impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let entries = self.entries.iter();
        to.collect_map(entries.map(|(term, value)| (term.name(), value.in_json())))
    }
}

/// Our terms alone: those of a program have no declaration here.
impl<'de> Deserialize<'de> for Terms {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Terms, D::Error> {
        let mut values = Map::<String, Value>::deserialize(from)?;
        let mut entry = |term: &'static dyn AnyTerm| {
            let value = values.remove(term.name());
            let value = value.ok_or_else(|| D::Error::missing_field(term.name()))?;
            Ok((term, term.of_json(value).map_err(D::Error::custom)?))
        };
        let entries = STANDARD
            .iter()
            .map(|term| entry(*term))
            .collect::<Result<_, _>>()?;
        match values.keys().next() {
            None => Ok(Terms { entries }),
            Some(name) => Err(D::Error::custom(format!("there is no term {name}"))),
        }
    }
}

/// A term with values of any type.
trait AnyTerm: Sync {
    fn name(&self) -> &'static str;
    fn words(&self) -> &'static str;
    fn is_of_each_run(&self) -> bool;
    fn arguments(&self) -> &'static [Argument];
    fn option(&self) -> Option<&Setting>;
    fn default(&self) -> Box<dyn AnyValue>;
    fn read(&self, reader: &mut Reader<'_>) -> Result<Box<dyn AnyValue>, WireError>;
    fn of_json(&self, value: Value) -> serde_json::Result<Box<dyn AnyValue>>;
    fn agree(
        &self,
        ours: &dyn AnyValue,
        theirs: &dyn AnyValue,
    ) -> Result<Box<dyn AnyValue>, WireError>;
}

impl<T: TermValue> AnyTerm for Term<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self) -> &'static str {
        self.words
    }

    fn is_of_each_run(&self) -> bool {
        self.is_of_each_run
    }

    fn arguments(&self) -> &'static [Argument] {
        self.arguments
    }

    fn option(&self) -> Option<&Setting> {
        self.option.as_ref()
    }

    fn default(&self) -> Box<dyn AnyValue> {
        Box::new((self.default)())
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Box<dyn AnyValue>, WireError> {
        let value = T::read(reader, self.words)?;
        match (self.problem)(&value) {
            None => Ok(Box::new(value)),
            Some(problem) => Err(bad(self.words, problem)),
        }
    }

    fn of_json(&self, value: Value) -> serde_json::Result<Box<dyn AnyValue>> {
        Ok(Box::new(serde_json::from_value::<T>(value)?))
    }

    fn agree(
        &self,
        ours: &dyn AnyValue,
        theirs: &dyn AnyValue,
    ) -> Result<Box<dyn AnyValue>, WireError> {
        let values = [ours, theirs].map(|value| value.as_any().downcast_ref::<T>());
        let [Some(ours), Some(theirs)] = values else {
            return Err(bad(self.words, "of another type"));
        };
        Ok(Box::new((self.rule)(self, ours, theirs)?))
    }
}
