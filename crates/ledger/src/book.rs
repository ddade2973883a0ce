//! What a ledger says, as it was checked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::json;
use vesica_session::{Receipt, Reveal, Role};

use crate::entry::NONE;
use crate::{Begun, Body, Ended, Entry, Error, Problem, Refused, Result as Ending, Taken};

const NOT_BEGUN: &str = "is of a run that has not begun";
/// Longest line, in bytes.
pub(crate) const MAX_LINE: u64 = 4 << 20;

/// The entries of a ledger, each as it was written and where it was written.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    /// In the place of all entries, how many they are, with their name and the hash of the last.
    end: Option<End>,
    /// Where the receipts and the last end of what begins with an entry are.
    receipts: BTreeMap<u64, usize>,
    ended: BTreeMap<u64, usize>,
    /// The lines that were not written whole, counted from 1.
    torn: Vec<usize>,
    /// Whether the file ends where a line does.
    pub(crate) ends_in_line: bool,
}

/// Where a ledger ends whose entries are not looked at.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) name: String,
    pub(crate) entries: u64,
    pub(crate) hash: String,
}

impl Book {
    /// One of which the end is known.
    pub(crate) fn ending(end: End) -> Book {
        Book {
            end: Some(end),
            ends_in_line: true,
            ..Book::default()
        }
    }

    /// How many entries there are.
    pub(crate) fn count(&self) -> u64 {
        self.end.as_ref().map_or(0, |end| end.entries) + self.entries.len() as u64
    }

    /// Reads the bytes of a ledger.
    ///
    /// # Errors
    /// Data: it was changed. Usage: it is none.
    pub fn parse(bytes: &[u8]) -> Result<Book, Error> {
        Book::read(Path::new("the ledger"), bytes)
    }

    /// Reads a file from its beginning.
    pub(crate) fn read(path: &Path, file: impl Read) -> Result<Book, Error> {
        let mut book = Book {
            ends_in_line: true,
            ..Book::default()
        };
        let mut reader = BufReader::new(file);
        let changed = |line, what| Error::of(path, Problem::Changed { line, what });
        // Why the lines before the present one were none: they have to be without an entry that follows.
        let mut torn = None;
        for number in 1.. {
            let mut line = Vec::new();
            let mut limited = (&mut reader).take(MAX_LINE);
            let count = limited.read_until(b'\n', &mut line);
            if count.map_err(Error::io(path))? == 0 {
                break;
            }
            book.ends_in_line = line.pop_if(|byte| *byte == b'\n').is_some();
            if line.is_empty() && book.ends_in_line {
                return Err(changed(number, "is empty"));
            }
            match Entry::unseal(&line) {
                Ok(entry) => book.add(entry).map_err(|what| match (torn, what) {
                    // An entry was spoilt where the chain goes on as if it were there.
                    (Some((line, what)), _) => changed(line, what),
                    (None, what) => changed(number, what),
                })?,
                Err(_) if book.entries.is_empty() && !begins_as(0, &line) => {
                    return Err(Error::of(path, Problem::NotALedger));
                }
                // Nothing else than the beginning of the next entry was ever written there.
                Err(what) if !begins_as(book.entries.len(), &line) || is_whole(&line) => {
                    return Err(changed(number, what));
                }
                Err(what) => {
                    torn = torn.or(Some((number, what)));
                    book.torn.push(number);
                    continue;
                }
            }
            torn = None;
        }
        match torn {
            // The end of a line is written last.
            Some((line, what)) if book.ends_in_line => Err(changed(line, what)),
            _ => Ok(book),
        }
    }

    /// Adds the next entry; what is wrong with it if it is another one.
    pub(crate) fn add(&mut self, entry: Entry) -> Result<(), &'static str> {
        let is_first = self.count() == 0;
        match &entry.body {
            _ if entry.entry != self.count() => return Err("has another number"),
            _ if entry.previous != self.head() => return Err("follows another line"),
            Body::Created(created) if is_first => created.check()?,
            Body::Created(_) => return Err("begins another ledger"),
            _ if is_first => return Err("begins no ledger"),
            _ if self.end.is_some() => {}
            Body::Receipts(taken) if self.begun(taken.of).is_none() => return Err(NOT_BEGUN),
            Body::Ended(ended) if self.begun(ended.of).is_none() => return Err(NOT_BEGUN),
            Body::Receipts(taken) => drop(self.receipts.insert(taken.of, self.entries.len())),
            Body::Ended(ended) => {
                // What was learnt once stays so, whatever fails later.
                let known = self.ended(ended.of);
                if known.is_none_or(|(_, known)| known.result != Ending::Done) {
                    self.ended.insert(ended.of, self.entries.len());
                }
            }
            Body::Begun(_) | Body::Refused(_) => {}
        }
        self.entries.push(entry);
        Ok(())
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The lines that are the beginning of an entry and no more, counted from 1: they were not written whole, and nothing was
    /// answered by them; or they were cut since.
    pub fn torn(&self) -> &[usize] {
        &self.torn
    }

    /// The hash of the last entry.
    pub fn head(&self) -> &str {
        let before = self.end.as_ref().map_or(NONE, |end| &end.hash);
        self.entries.last().map_or(before, |entry| &entry.hash)
    }

    /// The random name of the ledger; nothing before its first entry.
    pub fn name(&self) -> &str {
        match (&self.end, self.entries.first().map(|entry| &entry.body)) {
            (Some(end), _) => &end.name,
            (None, Some(Body::Created(created))) => &created.ledger,
            _ => "",
        }
    }

    /// What an entry says has begun.
    pub fn begun(&self, entry: u64) -> Option<&Begun> {
        match &self.entries.get(usize::try_from(entry).ok()?)?.body {
            Body::Begun(begun) => Some(begun),
            _ => None,
        }
    }

    /// All that has begun, with its entry.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (&Entry, &Begun)> {
        self.entries.iter().filter_map(|entry| match &entry.body {
            Body::Begun(begun) => Some((entry, &**begun)),
            _ => None,
        })
    }

    /// The runs that rules did not allow, each with its entry.
    pub fn refused(&self) -> impl Iterator<Item = (&Entry, &Refused)> {
        self.entries.iter().filter_map(|entry| match &entry.body {
            Body::Refused(refused) => Some((entry, refused)),
            _ => None,
        })
    }

    /// The receipts of what has begun with this entry.
    pub fn receipts(&self, of: u64) -> Option<&Taken> {
        match &self.entries[*self.receipts.get(&of)?].body {
            Body::Receipts(taken) => Some(taken),
            _ => None,
        }
    }

    /// How what has begun with this entry ended: well if it did once, or else the last time; none if nobody here knows.
    pub fn ended(&self, of: u64) -> Option<(&Entry, &Ended)> {
        let entry = &self.entries[*self.ended.get(&of)?];
        match &entry.body {
            Body::Ended(ended) => Some((entry, ended)),
            _ => None,
        }
    }

    /// Checks the contracts and receipts of all entries. Returns the entries whose contract cannot be computed again here, since
    /// it is of another version or has terms of a program.
    ///
    /// # Errors
    /// The first entry that says something else than its contract or its receipts, and what is wrong with it.
    pub fn check(&self) -> Result<Vec<u64>, (u64, String)> {
        let mut unknown = Vec::new();
        for (entry, begun) in self.runs() {
            // Look-ups have none.
            if begun.contract.is_null() {
                continue;
            }
            match check_contract(begun) {
                Ok(true) => {}
                Ok(false) => unknown.push(entry.entry),
                Err(what) => return Err((entry.entry, what)),
            }
            if let Some(taken) = self.receipts(entry.entry) {
                check_receipts(entry, begun, taken).map_err(|what| (entry.entry, what))?;
            }
        }
        Ok(unknown)
    }

    /// The entry by which a run has begun of which this ledger's owner has given this receipt, as its peer has it; `None` if
    /// there is none.
    ///
    /// # Errors
    /// What is wrong with the receipt.
    pub fn holds(&self, receipt: &Receipt) -> Result<Option<u64>, &'static str> {
        let statement = receipt.verify()?;
        let mut runs = self.runs();
        let found = runs.find(|(entry, begun)| {
            Some(&*entry.hash) == statement.head()
                && begun.session == statement.session
                && begun.identity == statement.by
                && begun.contract["hash"] == statement.contract
        });
        Ok(found.map(|(entry, _)| entry.entry))
    }
}

/// Whether an entry says what its contract says, and that is of its hash; false if the hash cannot be computed here.
fn check_contract(begun: &Begun) -> Result<bool, String> {
    let field = |name: &str| &begun.contract[name];
    let text = |name: &str| field(name).as_str().unwrap_or_default();
    let sides = match begun.role {
        Some(Role::Receiver) => ["receiver", "sender"],
        _ => ["sender", "receiver"],
    };
    let of = |what: &str| sides.map(|side| format!("{side}_{what}"));
    let [own_size, peer_size] = of("size").map(|name| field(&name).as_u64());
    let [own_purpose, peer_purpose] = of("purpose").map(|name| text(&name).to_owned());
    let [own_noise, _] = of("noise").map(|name| field(&name)["epsilon"].clone());
    let told = match text("learns") {
        "receiver" if text("reveal") != Reveal::Ids.name() => "receiver",
        // Ids are for both.
        _ => "both",
    };
    let differs = [
        ("reveals", begun.reveals != text("reveal")),
        ("told", begun.told != told),
        // A side may say that it has more than it has.
        ("items", Some(begun.items) > own_size),
        ("peer_items", Some(begun.peer_items) != peer_size),
        ("purpose", begun.purpose != own_purpose),
        ("peer_purpose", begun.peer_purpose != peer_purpose),
        ("epsilon", json!(begun.epsilon) != own_noise),
    ];
    if let Some((name, _)) = differs.into_iter().find(|(_, differs)| *differs) {
        return Err(format!("says something else as {name} than its contract"));
    }
    if *field("version") != vesica_session::VERSION || has_more_terms(begun) {
        return Ok(false);
    }
    let contract = serde_json::from_value(begun.contract.clone());
    match contract.is_ok_and(|contract: vesica_session::Contract| contract.is_whole()) {
        true => Ok(true),
        false => Err("has a contract that is not of its hash".into()),
    }
}

/// Whether a contract has terms of a program, whose names have a dot in them.
fn has_more_terms(begun: &Begun) -> bool {
    let fields = begun.contract.as_object();
    fields.is_some_and(|fields| fields.keys().any(|name| name.contains('.')))
}

/// Checks that both receipts are of this run, signed by its sides, and this side's of this very entry.
fn check_receipts(entry: &Entry, begun: &Begun, taken: &Taken) -> Result<(), String> {
    let (own, peer) = (&begun.identity, &begun.peer);
    let sides = [
        ("given", &taken.receipts.given, own, peer, begun.role),
        (
            "taken",
            &taken.receipts.taken,
            peer,
            own,
            begun.role.map(Role::other),
        ),
    ];
    for (which, receipt, by, to, role) in sides {
        let wrong = |what| format!("has a receipt that was {which}, and {what}");
        let statement = receipt.verify().map_err(wrong)?;
        let is_of_run = statement.session == begun.session
            && begun.contract["hash"] == statement.contract
            && Some(statement.role) == role
            && (which == "taken" || statement.head() == Some(&entry.hash))
            && statement.by == *by
            && statement.to == *to;
        if !is_of_run {
            return Err(wrong("is of another run"));
        }
    }
    Ok(())
}

/// Whether a line may be what has come of the entry of this number.
fn begins_as(number: usize, line: &[u8]) -> bool {
    let start = format!("{{\"entry\":{number},\"time\":\"");
    line.starts_with(start.as_bytes()) || start.as_bytes().starts_with(line)
}

/// Whether a line was written to its end, whatever it says now.
fn is_whole(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line).is_ok()
}
