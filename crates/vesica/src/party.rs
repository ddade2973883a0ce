//! One side of a job: who meets whom, about what.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use vesica_files::{Argument, advice};
use vesica_session::terms::{KEY_BITS, LEARNS, NORMALIZATION, RECEIPTS, REVEAL};
use vesica_session::{
    ConnectOptions, Endpoint, Error as SessionError, Fingerprint, HalfSource, Identity, Job,
    LabelExchange, Learns, NoiseRequest, PeerLimits, ProtocolRequest, RepeatedKeys, Reveal, Role,
    Term, TermValue, Terms, ValueTerms,
};
use vesica_tables::{KeySpec, Passes, Rows, ValueColumn};

use crate::memory::{Budget, Division};
use crate::options::{GroupColumn, PayloadColumn, only_key};
use crate::{Account, Error};

mod meeting;
mod opening;
mod run;
mod tasks;

pub use self::run::{Checked, Outcome, no_match_hint};
pub(crate) use self::run::{cannot_take_part, warn_of_classes, with_column_types};
pub use self::tasks::{RemoteKeys, collect};

/// What a side brings to the contract, and what else it has of its table.
type Brings<K, T> = (Job, K, T);

/// What a side gets of a run besides its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gets {
    /// Nothing: it helps, or learns a value, which the report has.
    Nothing,
    /// The rows that match, or those with a key and its id.
    Rows,
    /// Its shares of the matches and of their values, in a file.
    Shares,
    /// The rows of the sender whose keys it lacks, in a file.
    PeerRows,
}

impl Gets {
    /// What a side with this role gets under these terms.
    pub fn of(role: Role, terms: &Terms) -> Gets {
        let is_told = role == Role::Receiver || terms.get(&LEARNS).is_both();
        match terms.get(&REVEAL) {
            reveal if reveal == Reveal::Shares => Gets::Shares,
            reveal if reveal.is_rows() && is_told => Gets::PeerRows,
            reveal if reveal.is_ids() || reveal.is_matches() && is_told => Gets::Rows,
            _ => Gets::Nothing,
        }
    }
}

/// What a run may use of this machine. The peer's may differ; the side with less memory determines the number
/// of buckets of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory for sets and the protocol's work on them, in bytes, approximately; the program itself takes
    /// some tens of megabytes more. Larger sets are processed in buckets, and their keys are kept in an
    /// unnamed, encrypted file. `None` is no limit.
    pub memory: Option<u64>,
    /// Threads to compute on; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// A directory for the state from which another run can resume if this one fails (finished buckets, and
    /// an answer whose rows are not written yet), and for keys that do not fit into memory. It is created if
    /// missing, belongs to this user alone, serves one run at a time, and is removed once the result is in
    /// its place.
    pub work_dir: Option<PathBuf>,
    /// A directory of prepared correlations, of which the run takes one pair, with the feature `offline`
    /// (`offline::OfflineStore`). `None` if the protocol makes them.
    pub offline_store: Option<PathBuf>,
    /// What the dealer of that pair must have shown: see `OfflineStore::with_attested`.
    pub attested: Option<String>,
}

impl Resources {
    /// The memory as a run divides it.
    fn budget(&self, job: &Job) -> Budget {
        Budget::new(self.memory, division(job))
    }
}

/// One side of a job: who we are, who the peer is, how to reach it, and on which terms.
#[derive(Clone, Debug)]
pub struct Party {
    /// Our key.
    pub identity: Identity,
    /// The pinned peer; no other is accepted, but for [`ConnectOptions::also`].
    pub peer: Fingerprint,
    /// Whether we listen or connect; independent of who receives.
    pub endpoint: Endpoint,
    /// How long to wait, and the flag that interrupts everything.
    pub connect: ConnectOptions,
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// What both sides must agree on.
    pub terms: Terms,
    /// The most keys and values that the peer may bring.
    pub peer_limits: PeerLimits,
    /// What the run may use of this machine.
    pub resources: Resources,
    /// The columns whose values are summed or multiplied, at most eight.
    pub values: Vec<ValueColumn>,
    /// The columns that the sender hands over with the rows that match; the receiver's result has them after its own,
    /// each under its name with `peer_` before it. In a union, the columns of the rows that the receiver lacks, which are its
    /// result.
    pub labels: LabelExchange,
    /// The column of texts of which both sides get shares.
    pub payload: Option<PayloadColumn>,
    /// The column that says in which group a key of the receiver is, if it wants numbers of each group.
    pub group: Option<GroupColumn>,
    /// A file for the list of all ids where ids are revealed: CSV with commas, and the columns `spine_row` and `spine_id`.
    pub spine_file: Option<PathBuf>,
    /// What this side wants the answer for, which its peer is told: at most 200 bytes of printable text, or nothing.
    pub purpose: String,
    /// The account that this side keeps of its runs; none if it keeps none.
    pub account: Option<Account>,
    /// The noise that this side adds to numbers, which protects its keys and values (`docs/differential-privacy.md`).
    pub noise: Option<NoiseRequest>,
    /// Whether a noisy size is brought into the range of sizes in this side's report.
    pub clamp: bool,
    /// The number of keys up to which this side brings random ones, and which its peer hears; for numbers alone. `None` if it
    /// tells how many it has.
    pub pad_to: Option<u64>,
    /// Whether a table without a usable key may take part, and match nothing; otherwise it is an error.
    pub allow_empty: bool,
    /// No encryption, and nobody is checked: what the protocols cost by themselves. Every endpoint but a numeric address of
    /// this machine's loopback is then refused.
    pub plaintext_for_benchmarks_only: bool,
}

impl Party {
    /// A party with default terms and default timeouts of two minutes.
    pub fn new(identity: &Identity, peer: Fingerprint, endpoint: Endpoint) -> Party {
        Party {
            identity: identity.clone(),
            peer,
            endpoint,
            connect: ConnectOptions::default(),
            protocol: ProtocolRequest::Auto,
            terms: Terms::default(),
            peer_limits: PeerLimits::default(),
            resources: Resources::default(),
            values: Vec::new(),
            labels: LabelExchange::Nothing,
            payload: None,
            group: None,
            spine_file: None,
            purpose: String::new(),
            account: None,
            noise: None,
            clamp: false,
            pad_to: None,
            allow_empty: false,
            plaintext_for_benchmarks_only: false,
        }
    }

    /// The same with another value of a [term](crate::session::terms): what both sides have to agree on.
    ///
    /// A number is such a term, and both sides name it. Its values are those of the sender's, or of both sides':
    ///
    /// ```no_run
    /// use vesica::session::terms::{REVEAL, SECURITY};
    /// use vesica::tables::ValueColumn;
    /// use vesica::{Endpoint, Identity, KeySpec, NoProgress, Party, Reveal, Role, Security, Source, SourceOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (me, peer) = (Identity::generate()?, "vs1:".parse()?);
    /// let orders = Source::open("orders.csv", SourceOptions::default())?;
    /// let key = KeySpec::parse("email", &["email=email"])?;
    /// let mut party = Party::new(&me, peer, Endpoint::Listen("0.0.0.0:7340".into()))
    ///     .with(&REVEAL, Reveal::Sum.into())
    ///     .with(&SECURITY, Security::SemiHonest);
    /// party.values = vec![ValueColumn { name: "total".into(), scale: 2, bound: 1_000_000, sums_repeated: true }];
    /// let outcome = party.run(Role::Sender, || Ok(&orders), &key, None, &mut NoProgress)?;
    /// # outcome.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The receiver's [`Report`](crate::Report) has the number in `value`, and several in `values`.
    pub fn with<T: TermValue>(mut self, term: &'static Term<T>, value: T) -> Party {
        self.terms.set(term, value);
        self
    }

    /// Checks what can be checked without a table or a peer; every run does it as well.
    ///
    /// # Errors
    /// Usage: a protocol weaker than the security asked for, a number out of range, or values that do not go with what is
    /// revealed.
    pub fn check(&self, role: Role, key: &KeySpec) -> Result<(), Error> {
        self.check_endpoint()?;
        let is_shared = self.labels.string_bytes() > 0;
        if is_shared || self.payload.is_some() && !self.labels.is_nothing() {
            let problem =
                "a side shares a payload, which `payload` names, or hands over or takes columns";
            return Err(SessionError::Usage(problem.into()).into());
        }
        Ok(self.without_table(role, key).check()?)
    }

    /// What the peer hears of the columns of values.
    pub fn value_terms(&self) -> Vec<ValueTerms> {
        self.values.iter().map(value_terms).collect()
    }

    fn check_endpoint(&self) -> Result<(), Error> {
        let address: Option<SocketAddr> = self.endpoint.to_string().parse().ok();
        let is_local = address.is_some_and(|address| address.ip().is_loopback());
        match is_local || !self.plaintext_for_benchmarks_only {
            true => Ok(()),
            false => {
                let problem = format!("{}: plaintext stays on the loopback", self.endpoint);
                Err(SessionError::Usage(problem).into())
            }
        }
    }

    /// How often a run reads the table.
    pub fn passes(&self, role: Role) -> Passes {
        match Gets::of(role, &self.terms) {
            Gets::Rows => Passes::Two,
            Gets::Nothing | Gets::Shares | Gets::PeerRows => Passes::One,
        }
    }

    /// The job but for what the table and the store determine.
    fn without_table(&self, role: Role, key: &KeySpec) -> Job {
        let shared = |payload: &PayloadColumn| LabelExchange::Shared {
            bytes: payload.bytes,
        };
        Job {
            protocol: self.protocol.clone(),
            terms: self.terms.clone(),
            values: self.value_terms(),
            groups: self.group.as_ref().map(GroupColumn::of_no_keys),
            peer_limits: self.peer_limits,
            labels: self.payload.as_ref().map_or(self.labels.clone(), shared),
            purpose: self.purpose.clone(),
            noise: self.noise.clone(),
            pad_to: self.pad_to,
            ..Job::new(role, Vec::new())
        }
        .with(&RECEIPTS, self.account.is_some())
        .with(&NORMALIZATION, key.normalization())
        .with(&KEY_BITS, key.bits())
    }

    /// The job but for what the table determines; `rows` if they are known.
    pub(crate) fn job(&self, role: Role, key: &KeySpec, rows: Rows) -> Result<Job, Error> {
        let mut job = Job {
            offline: self.halves()?,
            ..self.without_table(role, key)
        };
        if rows == Rows::Aligned {
            job.terms.set(&LEARNS, Learns::Aligned);
        }
        check_identifiers(key, &job.terms)?;
        job.check()?;
        self.check_noise()?;
        if let Some(account) = &self.account {
            account.check_rules()?;
        }
        job.check_offline()?;
        if self.resources.work_dir.is_some() {
            only_key("a work directory", self.peer, &self.connect)?;
        }
        if job.terms.has_more() && self.resources.work_dir.is_some() {
            let problem = "a work directory is for runs without terms of the program";
            return Err(vesica_session::Error::Usage(problem.into()).into());
        }
        if job.groups.is_some() && self.resources.work_dir.is_some() {
            let problem = "numbers by group are had without a work directory";
            return Err(SessionError::Usage(problem.into()).into());
        }
        let is_ids = job.terms.get(&REVEAL).is_ids();
        if is_ids && self.resources.work_dir.is_some() {
            let problem =
                "ids are made without a work directory: a run that goes on would make others";
            return Err(SessionError::Usage(problem.into()).into());
        }
        if self.spine_file.is_some() && !is_ids {
            let problem = "a file for the list of all ids is for runs that reveal ids";
            return Err(SessionError::Usage(problem.into()).into());
        }
        if !job.labels.is_nothing() && (self.resources.work_dir.is_some() || job.offline.is_some())
        {
            let problem = "columns are handed over or shared without a work directory and without stored correlations";
            return Err(vesica_session::Error::Usage(problem.into()).into());
        }
        Ok(job)
    }

    /// Whether this side can keep what its noise promises.
    fn check_noise(&self) -> Result<(), Error> {
        if self.noise.is_none() {
            return Ok(());
        }
        if self.resources.work_dir.is_some() {
            let problem = "a work directory is for runs without epsilon: a run that goes on would tell other noise \
                           of the same keys";
            return Err(SessionError::Usage(problem.into()).into());
        }
        match self.account {
            Some(_) => Ok(()),
            None => Err(Error::Usage {
                problem: "an epsilon is spent, and nobody would know how much of it is".into(),
                remedy: Some(advice![
                    "keep account with ",
                    Argument::Ledger,
                    ", in one file for all runs over this table",
                ]),
            }),
        }
    }

    /// The store of which the run takes a half.
    #[cfg(feature = "offline")]
    fn halves(&self) -> Result<Option<Arc<dyn HalfSource>>, Error> {
        let attested = self.resources.attested.clone();
        let Some(directory) = &self.resources.offline_store else {
            return match attested {
                Some(_) => {
                    let problem = "what a dealer has shown is a matter of stored correlations";
                    Err(SessionError::Usage(problem.into()).into())
                }
                None => Ok(None),
            };
        };
        let store = vesica_offline::OfflineStore::open(directory, &self.identity)?;
        Ok(Some(Arc::new(store.with_attested(attested))))
    }

    #[cfg(not(feature = "offline"))]
    fn halves(&self) -> Result<Option<Arc<dyn HalfSource>>, Error> {
        match (&self.resources.offline_store, &self.resources.attested) {
            (None, None) => Ok(None),
            _ => {
                Err(SessionError::Usage("stored correlations are not in this build".into()).into())
            }
        }
    }
}

/// Fails for what cannot be had of rows that match by any of several identifiers.
fn check_identifiers(key: &KeySpec, terms: &Terms) -> Result<(), Error> {
    let reveals_matches = terms.get(&REVEAL) == Reveal::Matches;
    let problem = match terms.get(&LEARNS) {
        _ if key.identifiers().is_empty() => return Ok(()),
        Learns::Aligned if reveals_matches => {
            "rows that match by any of several identifiers are in no order that both sides share"
        }
        _ if reveals_matches => return Ok(()),
        _ => {
            "rows that match by any of several identifiers can be found, and not counted, summed or shared: a row with two \
             matches would count twice"
        }
    };
    Err(SessionError::Usage(problem.into()).into())
}

/// How a job divides its memory: whether more than the protocol needs its keys while it runs.
fn division(job: &Job) -> Division {
    let goes_with_keys = job.get(&REVEAL).is_ids()
        || job.groups.is_some()
        || !job.values.is_empty()
        || !job.labels.is_nothing();
    Division::of_run(goes_with_keys || job.terms.get(&LEARNS) == Learns::Aligned)
}

/// What the contract says of a column of values.
fn value_terms(column: &ValueColumn) -> ValueTerms {
    ValueTerms {
        bound: column.bound,
        scale: column.scale,
        repeated: match column.sums_repeated {
            true => RepeatedKeys::Sum,
            false => RepeatedKeys::Refuse,
        },
    }
}

/// The job in words, by which an earlier run is recognised.
pub(crate) fn words(job: &Job) -> String {
    format!("{} {} {}", job.role, job.protocol, job.terms.in_words())
}
