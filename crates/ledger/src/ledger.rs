//! Adding to a ledger.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use vesica_files::{NotLocked, is_at, is_exposed, keep_name, lock_within, open_own, open_regular};
use vesica_session::{Receipts, rfc3339};

use crate::book::{End, MAX_LINE};
use crate::entry::FORMAT;
use crate::own_keys::KEY_BYTES;
use crate::rules::time;
use crate::state::{Mark, State};
use crate::{
    Asked, Begun, Body, Book, Created, Ended, Entry, Error, OwnKeys, Problem, Refused, Rules,
    Taken, host, user,
};

/// Longest wait for another run that writes an entry, which may compare tables meanwhile.
const WAIT: Duration = Duration::from_secs(60);

/// A ledger, which its first run makes.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
    state: Option<PathBuf>,
    now: fn() -> SystemTime,
}

/// An entry that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub entry: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// Which rules were held to.
    pub rules: Vec<String>,
}

impl Ledger {
    /// The ledger in this file.
    pub fn new(path: impl Into<PathBuf>) -> Ledger {
        Ledger {
            path: path.into(),
            state: None,
            now: SystemTime::now,
        }
    }

    /// The same, with a directory of this user alone for what is kept outside of the file: which entry was the last, by which
    /// an older copy is known, and what rules need that compare tables.
    pub fn with_state(self, directory: impl Into<PathBuf>) -> Ledger {
        Ledger {
            state: Some(directory.into()),
            ..self
        }
    }

    /// The same, at other times than now.
    #[cfg(test)]
    pub(crate) fn at(self, now: fn() -> SystemTime) -> Ledger {
        Ledger { now, ..self }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says, which was checked line by line, and against what was written last if there is a place for that.
    ///
    /// # Errors
    /// Data: it was changed or cut, or is an older copy. Usage: it is no ledger, or not there.
    pub fn read(&self) -> Result<Book, Error> {
        let book = self.read_without_state()?;
        match self.state_of(&book) {
            Some(state) if !state.may_be_here()? => Err(Error::of(&self.path, Problem::Another)),
            Some(state) => state.check(&book).map(|_| book),
            None if book.count() == 0 => {
                self.check_gone()?;
                Err(Error::of(&self.path, Problem::NotALedger))
            }
            None => Ok(book),
        }
    }

    fn read_without_state(&self) -> Result<Book, Error> {
        let file = open_regular(&self.path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::of(&self.path, Problem::NoFile),
            _ => Error::io(&self.path)(e),
        })?;
        Book::read(&self.path, &file)
    }

    /// Whether anything outside of the file says which entry is its last: otherwise an older copy is not noticed.
    ///
    /// # Errors
    /// As [`Ledger::read`].
    pub fn is_known(&self) -> Result<bool, Error> {
        let book = self.read()?;
        let state = self.state_of(&book);
        state.map_or(Ok(false), |state| state.check(&book))
    }

    /// Makes the ledger if there is none, and fails if it cannot be used.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn make(&self) -> Result<(), Error> {
        Open::new(self, Extent::End).map(drop)
    }

    /// Takes a ledger that was written elsewhere for the last version of it, so that later ones are compared with it.
    ///
    /// # Errors
    /// As [`Ledger::begin`]; [`Error::NoState`] without a place outside of the file.
    pub fn adopt(&self) -> Result<(), Error> {
        // One that is not there is not made.
        if self.read_without_state()?.count() == 0 {
            return Err(Error::of(&self.path, Problem::NotALedger));
        }
        let open = Open::new(self, Extent::Adopted)?;
        let length = open.length()?;
        let state = self.state_for_rules(&open.book)?;
        state.mark(&open.book, length, open.first_until())
    }

    /// What a table's keys are compared by under rules: `each` hands over the digest of each of its `count` distinct keys.
    /// Makes the ledger if there is none.
    ///
    /// # Errors
    /// Those of `each`, and [`Error::NoState`] and others of this ledger as that type.
    pub fn own_keys<E: From<Error>>(
        &self,
        count: u64,
        each: impl FnOnce(&mut dyn FnMut(&[u8; 32])) -> Result<(), E>,
    ) -> Result<OwnKeys, E> {
        let key = self.hash_key()?;
        OwnKeys::of(&key, count, each)
    }

    fn hash_key(&self) -> Result<zeroize::Zeroizing<[u8; KEY_BYTES]>, Error> {
        let open = Open::new(self, Extent::End)?;
        let state = self.state_for_rules(&open.book)?;
        match state.last()? {
            Some(_) => state.hash_key(),
            None => Err(Error::of(&self.path, Problem::Unknown)),
        }
    }

    /// Whether the rules allow a run, before this side says how many keys it has. If they do not, that is written, for the
    /// command of this name.
    ///
    /// # Errors
    /// [`Error::Refused`], and those of [`Ledger::begin`].
    pub fn check(
        &self,
        (rules, command): (&Rules, &str),
        asked: &Asked<'_>,
        keys: Option<&OwnKeys>,
    ) -> Result<(), Error> {
        let mut open = Open::new(self, Extent::All)?;
        let checked = open.check_rules(rules, asked, keys);
        open.or_refused(checked, command, asked).map(drop)
    }

    /// Writes that a run begins as [`Ledger::begin`] does, unless one has begun in this very session.
    ///
    /// # Errors
    /// As there.
    pub fn begin_once(
        &self,
        begun: Begun,
        rules: Option<(&Rules, &Asked<'_>, Option<&OwnKeys>)>,
    ) -> Result<Head, Error> {
        let open = Open::new(self, Extent::All)?;
        let has_begun = |(_, run): &(&Entry, &Begun)| run.session == begun.session;
        let found = open.book.runs().rev().find(has_begun);
        let found = found.map(|(entry, begun)| head(&self.path, entry, begun.rules.clone()));
        match found {
            Some(head) => head,
            None => open.begin(begun, rules),
        }
    }

    /// Writes that a run begins, if the rules allow it; on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::Refused`]. Data: the ledger was changed or cut, or is an older copy. Usage: it cannot be used. Resource: no room,
    /// or another run writes for very long.
    pub fn begin(
        &self,
        begun: Begun,
        rules: Option<(&Rules, &Asked<'_>, Option<&OwnKeys>)>,
    ) -> Result<Head, Error> {
        let extent = match rules {
            Some(_) => Extent::All,
            None => Extent::End,
        };
        Open::new(self, extent)?.begin(begun, rules)
    }

    /// The last entry by which a run of this name has begun.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn last_of(&self, run: &str) -> Result<Option<Head>, Error> {
        if !self.path.exists() {
            self.check_gone()?;
            return Ok(None);
        }
        let open = Open::new(self, Extent::All)?;
        let last = open.book.runs().rev().find(|(_, begun)| begun.run == run);
        last.map(|(entry, begun)| head(&self.path, entry, begun.rules.clone()))
            .transpose()
    }

    /// Writes what both sides have signed of the run that has begun with this entry.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn keep(&self, of: &Head, receipts: Receipts) -> Result<(), Error> {
        let of = of.entry;
        let taken = Taken { of, receipts };
        Open::new(self, Extent::End)?
            .append(Body::Receipts(Box::new(taken)))
            .map(drop)
    }

    /// Writes how the run has ended that has begun with this entry.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn end(&self, ended: Ended) -> Result<(), Error> {
        Open::new(self, Extent::End)?
            .append(Body::Ended(ended))
            .map(drop)
    }

    /// Fails if a ledger was in the file.
    fn check_gone(&self) -> Result<(), Error> {
        let Some(directory) = &self.state else {
            return Ok(());
        };
        match State::name_at(&self.path, directory)? {
            Some(name) => Err(Error::of(&self.path, Problem::Gone(name))),
            None => Ok(()),
        }
    }

    fn state_of(&self, book: &Book) -> Option<State<'_>> {
        let directory = self.state.as_deref()?;
        (!book.name().is_empty()).then(|| State::new(&self.path, directory, book))
    }

    /// The place outside of the file, without which no rule is held to.
    fn state_for_rules(&self, book: &Book) -> Result<State<'_>, Error> {
        let state = self.state_of(book);
        state.ok_or(Error::NoState(vesica_files::NoState::Nowhere))
    }
}

/// The entry that has been written.
fn head(path: &Path, entry: &Entry, rules: Vec<String>) -> Result<Head, Error> {
    let hash = data_encoding::HEXLOWER.decode(entry.hash.as_bytes());
    let hash = hash.ok().and_then(|hash| hash.try_into().ok());
    Ok(Head {
        entry: entry.entry,
        hash: hash.ok_or_else(|| Error::of(path, Problem::NotALedger))?,
        rules,
    })
}

/// How much of a ledger is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Every entry.
    All,
    /// The last entry, if it is the one that was written last: however many there are, this takes as long.
    End,
    /// Every entry, of a ledger that is here from now on.
    Adopted,
}

/// Bytes at the end of a file among which its last line is, usually.
const TAIL: u64 = 1 << 16;

/// A ledger that no other process writes meanwhile.
struct Open<'a> {
    ledger: &'a Ledger,
    file: File,
    book: Book,
    /// Until when something is kept of tables at least, by what was written last.
    until: Option<String>,
}

impl<'a> Open<'a> {
    fn new(ledger: &'a Ledger, extent: Extent) -> Result<Open<'a>, Error> {
        let path = &ledger.path;
        if !path.exists() {
            ledger.check_gone()?;
        }
        let file = open_own(path, Some(0o600)).map_err(Error::io(path))?;
        lock_within(&file, WAIT).map_err(|cause| match cause {
            NotLocked::InUse => Error::of(path, Problem::InUse),
            NotLocked::NoLocks => Error::of(path, Problem::NoLocks),
            NotLocked::Io(e) => Error::io(path)(e),
        })?;
        if !is_at(&file, path) {
            return Err(Error::of(path, Problem::InUse));
        }
        let mut open = Open {
            ledger,
            file,
            book: Book::default(),
            until: None,
        };
        let end = match extent {
            Extent::All | Extent::Adopted => None,
            Extent::End => open.end()?,
        };
        let (is_known, adopts) = (end.is_some(), extent == Extent::Adopted);
        open.book = match end {
            Some(end) => Book::ending(end),
            None => {
                open.file.rewind().map_err(Error::io(path))?;
                Book::read(path, &open.file)?
            }
        };
        if is_exposed(&open.file).map_err(Error::io(path))? {
            return Err(Error::of(path, Problem::Exposed));
        }
        match ledger.state_of(&open.book) {
            // Another ledger in the place of one that is known here would begin to count anew.
            Some(state) if !adopts && !state.may_be_here()? => {
                return Err(Error::of(path, Problem::Another));
            }
            Some(state) if is_known || adopts => state.is_here()?,
            Some(state) => {
                state.check(&open.book)?;
                open.erase(&state)?;
                state.is_here()?;
            }
            None if open.book.count() == 0 => open.create()?,
            None => {}
        }
        Ok(open)
    }

    fn length(&self) -> Result<u64, Error> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(Error::io(&self.ledger.path))?.len())
    }

    /// Where the ledger ends, if that is where it ended when it was written last.
    fn end(&mut self) -> Result<Option<End>, Error> {
        let path = &self.ledger.path;
        let length = self.length()?;
        let mut first = Vec::new();
        let mut reader = BufReader::new(&self.file).take(TAIL);
        reader
            .read_until(b'\n', &mut first)
            .map_err(Error::io(path))?;
        let first = Entry::unseal(first.trim_ascii_end()).ok();
        let Some(Body::Created(created)) = first.map(|entry| entry.body) else {
            return Ok(None);
        };
        if created.check().is_err() {
            return Ok(None);
        }
        let Some(directory) = self.ledger.state.as_deref() else {
            return Ok(None);
        };
        let named = State::named(path, directory, created.ledger.clone());
        // Keys of tables that were kept for long enough are found among all entries.
        let now = (self.ledger.now)();
        let is_of_use = |mark: &Mark| mark.length == length && !mark.is_past(now);
        let Some(mark) = named.last()?.filter(is_of_use) else {
            return Ok(None);
        };
        let mut tail = Vec::new();
        let from = SeekFrom::Start(length.saturating_sub(TAIL));
        let read = self
            .file
            .seek(from)
            .and_then(|_| self.file.read_to_end(&mut tail));
        read.map_err(Error::io(path))?;
        let last = tail.strip_suffix(b"\n").and_then(|tail| {
            let line = tail.rsplit(|byte| *byte == b'\n').next()?;
            Entry::unseal(line).ok()
        });
        let is_last = |entry: &Entry| entry.entry == mark.number && entry.hash == mark.hash;
        self.until = mark.until.clone();
        Ok(last.filter(is_last).map(|entry| End {
            name: created.ledger,
            entries: entry.entry + 1,
            hash: entry.hash,
        }))
    }

    /// Writes that a run begins, if the rules allow it.
    fn begin(
        mut self,
        mut begun: Begun,
        rules: Option<(&Rules, &Asked<'_>, Option<&OwnKeys>)>,
    ) -> Result<Head, Error> {
        if let Some((rules, asked, keys)) = rules {
            let checked = self.check_rules(rules, asked, keys);
            begun.rules = self.or_refused(checked, &begun.command, asked)?;
            begun.rules_sha256 = Some(rules.sha256().to_owned());
            begun.keys = self.keep_keys(rules, asked, keys)?;
        }
        let rules = begun.rules.clone();
        let entry = self.append(Body::Begun(Box::new(begun)))?;
        head(&self.ledger.path, &entry, rules)
    }

    /// What rules have said of a run, which is written if they do not allow it.
    fn or_refused<T>(
        &mut self,
        checked: Result<T, Error>,
        command: &str,
        asked: &Asked<'_>,
    ) -> Result<T, Error> {
        if let Err(Error::Refused(refusal)) = &checked {
            self.append(Body::Refused(Refused {
                command: command.to_owned(),
                peer: asked.peer.to_string(),
                table: asked.table.to_owned(),
                reveals: asked.reveals.to_string(),
                rule: refusal.rule.clone(),
            }))?;
        }
        checked
    }

    /// Writes the first entry.
    fn create(&mut self) -> Result<(), Error> {
        let path = &self.ledger.path;
        self.ledger.check_gone()?;
        let name = random_hex(path)?;
        self.append(Body::Created(Created {
            format: FORMAT,
            ledger: name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            user: user(),
            host: host(),
        }))?;
        keep_name(&self.ledger.path).map_err(Error::io(&self.ledger.path))?;
        let state = self.ledger.state_of(&self.book);
        state.map_or(Ok(()), |state| state.is_here())
    }

    /// Adds an entry, which is on the disk when this returns.
    fn append(&mut self, body: Body) -> Result<Entry, Error> {
        let path = &self.ledger.path;
        let entry = Entry {
            entry: self.book.count(),
            time: rfc3339((self.ledger.now)()),
            previous: self.book.head().to_owned(),
            salt: random_hex(path)?,
            body,
            hash: String::new(),
        };
        let sealed = entry.seal().map_err(io::Error::other);
        let (mut line, entry) = sealed.map_err(Error::io(path))?;
        if line.len() as u64 >= MAX_LINE {
            return Err(Error::of(path, Problem::TooLong(line.len())));
        }
        if !self.book.ends_in_line {
            line.insert(0, '\n');
        }
        self.write(line.as_bytes()).map_err(Error::io(path))?;
        self.book.ends_in_line = true;
        self.book
            .add(entry.clone())
            .map_err(|what| Error::of(path, Problem::Changed { line: 0, what }))?;
        if let Some(state) = self.ledger.state_of(&self.book) {
            state.mark(&self.book, self.length()?, self.first_until())?;
        }
        Ok(entry)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let end = self.file.seek(SeekFrom::End(0))?;
        let written = self
            .file
            .write_all(line)
            .and_then(|()| self.file.sync_data());
        written.inspect_err(|_| {
            // What is left of an entry that is none; without it the next one would say that a line was not written whole.
            let _ = self.file.set_len(end);
        })
    }

    fn check_rules(
        &self,
        rules: &Rules,
        asked: &Asked<'_>,
        keys: Option<&OwnKeys>,
    ) -> Result<Vec<String>, Error> {
        let state = self.ledger.state_for_rules(&self.book)?;
        // What rules count is to be all that there was.
        if state.last()?.is_none() {
            return Err(Error::of(&self.ledger.path, Problem::Unknown));
        }
        let change = |entries: &[u64]| self.change(&state, asked, keys, entries);
        rules.check(asked, &self.book, (self.ledger.now)(), change)
    }

    /// The fewest keys by which a table differs from one of these entries, if it does. All of them are compared.
    fn change(
        &self,
        state: &State<'_>,
        asked: &Asked<'_>,
        keys: Option<&OwnKeys>,
        entries: &[u64],
    ) -> Result<Option<u64>, Error> {
        let cannot = |why: &str| crate::Refusal {
            rule: None,
            why: why.to_owned(),
        };
        let keys = keys.ok_or_else(|| {
            cannot(
                "a rule compares the table with earlier ones, and its keys are on other machines",
            )
        })?;
        let mut least = None;
        for entry in entries {
            let begun = self.book.begun(*entry);
            if begun.is_some_and(|begun| !asked.has_keys_of(begun)) {
                return Err(cannot(&format!(
                    "the keys of the table were made in another way for entry {entry}, and tables whose keys are made \
                     differently cannot be compared"
                ))
                .into());
            }
            let kept = self
                .book
                .begun(*entry)
                .and_then(|begun| begun.keys.as_ref());
            let earlier = kept.map(|kept| state.kept(*entry, kept)).transpose()?;
            let earlier = earlier
                .flatten()
                .filter(|earlier| earlier.under == keys.under);
            let earlier = earlier.ok_or_else(|| {
                cannot(&format!(
                    "what was kept of the table of entry {entry} for rules that compare is gone, or an older copy"
                ))
            })?;
            let difference = keys.difference(&earlier);
            if difference > 0 {
                least = Some(least.map_or(difference, |least: u64| least.min(difference)));
            }
        }
        Ok(least)
    }

    fn keep_keys(
        &self,
        rules: &Rules,
        asked: &Asked<'_>,
        keys: Option<&OwnKeys>,
    ) -> Result<Option<crate::KeysKept>, Error> {
        let kept_for = rules.kept_for(asked.peer, asked.table);
        let (Some(kept_for), Some(keys)) = (kept_for, keys) else {
            return Ok(None);
        };
        let now = (self.ledger.now)();
        let until = rfc3339(now.checked_add(kept_for).unwrap_or(now));
        let number = self.book.count();
        let state = self.ledger.state_for_rules(&self.book)?;
        state.keep(number, keys, until).map(Some)
    }

    /// Until when something is kept of tables at least, of the entries that are looked at; nothing is if there is none.
    fn first_until(&self) -> Option<String> {
        let now = (self.ledger.now)();
        let until = self.book.runs().filter_map(|(_, begun)| {
            let kept = begun.keys.as_ref()?;
            time(&kept.until).filter(|until| *until >= now)?;
            Some(kept.until.clone())
        });
        until.chain(self.until.clone()).min()
    }

    /// Erases what is kept of tables and not needed any longer.
    fn erase(&self, state: &State<'_>) -> Result<(), Error> {
        let now = (self.ledger.now)();
        let is_kept = |(entry, begun): (&Entry, &Begun)| {
            let until = begun.keys.as_ref().and_then(|kept| time(&kept.until));
            until.filter(|until| *until >= now).map(|_| entry.entry)
        };
        state.erase_but(&self.book.runs().filter_map(is_kept).collect())
    }
}

/// 16 random bytes.
fn random_hex(path: &Path) -> Result<String, Error> {
    let mut bytes = [0; 16];
    let drawn = getrandom::fill(&mut bytes).map_err(io::Error::other);
    drawn.map_err(Error::io(path))?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}
