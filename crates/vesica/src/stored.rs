//! The keys of a table in the form that a run uses, and the way back from them to rows.

use std::iter;
use std::path::PathBuf;
use std::time::SystemTime;

use vesica_keys::{KeyBlock, KeyStore};
use vesica_psi::{Output, Shares, Spine, matched_items};
use vesica_session::terms::{MIN_SIZE, REVEAL};
use vesica_session::{Assignment, Checkpoint, KeySet, LabelTerms, Reveal, Role, State};
use vesica_tables::{
    ColumnType, Counts, HandedOver, ItemRows, Matched, Output as TableFile, PeerColumn, RowSet,
    TableKeys, arrange,
};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::Error;
use crate::memory::Budget;
use crate::peer_rows::PeerRows;
use crate::shares::ShareTable;
use crate::spine::{id_columns, id_labels};
use crate::withheld::Withheld;
use crate::work_dir::{Head, Journal, WorkDir};

/// The keys of a table, its matching rows, and what a work directory keeps of them.
pub(crate) struct Stored {
    keys: KeyStore,
    counts: Counts,
    /// The directory for files of keys.
    directory: PathBuf,
    /// What matched in the finished buckets: rows, or items of rows that have several.
    matched: RowSet,
    /// The way from items to rows, and the rows of those that matched if they are others, once all is over.
    item_rows: ItemRows,
    rows: Option<RowSet>,
    budget: Budget,
    /// The columns that the peer hands over, once they are agreed, for up to so many of its rows with one key.
    of_peer: Vec<PeerColumn>,
    rows_of_peer: usize,
    /// Whether the peer has handed over labels, which are arranged.
    has_labels: bool,
    /// The key of the order that the matches have on both sides, if they have one.
    order_key: Option<[u8; 32]>,
    /// Where shares go.
    shares: Option<ShareTable>,
    /// Those of the buckets whose matches are not opened yet.
    withheld: Option<Withheld>,
    /// What the peer has handed over in a union, and where that goes.
    peer_rows: Option<PeerRows>,
    peer_table: Option<TableFile>,
    /// All ids, if the run made some, and where their list goes.
    spine: Option<Spine>,
    id_table: Option<TableFile>,
    checkpoints: Option<CheckpointStore>,
}

/// The state from which another run can resume.
pub(crate) struct CheckpointStore {
    work: WorkDir,
    role: Role,
    /// What an earlier run left, until this one begins.
    earlier: Option<Journal>,
    /// What a journal calls this run's keys.
    input: [u8; 32],
    /// What the journal says about the whole answer, once this run has found it.
    answer: Option<Head>,
    /// Why the whole answer could not be kept, if it could not.
    failed: Option<WireError>,
}

impl CheckpointStore {
    /// Resumes from what an earlier run left in `work`, and records the progress of this one there.
    pub(crate) fn new(
        work: WorkDir,
        role: Role,
        earlier: Option<Journal>,
        keys: &KeyStore,
    ) -> CheckpointStore {
        let input = work.keys().input(&keys.identity());
        CheckpointStore {
            work,
            role,
            earlier,
            input,
            answer: None,
            failed: None,
        }
    }
}

impl Stored {
    pub(crate) fn new(
        keys: TableKeys,
        budget: Budget,
        directory: PathBuf,
        checkpoints: Option<CheckpointStore>,
    ) -> Stored {
        let counts = *keys.counts();
        let (keys, item_rows) = keys.into_parts();
        Stored {
            matched: RowSet::none(keys.counts().rows),
            keys,
            counts,
            directory,
            item_rows,
            rows: None,
            budget,
            of_peer: Vec::new(),
            rows_of_peer: 1,
            has_labels: false,
            order_key: None,
            shares: None,
            withheld: None,
            peer_rows: None,
            peer_table: None,
            spine: None,
            id_table: None,
            checkpoints,
        }
    }

    /// The label of each group, and how many keys it has.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.keys.groups()
    }

    /// Writes shares to this file, bucket by bucket.
    pub(crate) fn share_to(&mut self, file: TableFile) {
        self.shares = Some(ShareTable::new(file));
    }

    /// The file of the shares, if that is where they go.
    pub(crate) fn shared(&mut self) -> Option<TableFile> {
        self.shares.take().map(ShareTable::into_file)
    }

    /// Writes rows of the peer that this side lacks to this file, once the run is over.
    pub(crate) fn write_rows_of_peer_to(&mut self, file: TableFile) {
        self.peer_table = Some(file);
    }

    /// The file for these rows, if that is what a run is for, and the rows.
    pub(crate) fn rows_of_peer(&mut self) -> Option<(TableFile, Option<PeerRows>)> {
        Some((self.peer_table.take()?, self.peer_rows.take()))
    }

    /// Writes the list of all ids to this file, once the run is over.
    pub(crate) fn list_ids_in(&mut self, file: TableFile) {
        self.id_table = Some(file);
    }

    /// The file for the list of ids, if there is one, and the ids.
    pub(crate) fn listed(&mut self) -> Option<(TableFile, &Spine)> {
        Some((self.id_table.take()?, self.spine.as_ref()?))
    }

    /// The rows that match, with what the peer has handed over and [`Stored::arrange`] has arranged, and with the order that
    /// both sides share if they agreed to one.
    pub(crate) fn matched_rows(&self) -> Matched<'_> {
        let handed_over = HandedOver::new(&self.of_peer, &self.keys).of_rows(self.rows_of_peer);
        let handed_over = self.has_labels.then_some(handed_over);
        let matched = match &self.rows {
            Some(rows) => Matched::new(rows, handed_over).by_items(&self.matched, &self.item_rows),
            None => Matched::new(&self.matched, handed_over),
        };
        self.order_key.map_or(matched, |key| {
            matched.in_order(self.keys.common_order(key, self.budget.rows))
        })
    }

    /// Finds the rows that match, once nothing is left that does, and puts what the peer has handed over under the contract, or
    /// their ids, where they find it.
    pub(crate) fn arrange(&mut self, terms: Option<&LabelTerms>) -> Result<(), Error> {
        self.rows = self.item_rows.rows_of(&self.matched);
        let ids = self.spine.as_ref().map(|_| (id_columns(), 1));
        let handed_over = || terms.map(|terms| (columns_beside_own(terms), terms.rows as usize));
        let Some((columns, rows)) = ids.or_else(handed_over) else {
            return Ok(());
        };
        (self.of_peer, self.rows_of_peer) = (columns, rows);
        let (columns, rows) = (&self.of_peer, self.rows_of_peer);
        let (directory, memory) = (&self.directory, self.budget.rows);
        let matched = &self.matched;
        self.has_labels = arrange(&mut self.keys, directory, columns, rows, matched, memory)?;
        Ok(())
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Hands over the digest of every distinct key, before a run.
    pub(crate) fn each_digest(&self, each: impl FnMut(&[u8; 32])) -> Result<(), Error> {
        Ok(self.keys.each_digest(each)?)
    }

    /// What an earlier run left, if its keys were exactly the same.
    fn resumable(&self) -> Option<&Journal> {
        let checkpoints = self.checkpoints.as_ref()?;
        let earlier = checkpoints.earlier.as_ref();
        earlier.filter(|earlier| earlier.head.input == checkpoints.input)
    }

    /// The whole answer, if an earlier run found it but did not write its rows: its state, and when it was
    /// found.
    pub(crate) fn answer(&mut self) -> Option<(State, SystemTime)> {
        self.resumable()
            .filter(|earlier| earlier.head.is_answer())?;
        let earlier = self.checkpoints.as_mut()?.earlier.take()?;
        self.matched = earlier.matched;
        self.order_key = earlier.head.state.order_key();
        Some((earlier.head.state, earlier.head.written))
    }

    /// The rows that matched.
    pub(crate) fn matched(&self) -> &RowSet {
        self.rows.as_ref().unwrap_or(&self.matched)
    }

    /// Writes the shares of a bucket.
    fn share(&mut self, bucket: u32, shares: &Shares) -> Result<(), WireError> {
        let Some(table) = &mut self.shares else {
            return Ok(());
        };
        // A sender's have no items.
        let first_rows = match &shares.items {
            Some(_) => self.keys.first_rows(bucket as usize).map_err(limit)?,
            None => Vec::new(),
        };
        table.add(shares, &first_rows).map_err(limit)
    }

    /// Keeps the shares of a bucket until its matches are opened.
    fn withhold(&mut self, bucket: u32, shares: &Shares) -> Result<(), WireError> {
        let withheld = match &mut self.withheld {
            Some(withheld) => withheld,
            none => none.insert(Withheld::create(&self.directory).map_err(limit)?),
        };
        withheld.add(bucket as usize, shares).map_err(limit)
    }

    /// Chooses the rows of a bucket whose keys match. The time does not depend on which do.
    fn mark(&mut self, bucket: u32, matched: &[bool]) -> Result<(), WireError> {
        let marked = self.keys.mark(bucket as usize, matched, &mut self.matched);
        marked.map_err(limit)
    }

    /// Keeps what goes with the keys of a bucket.
    fn keep(&mut self, bucket: u32, labels: &[u8], bytes: usize) -> Result<(), WireError> {
        let (bucket, memory) = (bucket as usize, self.budget.keys);
        let kept = self
            .keys
            .keep(bucket, labels, bytes, memory, &self.directory);
        kept.map_err(limit)
    }

    /// Records that both sides have finished; from now on this one needs no peer for its rows. Returns why
    /// the answer could not be kept, if so.
    pub(crate) fn confirmed(&mut self) -> Option<WireError> {
        let checkpoints = self.checkpoints.as_mut()?;
        if checkpoints.failed.is_none()
            && let Some(head) = &mut checkpoints.answer
            && !head.confirmed
        {
            head.confirmed = true;
            checkpoints.failed = checkpoints.work.write(head, &self.matched).err();
        }
        checkpoints.failed.take()
    }

    /// The result is in its place: nothing is kept any longer.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.checkpoints {
            Some(checkpoints) => checkpoints.work.finish(),
            None => Ok(()),
        }
    }
}

/// The columns that the peer hands over under these terms.
pub(crate) fn columns_of_peer(terms: &LabelTerms) -> Vec<PeerColumn> {
    let types = terms.types.iter().map(|name| ColumnType::named(name));
    let types = types.chain(iter::repeat(ColumnType::TEXT));
    let columns = terms.columns.iter().cloned().zip(types);
    columns.map(|(name, of)| PeerColumn { name, of }).collect()
}

/// The same with the names that they have beside this side's own.
pub(crate) fn columns_beside_own(terms: &LabelTerms) -> Vec<PeerColumn> {
    let columns = columns_of_peer(terms).into_iter();
    columns.map(PeerColumn::beside_own).collect()
}

/// Tells the peer that this side hit a limit, without naming its files.
fn limit(e: impl Into<vesica_tables::Error>) -> WireError {
    WireError::limit(Limit::Storage, e.into())
}

fn no_shares() -> WireError {
    WireError::limit(Limit::Storage, "no bucket has left shares")
}

impl KeySet for Stored {
    fn items(&self) -> u64 {
        self.counts.items
    }

    fn checkpoint(&self) -> Checkpoint {
        let earlier = self
            .checkpoints
            .as_ref()
            .and_then(|checkpoints| checkpoints.earlier.as_ref());
        match (earlier, self.resumable()) {
            (None, _) => Checkpoint::Nothing,
            (Some(_), None) => Checkpoint::OfAnotherSet,
            (Some(_), Some(journal)) => Checkpoint::State(Box::new(journal.head.state.clone())),
        }
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.order_key = state.order_key();
        self.peer_rows = None;
        // The journal stays until this run has something to replace it with.
        if let Some(checkpoints) = &mut self.checkpoints
            && let Some(earlier) = checkpoints.earlier.take()
            && !state.found.is_empty()
        {
            self.matched = earlier.matched;
            // Else shares of a bucket that runs again would stay, and the peer would have others.
            if earlier.head.state.shares.len() > state.shares.len() {
                let head = Head {
                    state: state.clone(),
                    ..earlier.head
                };
                checkpoints.work.write(&head, &self.matched)?;
            }
        }
        let assign = |digests: &[[u8; 32]]| assignment.buckets_of(digests);
        let number = assignment.buckets() as usize;
        let split = self.keys.split(&self.directory, number, assign);
        split.map_err(limit)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        let keep = self.order_key.is_some();
        self.keys.load(bucket as usize, keep).map_err(limit)
    }

    fn shares_of(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        let withheld = self.withheld.as_ref().ok_or_else(no_shares)?;
        withheld.matches(bucket as usize).map_err(limit)
    }

    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<u64, WireError> {
        let withheld = self.withheld.as_mut().ok_or_else(no_shares)?;
        let items = withheld.items(bucket as usize).map_err(limit)?;
        withheld.open(bucket as usize, matches).map_err(limit)?;
        let matched = items.iter().zip(matches);
        Ok(matched
            .map(|(item, is)| u64::from(item.is_some() & *is))
            .sum())
    }

    /// Chooses the rows. Before, the peer would see how long that takes for each bucket.
    fn all_opened(&mut self) -> Result<(), WireError> {
        let Some(withheld) = self.withheld.take() else {
            return Ok(());
        };
        for bucket in 0..withheld.opened() {
            let items = withheld.items(bucket).map_err(limit)?;
            let matches = withheld.matches(bucket).map_err(limit)?;
            self.mark(bucket as u32, &matched_items(&items, &matches))?;
        }
        Ok(())
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let learns = output.matched().is_some();
        let is_answer = learns && state.is_complete();
        let bucket = state.finished() - 1;
        if let Output::Shares(shares) = &output {
            return match state.contract.get(&REVEAL) == Reveal::Shares {
                true => self.share(bucket, shares),
                false => self.withhold(bucket, shares),
            };
        }
        if let Output::Spine(spine) = output {
            // Every key has an id.
            self.mark(bucket, &vec![true; spine.rows.len()])?;
            let (labels, bytes) = id_labels(&spine);
            self.keep(bucket, &labels, bytes)?;
            self.spine = Some(spine);
            return Ok(());
        }
        if let Some(matched) = output.matched() {
            self.mark(bucket, matched)?;
        }
        if let Output::Rows(slots) = &output {
            let rows = match &mut self.peer_rows {
                Some(rows) => rows,
                none => none.insert(PeerRows::create(&self.directory).map_err(limit)?),
            };
            rows.add(slots).map_err(limit)?;
        }
        if let Output::Labelled { labels, bytes, .. } = &output {
            self.keep(bucket, labels, *bytes)?;
        }
        // A sender that learns nothing and has one bucket has nothing to go on from. That something was kept would
        // tell the peer of the next run that a minimum was met.
        let is_shared = matches!(output, Output::NumberShares(_));
        if let Some(checkpoints) = &mut self.checkpoints
            && (learns || is_shared || !state.is_complete())
            && state.contract.get(&MIN_SIZE) == 0
        {
            let head = Head {
                owner: checkpoints.work.owner().clone(),
                input: checkpoints.input,
                state: state.clone(),
                // A time before 1970 cannot be written.
                written: SystemTime::now().max(SystemTime::UNIX_EPOCH),
                confirmed: checkpoints.role == Role::Receiver && is_answer,
                rows: self.matched.rows(),
            };
            match checkpoints.work.write(&head, &self.matched) {
                // The answer is complete, and only keeping it has failed.
                Err(why) if is_answer => checkpoints.failed = Some(why),
                written => written?,
            }
            checkpoints.answer = is_answer.then_some(head);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Division;
    use std::collections::BTreeMap;
    use std::path::Path;

    use vesica_session::terms::SECURITY;
    use vesica_session::{
        BucketShares, Identity, Job, LabelExchange, NoProgress, Report, Security, ValueTerms,
        agree, run_set_over,
    };
    use vesica_tables::{
        KeySpec, Source, SourceOptions, TextColumns, ValueColumn, read_keys_within,
    };

    use crate::work_dir::{Keys, Owner};

    const BOUND: u64 = 1 << 20;

    /// The rows of a key.
    fn rows_of(key: u64) -> usize {
        1 + usize::from(key.is_multiple_of(5))
    }

    /// A table of keys with a value and a text each, some in two rows.
    fn table(keys: std::ops::Range<u64>) -> Source {
        let rows = keys.flat_map(|key| {
            let row = format!("{key},{},t{}\n", key % 1000, key % 77);
            std::iter::repeat_n(row, rows_of(key))
        });
        let text = "k,v,t\n".to_owned() + &rows.collect::<String>();
        Source::from_bytes("t.csv", text.into(), SourceOptions::default()).unwrap()
    }

    /// What a key has after its rows are added up.
    fn value(key: u64) -> i128 {
        i128::from(key % 1000) * rows_of(key) as i128
    }

    fn stored(source: &Source, job: &Job, memory: u64, directory: &Path) -> Stored {
        let key = KeySpec::parse::<&str>("k", &[]).unwrap();
        let values = job.values.iter().map(|terms| ValueColumn {
            name: "v".into(),
            scale: terms.scale,
            bound: terms.bound,
            sums_repeated: true,
        });
        let values: Vec<_> = values.collect();
        let texts = match job.labels {
            LabelExchange::Shared { bytes } => {
                Some(TextColumns::payload(&key, "t", bytes as usize).unwrap())
            }
            _ => None,
        };
        let keys = read_keys_within(source, &key, &values, texts.as_ref(), memory, directory);
        let keys = keys.unwrap();
        assert_eq!(keys.is_in_memory(), memory > 0);
        Stored::new(
            keys,
            Budget::new(None, Division::Run),
            directory.to_owned(),
            None,
        )
    }

    fn job(role: Role, reveal: Reveal, has_values: bool, payload: u32) -> Job {
        let mut job = Job::new(role, vec!["exact/1".into()])
            .with(&SECURITY, Security::SemiHonest)
            .with(&REVEAL, reveal.into());
        if has_values {
            job.values.push(ValueTerms {
                bound: BOUND,
                scale: 0,
                repeated: vesica_session::RepeatedKeys::Sum,
            });
        }
        if payload > 0 {
            job.labels = LabelExchange::Shared { bytes: payload };
        }
        // Several buckets.
        job.memory = Some(129 << 20);
        job
    }

    /// The report of the receiver, and what both have shares of.
    fn run(
        jobs: [Job; 2],
        keys: [std::ops::Range<u64>; 2],
        on_disk: [bool; 2],
    ) -> (Report, [String; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let names = ["ours.csv", "theirs.csv"].map(|name| directory.path().join(name));
        let mut sides: Vec<_> = (0..2)
            .map(|side| {
                let source = table(keys[side].clone());
                let memory = if on_disk[side] { 0 } else { u64::MAX };
                let mut stored = stored(&source, &jobs[side], memory, directory.path());
                stored.share_to(TableFile::create_csv(&names[side], &source).unwrap());
                stored
            })
            .collect();
        let (mut near, mut far) = vesica_wire::memory_pair();
        let (theirs, ours) = (sides.pop().unwrap(), sides.pop().unwrap());
        let party = |channel: &mut dyn vesica_wire::Channel, mut set: Stored, job: &Job| {
            let report = run_set_over(channel, None, None, job, &mut set, &mut NoProgress);
            set.shared().unwrap().commit().unwrap();
            report.unwrap()
        };
        let report = std::thread::scope(|scope| {
            let sender = scope.spawn(|| party(&mut far, theirs, &jobs[1]));
            let report = party(&mut near, ours, &jobs[0]);
            sender.join().unwrap();
            report
        });
        assert!(report.contract.buckets > 2, "{}", report.contract.buckets);
        let files = names.map(|name| std::fs::read_to_string(name).unwrap());
        (report, files)
    }

    #[test]
    fn numbers_over_keys_on_disk_are_those_of_the_tables() {
        let common = 1500..4000;
        let keys = [0..4000, 1500..5000];
        for (reveal, has_values, expected) in [
            (
                Reveal::Sum,
                [false, true],
                common.clone().map(value).sum::<i128>(),
            ),
            (
                Reveal::InnerProduct,
                [true, true],
                common.map(|key| value(key) * value(key)).sum(),
            ),
        ] {
            let jobs = [
                job(Role::Receiver, reveal, has_values[0], 0),
                job(Role::Sender, reveal, has_values[1], 0),
            ];
            for on_disk in [[true, true], [false, true]] {
                let (report, _) = run(jobs.clone(), keys.clone(), on_disk);
                assert_eq!(report.value.map(|value| value.units), Some(expected));
            }
        }
    }

    #[test]
    fn matches_above_a_threshold_are_marked_wherever_keys_are() {
        let keys = [0..3000, 1000..3500];
        let rows = keys[0]
            .clone()
            .flat_map(|key| std::iter::repeat_n(key, rows_of(key)));
        let rows: Vec<u64> = rows.collect();
        for (on_disk, least) in [
            ([true, true], 2000),
            ([true, false], 2001),
            ([false, true], 2000),
            ([false, false], 2001),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let jobs = [Role::Receiver, Role::Sender]
                .map(|role| job(role, Reveal::ThresholdMatches, false, 0).with(&MIN_SIZE, least));
            let [mut ours, mut theirs] = [0, 1].map(|side| {
                let memory = if on_disk[side] { 0 } else { u64::MAX };
                stored(
                    &table(keys[side].clone()),
                    &jobs[side],
                    memory,
                    directory.path(),
                )
            });
            let (mut a, mut b) = vesica_wire::memory_pair();
            let party = |channel: &mut dyn vesica_wire::Channel, set: &mut Stored, job: &Job| {
                run_set_over(channel, None, None, job, set, &mut NoProgress).unwrap()
            };
            let (near, far) = std::thread::scope(|scope| {
                let sender = scope.spawn(|| party(&mut b, &mut theirs, &jobs[1]));
                (party(&mut a, &mut ours, &jobs[0]), sender.join().unwrap())
            });
            assert!(near.contract.buckets > 2, "{}", near.contract.buckets);
            let is_met = least <= 2000;
            assert_eq!(
                [near.matches, near.below],
                [is_met.then_some(2000), (!is_met).then_some(least)]
            );
            assert_eq!([far.matches, far.below], [None; 2]);
            for (row, key) in (0..).zip(&rows) {
                assert_eq!(
                    ours.matched().contains(row),
                    is_met && *key >= 1000,
                    "{row}"
                );
            }
            assert_eq!(theirs.matched().iter().count(), 0);
            // What was kept has no name.
            assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        }
    }

    /// What runs again leaves other shares on both sides, so that those that were kept are gone before it does.
    #[test]
    fn shares_of_buckets_that_run_again_are_not_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let identity = Identity::generate().unwrap();
        let open = || {
            let owner = Owner {
                peer: "vs1:peer".into(),
                terms: "receiver size".into(),
            };
            WorkDir::open(&path, Keys::of(&identity), owner).unwrap()
        };
        let job = |role| job(role, Reveal::Size, false, 0);
        let agree = |channel: &mut dyn vesica_wire::Channel, role| {
            let nothing = &Checkpoint::Nothing;
            agree(channel, &job(role), 3000, nothing, None, None).unwrap()
        };
        let (mut a, mut b) = vesica_wire::memory_pair();
        let agreement = std::thread::scope(|scope| {
            scope.spawn(|| agree(&mut b, Role::Sender));
            agree(&mut a, Role::Receiver)
        });
        let buckets = agreement.contract.buckets;
        let of_bucket = |bucket: u32| BucketShares {
            attempt: [bucket as u8; 32],
            shares: Zeroizing::new(vec![bucket.into()]),
        };
        let after = |finished: u32| State {
            found: vec![0; finished as usize],
            shares: (0..finished).map(of_bucket).collect(),
            ..agreement.state.clone()
        };
        let set = |(work, earlier)| {
            let mut set = stored(
                &table(0..3000),
                &job(Role::Receiver),
                u64::MAX,
                place.path(),
            );
            set.checkpoints = Some(CheckpointStore::new(
                work,
                Role::Receiver,
                earlier,
                &set.keys,
            ));
            set
        };
        let kept = || open().1.map(|journal| journal.head.state);
        let mut first = set(open());
        let assignment = &agreement.assignment();
        first.assign(assignment, &after(0)).unwrap();
        for finished in 1..=buckets {
            let state = after(finished);
            let output = Output::NumberShares(Zeroizing::new(vec![1]));
            first.finished(output, &state).unwrap();
        }
        // Shares of all buckets are no answer yet.
        assert!(first.confirmed().is_none());
        drop(first);
        assert_eq!(kept(), Some(after(buckets)));
        let mut second = set(open());
        assert!(second.answer().is_none());
        assert!(matches!(second.checkpoint(), Checkpoint::State(_)));
        second.assign(assignment, &after(2)).unwrap();
        drop(second);
        assert_eq!(kept(), Some(after(2)));
    }

    /// Lines of the two files of shares, cell by cell.
    fn cells(files: &[String; 2]) -> Vec<[Vec<&str>; 2]> {
        let [ours, theirs] = files.each_ref().map(|file| file.lines().skip(1));
        ours.zip(theirs)
            .map(|(a, b)| [a.split(',').collect(), b.split(',').collect()])
            .collect()
    }

    #[test]
    fn shares_come_bucket_by_bucket_wherever_keys_are() {
        let keys = [0..3000, 1000..3500];
        let jobs = [
            job(Role::Receiver, Reveal::Shares, true, 4),
            job(Role::Sender, Reveal::Shares, true, 0),
        ];
        // The key of each row of the receiver.
        let rows: Vec<u64> = keys[0]
            .clone()
            .flat_map(|key| std::iter::repeat_n(key, rows_of(key)))
            .collect();
        for on_disk in [[true, true], [false, false], [true, false]] {
            let (_, files) = run(jobs.clone(), keys.clone(), on_disk);
            let headers = files.each_ref().map(|file| file.lines().next().unwrap());
            let columns = "match,receiver_value,sender_value,receiver_payload";
            assert_eq!(headers, [format!("row,{columns}"), columns.to_owned()]);
            assert_eq!(files[0].lines().count(), files[1].lines().count());
            let mut found = BTreeMap::new();
            for [ours, theirs] in cells(&files) {
                let number = |text: &str| text.parse::<u64>().unwrap();
                let opened =
                    |place: usize| number(ours[place + 1]).wrapping_add(number(theirs[place]));
                let bytes = |text: &str| u32::from_str_radix(text, 16).unwrap();
                let text = bytes(ours[4]) ^ bytes(theirs[3]);
                if ours[1] == theirs[0] {
                    assert_eq!((opened(1), opened(2), text), (0, 0, 0));
                    continue;
                }
                let row = number(ours[0]) as usize - 1;
                let key = rows[row];
                assert!(row == 0 || rows[row - 1] != key, "the first row of its key");
                assert_eq!([opened(1), opened(2)].map(i128::from), [value(key); 2]);
                let mut expected = format!("t{}", key % 77).into_bytes();
                expected.resize(4, 0);
                assert_eq!(text.to_be_bytes()[..], expected);
                assert_eq!(found.insert(key, ()), None, "{key} matches twice");
            }
            assert!(found.into_keys().eq(1000..3000), "{on_disk:?}");
        }
    }
}
