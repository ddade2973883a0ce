//! The account that a side keeps of its runs: what it writes down of each, and when.
//!
//! 1. The table is read, and with it goes what an entry says of it ([`Opening`]).
//! 2. Before this side tells its peer how many keys it has, its rules are looked at ([`Opening::admit`]).
//! 3. Once the contract is agreed, and before anything that depends on a key is sent, the entry is written and on the disk
//!    ([`Opening::begin`]); then the sides exchange receipts, of which the entry's hash is a part.
//! 4. Once the run is over for this side, another entry says how it ended ([`Opening::end`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use vesica_files::{Advice, state_directory};
use vesica_ledger::{
    Asked, Begun, Ended, Head, Input, KeyColumn, Ledger, OwnKeys, Result as Ending, Rules, host,
    sha256, user,
};
use vesica_lookup::QueryLog;
use vesica_session::terms::{LEARNS, MIN_SIZE, REVEAL};
use vesica_session::{
    Agreement, Error as SessionError, Fingerprint, Job, Receipts, Report, Reveal, Role, Terms,
    random,
};
use vesica_tables::{FileDigest, KeySpec, RowSet, Source};
use vesica_wire::{Error as WireError, Limit};

use crate::{Error, ErrorClass, Event, Observer, SplitJob};

/// The account of a side's runs, and the rules that it holds them to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The file of the ledger, which the first run makes.
    pub ledger: PathBuf,
    /// A file of [rules](Rules) that runs are held to; none are if there is none.
    pub rules: Option<PathBuf>,
    /// Whether numbers that are revealed to this side, and the count of its matches, are written down too.
    pub answers: bool,
    /// A directory of this user alone for what is kept outside of the ledger: by it an older copy of that is known, and rules
    /// count. If there is none, one below `XDG_STATE_HOME` is taken.
    pub state: Option<PathBuf>,
}

impl Account {
    /// An account in this ledger, without rules.
    pub fn new(ledger: impl Into<PathBuf>) -> Account {
        Account {
            ledger: ledger.into(),
            rules: None,
            answers: false,
            state: None,
        }
    }

    /// Whether the rules can be read.
    pub(crate) fn check_rules(&self) -> Result<(), Error> {
        self.rules.as_deref().map(Rules::load).transpose()?;
        Ok(())
    }

    /// The ledger, with its place outside of the file; why there is none if there has to be one.
    fn open(&self, observer: &mut dyn Observer) -> Result<(Ledger, Option<Rules>), Error> {
        let ledger = Ledger::new(&self.ledger);
        let rules = self.rules.as_deref().map(Rules::load).transpose()?;
        let state = match &self.state {
            Some(state) => Ok(state.clone()),
            None => state_directory("ledgers"),
        };
        match state {
            Ok(state) => Ok((ledger.with_state(state), rules)),
            Err(none) if rules.is_some() => Err(vesica_ledger::Error::NoState(none).into()),
            Err(none) => {
                let warning = format!("an older copy of the ledger would not be noticed: {none}");
                observer.event(Event::Warning(&warning.into()));
                Ok((ledger, rules))
            }
        }
    }
}

/// The command of runs by files.
pub(crate) const EXCHANGE: &str = "exchange";

/// What is known of a table that takes part in a run.
pub(crate) struct OfTable<'a> {
    pub(crate) source: Option<&'a Source>,
    pub(crate) key: &'a KeySpec,
    pub(crate) rows: u64,
    pub(crate) items: u64,
}

/// A run, from when its table is known to its end.
pub(crate) struct Opening {
    ledger: Ledger,
    rules: Option<Rules>,
    /// What rules compare the table by.
    keys: Option<OwnKeys>,
    role: Role,
    begun: Begun,
    answers: bool,
    /// Where it has begun.
    head: Option<Head>,
}

impl Opening {
    /// Over this table, by whoever has this identity.
    pub(crate) fn new(
        account: &Account,
        identity: Fingerprint,
        (role, command): (Role, &str),
        table: &OfTable<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Opening, Error> {
        let (ledger, rules) = account.open(observer)?;
        let columns = table.key.names_in_turn().zip(table.key.normalization());
        let key = columns.map(|(column, profile)| KeyColumn {
            column: column.to_owned(),
            profile,
        });
        let begun = Begun {
            role: Some(role),
            identity: identity.to_string(),
            table: table.source.map_or("elsewhere", Source::name).to_owned(),
            input: table.source.map(inputs).transpose()?.unwrap_or_default(),
            key: key.collect(),
            rows: table.rows,
            items: table.items,
            ..by_this_program(command)
        };
        // One that cannot be used is not found out once the peer has said something.
        ledger.make()?;
        Ok(Opening {
            ledger,
            rules,
            keys: None,
            role,
            begun,
            answers: account.answers,
            head: None,
        })
    }

    /// The same with the columns that are computed with, and those that are handed over.
    pub(crate) fn with_columns(mut self, values: Vec<String>, payload: Vec<String>) -> Opening {
        self.begun.values = values;
        self.begun.payload = payload;
        self
    }

    /// The same with what rules compare the table by, if there are such rules.
    pub(crate) fn with_keys(mut self, items: u64, each: EachDigest<'_>) -> Result<Opening, Error> {
        let table = &self.begun.table;
        if self
            .rules
            .as_ref()
            .is_some_and(|rules| rules.compare(table))
        {
            self.keys = Some(self.ledger.own_keys(items, each)?);
        }
        Ok(self)
    }

    /// The hash of the entry by which the run has begun.
    pub(crate) fn head(&self) -> Option<[u8; 32]> {
        Some(self.head.as_ref()?.hash)
    }

    /// That of a look-up of a table's keys in a published set of so many; written down when this returns. The server is asked after
    /// that.
    pub(crate) fn of_look_up(
        account: &Account,
        [own, publisher]: [Fingerprint; 2],
        table: &OfTable<'_>,
        published: u64,
        observer: &mut dyn Observer,
    ) -> Result<Opening, Error> {
        let named = (Role::Receiver, "lookup");
        let mut opening = Opening::new(account, own, named, table, observer)?;
        let begun = Begun {
            peer_items: published,
            ..with_peer(opening.begun.clone(), publisher)?
        };
        opening.head = Some(opening.ledger.begin(begun, None)?);
        Ok(opening)
    }

    /// Whether the rules allow the run with this peer. Nothing has been told to it by then.
    pub(crate) fn admit(&self, peer: Fingerprint, job: &Job) -> Result<(), Error> {
        let Some(rules) = &self.rules else {
            return Ok(());
        };
        let profiles = self.profiles();
        let asked = Asked {
            epsilon: job.noise.as_ref().map(|noise| noise.epsilon),
            is_padded: job.pad_to.is_some(),
            groups: job
                .groups
                .as_ref()
                .map_or(1, |groups| groups.groups.len() as u64),
            ..self.asked(peer, &job.terms, &profiles)
        };
        let rules = (rules, &*self.begun.command);
        Ok(self.ledger.check(rules, &asked, self.keys.as_ref())?)
    }

    /// Writes down that the run begins, if the rules allow it. Nothing that depends on a key has been sent by then.
    pub(crate) fn begin(&mut self, agreement: &Agreement, peer: Fingerprint) -> Result<(), Error> {
        let contract = &agreement.contract;
        let [purpose, peer_purpose] = contract.purposes(self.role).map(str::to_owned);
        let noise = contract.noise_of(self.role);
        let epsilon = noise.map(|noise| noise.epsilon);
        let tells_both = contract.get(&LEARNS).is_both() || contract.get(&REVEAL).is_ids();
        let told = match tells_both {
            true => "both",
            false => "receiver",
        };
        let begun = Begun {
            run: agreement.state.run_name(),
            session: agreement.public_name(),
            peer: peer.to_string(),
            reveals: contract.get(&REVEAL).to_string(),
            told: told.to_owned(),
            peer_items: agreement.peer_items,
            purpose,
            peer_purpose,
            epsilon,
            contract: serde_json::to_value(contract).unwrap_or_default(),
            ..self.begun.clone()
        };
        let profiles = self.profiles();
        let asked = Asked {
            epsilon,
            is_padded: noise.is_some_and(|noise| noise.is_padded),
            peer_items: Some(agreement.peer_items),
            groups: contract
                .groups
                .as_ref()
                .map_or(1, |groups| groups.count.into()),
            ..self.asked(peer, &contract.terms, &profiles)
        };
        let rules = self.rules.as_ref();
        let rules = rules.map(|rules| (rules, &asked, self.keys.as_ref()));
        // Each step of a run by files goes through its session again.
        let head = match begun.command == EXCHANGE {
            true => self.ledger.begin_once(begun, rules)?,
            false => self.ledger.begin(begun, rules)?,
        };
        self.head = Some(head);
        Ok(())
    }

    /// The run goes on from what an earlier one, of this name, has found.
    ///
    /// Fails if that is not in the ledger: nothing is answered without an entry.
    pub(crate) fn goes_on(&mut self, run: &str) -> Result<(), Error> {
        self.head = Some(entry_of(&self.ledger, run)?);
        Ok(())
    }

    /// What rules go by, but for the peer's keys and for noise.
    fn asked<'a>(&'a self, peer: Fingerprint, terms: &Terms, profiles: &'a [String]) -> Asked<'a> {
        Asked {
            peer,
            table: &self.begun.table,
            profiles,
            reveals: terms.get(&REVEAL),
            items: self.begun.items,
            peer_items: None,
            min_size: terms.get(&MIN_SIZE),
            groups: 1,
            epsilon: None,
            is_padded: false,
        }
    }

    fn profiles(&self) -> Vec<String> {
        let profiles = self.begun.key.iter();
        profiles.map(|column| column.profile.clone()).collect()
    }

    /// Writes down what both sides have signed.
    pub(crate) fn keep(
        &self,
        receipts: Receipts,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if receipts.clocks_differ() {
            let warning = "the peer's clock differs from this one by more than an hour: what is counted in a period \
                           differs with it";
            observer.event(Event::Warning(&warning.into()));
        }
        match &self.head {
            Some(head) => Ok(self.ledger.keep(head, receipts)?),
            None => Ok(()),
        }
    }

    /// Writes down that a run which has begun ended before anything was sent that depends on a key, for this reason.
    pub(crate) fn end_unanswered(&self, error: &Error, observer: &mut dyn Observer) {
        self.write_end(Err(error), true, observer);
    }

    /// Writes down how the run ended that has begun, if one has: what was revealed to this side, or why nothing. That this
    /// cannot be written is no reason to fail: the entry of its beginning says that it may have been answered.
    pub(crate) fn end(&self, ran: Result<Value, &Error>, observer: &mut dyn Observer) {
        self.write_end(ran, false, observer);
    }

    fn write_end(&self, ran: Result<Value, &Error>, unanswered: bool, observer: &mut dyn Observer) {
        let Some(head) = &self.head else {
            return;
        };
        let ended = Ended {
            unanswered,
            ..ended(head, ran, self.answers)
        };
        if let Err(error) = self.ledger.end(ended) {
            observer.event(Event::Warning(&not_written(&error)));
        }
    }
}

/// The entry by which a run of this name has begun.
fn entry_of(ledger: &Ledger, run: &str) -> Result<Head, Error> {
    let head = ledger.last_of(run)?;
    Ok(head.ok_or(vesica_ledger::Error::NoSuchRun)?)
}

/// How what has begun with this entry ended for this side: what was revealed to it, which is kept if `answers`, or why nothing.
fn ended(head: &Head, ran: Result<Value, &Error>, answers: bool) -> Ended {
    Ended {
        of: head.entry,
        result: ran
            .as_ref()
            .map_or_else(|error| error.class().into(), |_| Ending::Done),
        unanswered: false,
        answer: ran.ok().filter(|_| answers),
    }
}

/// What a user hears of an end that is not in the ledger.
fn not_written(error: &dyn std::fmt::Display) -> Advice {
    format!("how the run ended is not in the ledger: {error}").into()
}

/// What every entry of a beginning says of this program and who runs it.
fn by_this_program(command: &str) -> Begun {
    Begun {
        command: command.to_owned(),
        reveals: Reveal::Matches.name().to_owned(),
        told: "receiver".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        user: user(),
        host: host(),
        ..Begun::default()
    }
}

/// The same with a peer, and a random name where there is no session.
fn with_peer(begun: Begun, peer: Fingerprint) -> Result<Begun, Error> {
    let mut session = [0; 32];
    random::fill(&mut session).map_err(SessionError::from)?;
    let session = blake3::Hash::from_bytes(session).to_hex();
    Ok(Begun {
        run: session[..16].to_owned(),
        session: session.to_string(),
        peer: peer.to_string(),
        ..begun
    })
}

/// The account of a server of a published set: an entry for each question that is answered.
#[derive(Debug)]
struct Served {
    ledger: Ledger,
    begun: Begun,
}

impl QueryLog for Served {
    fn answers(&self, client: Fingerprint, queries: u64) -> Result<(), WireError> {
        let written = with_peer(self.begun.clone(), client).and_then(|begun| {
            let begun = Begun {
                peer_items: queries,
                ..begun
            };
            Ok(self.ledger.begin(begun, None)?)
        });
        // The reason has paths of this machine.
        let unwritable = |_| WireError::limit(Limit::Storage, "the account cannot be kept");
        written.map(drop).map_err(unwritable)
    }
}

impl Account {
    /// What writes down the questions of clients to a server of a published set, for [`Service::log`](vesica_lookup::Service):
    /// each is on the disk before it is answered. Rules are not for it: quotas are.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn of_server(
        &self,
        identity: Fingerprint,
        database: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Arc<dyn QueryLog>, Error> {
        let (ledger, _) = self.open(observer)?;
        // One that cannot be used is not found out by the first client.
        ledger.make()?;
        let begun = Begun {
            role: Some(Role::Sender),
            identity: identity.to_string(),
            table: database.display().to_string(),
            ..by_this_program("serve")
        };
        Ok(Arc::new(Served { ledger, begun }))
    }

    /// Collects the rows of a job in tasks, whose split has to be in the ledger, and writes down how that ended.
    ///
    /// # Errors
    /// Usage: the split is not in the ledger, and nothing is collected. Those of the ledger and of `collect`.
    pub fn end_of_rows(
        &self,
        job: &SplitJob,
        collect: impl FnOnce(&mut dyn Observer) -> Result<RowSet, Error>,
        observer: &mut dyn Observer,
    ) -> Result<RowSet, Error> {
        self.check_job(job, observer)?;
        let collected = collect(observer);
        let found = collected.as_ref();
        let found = found.map(|rows| json!({"matching_rows": rows.count(0..rows.rows())}));
        self.end_of_job(job, found, observer);
        collected
    }

    /// Fails unless the split of a job in tasks is in the ledger: nothing is learnt of it otherwise.
    pub(crate) fn check_job(
        &self,
        job: &SplitJob,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (ledger, _) = self.open(observer)?;
        entry_of(&ledger, &job.run_name()).map(drop)
    }

    /// Writes down how a job in tasks ended for this side, whose split is in the ledger: what it has learnt, or why it has
    /// learnt nothing.
    pub(crate) fn end_of_job(
        &self,
        job: &SplitJob,
        ran: Result<Value, &Error>,
        observer: &mut dyn Observer,
    ) {
        if let Err(error) = &ran
            && error.class() == ErrorClass::Usage
        {
            // Nothing was tried.
            return;
        }
        let written = self.open(observer).and_then(|(ledger, _)| {
            let head = entry_of(&ledger, &job.run_name())?;
            Ok(ledger.end(ended(&head, ran, self.answers))?)
        });
        if let Err(error) = written {
            observer.event(Event::Warning(&not_written(&error)));
        }
    }
}

/// Hands over the digest of each distinct key.
pub(crate) type EachDigest<'a> = &'a dyn Fn(&mut dyn FnMut(&[u8; 32])) -> Result<(), Error>;

/// Most files of a table that an entry names.
const MAX_FILES: usize = 256;

/// The files of a table; of very many one that stands for all, with a hash of theirs in order.
fn inputs(source: &Source) -> Result<Vec<Input>, Error> {
    let digests = source.digests()?;
    if digests.len() > MAX_FILES {
        let known: Option<Vec<FileDigest>> = digests.iter().map(|(_, digest)| *digest).collect();
        let all = known.map(|known| {
            let hashes: Vec<u8> = known.iter().flat_map(|digest| digest.sha256).collect();
            (
                sha256(&hashes),
                known.iter().map(|digest| digest.bytes).sum(),
            )
        });
        let name = format!("{} and {} more", digests[0].0, digests.len() - 1);
        return Ok(vec![Input::new(&name, all)]);
    }
    let input = |(name, digest): (&str, Option<FileDigest>)| {
        Input::new(name, digest.map(|digest| (digest.sha256, digest.bytes)))
    };
    Ok(digests.into_iter().map(input).collect())
}

/// What was revealed to this side.
pub(crate) fn answer(report: &Report) -> Value {
    json!({
        "matches": report.matches,
        "value": report.value,
        "values": report.values.as_ref().map(|values| {
            values.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>()
        }),
        "groups": report.groups,
        "below": report.below,
        "rows_written": report.rows_written,
    })
}
