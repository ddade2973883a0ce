//! What processes do to files, in order, and what a crash of the machine can leave of it.
//!
//! `testing/preload/faults.c` logs their system calls. A [`Recording`] has what a crash can lose (names that come and
//! go, bytes that are written) and what makes it last (`fsync`). A change lasts once its file, or for a name the
//! directory, is synchronised after it; until then it may be on the disk or not, each change by itself, and of a write
//! the one half without the other. Renaming is atomic.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::libc;
use tempfile::TempDir;

use crate::trial::Dice;

/// Changes of which every subset is tried.
const ALL_OF: usize = 8;
/// Random subsets that are tried of more changes.
const SAMPLES: u64 = 64;
/// What the names of files end in that are useless in any other file than their own.
const BOUND: &str = "half";

/// A file, whatever its names.
type Object = usize;

/// What a system call has done. Paths are relative to the place that is watched.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    /// A file gets a name, its first or another one.
    Link(PathBuf, Object),
    Unlink(PathBuf, Object),
    Rename(PathBuf, PathBuf, Object),
    /// Bytes are written at an offset.
    Write(Object, usize, Vec<u8>),
    /// A file gets a length.
    Truncate(Object, usize),
    /// A file's content is on the disk.
    Sync(Object),
    /// A directory's names are on the disk.
    SyncDirectory(PathBuf),
    /// A file was read to its end.
    Read(Object),
    /// Something was sent to another process.
    Send,
}

impl Event {
    /// Whether a crash can lose it.
    fn is_change(&self) -> bool {
        !matches!(
            self,
            Event::Sync(_) | Event::SyncDirectory(_) | Event::Read(_) | Event::Send
        )
    }

    /// Whether `later` makes it last.
    fn lasts_by(&self, later: &Event) -> bool {
        match (self, later) {
            (Event::Write(a, ..) | Event::Truncate(a, _), Event::Sync(b)) => a == b,
            (
                Event::MakeDirectory(path)
                | Event::RemoveDirectory(path)
                | Event::Link(path, _)
                | Event::Unlink(path, _)
                | Event::Rename(_, path, _),
                Event::SyncDirectory(directory),
            ) => path.parent() == Some(directory),
            _ => false,
        }
    }
}

/// What files contain.
type Contents = HashMap<Object, Vec<u8>>;

/// Changes what a file contains, if the event does.
fn change(contents: &mut Contents, event: &Event) {
    match event {
        Event::Write(object, offset, bytes) => {
            let file = contents.entry(*object).or_default();
            let end = offset + bytes.len();
            file.resize(file.len().max(end), 0);
            file[*offset..end].copy_from_slice(bytes);
        }
        Event::Truncate(object, length) => {
            contents.entry(*object).or_default().resize(*length, 0);
        }
        _ => {}
    }
}

/// Files and directories below a place.
#[derive(Clone, Default)]
struct Disk {
    directories: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, Object>,
    /// The steps that have changed the content of a file. They stand for it, so that many states cost little.
    changes: HashMap<Object, Vec<usize>>,
}

impl Disk {
    /// A name in a directory that was never made is lost.
    fn apply(&mut self, step: usize, event: &Event) {
        let is_below = |path: &Path| {
            let above = path.parent().expect("below the place");
            above == Path::new("") || self.directories.contains(above)
        };
        match event {
            Event::MakeDirectory(path) if is_below(path) => {
                self.directories.insert(path.clone());
            }
            Event::RemoveDirectory(path) => {
                self.directories.retain(|other| !other.starts_with(path));
                self.names.retain(|name, _| !name.starts_with(path));
            }
            Event::Link(path, object) if is_below(path) => {
                self.names.insert(path.clone(), *object);
            }
            Event::Unlink(path, object) => self.forget(path, *object),
            Event::Rename(from, to, object) if is_below(to) => {
                self.forget(from, *object);
                self.names.insert(to.clone(), *object);
            }
            Event::Write(object, ..) | Event::Truncate(object, _) => {
                self.changes.entry(*object).or_default().push(step);
            }
            _ => {}
        }
    }

    /// Removes a name, unless it is another file's by now.
    fn forget(&mut self, name: &Path, object: Object) {
        if self.names.get(name) == Some(&object) {
            self.names.remove(name);
        }
    }
}

/// What a crash has left.
pub(crate) struct State {
    /// Events before it.
    pub(crate) steps: usize,
    /// By party, the files that it had read to the end and then sent something. [`BOUND`] ones only.
    pub(crate) told: [BTreeSet<PathBuf>; 2],
    disk: Disk,
}

impl State {
    /// The names of all files.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Path> {
        self.disk.names.keys().map(PathBuf::as_path)
    }

    pub(crate) fn has(&self, name: &Path) -> bool {
        self.disk.names.contains_key(name)
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.disk.directories.hash(&mut hasher);
        for (name, object) in &self.disk.names {
            (name, object, self.disk.changes.get(object)).hash(&mut hasher);
        }
        self.told.hash(&mut hasher);
        hasher.finish()
    }
}

/// Everything that one process or two did to the files of a place.
pub(crate) struct Recording {
    before: Disk,
    contents: Contents,
    /// What happened, and which of the processes did it.
    events: Vec<(usize, Event)>,
    /// Files that have to keep their inode, by their objects.
    bound: TempDir,
}

impl Recording {
    pub(crate) fn steps(&self) -> usize {
        self.events.len()
    }

    /// Every state that a crash can leave, each once, and how many combinations of changes lead to them: a crash of
    /// either machine or of both.
    pub(crate) fn states(&self) -> (Vec<State>, u64) {
        let mut dice = Dice::new(0xC4A5);
        let (mut states, mut seen, mut combinations) = (Vec::new(), HashSet::new(), 0);
        for steps in 0..=self.steps() {
            let [receiver, sender] = [0, 1].map(|party| self.pending(steps, party));
            let both = [receiver.clone(), sender.clone()].concat();
            for pending in [receiver, sender, both] {
                let are_all = pending.len() <= ALL_OF;
                let subsets = if are_all { 1 << pending.len() } else { SAMPLES };
                for subset in 0..subsets {
                    let mut lost = pending.clone();
                    let mut at = 0..pending.len();
                    lost.retain(|_| {
                        let at = at.next().expect("as many");
                        match are_all {
                            true => subset >> at & 1 == 1,
                            false => dice.once_in(2),
                        }
                    });
                    combinations += 1;
                    let state = self.state(steps, &lost);
                    if seen.insert(state.hash()) {
                        states.push(state);
                    }
                }
            }
        }
        (states, combinations)
    }

    /// The state after so many steps, without those that were lost.
    pub(crate) fn state(&self, steps: usize, lost: &[usize]) -> State {
        let mut disk = self.before.clone();
        let mut all = self.before.clone();
        let (mut read, mut told) = (
            [const { BTreeSet::new() }; 2],
            [const { BTreeSet::new() }; 2],
        );
        for (step, (party, event)) in self.events[..steps].iter().enumerate() {
            all.apply(step, event);
            if !lost.contains(&step) {
                disk.apply(step, event);
            }
            match event {
                Event::Read(object) => {
                    let names = all.names.iter().filter(|(_, other)| *other == object);
                    let names = names.map(|(name, _)| name.clone());
                    read[*party].extend(names.filter(|name| is_bound(name)));
                }
                Event::Send => told[*party].append(&mut read[*party]),
                _ => {}
            }
        }
        State { steps, told, disk }
    }

    /// What a file contains in a state.
    pub(crate) fn content(&self, state: &State, name: &Path) -> Option<Vec<u8>> {
        let object = *state.disk.names.get(name)?;
        let before = self.contents.get(&object).cloned().unwrap_or_default();
        let mut contents = Contents::from([(object, before)]);
        for step in state.disk.changes.get(&object).into_iter().flatten() {
            change(&mut contents, &self.events[*step].1);
        }
        contents.remove(&object)
    }

    /// Of the first `steps`, those of a party that a crash then may lose.
    fn pending(&self, steps: usize, party: usize) -> Vec<usize> {
        let own = |step: &usize| self.events[*step].0 == party;
        let may_be_lost = |step: &usize| {
            let event = &self.events[*step].1;
            let mut later = (step + 1..steps).filter(own);
            event.is_change() && !later.any(|later| event.lasts_by(&self.events[later].1))
        };
        (0..steps).filter(own).filter(may_be_lost).collect()
    }

    /// When a file got this name, as a number that grows over both processes.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        let is_named = |(_, event): &(usize, Event)| match event {
            Event::Link(path, _) | Event::Rename(_, path, _) => path == Path::new(name),
            _ => false,
        };
        self.events.iter().position(is_named)
    }

    /// The names of files that a crash could have taken back, or whose content it could have changed, when their process sent
    /// something.
    pub(crate) fn told_too_early(&self) -> BTreeSet<PathBuf> {
        let mut early = BTreeSet::new();
        for (step, (party, event)) in self.events.iter().enumerate() {
            if *event != Event::Send {
                continue;
            }
            let names = self.state(step, &[]).disk.names;
            for change in self.pending(step, *party) {
                let is_changed = |(name, of): &(&PathBuf, &Object)| match &self.events[change].1 {
                    Event::Link(path, _) | Event::Rename(_, path, _) => *name == path,
                    Event::Write(object, ..) | Event::Truncate(object, _) => *of == object,
                    _ => false,
                };
                let changed = names.iter().filter(is_changed);
                early.extend(changed.map(|(name, _)| name.clone()));
            }
        }
        early
    }

    /// The same run by processes that synchronise nothing.
    pub(crate) fn without_syncs(mut self) -> Recording {
        self.events
            .retain(|(_, event)| !matches!(event, Event::Sync(_) | Event::SyncDirectory(_)));
        self
    }

    /// Puts the files of a state into an empty directory. A file that has to keep its inode is the recorded one itself:
    /// only one state at a time can be on the disk that has any.
    pub(crate) fn restore(&self, state: &State, place: &Path) {
        for directory in &state.disk.directories {
            let mut builder = fs::DirBuilder::new();
            builder.mode(0o700).create(place.join(directory)).unwrap();
        }
        for (name, object) in &state.disk.names {
            let path = place.join(name);
            let content = self.content(state, name).expect("a name of this state");
            if is_bound(name) {
                fs::hard_link(self.bound.path().join(object.to_string()), &path).unwrap();
                fs::write(path, content).unwrap();
            } else {
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(path);
                file.unwrap().write_all(&content).unwrap();
            }
        }
    }
}

fn is_bound(name: &Path) -> bool {
    name.extension() == Some(OsStr::new(BOUND))
}

/// Records what processes do below a place.
pub(crate) struct Recorder {
    place: PathBuf,
    library: PathBuf,
    before: Disk,
    contents: Contents,
    /// The files by their inodes: of several that had one in turn, the last.
    objects: HashMap<u64, Object>,
    count: usize,
    log: TempDir,
    bound: TempDir,
}

impl Recorder {
    /// From now on nobody else may change anything below the place.
    pub(crate) fn new(place: &Path, library: &Path) -> Recorder {
        let mut recorder = Recorder {
            place: place.canonicalize().unwrap(),
            library: library.to_owned(),
            before: Disk::default(),
            contents: Contents::new(),
            objects: HashMap::new(),
            count: 0,
            log: TempDir::new().unwrap(),
            bound: TempDir::new().unwrap(),
        };
        let (directories, files) = walk(&recorder.place);
        recorder.before.directories = directories;
        for name in files {
            let path = recorder.place.join(&name);
            let object = recorder.new_object(path.metadata().unwrap().ino());
            recorder.contents.insert(object, fs::read(path).unwrap());
            recorder.before.names.insert(name.clone(), object);
            recorder.bind(&name, object);
        }
        recorder
    }

    /// What a shell runs before a process that is to be recorded.
    pub(crate) fn before(&self) -> String {
        format!(
            "export FAULTS_LOG='{}' LD_PRELOAD='{}'",
            self.log_path().display(),
            self.library.display()
        )
    }

    fn log_path(&self) -> PathBuf {
        self.log.path().join("log")
    }

    fn new_object(&mut self, inode: u64) -> Object {
        self.count += 1;
        self.objects.insert(inode, self.count);
        self.count
    }

    /// Keeps a file beyond its names, if it has to stay what it is.
    fn bind(&self, name: &Path, object: Object) {
        let kept = self.bound.path().join(object.to_string());
        if is_bound(name) && !kept.exists() {
            fs::hard_link(self.place.join(name), kept).unwrap();
        }
    }

    /// What these processes did, which have ended: one, or two.
    pub(crate) fn recorded(mut self, processes: &[u32]) -> Recording {
        let (mut events, mut disk) = (Vec::new(), self.before.clone());
        let mut contents = self.contents.clone();
        for call in calls(&self.log_path()) {
            let party = processes.iter().position(|id| *id == call.process);
            let party = party.expect("one of these");
            for event in self.events(&call, &disk, &contents) {
                disk.apply(events.len(), &event);
                change(&mut contents, &event);
                events.push((party, event));
            }
        }
        // The model is right if it ends with what is there.
        let (directories, files) = walk(&self.place);
        assert!(disk.directories == directories);
        assert!(disk.names.keys().eq(&files));
        for (name, object) in &disk.names {
            let there = fs::read(self.place.join(name)).unwrap();
            let content = contents.entry(*object).or_default();
            assert!(*content == there, "{}", name.display());
            self.bind(name, *object);
        }
        // What never had a name is gone after a crash in any case.
        let linked = events.iter().filter_map(|(_, event)| match event {
            Event::Link(_, object) => Some(*object),
            _ => None,
        });
        let mut named: HashSet<Object> = linked.collect();
        named.extend(self.before.names.values());
        events.retain(|(_, event)| match event {
            Event::Write(object, ..)
            | Event::Truncate(object, _)
            | Event::Sync(object)
            | Event::Read(object) => named.contains(object),
            _ => true,
        });
        Recording {
            before: self.before,
            contents: self.contents,
            events,
            bound: self.bound,
        }
    }

    /// What a call has done to files that were as in `disk`, with these contents.
    fn events(&mut self, call: &Call, disk: &Disk, contents: &Contents) -> Vec<Event> {
        let is_kind = |kind: libc::mode_t| call.mode as libc::mode_t & libc::S_IFMT == kind;
        let number = call.number as libc::c_long;
        if is_kind(libc::S_IFSOCK) {
            let is_read = [libc::SYS_read, libc::SYS_readv].contains(&number);
            return Vec::from_iter((!is_read).then_some(Event::Send));
        }
        let below = |path: &Path| {
            let path: PathBuf = path
                .components()
                .filter(|c| *c != Component::CurDir)
                .collect();
            path.strip_prefix(&self.place).ok().map(Path::to_owned)
        };
        let [path, other] = &call.paths;
        let (path, other) = match (below(path), below(other)) {
            (Some(path), other) => (path, other.unwrap_or_default()),
            // A file gets its first name through `/proc`.
            (None, Some(other)) => (PathBuf::new(), other),
            (None, None) => return Vec::new(),
        };
        let object_of = |name: &Path| disk.names[name];
        let event = match number {
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat => {
                let flags = match number {
                    libc::SYS_creat => libc::O_CREAT | libc::O_TRUNC,
                    libc::SYS_open => call.arguments[1] as i32,
                    _ => call.arguments[2] as i32,
                };
                let is_unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
                let is_new = flags & libc::O_CREAT != 0 && !disk.names.contains_key(&path);
                if is_unnamed || is_new {
                    let object = self.new_object(call.inode);
                    if is_unnamed {
                        return Vec::new();
                    }
                    Event::Link(path, object)
                } else if flags & libc::O_TRUNC != 0 {
                    Event::Truncate(self.objects[&call.inode], 0)
                } else {
                    return Vec::new();
                }
            }
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => {
                let object = self.objects[&call.inode];
                let start = call.offset as usize - call.bytes.len();
                // A crash may tear it.
                let (one, two) = call.bytes.split_at(call.bytes.len() / 2);
                let halves = [(start, one), (start + one.len(), two)].into_iter();
                let halves = halves.filter(|(_, half)| !half.is_empty());
                return halves
                    .map(|(start, half)| Event::Write(object, start, half.to_vec()))
                    .collect();
            }
            libc::SYS_ftruncate => {
                Event::Truncate(self.objects[&call.inode], call.arguments[1] as usize)
            }
            libc::SYS_fsync | libc::SYS_fdatasync if is_kind(libc::S_IFDIR) => {
                Event::SyncDirectory(path)
            }
            libc::SYS_fsync | libc::SYS_fdatasync => Event::Sync(self.objects[&call.inode]),
            libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv => {
                let object = self.objects[&call.inode];
                let length = contents.get(&object).map_or(0, Vec::len) as u64;
                match call.result > 0 && call.offset >= length {
                    true => Event::Read(object),
                    false => return Vec::new(),
                }
            }
            libc::SYS_mkdir | libc::SYS_mkdirat => Event::MakeDirectory(path),
            libc::SYS_rmdir => Event::RemoveDirectory(path),
            libc::SYS_unlinkat if call.arguments[2] as i32 & libc::AT_REMOVEDIR != 0 => {
                Event::RemoveDirectory(path)
            }
            libc::SYS_unlink | libc::SYS_unlinkat => {
                let object = object_of(&path);
                Event::Unlink(path, object)
            }
            libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => {
                let object = object_of(&path);
                Event::Rename(path, other, object)
            }
            libc::SYS_link | libc::SYS_linkat => Event::Link(other, self.objects[&call.inode]),
            libc::SYS_getdents64 | libc::SYS_fchmod | libc::SYS_flock => return Vec::new(),
            _ => panic!("call {number} is not modelled"),
        };
        vec![event]
    }
}

/// Directories and files below a place.
pub(crate) fn walk(place: &Path) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut directories, mut files) = (BTreeSet::new(), BTreeSet::new());
    let mut left = vec![PathBuf::new()];
    while let Some(above) = left.pop() {
        for entry in fs::read_dir(place.join(&above)).unwrap() {
            let entry = entry.unwrap();
            let name = above.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => {
                    left.push(name.clone());
                    directories.insert(name);
                }
                false => {
                    files.insert(name);
                }
            }
        }
    }
    (directories, files)
}

/// A system call that has succeeded, as the library logs it.
struct Call {
    process: u32,
    number: u64,
    arguments: [u64; 6],
    result: i64,
    inode: u64,
    mode: u64,
    /// Where in the file it ended.
    offset: u64,
    paths: [PathBuf; 2],
    /// What it wrote.
    bytes: Vec<u8>,
}

fn calls(log: &Path) -> Vec<Call> {
    const WORD: usize = 8;
    const HEAD: usize = 16 * WORD;
    let mut file = File::open(log).unwrap();
    let mut used = [0; WORD];
    file.read_exact(&mut used).unwrap();
    let mut log = vec![0; u64::from_ne_bytes(used) as usize - WORD];
    file.read_exact(&mut log).unwrap();
    let (mut calls, mut rest) = (Vec::new(), &log[..]);
    while !rest.is_empty() {
        let word = |at: usize| u64::from_ne_bytes(rest[WORD * at..][..WORD].try_into().unwrap());
        let size = word(0) as usize;
        assert!(size >= HEAD, "a process was killed while it was recorded");
        let mut after = &rest[HEAD..size];
        let [path, other, bytes] =
            [13, 14, 15].map(|at| after.split_off(..word(at) as usize).unwrap());
        calls.push(Call {
            process: word(1) as u32,
            number: word(2),
            arguments: std::array::from_fn(|i| word(3 + i)),
            result: word(9) as i64,
            inode: word(10),
            mode: word(11),
            offset: word(12),
            paths: [path, other].map(|path| PathBuf::from(OsStr::from_bytes(path))),
            bytes: bytes.to_vec(),
        });
        rest = &rest[size..];
    }
    calls
}
