//! Crashes of the machine at every moment of a command: a table for `docs/reliability.md`.
//!
//! Both sides of a command are recorded. At each step a crash is made up: of one side's machine or of both. What that
//! machine has not synchronised by then may be on its disk or not. The same commands run again from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::faults::{Ledger, on_threads};
use crate::recorder::{Recorder, Recording, State, walk};
use crate::support::{Arguments, Ended, Place, Running, exchange};
use crate::system_faults::{
    TERMS, TIMES, buckets, library, ready, stores_of_two, tables, with_stores,
};
use crate::trial::{part, publish};

/// A command of one side or of two, and where it is run.
struct Scene {
    name: &'static str,
    place: Place,
    /// Starts the sender, if there is one, from a shell that has run these words.
    listen: Option<fn(&Place, &str) -> Running>,
    /// Starts the receiver, with the sender's endpoint.
    connect: fn(&Place, &str, &str) -> Running,
    /// Outputs, with what is to be in them.
    outputs: Vec<(&'static str, String)>,
    has_report: bool,
    /// What must hold besides once the commands have run again, and how many states may be on the disk at once.
    check: fn(&Place),
    threads: usize,
}

const ROLES: [&str; 2] = ["receiver", "sender"];
const REPORT: &str = "report.json";
const KEY: &str = "new.key";
const SET: &str = "set.vset";
const RELEASE: &str = "set.vset.2";
const JOURNAL: &str = "database/publishing-journal";

/// A scene, and what it did.
struct Recorded {
    scene: Scene,
    recording: Recording,
    /// Outputs and report before and after.
    results: Vec<(&'static str, [Option<Vec<u8>>; 2])>,
    /// The halves that each side could use before or after, and those after alone.
    whole: [Halves; 2],
    kept: [Halves; 2],
}

/// Halves by name, with their content.
type Halves = BTreeMap<String, Vec<u8>>;

// ---- Scenes.

fn buckets_of(side: usize, first: &str) -> Arguments {
    let [receiver, sender] = buckets(600);
    let side = [receiver, sender].into_iter().nth(side).unwrap();
    side.with(TIMES).after(first)
}

fn storing(side: usize, first: &str) -> Arguments {
    let side = with_stores().into_iter().nth(side).unwrap();
    side.with(TIMES).after(first)
}

fn making(place: &Place, role: &str, first: &str, endpoint: &str) -> Running {
    let words = format!("--offline ot {TERMS} {TIMES}").replace("--threads 1", "");
    place.start_after(first, &place.making_words(role, &words, endpoint))
}

const LISTEN: &str = "--listen 127.0.0.1:0";

/// The rows of a table whose first field begins a row of the other.
fn shared(ours: &str, theirs: &str) -> String {
    let key = |line: &str| line.split(',').next().unwrap().to_owned();
    let keys: BTreeSet<String> = theirs.lines().map(key).collect();
    let rows = ours.lines().filter(|line| keys.contains(&key(line)));
    rows.map(|line| format!("{line}\n")).collect()
}

fn publishing(words: &str) -> String {
    format!("publish --identity sender.key --set-dir database --output {SET} --key key {words}")
}

/// The set has the keys of this table, under the key of its database.
fn is_published(place: &Place, table: &str) {
    let again = place.run(&publishing(&format!("--add {table}")));
    again.expect_success();
    assert!(again.err.contains("nothing has changed"), "{}", again.err);
}

/// A run takes a half of each store.
fn use_one(place: &Place) {
    let [receiver, sender] = [0, 1].map(|side| storing(side, "true"));
    exchange(place, &receiver, &sender).expect_success();
    let [ours, theirs] = ["ours.csv", "theirs.csv"].map(|name| place.read(name));
    assert_eq!(place.read("out.csv"), shared(&ours, &theirs));
}

fn halves(place: &Place) -> [Halves; 2] {
    ROLES.map(|role| {
        let content = |name: &String| fs::read(place.path(&format!("{role}.store/{name}.half")));
        let ready = ready(place, role).into_iter();
        ready
            .map(|name| (name.clone(), content(&name).unwrap()))
            .collect()
    })
}

impl Scene {
    /// A run with work directories, from its beginning.
    fn of_buckets() -> Scene {
        let place = Place::new();
        tables(&place, 600);
        let [ours, theirs] = ["ours.csv", "theirs.csv"].map(|name| place.read(name));
        Scene {
            name: "journals, outputs and report",
            listen: Some(|place, first| place.sender(&buckets_of(1, first), LISTEN)),
            connect: |place, first, endpoint| place.receiver(&buckets_of(0, first), endpoint),
            outputs: vec![
                ("out.csv", shared(&ours, &theirs)),
                ("theirs-out.csv", shared(&theirs, &ours)),
            ],
            has_report: true,
            check: |_| {},
            threads: 3,
            place,
        }
    }

    /// The same, killed halfway and begun again. An older output is replaced.
    fn of_buckets_resumed(begun: &Recorded) -> Scene {
        let scene = Scene::of_buckets();
        let place = begun.scene.place.beside();
        let halfway = begun.recording.state(begun.recording.steps() / 2, &[]);
        begun.recording.restore(&halfway, &place.path(""));
        assert!(place.path("near/journal").exists() && place.path("far/journal").exists());
        place.write("out.csv", "of another run\n");
        Scene {
            name: "the same, resumed",
            place,
            ..scene
        }
    }

    /// A pair is put into two stores that are new.
    fn of_making() -> Scene {
        let place = Place::new();
        tables(&place, 60);
        Scene {
            name: "a half is made",
            place,
            listen: Some(|place, first| making(place, "sender", first, LISTEN)),
            connect: |place, first, endpoint| making(place, "receiver", first, endpoint),
            outputs: Vec::new(),
            has_report: false,
            check: |place| {
                let [ours, theirs] = ROLES.map(|role| ready(place, role));
                assert!(!ours.is_disjoint(&theirs), "no pair in the stores");
                use_one(place);
            },
            threads: 1,
        }
    }

    /// A half of each of two stores is used, which have another pair.
    fn of_using() -> Scene {
        let place = Place::new();
        stores_of_two(&place);
        let [ours, theirs] = ["ours.csv", "theirs.csv"].map(|name| place.read(name));
        Scene {
            name: "a half is used",
            place,
            listen: Some(|place, first| place.sender(&storing(1, first), LISTEN)),
            connect: |place, first, endpoint| place.receiver(&storing(0, first), endpoint),
            outputs: vec![("out.csv", shared(&ours, &theirs))],
            has_report: true,
            check: |_| {},
            threads: 1,
        }
    }

    /// The halves of a store are in other files than they were written to, and are taken over.
    fn of_adopting() -> Scene {
        let scene = Scene::of_using();
        for half in fs::read_dir(scene.place.path("receiver.store")).unwrap() {
            let (half, copy) = (half.unwrap().path(), scene.place.path("copy"));
            fs::copy(&half, &copy).unwrap();
            fs::rename(copy, half).unwrap();
        }
        Scene {
            name: "a copied store is adopted",
            listen: None,
            connect: |place, first, _| {
                let words = "offline adopt --offline-store receiver.store --identity receiver.key";
                place.start_after(first, words)
            },
            outputs: Vec::new(),
            has_report: false,
            check: use_one,
            ..scene
        }
    }

    /// An identity is made, which is never overwritten.
    fn of_keygen() -> Scene {
        Scene {
            name: "an identity is made",
            place: Place::new(),
            listen: None,
            connect: |place, first, _| match place.path(KEY).exists() {
                true => place.start_after(first, &format!("fingerprint --identity {KEY}")),
                false => place.start_after(first, &format!("keygen --out {KEY}")),
            },
            outputs: Vec::new(),
            has_report: false,
            check: |_| {},
            threads: 3,
        }
    }

    /// A table is published.
    fn of_publishing() -> Scene {
        let place = Place::new();
        tables(&place, 60);
        Scene {
            name: "a set is published",
            place,
            listen: None,
            connect: |place, first, _| {
                let is_over = place.path(SET).exists() && !place.path(JOURNAL).exists();
                // A disk that is built anew has a copy of the journal, which is refused. Killed publications go on with the
                // journal itself, in `published`.
                let _ = fs::remove_file(place.path(JOURNAL));
                let words = if is_over { "--add" } else { "--input" };
                place.start_after(first, &publishing(&format!("{words} ours.csv")))
            },
            outputs: Vec::new(),
            has_report: false,
            check: |place| is_published(place, "ours.csv"),
            threads: 3,
        }
    }

    /// Keys come to a published set, and others leave it.
    fn of_updating() -> Scene {
        let scene = Scene::of_publishing();
        let published = publishing("--input ours.csv --max-keys 100");
        scene.place.run(&published).expect_success();
        let theirs = scene.place.read("theirs.csv");
        let new = theirs.lines().rev().take(5).collect::<Vec<_>>();
        scene
            .place
            .write("new.csv", format!("key,value\n{}\n", new.join("\n")));
        Scene {
            name: "a published set is changed",
            connect: |place, first, _| place.start_after(first, &publishing("--add new.csv")),
            check: |place| is_published(place, "new.csv"),
            ..scene
        }
    }

    fn record(self, library: &Path) -> Recorded {
        let names = self.outputs.iter().map(|(name, _)| *name);
        let names: Vec<&str> = names.chain([REPORT, KEY, SET, RELEASE]).collect();
        let read = || -> Vec<Option<Vec<u8>>> {
            let paths = names.iter().map(|name| self.place.path(name));
            paths.map(|path| fs::read(path).ok()).collect()
        };
        let (before, mut whole) = (read(), halves(&self.place));
        let recorder = Recorder::new(&self.place.path(""), library);
        let first = recorder.before();
        let mut sender = self.listen.map(|listen| listen(&self.place, &first));
        let endpoint = sender.as_mut().map_or(String::new(), Running::endpoint);
        let receiver = (self.connect)(&self.place, &first, &endpoint);
        let running: Vec<Running> = [receiver].into_iter().chain(sender).collect();
        let processes: Vec<u32> = running.iter().map(|running| running.process.id()).collect();
        let ended = running.into_iter().map(Running::wait);
        ended.for_each(|ended| ended.expect_success());
        let changed = before.into_iter().zip(read()).map(<[_; 2]>::from);
        let results = names.into_iter().zip(changed).collect();
        let recording = recorder.recorded(&processes);
        for (name, right) in &self.outputs {
            assert!(self.place.read(name) == *right, "{name} is wrong");
        }
        let kept = halves(&self.place);
        whole
            .iter_mut()
            .zip(&kept)
            .for_each(|(whole, kept)| whole.extend(kept.clone()));
        Recorded {
            scene: self,
            recording,
            results,
            whole,
            kept,
        }
    }
}

/// Runs the scene again. A side that has all that it needs ends without the other, which is killed then.
fn again(scene: &Scene, place: &Place) -> Vec<Ended> {
    let Some(listen) = scene.listen else {
        return vec![(scene.connect)(place, "true", "").wait()];
    };
    let mut sender = listen(place, "true");
    let Some(endpoint) = sender.endpoint_if_any() else {
        return vec![sender.wait()];
    };
    let receiver = (scene.connect)(place, "true", &endpoint).wait();
    if !receiver.err.contains("connected to ") {
        sender.process.kill().unwrap();
        sender.wait();
        return vec![receiver];
    }
    vec![receiver, sender.wait()]
}

/// The name of a half by that of its file in a store.
fn half(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()?.strip_suffix(".half")
}

impl Recorded {
    /// The halves that a side can use in a state.
    fn usable(&self, state: &State, party: usize) -> BTreeSet<String> {
        let store = format!("{}.store", ROLES[party]);
        let is_usable = |file: &Path, name: &str| {
            let whole = self.whole[party].get(name);
            let is_marked = state.has(&file.with_extension("used"));
            !is_marked && self.recording.content(state, file).as_ref() == whole
        };
        let files = state.names().filter(|file| file.starts_with(&store));
        let halves = files.filter_map(|file| Some((file, half(file)?)));
        let usable = halves.filter(|(file, name)| is_usable(file, name));
        usable.map(|(_, name)| name.to_owned()).collect()
    }

    /// What is wrong with a state, whatever the commands do next.
    fn defects(&self, state: &State) -> Vec<String> {
        let mut defects = Vec::new();
        let is_over = state.steps == self.recording.steps();
        for (name, [before, after]) in &self.results {
            let found = self.recording.content(state, Path::new(name));
            if found != *after && (is_over || found != *before) {
                defects.push(format!("{name} is wrong or lost"));
            }
        }
        for (party, role) in ROLES.into_iter().enumerate() {
            let usable = self.usable(state, party);
            if is_over && !usable.iter().eq(self.kept[party].keys()) {
                defects.push(format!("{role} has lost a half, or has it again"));
            }
            // Nothing is sent of a half before it is useless for good.
            let mut told = state.told[party].iter().filter_map(|file| half(file));
            if told.any(|name| usable.contains(name)) {
                defects.push(format!("{role} has a half that was used"));
            }
        }
        defects
    }

    /// Runs the commands again from a state: what it took.
    fn recover(&self, state: &State) -> Result<&'static str, String> {
        let scene = &self.scene;
        let place = scene.place.beside();
        self.recording.restore(state, &place.path(""));
        for (party, role) in ROLES.into_iter().enumerate() {
            let (ready, usable) = (ready(&place, role), self.usable(state, party));
            if ready != usable {
                return Err(format!("{role} can use {ready:?}, not {usable:?}"));
            }
        }
        let mut outcome = Err("both sides never met again".to_owned());
        for once in OUTCOMES {
            let ended = again(scene, &place);
            if let Some(failed) = ended.iter().find(|ended| ended.code != Some(0)) {
                return Err(format!("{once}: {:?} {}", failed.code, failed.err));
            }
            if ended.len() == 1 + usize::from(scene.listen.is_some()) {
                outcome = Ok(once);
                break;
            }
        }
        for (name, right) in &scene.outputs {
            if fs::read_to_string(place.path(name)).ok().as_ref() != Some(right) {
                return Err(format!("{name} is wrong afterwards"));
            }
        }
        if scene.has_report {
            let report: serde_json::Value = serde_json::from_str(&place.read(REPORT)).unwrap();
            let offline = report["contract"]["offline"].as_str();
            let mut told = state.told.iter().flatten().filter_map(|file| half(file));
            if report["exit_code"] != 0 || told.any(|name| Some(name) == offline) {
                return Err(format!("the report is wrong: {report}"));
            }
        }
        (scene.check)(&place);
        let (_, mut files) = walk(&place.path(""));
        files.retain(|name| name.extension() == Some("part".as_ref()));
        match files.is_empty() {
            true => outcome,
            false => Err(format!("{files:?} are left")),
        }
    }
}

/// About so many states of a recording are recovered from. There are fewer, unless something is not synchronised.
const MOST: usize = 200;
const OUTCOMES: [&str; 3] = ["first rerun", "second rerun", "third rerun"];

fn recorded(library: &Path) -> Vec<Recorded> {
    let begun = Scene::of_buckets().record(library);
    let resumed = Scene::of_buckets_resumed(&begun).record(library);
    let rest = [
        Scene::of_making(),
        Scene::of_using(),
        Scene::of_adopting(),
        Scene::of_keygen(),
        Scene::of_publishing(),
        Scene::of_updating(),
    ];
    let rest = rest.map(|scene| scene.record(library));
    [begun, resumed].into_iter().chain(rest).collect()
}

/// Looks at every state of each scene's recordings, and recovers from about `most` of them, spread evenly.
fn crash(ledger: &Ledger, recordings: &[Vec<Recorded>], most: usize) {
    for i in 0..recordings[0].len() {
        let (mut states, mut steps, mut combinations) = (Vec::new(), 0, 0);
        for recorded in recordings.iter().map(|scenes| &scenes[i]) {
            let (found, tried) = recorded.recording.states();
            states.extend(found.into_iter().map(|state| (recorded, state)));
            steps += recorded.recording.steps();
            combinations += tried;
        }
        let Scene { name, threads, .. } = recordings[0][i].scene;
        let (count, every) = (states.len(), (states.len() / most).max(1));
        let mut jobs = Vec::new();
        for (at, (recorded, state)) in states.into_iter().enumerate() {
            let (step, last) = (state.steps, recorded.recording.steps());
            let case = format!("{name}: state {at} of {count}, after step {step} of {last}");
            let defects = recorded.defects(&state);
            if !defects.is_empty() {
                ledger.defect(format!("{case}: {}", defects.join(", ")));
            } else if at % every == every / 2 {
                jobs.push((case.clone(), (case, recorded, state)));
            }
        }
        on_threads(
            threads,
            ledger,
            jobs,
            |(case, recorded, state)| match recorded.recover(&state) {
                Ok(outcome) => {
                    let is_used = state.told.iter().any(|told| !told.is_empty());
                    let after = if is_used {
                        ", of which something was sent"
                    } else {
                        ""
                    };
                    let row = format!("{name}{after} | {steps} | {combinations}");
                    ledger.count((2 * i + usize::from(is_used), row), outcome);
                }
                Err(defect) => ledger.defect(format!("{case}: {defect}")),
            },
        );
    }
}

// ---- The tests.

#[test]
fn some_crashes_of_the_machine() {
    let Some(library) = library() else { return };
    let ledger = Ledger::default();
    let mut recordings = vec![recorded(library)];
    crash(&ledger, &recordings, 2);
    ledger.settle();
    // What nobody synchronises is lost, or used again: the very test would find it.
    for recorded in recordings.remove(0) {
        let recording = recorded.recording.without_syncs();
        let steps = recording.steps();
        let state = recording.state(steps, &(0..steps).collect::<Vec<usize>>());
        let recorded = Recorded {
            recording,
            ..recorded
        };
        let is_found = !recorded.defects(&state).is_empty();
        assert!(is_found, "{}", recorded.scene.name);
    }
}

/// The states of ten recordings, or fewer by the percentage, with their table.
#[test]
#[ignore = "a thousand runs"]
fn all_crashes_of_the_machine() {
    let Some(library) = library() else { return };
    let ledger = Ledger::default();
    let recordings: Vec<Vec<Recorded>> = (0..part(10)).map(|_| recorded(library)).collect();
    crash(&ledger, &recordings, MOST * recordings.len());
    publish(
        "crashes",
        &ledger.table("files | steps | combinations", &OUTCOMES),
    );
    ledger.settle();
}
