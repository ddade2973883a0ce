//! A run, from the table of one side to its result.

use std::path::{Path, PathBuf};

use vesica_files::{Advice, Argument, Command, DirectoryKind, advice};
use vesica_session::terms::{KEY_CLASSES, LEARNS, NORMALIZATION, REVEAL};
use vesica_session::{
    Agreed, Contract, Error as SessionError, Fingerprint, Intent, Job, LabelExchange, Learns,
    Report, Reveal, Role, with_threads,
};
use vesica_tables::{
    Check, ColumnType, Destination, KeyClass, KeySpec, Matched, Output, Passes, PathKind, RowSet,
    Rows, Source, SourceOptions, check_within,
};
use vesica_wire::{Error as WireError, Limit};

use super::{Brings, Gets, Party, check_identifiers, words};
use crate::account::{self, Opening};
use crate::apart::check_apart;
use crate::kept::Kept;
use crate::memory::{Budget, Division};
use crate::options::text_columns;
use crate::spine::{id_columns, write_ids};
use crate::stored::{CheckpointStore, Stored, columns_beside_own, columns_of_peer};
use crate::table::{self, Reading, beside};
use crate::work_dir::{self, Journal, Owner, WorkDir};
use crate::{Error, ErrorClass, Event, Observer, OfRun};

/// The table of a run, and where its result goes.
pub(crate) struct Ready<'a> {
    pub(crate) source: &'a Source,
    pub(crate) file: Option<Output>,
    /// Where the list of all ids goes.
    list: Option<Output>,
    /// The directory for what does not fit into memory.
    scratch: PathBuf,
    work: Option<(WorkDir, Option<Journal>)>,
    /// What this side writes down of the run, if it keeps account.
    pub(crate) opening: Option<Opening>,
}

impl<'a> Ready<'a> {
    /// Whether this side's rules allow the run with this peer.
    pub(crate) fn admit(&self, job: &Job, peer: Fingerprint) -> Result<(), Error> {
        let opening = self.opening.as_ref();
        opening.map_or(Ok(()), |opening| opening.admit(peer, job))
    }

    /// A table of which no rows are written.
    pub(super) fn without_rows(source: &'a Source, scratch: &Path) -> Ready<'a> {
        Ready {
            source,
            file: None,
            list: None,
            scratch: scratch.to_owned(),
            work: None,
            opening: None,
        }
    }
}

impl Party {
    /// Runs one side, from its table to its result: meets the peer, and gets what the terms give to a side with this role
    /// ([`Gets`]).
    ///
    /// `open` opens the table, once this side has begun to meet its peer: however long a query takes or whoever writes a pipe,
    /// the peer hears that this side is there. It is called once, on a thread of its own perhaps.
    ///
    /// The matching rows of the table have all columns and the order of the input. Its options may ask for the other rows, for all
    /// with a mark, or, where both sides learn the matches, for one order on both sides ([`Rows`]). If there is an
    /// `output`, they are written to it in the format of its name, or else of the table; otherwise, or besides, the outcome
    /// has them, and [`select_rows`](crate::select_rows) makes record batches of them, reading the table once more. There
    /// are none if fewer keys match than [`Reveal::ThresholdMatches`] asks for, which the report says.
    ///
    /// In a union the `output` is a CSV table with the columns that the sender hands over of its keys that this side lacks. Rows are
    /// in random order, and a key that the sender has in several rows is there once, unless it hands over more.
    ///
    /// Where ids are revealed, both sides' results are their rows with a key, with the columns `spine_row`, the place of the key's
    /// id in the list of all, counted from 1, and `spine_id`, the id in hexadecimal digits. [`Party::spine_file`] gets that list.
    ///
    /// Shares are written to the `output`, a CSV table with a line for each cell of a hash table, the same on both sides.
    /// The columns are `row` (the first row of the table with the key in the cell, counted from 1; empty if there is none,
    /// and on the receiver alone), `match` (a bit; the two sides' differ where the cell matches), and `receiver_value` and
    /// `sender_value` where those sides have values (the two sides' sum modulo 2^64 is the key's value where the cell
    /// matches, and 0 elsewhere); of several, `receiver_value_1` and so on. A run in buckets writes the lines of each once it
    /// is over. A key that both tables have is in one cell or in three, and matches in exactly one of
    /// them.
    ///
    /// `-` is standard output. The output is opened before the contract is agreed, and appears under its name only once it is
    /// complete; rows go to a table of a database in one transaction, once all of them are there. A dishonest receiver
    /// can lie to a sender about the matches.
    ///
    /// # Errors
    /// Any [`Error`]; no output file is left then. [`Party::check_table`] finds those of the table without a peer; here the peer
    /// is told of them, for which it is awaited for some seconds. A connected peer has been told, unless its part was already complete:
    /// writing the rows concerns this side alone. Usage: an output for a side that gets nothing, or none for shares.
    pub fn run<'a>(
        &self,
        role: Role,
        open: impl FnOnce() -> Result<&'a Source, Error> + Send,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        self.check_endpoint()?;
        let intent = Intent::Run(role);
        let job = self.job(role, key, Rows::Matching);
        let job = job.inspect_err(|error| self.tell_of(intent, error))?;
        with_threads(self.resources.threads, || {
            self.run_job(job, open, key, output, observer)
        })?
    }

    /// How a table is opened that is to be checked, where nothing else is asked for.
    pub fn options_of_check(&self) -> SourceOptions {
        SourceOptions {
            passes: match self.brings_columns() {
                true => Passes::Two,
                false => Passes::One,
            },
            allow_no_rows: self.allow_empty,
            memory: self.resources.memory,
            ..SourceOptions::default()
        }
    }

    /// Whether something goes with the keys of the table.
    fn brings_columns(&self) -> bool {
        !self.values.is_empty()
            || !self.labels.is_nothing()
            || self.payload.is_some()
            || self.group.is_some()
    }

    /// What a run in this role would see of a table, without a peer. Shows the keys of the first `show` rows. What does not
    /// fit into memory goes to the system's directory for temporary files.
    ///
    /// # Errors
    /// Those of a run that its options cause, and of a table that cannot be read to its end.
    pub fn check_table(
        &self,
        role: Role,
        source: &Source,
        key: &KeySpec,
        show: usize,
        observer: &mut dyn Observer,
    ) -> Result<Checked, Error> {
        let mut job = with_column_types(self.job(role, key, Rows::Matching)?, source, key)?;
        let directory = std::env::temp_dir();
        let labels = text_columns(key, &self.labels, None, None)?;
        let division = Division::of_run(self.labels != LabelExchange::Nothing);
        let memory = Budget::new(self.resources.memory, division).keys;
        with_threads(self.resources.threads, || {
            let check = check_within(source, key, labels.as_ref(), show, memory, &directory)?;
            let refusal = match check.counts.items {
                0 if !self.allow_empty => Some(Error::NoKeys(Box::new(check.counts))),
                _ if self.brings_columns() => {
                    let mut ready = Ready::without_rows(source, &directory);
                    let keys = self.read(&job, key, &mut ready, observer);
                    let groups = keys.and_then(|keys| self.set_groups(&mut job, &keys, observer));
                    groups.err()
                }
                _ => None,
            };
            Ok(Checked { check, refusal })
        })?
    }

    /// What to do after a run that has failed with this error, if it has left something in its work directory that another
    /// run resumes.
    pub fn resume_hint(&self, error: &Error) -> Option<Advice> {
        let may_pass = match error.class() {
            ErrorClass::Network | ErrorClass::Resource | ErrorClass::Interrupted => true,
            ErrorClass::Data => error.may_pass(),
            ErrorClass::Usage | ErrorClass::Peer | ErrorClass::Contract => false,
        };
        let work_dir = self.resources.work_dir.as_deref()?;
        (may_pass && work_dir::has_journal(work_dir)).then(|| {
            "the work directory keeps what is done: the same run again, to another output if need be, resumes it, with the peer \
             unless the answer is there"
                .into()
        })
    }

    /// Fails for rows that a result cannot have.
    fn check_rows(
        &self,
        role: Role,
        rows: Rows,
        output: Option<Destination<'_>>,
    ) -> Result<(), Error> {
        let reveal = self.terms.get(&REVEAL);
        let problem = match (Gets::of(role, &self.terms), output, rows) {
            (Gets::Nothing, Some(_), _) => "this side gets no rows or shares for an output",
            (Gets::Shares, output, _) if output.and_then(Destination::path).is_none() => {
                "shares go to a file"
            }
            (Gets::PeerRows, output, _) if output.and_then(Destination::path).is_none() => {
                "the peer's rows go to a file"
            }
            (_, _, rows) if rows != Rows::Matching && reveal != Reveal::Matches => {
                "the rest, or all rows with a mark, are for runs that reveal the matches in any case"
            }
            (_, _, Rows::Aligned) if self.labels.has_slots() => {
                "rows with several of the peer's are in no order that both sides share"
            }
            (_, _, Rows::Aligned) if !self.terms.get(&LEARNS).is_both() => {
                "rows are in one order on both sides where both learn the matches"
            }
            (_, _, rows) if rows != Rows::Aligned && self.terms.get(&LEARNS) == Learns::Aligned => {
                "where both learn the matches in one order, the rows come in that order"
            }
            _ => "",
        };
        match problem.is_empty() {
            true => Ok(()),
            false => Err(vesica_session::Error::Usage(problem.into()).into()),
        }
    }

    fn run_job<'a>(
        &self,
        job: Job,
        open: impl FnOnce() -> Result<&'a Source, Error>,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let (role, intent) = (job.role, Intent::Run(job.role));
        let begin = |observer: &mut dyn Observer| self.begin(job, open()?, key, output, observer);
        let (mut begin, mut begun) = (Some(begin), None);
        if self.may_have_an_answer(role)
            && let Some(begin) = begin.take()
        {
            let (job, mut keys, mut ready) =
                begin(observer).inspect_err(|error| self.tell_of(intent, error))?;
            if let Some((state, computed)) = keys.answer() {
                if let Some(opening) = &mut ready.opening {
                    opening.goes_on(&state.run_name())?;
                }
                // Do not connect unless the table has changed, and have no open port: the time when it closes would
                // say how long writing took, and so how many rows matched.
                self.endpoint.close();
                observer.event(Event::Answered(computed));
                let report = Report::of_earlier(&state, role, self.peer, computed);
                let written = self.write(ready.source, ready.file, keys, report, observer);
                return self.ended(ready.opening.as_ref(), written, observer);
            }
            begun = Some((job, keys, ready));
        }
        // A peer that is early finds an open port, which closes once the contract is agreed.
        let listener = self.bind(observer)?;
        let read = |observer: &mut dyn Observer| match (begun, begin) {
            (Some(begun), _) => Ok(begun),
            (None, begin) => begin.expect("one of both")(observer),
        };
        let admit = |ready: &Ready<'_>, job: &Job, peer| ready.admit(job, peer);
        let ((job, keys, mut ready), mut agreed) =
            self.agree(intent, None, (read, admit), listener, observer)?;
        observer.event(Event::Agreed(agreed.contract()));
        observer.consent().inspect_err(|_| give_up(&mut agreed))?;
        check_columns_of_peer(role, ready.source, ready.file.as_ref(), &mut agreed)?;
        check_buckets_of_union(role, key, &mut agreed)?;
        let mut opening = ready.opening.take();
        self.begin_account(opening.as_mut(), role, &mut agreed, observer)
            .inspect_err(|_| give_up(&mut agreed))?;
        let ran = self.run_agreed(&job, keys, ready, agreed, observer);
        self.ended(opening.as_ref(), ran, observer)
    }

    /// The run has ended for this side.
    fn ended(
        &self,
        opening: Option<&Opening>,
        ran: Result<Outcome, Error>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        if let Some(opening) = opening {
            let answer = |outcome: &Outcome| account::answer(outcome.report());
            opening.end(ran.as_ref().map(answer), observer);
        }
        ran
    }

    /// The run, once both sides have all that they want to have before it.
    fn run_agreed(
        &self,
        job: &Job,
        mut keys: Stored,
        ready: Ready<'_>,
        agreed: Agreed,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let Ready {
            source, file, list, ..
        } = ready;
        list.into_iter().for_each(|file| keys.list_ids_in(file));
        let file = match Gets::of(job.role, &job.terms) {
            Gets::Shares => {
                file.into_iter().for_each(|file| keys.share_to(file));
                None
            }
            Gets::PeerRows => {
                file.into_iter()
                    .for_each(|file| keys.write_rows_of_peer_to(file));
                None
            }
            Gets::Nothing | Gets::Rows => file,
        };
        let report = agreed.run(job, &mut keys, &mut OfRun(observer))?;
        if let Some(why) = keys.confirmed() {
            observer.event(Event::Warning(
                &format!("the answer is not kept: {why}").into(),
            ));
        }
        self.write(source, file, keys, report, observer)
    }

    /// Whether an earlier run may have left an answer that is written without the peer.
    fn may_have_an_answer(&self, role: Role) -> bool {
        let work_dir = self.resources.work_dir.as_deref();
        Gets::of(role, &self.terms) != Gets::Nothing
            && work_dir.is_some_and(|path| work_dir::has_answer(path, &self.identity))
    }

    /// Reads a table for a run, for which the output is opened.
    fn begin<'a>(
        &self,
        job: Job,
        source: &'a Source,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Brings<Stored, Ready<'a>>, Error> {
        self.check_rows(job.role, source.rows(), output)?;
        let mut job = with_column_types(job, source, key)?;
        let mut ready = self.prepare(&job, source, output, observer)?;
        let keys = self.read(&job, key, &mut ready, observer)?;
        self.set_groups(&mut job, &keys, observer)?;
        let command = match job.role {
            Role::Receiver => "receive",
            Role::Sender => "send",
        };
        let named = (job.role, command);
        ready.opening = self.opening(named, source, key, &keys, observer)?;
        Ok((job, keys, ready))
    }

    /// The groups of the keys, if this side wants numbers of each.
    fn set_groups(
        &self,
        job: &mut Job,
        keys: &Stored,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some(column) = &self.group else {
            return Ok(());
        };
        let grouping = column.of_keys(keys.counts().items, keys.groups())?;
        for (name, _) in grouping.groups.iter().filter(|(_, keys)| *keys == 0) {
            let warning = format!("no key is in group {name:?}");
            observer.event(Event::Warning(&warning.into()));
        }
        job.groups = Some(grouping);
        Ok(job.check()?)
    }

    /// What comes before the table is read: the work directory and the output.
    pub(crate) fn prepare<'a>(
        &self,
        job: &Job,
        source: &'a Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Ready<'a>, Error> {
        self.check_apart(source, output)?;
        warn_of_weights(job, observer);
        let work = self.work_dir(job)?;
        let gets = Gets::of(job.role, &job.terms);
        let scratch = match &work {
            Some((work, _)) => work.path().to_owned(),
            None => beside(output),
        };
        let file = match (gets, output.and_then(Destination::path)) {
            (Gets::Shares | Gets::PeerRows, Some(path)) => Some(Output::create_csv(path, source)?),
            _ => table::open(source, output, &scratch, self.adds_texts())?,
        };
        let list = self.spine_file.as_deref();
        let list = list.map(|path| Output::create_csv(path, source));
        Ok(Ready {
            source,
            file,
            list: list.transpose()?,
            scratch,
            work,
            opening: None,
        })
    }

    /// Whether rows of the result have columns of the peer, or ids.
    fn adds_texts(&self) -> bool {
        let reveal = self.terms.get(&REVEAL);
        let takes = matches!(self.labels, LabelExchange::Wanted { .. }) && !reveal.is_rows();
        takes || reveal.is_ids()
    }

    /// Refuses an output in the place of what is read, or in a directory that belongs to the run.
    fn check_apart(&self, source: &Source, output: Option<Destination<'_>>) -> Result<(), Error> {
        let owned = [
            (
                "the work directory",
                DirectoryKind::WorkDir,
                &self.resources.work_dir,
            ),
            (
                "the store",
                DirectoryKind::Store,
                &self.resources.offline_store,
            ),
        ];
        check_apart(&[source], output, |paths| {
            for (what, kind, directory) in owned {
                if let Some(directory) = directory {
                    paths.writes(what, PathKind::Directory(kind), directory);
                }
            }
            if let Some(account) = &self.account {
                paths.writes("the ledger", PathKind::File, &account.ledger);
            }
            if let Some(file) = &self.spine_file {
                paths.writes("the list of ids", PathKind::File, file);
            }
        })
    }

    /// First pass: the keys of the table.
    pub(crate) fn read(
        &self,
        job: &Job,
        key: &KeySpec,
        ready: &mut Ready<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Stored, Error> {
        let budget = self.resources.budget(job);
        let (payload, group) = (self.payload.as_ref(), self.group.as_ref());
        let texts = text_columns(key, &self.labels, payload, group)?;
        let reading = Reading {
            key,
            values: &self.values,
            texts,
            budget: &budget,
            scratch: &ready.scratch,
            file: ready.file.as_ref(),
            adds_texts: self.adds_texts(),
            allow_empty: self.allow_empty,
            interrupt: &self.connect.interrupt,
        };
        let keys = reading.keys(ready.source, observer)?;
        let work = ready.work.take();
        let checkpoints =
            work.map(|(work, earlier)| CheckpointStore::new(work, job.role, earlier, &keys));
        let scratch = ready.scratch.clone();
        Ok(Stored::new(keys, budget, scratch, checkpoints))
    }

    /// Second pass, if there is a file to write: the matching rows or shares, and the report's figures about the
    /// table.
    pub(crate) fn write(
        &self,
        source: &Source,
        file: Option<Output>,
        mut keys: Stored,
        mut report: Report,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let counts = keys.counts();
        report.rows = counts.rows;
        report.duplicates = counts.duplicates;
        report.blanks = counts.blanks;
        report.invalid = counts.invalid;
        report.denied = counts.denied;
        if self.clamp {
            report.clamp();
        }
        let labels = report.contract.labels.clone();
        let interrupt = &self.connect.interrupt;
        let of_peer = keys.rows_of_peer().zip(labels.as_ref());
        report.rows_written = if let Some(((file, rows), terms)) = of_peer {
            let (columns, each) = (columns_of_peer(terms), terms.rows as usize);
            let rows = rows.as_ref();
            let written =
                table::write_rows_of_peer(file, columns, each, rows, interrupt, observer)?;
            Some(written)
        } else {
            keys.arrange(labels.as_ref())?;
            table::write(source, file, keys.matched_rows(), interrupt, observer)?
        };
        if let Some((file, spine)) = keys.listed() {
            write_ids(file, spine)?;
        }
        if let Some(shared) = keys.shared() {
            self.connect.interrupt.check().map_err(SessionError::from)?;
            shared.commit()?;
        }
        Ok(Outcome {
            keys,
            report,
            courier: None,
        })
    }

    /// The work directory, and what an earlier run left in it.
    fn work_dir(&self, job: &Job) -> Result<Option<(WorkDir, Option<Journal>)>, Error> {
        let Some(path) = &self.resources.work_dir else {
            return Ok(None);
        };
        let owner = Owner {
            peer: self.peer.to_string(),
            terms: words(job),
        };
        WorkDir::open(path, work_dir::Keys::of(&self.identity), owner).map(Some)
    }
}

/// Fails if the result cannot have the columns that the sender hands over, which the contract names; nothing derived from a
/// key has been sent by then. The peer is told that this side cannot take part, and not why.
fn check_columns_of_peer(
    role: Role,
    source: &Source,
    file: Option<&Output>,
    agreed: &mut Agreed,
) -> Result<(), Error> {
    let contract = agreed.contract();
    let columns = match (role, &contract.labels) {
        _ if contract.get(&REVEAL).is_ids() => id_columns(),
        // Rows of a union are a table of their own.
        (Role::Receiver, Some(terms)) if !contract.get(&REVEAL).is_rows() => {
            columns_beside_own(terms)
        }
        _ => return Ok(()),
    };
    let Some(file) = file else {
        return Ok(());
    };
    let checked = file.check_columns(source, &columns);
    checked.map_err(|error| {
        // Which columns the result's table has is not for the peer.
        give_up(agreed);
        error.into()
    })
}

/// Fails if rows of this side would come bucket by bucket and their keys not with them. The bucket of a row is a hash of its key,
/// which the peer could compare with guesses.
fn check_buckets_of_union(role: Role, key: &KeySpec, agreed: &mut Agreed) -> Result<(), Error> {
    let contract = agreed.contract();
    let (Role::Sender, Some(terms)) = (role, &contract.labels) else {
        return Ok(());
    };
    let has_key = key.names().iter().all(|name| terms.columns.contains(name));
    if has_key || contract.buckets == 1 || !contract.get(&REVEAL).is_rows() {
        return Ok(());
    }
    give_up(agreed);
    Err(Error::Usage {
        problem: "in several buckets the rows of a union would tell of their keys, which are not handed over".into(),
        remedy: Some(advice![
            "name the key columns in ",
            Argument::Payload,
            " too, or give both sides more ",
            Argument::Memory,
        ]),
    })
}

/// Tells the peer that this side cannot take part, and not why.
fn give_up(agreed: &mut Agreed) {
    agreed.give_up(&cannot_take_part());
}

/// What a peer hears of a side that does not take part for reasons of its own.
pub(crate) fn cannot_take_part() -> WireError {
    WireError::limit(Limit::System, "it cannot take part")
}

/// With what a table determines: the order of its rows, the classes of key columns, and the types of the columns that are
/// handed over.
pub(crate) fn with_column_types(
    mut job: Job,
    source: &Source,
    key: &KeySpec,
) -> Result<Job, Error> {
    if source.rows() == Rows::Aligned {
        job.terms.set(&LEARNS, Learns::Aligned);
        check_identifiers(key, &job.terms)?;
        job.check()?;
    }
    let classes = source.key_classes(key)?;
    let classes = classes.iter().map(|class| class.name().to_owned());
    job.terms.set(&KEY_CLASSES, classes.collect());
    if let LabelExchange::Offered(terms) = &mut job.labels {
        let types = source.column_types(&terms.columns)?;
        terms.types = types.iter().map(ColumnType::to_string).collect();
    }
    Ok(job)
}

/// Warns where a minimum does not bound what a result tells.
pub(super) fn warn_of_weights(job: &Job, observer: &mut dyn Observer) {
    if job.leaves_weights_free() {
        observer.event(Event::Warning(&advice![
            "the peer chooses its values and groups, and a result over large values, over several columns or by several \
             groups can tell which of its keys match, however large ",
            Argument::MinSize,
            " is; ",
            Argument::MaxPeerValueBound,
            ", ",
            Argument::MaxPeerValues,
            " and ",
            Argument::MaxPeerGroups,
            " limit them",
        ]));
    }
}

/// Warns of key columns whose texts are likely to differ where their values do not.
pub(crate) fn warn_of_classes(contract: &Contract, observer: &mut dyn Observer) {
    let (normalizations, classes) = (contract.get(&NORMALIZATION), contract.get(&KEY_CLASSES));
    for ((at, normalization), class) in (1..).zip(&normalizations).zip(&classes) {
        if let Some((one, other)) = KeyClass::apart(class, normalization) {
            observer.event(Event::Warning(&advice![
                format!(
                    "key column {at} is {one} on one side and {other} on the other, and values are compared by their texts: \
                     look at "
                ),
                Command::Check,
                " on both sides, and at ",
                Argument::Normalize,
            ]));
        }
    }
}

/// What a check has found.
#[derive(Debug)]
pub struct Checked {
    /// Of the table.
    pub check: Check,
    /// What a run would refuse of it.
    pub refusal: Option<Error>,
}

/// What a side has after a run.
///
/// Where there is a work directory, the answer stays in it until [`Outcome::finish`]: a program that ends
/// before its rows are safe gets them again without the peer. A run by courier can be finished again until then.
pub struct Outcome {
    keys: Stored,
    report: Report,
    /// The directory of a run by courier, which goes on until its rows are safe.
    courier: Option<Box<Kept>>,
}

impl Outcome {
    /// Has [`Outcome::finish`] say in the directory of a run by courier that it is over.
    pub(crate) fn end_with(&mut self, kept: Kept) {
        self.courier = Some(Box::new(kept));
    }

    /// The rows that matched.
    pub fn rows(&self) -> &RowSet {
        self.keys.matched()
    }

    /// The rows that matched, with the columns that the peer has handed over, and in the order that both sides share if
    /// the options of the source ask for it ([`Rows::Aligned`]).
    pub fn matched(&self) -> Matched<'_> {
        self.keys.matched_rows()
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Says that the rows are safe, and removes what was kept of the run.
    ///
    /// # Errors
    /// Resource: the kept answer cannot be removed, and another run would take it for its own.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.keys.finish()?;
        if let Some(kept) = &mut self.courier {
            kept.end()?;
        }
        Ok(self.report)
    }
}

/// What to look at after a run in which both sides have keys and none is the same: mostly they are written differently.
pub fn no_match_hint(report: &Report) -> Option<Advice> {
    let hint = advice![
        "no key matches; compare what ",
        Command::Check,
        " says on both sides (types, delimiter, white space, leading zeros), and see ",
        Argument::Normalize,
    ];
    (report.matches == Some(0) && report.items > 0 && report.peer_items > 0).then_some(hint)
}
