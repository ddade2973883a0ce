//! What a command names: nothing that is written may take the place of anything else that it names.
//!
//! Files are compared by device and inode, so that links, hard links, mounts and detours do not matter; what does not exist
//! yet by its name in the nearest directory that does; objects by the canonical form of their addresses. Devices and pipes
//! are never replaced, so that two uses of one are fine.

use std::ffi::OsStr;
#[cfg(unix)]
use std::fs::{File, Metadata};
#[cfg(unix)]
use std::io;
use std::path::{Component, Path, PathBuf};

use vesica_files::{directory_of, holds_key};

use crate::backing::identity;
use crate::error::{Error, ErrorKind, Overlap, Result};
use crate::files::{Found, expand, would_find};
use crate::objects::address::Address;

/// What a path is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathKind {
    /// A file or an object.
    File,
    /// An input: a file or an object, a directory or a pattern that stands for some.
    Table,
    /// A published set, with later releases and unfinished files beside it: `NAME.2`, `NAME.part`, `NAME.2.part`.
    Set,
    /// A database of SQLite, with its journals beside it.
    Database,
    /// A directory in which are the command's own files alone.
    Directory,
    /// No path, but an address of a server or database.
    Address,
}

impl PathKind {
    /// Whether a file of this name is one of those beside a file of the name `of`.
    fn has_beside(self, of: &OsStr, name: &OsStr) -> bool {
        let (of, name) = (of.as_encoded_bytes(), name.as_encoded_bytes());
        let Some(rest) = name.strip_prefix(of) else {
            return false;
        };
        match self {
            PathKind::Set => {
                let number = rest.strip_suffix(b".part").unwrap_or(rest);
                let digits = number.strip_prefix(b".").unwrap_or_default();
                !rest.is_empty()
                    && (number.is_empty() || !digits.is_empty())
                    && digits.iter().all(u8::is_ascii_digit)
            }
            _ => self.beside().iter().any(|suffix| rest == suffix.as_bytes()),
        }
    }

    /// What may be beside such a file, without the numbers.
    fn beside(self) -> &'static [&'static str] {
        match self {
            PathKind::Set => &[".part"],
            PathKind::Database => &["-journal", "-wal", "-shm"],
            _ => &[],
        }
    }
}

/// The paths that a command names, and what it does with each.
///
/// ```
/// use vesica_tables::{PathKind, Paths};
///
/// let mut paths = Paths::default();
/// paths.reads("the table", PathKind::Table, "people.csv".as_ref());
/// paths.writes("the output", PathKind::File, "./people.csv".as_ref());
/// let error = paths.check().unwrap_err();
/// assert_eq!(error.to_string(), "the output and the table are the same file");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Paths(Vec<Named>);

#[derive(Clone, Debug)]
struct Named {
    /// What messages call it.
    what: String,
    path: PathBuf,
    kind: PathKind,
    is_written: bool,
    /// Device and inode, if they are known.
    id: Option<Id>,
}

/// Device and inode.
type Id = (u64, u64);

impl Paths {
    /// Adds what is read; `-` is standard input.
    pub fn reads(&mut self, what: impl Into<String>, kind: PathKind, path: &Path) {
        self.add(what, kind, path, false);
    }

    /// Adds what is written, or belongs to the command; `-` is standard output.
    pub fn writes(&mut self, what: impl Into<String>, kind: PathKind, path: &Path) {
        self.add(what, kind, path, true);
    }

    fn add(&mut self, what: impl Into<String>, kind: PathKind, path: &Path, is_written: bool) {
        self.0.push(Named {
            what: what.into(),
            path: path.to_owned(),
            kind,
            is_written,
            id: None,
        });
    }

    /// Adds a file that is read, by its name, and by device and inode, as far as they are known.
    pub(crate) fn reads_file(&mut self, what: &str, kind: PathKind, path: &Path, id: Option<Id>) {
        self.reads(what, kind, path);
        if let Some(last) = self.0.last_mut() {
            last.id = id;
        }
    }

    /// Fails if a path is a private key or has a line end, and if what is written would take the place of anything else, or be among the files of an input, or in a directory
    /// that belongs to the command.
    ///
    /// # Errors
    /// Usage: it would.
    pub fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(Named::check)?;
        let located: Vec<Located<'_>> = self.0.iter().map(Located::of).collect();
        for (at, written) in located.iter().enumerate() {
            if !written.named.is_written {
                continue;
            }
            for (_, other) in located.iter().enumerate().filter(|(i, _)| *i != at) {
                if let Some((one, how, other)) = written.overlap(other) {
                    return Err(Error::new(ErrorKind::TakesPlace {
                        what: one.named.what.clone(),
                        other: other.named.what.clone(),
                        how,
                    }));
                }
            }
        }
        Ok(())
    }
}

impl Named {
    /// Fails, without showing the path, if it is none.
    fn check(&self) -> Result<()> {
        let path = self.path.as_os_str().as_encoded_bytes();
        if holds_key(path) {
            return Err(Error::usage_with(
                format!("{} is a private key, and not the path of one", self.what),
                "give the path of its file; others may have seen the key where it was",
            ));
        }
        match path.contains(&b'\n') || path.contains(&b'\r') {
            true => Err(Error::usage(format!("{} has a line end in it", self.what))),
            false => Ok(()),
        }
    }
}

/// Where a path leads.
struct Located<'a> {
    named: &'a Named,
    object: Option<Address>,
    /// The name itself, and what it is a link to, without links and detours above. None of a device or pipe.
    paths: Vec<PathBuf>,
    /// Of the file and of those beside it, as far as they are there.
    ids: Vec<Id>,
}

impl<'a> Located<'a> {
    fn of(named: &'a Named) -> Located<'a> {
        let mut located = Located {
            named,
            object: None,
            paths: Vec::new(),
            ids: named.id.into_iter().collect(),
        };
        let path = &*named.path;
        if path.as_os_str().is_empty() || named.kind == PathKind::Address {
            return located;
        }
        if path.as_os_str() == "-" {
            located.ids.extend(standard(named.is_written));
            return located;
        }
        if let Some(address) = Address::of(path) {
            // One that is none is complained of when it is opened.
            located.object = address.ok();
            return located;
        }
        let there = path.metadata().ok();
        if there
            .as_ref()
            .is_some_and(|there| !there.is_file() && !there.is_dir())
        {
            return located;
        }
        located.ids.extend(there.as_ref().and_then(identity));
        let name = match path.file_name() {
            Some(name) => resolved(directory_of(path)).join(name),
            None => resolved(path),
        };
        let target = match path.read_link() {
            Ok(target) if there.is_none() => resolved(&directory_of(path).join(target)),
            _ => resolved(path),
        };
        located.paths.push(name);
        if located.paths[0] != target {
            located.paths.push(target);
        }
        for path in &located.paths {
            located.ids.extend(beside(named.kind, path));
        }
        located
    }

    /// How this, which is written, would take the place of another, or what goes with it: which of both would be in the
    /// place of which.
    fn overlap<'b>(&'b self, other: &'b Located<'a>) -> Option<(&'b Self, Overlap, &'b Self)> {
        let how = match other.named.kind {
            // A database is changed, and not replaced.
            PathKind::Database if self.named.kind == PathKind::Database => return None,
            _ if self.is_beside(other) => Overlap::Among,
            _ if other.is_beside(self) => return Some((other, Overlap::Among, self)),
            kind if self.is_same(other) => {
                let are_to_be = [kind, self.named.kind] == [PathKind::Directory; 2];
                match are_to_be || self.named.path.is_dir() {
                    true => Overlap::SameDirectory,
                    false => Overlap::Same,
                }
            }
            PathKind::Directory if self.is_inside(other) => Overlap::Inside,
            PathKind::Table if self.is_among(other) => Overlap::Among,
            _ => return None,
        };
        Some((self, how, other))
    }

    /// Whether its name is that of a file beside another.
    fn is_beside(&self, other: &Located<'_>) -> bool {
        let is_one = |own: &Path, of: &Path| match (own.file_name(), of.file_name()) {
            (Some(own_name), Some(of_name)) => {
                own.parent() == of.parent() && other.named.kind.has_beside(of_name, own_name)
            }
            _ => false,
        };
        let mut names = self.paths.iter();
        names.any(|own| other.paths.iter().any(|of| is_one(own, of)))
    }

    fn is_same(&self, other: &Located<'_>) -> bool {
        match (&self.object, &other.object) {
            (Some(object), Some(other)) => object.is_same_object(other),
            (None, None) => {
                self.ids.iter().any(|id| other.ids.contains(id))
                    || self.paths.iter().any(|path| other.paths.contains(path))
            }
            _ => false,
        }
    }

    fn is_inside(&self, directory: &Located<'_>) -> bool {
        let is_it = |path: &Path| {
            let id = path.metadata().ok().as_ref().and_then(identity);
            let same = id.is_some_and(|id| directory.ids.contains(&id));
            same || directory.paths.iter().any(|its| its == path)
        };
        let mut above = self.paths.iter().flat_map(|path| path.ancestors().skip(1));
        above.any(is_it)
    }

    /// Whether it is, or would be, among the files of an input that is a directory or a pattern.
    fn is_among(&self, input: &Located<'_>) -> bool {
        match (&self.object, &input.object) {
            (Some(own), Some(input)) => return input.would_find(own),
            (None, None) => {}
            _ => return false,
        }
        let would_find = |path: &Path| match (path.parent(), path.file_name()) {
            (Some(directory), Some(name)) => would_find(&input.named.path, directory, name),
            _ => false,
        };
        let is_directory = self.named.kind == PathKind::Directory;
        let by_name =
            |path: &PathBuf| would_find(path) || is_directory && would_find(&path.join("any"));
        self.paths.iter().any(by_name) || self.is_found(input)
    }

    /// Whether a file that is there is one of an input's under another name.
    fn is_found(&self, input: &Located<'_>) -> bool {
        if self.ids.is_empty() {
            return false;
        }
        // What cannot be listed is complained of when it is read.
        let found = expand(std::slice::from_ref(&input.named.path)).unwrap_or_default();
        found.iter().any(|found| match found {
            Found::File(path) => {
                let id = path.metadata().ok().as_ref().and_then(identity);
                id.is_some_and(|id| self.ids.contains(&id))
            }
            #[cfg(feature = "object-stores")]
            Found::Object(_) => false,
        })
    }
}

/// What identifies the file that standard output or standard input is redirected to.
fn standard(output: bool) -> Option<Id> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let copy = match output {
            true => io::stdout().as_fd().try_clone_to_owned(),
            false => io::stdin().as_fd().try_clone_to_owned(),
        };
        let metadata = copy.and_then(|copy| File::from(copy).metadata()).ok();
        metadata
            .filter(Metadata::is_file)
            .as_ref()
            .and_then(identity)
    }
    #[cfg(not(unix))]
    {
        let _ = output;
        None
    }
}

/// What identifies the files beside one, as far as they are there.
fn beside(kind: PathKind, path: &Path) -> Vec<Id> {
    let id = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let metadata = Path::new(&name).metadata().ok();
        metadata.as_ref().and_then(identity)
    };
    let mut ids: Vec<Id> = kind
        .beside()
        .iter()
        .filter_map(|suffix| id(suffix))
        .collect();
    if kind == PathKind::Set {
        for release in 2u64.. {
            let found =
                [format!(".{release}"), format!(".{release}.part")].map(|suffix| id(&suffix));
            ids.extend(found.into_iter().flatten());
            if found == [None, None] {
                break;
            }
        }
    }
    ids
}

/// The path without links and detours, as far as it is there; the rest as it is written.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        let Ok(mut place) = above.canonicalize() else {
            continue;
        };
        let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
        for component in rest.components() {
            match component {
                Component::ParentDir => drop(place.pop()),
                Component::Normal(name) => place.push(name),
                _ => {}
            }
        }
        return place;
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How an output would take the place of an input of this kind.
    fn overlap(output: &Path, kind: PathKind, other: &Path) -> Option<Overlap> {
        let mut paths = Paths::default();
        paths.writes("the output", PathKind::File, output);
        paths.reads("the other", kind, other);
        let error = paths.check().err()?;
        let ErrorKind::TakesPlace { how, .. } = error.kind() else {
            panic!("{error}");
        };
        Some(*how)
    }

    fn same_file(a: &Path, b: &Path) -> bool {
        overlap(a, PathKind::File, b) == Some(Overlap::Same)
    }

    fn is_in(output: &Path, input: &Path) -> bool {
        overlap(output, PathKind::Table, input) == Some(Overlap::Among)
    }

    #[test]
    fn one_file_by_two_names() {
        assert!(same_file("new.csv".as_ref(), "./new.csv".as_ref()));
        assert!(same_file("Cargo.toml".as_ref(), "./Cargo.toml".as_ref()));
        assert!(same_file(
            "src/new.csv".as_ref(),
            "src/../src/new.csv".as_ref()
        ));
        assert!(same_file("nowhere/x".as_ref(), "nowhere/x".as_ref()));
        assert!(!same_file("new.csv".as_ref(), "src/new.csv".as_ref()));
        assert!(!same_file("Cargo.toml".as_ref(), "new.csv".as_ref()));
        assert!(same_file("s3://b/k".as_ref(), "s3a://b/k".as_ref()));
        assert!(!same_file("s3://b/k".as_ref(), "gs://b/k".as_ref()));
    }

    /// The output by its name, as a link and as a hard link.
    #[cfg(unix)]
    #[test]
    fn whatever_leads_to_a_file() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("job")).unwrap();
        std::fs::create_dir(at("job/deep")).unwrap();
        for file in ["a.csv", "s.vset", "s.vset.3", "d.db", "d.db-wal", "job/x"] {
            std::fs::write(at(file), "").unwrap();
        }
        std::os::unix::fs::symlink(at("job"), at("to job")).unwrap();
        std::os::unix::fs::symlink(at("job/new"), at("dangling")).unwrap();
        std::fs::hard_link(at("a.csv"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("hard"), at("soft")).unwrap();
        std::fs::hard_link(at("d.db-wal"), at("hard wal")).unwrap();
        use Overlap::{Among, Inside, Same, SameDirectory};
        use PathKind::{Database, Directory, File, Set, Table};
        for (output, kind, other, expected) in [
            ("hard", File, "a.csv", Some(Same)),
            ("soft", Table, "a.csv", Some(Same)),
            ("soft", Table, "*.csv", Some(Among)),
            ("new", Table, "*.csv", None),
            ("job/../new/../a.csv", File, "a.csv", Some(Same)),
            ("s.vset.2", Set, "s.vset", Some(Among)),
            ("s.vset.2.part", Set, "s.vset", Some(Among)),
            ("s.vset.part", Set, "s.vset", Some(Among)),
            ("job/../s.vset.99", Set, "s.vset", Some(Among)),
            ("s.vset.", Set, "s.vset", None),
            ("s.vset.csv", Set, "s.vset", None),
            ("s.vset2", Set, "s.vset", None),
            ("s.vset.2", File, "s.vset", None),
            ("d.db", Database, "d.db", Some(Same)),
            ("d.db-journal", Database, "d.db", Some(Among)),
            ("hard wal", Database, "d.db", Some(Same)),
            ("d.db-2", Database, "d.db", None),
            ("job", Directory, "job", Some(SameDirectory)),
            ("job/x", Directory, "job", Some(Inside)),
            ("job/deep/new", Directory, "job", Some(Inside)),
            ("to job/new", Directory, "job", Some(Inside)),
            ("job/new", Directory, "to job", Some(Inside)),
            ("dangling", Directory, "job", Some(Inside)),
            ("later/new", Directory, "later", Some(Inside)),
            ("job/../later/./new", Directory, "later", Some(Inside)),
            ("job2", Directory, "job", None),
            ("/dev/null", File, "/dev/null", None),
        ] {
            let found = overlap(&at(output), kind, &at(other));
            assert_eq!(found, expected, "{output} {kind:?} {other}");
        }
    }

    /// What belongs to the command is not among what it reads, and not one of its outputs.
    #[test]
    fn everything_that_is_written_is_compared() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        let check = |writes: &[(PathKind, &str)]| {
            let mut paths = Paths::default();
            paths.reads("the input", PathKind::Table, &at("in"));
            for (kind, name) in writes {
                paths.writes(*name, *kind, &at(name));
            }
            paths.check().map_err(|error| error.to_string())
        };
        use PathKind::{Database, Directory, File, Set};
        check(&[(File, "a"), (File, "b"), (Directory, "c")]).unwrap();
        // A table of the result beside one that is asked for.
        check(&[(Database, "d"), (Database, "d")]).unwrap();
        for (writes, words) in [
            (
                &[(Directory, "in")][..],
                "in and the input are the same directory",
            ),
            (
                &[(File, "in/a")],
                "in/a would be one of the files of the input",
            ),
            (&[(File, "a"), (File, "a")], "a and a are the same file"),
            (
                &[(File, "d/a"), (Directory, "d")],
                "d/a would be in the directory of d",
            ),
            (
                &[(Directory, "d"), (Directory, "d/e")],
                "d/e would be in the directory of d",
            ),
            (
                &[(File, "s.2"), (Set, "s")],
                "s.2 would be one of the files of s",
            ),
            (
                &[(Set, "s"), (File, "s.part")],
                "s.part would be one of the files of s",
            ),
        ] {
            assert_eq!(check(writes).unwrap_err(), words);
        }
    }

    #[test]
    fn objects_by_whatever_address() {
        for (output, input, same) in [
            ("s3://b/d/k.csv", "s3a://b/d/k.csv", true),
            ("s3://b/d/k.csv", "https://b.s3.amazonaws.com/d/k.csv", true),
            (
                "s3://b/d/k k",
                "https://b.s3.eu-west-1.amazonaws.com/d/k%20k?X-Amz-Signature=s",
                true,
            ),
            ("s3://b/k", "https://s3.eu-west-1.amazonaws.com/b/k", true),
            ("s3://b/k", "https://s3.eu-west-1.amazonaws.com/b2/k", false),
            ("s3://b/k", "https://example.com/b/k", false),
            ("gs://b/k", "https://storage.googleapis.com/b/k", true),
            ("gs://b/k", "https://b.storage.googleapis.com/k", true),
            ("gs://b/k", "s3://b/k", false),
            (
                "abfs://c@a.dfs.core.windows.net/k",
                "abfss://c@a.dfs.core.windows.net/k",
                true,
            ),
            (
                "abfs://c@a.dfs.core.windows.net/k",
                "https://a.blob.core.windows.net/c/k?sig=s",
                true,
            ),
            (
                "abfs://c@a.dfs.core.windows.net/k",
                "abfs://c@b.dfs.core.windows.net/k",
                false,
            ),
            // Which account is in the environment.
            ("az://c/k", "abfs://c@a.dfs.core.windows.net/k", true),
            ("az://c/k", "az://c/k2", false),
            ("s3://b/k", "s3://b/K", false),
        ] {
            let found = overlap(output.as_ref(), PathKind::File, input.as_ref());
            assert_eq!(found == Some(Overlap::Same), same, "{output} {input}");
        }
    }

    #[test]
    fn what_an_input_would_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("day=1/[x]")).unwrap();
        std::fs::create_dir(at("day=2")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("day=1"), at("link")).unwrap();
        let cases = [
            ("day=1", "day=1/new.csv", true),
            ("day=1", "day=2/../day=1/new.csv", true),
            ("day=1", "new.csv", false),
            ("*.csv", "new.csv", true),
            ("*.csv", "new.jsonl", false),
            ("*.csv", ".new.csv", false),
            ("*.csv", "day=1/new.csv", false),
            ("day=2/../day=1/*.csv", "day=1/new.csv", true),
            ("day=[12]/*", "day=2/new.csv", true),
            ("day=*", "day=2/new.csv", true),
            ("day=*/", "day=2/new.csv", true),
            ("day=*/.//*.csv", "day=2/new.csv", true),
            ("day=[1]/../day=2/*", "day=2/new.csv", true),
            ("day=[1]/..", "new.csv", true),
            ("link*/*.csv", "day=1/new.csv", true),
            ("link*", "day=1/new.csv", true),
            ("day=*", "day=2/_new.csv", false),
            ("day=1", "day=1/_new.csv", false),
            ("day=1/*", "day=1/_new.csv", false),
            ("day=1/_*", "day=1/_new.csv", true),
            ("**/*.csv", "day=1/[x]/new.csv", true),
            ("day=1/[[]x]/*", "day=1/[x]/new.csv", true),
            ("nowhere/*", "new.csv", false),
        ];
        for (input, output, among) in cases {
            assert_eq!(is_in(&at(output), &at(input)), among, "{output} in {input}");
        }
        for (input, output, among) in [
            ("s3://b/d", "s3://b/d/new.csv", true),
            ("s3://b/d/", "s3://b/d/new.csv", true),
            ("s3://b/", "s3://b/new.csv", true),
            ("s3://b/d/*.csv", "s3a://b/d/new.csv", true),
            ("s3://b/day=*", "s3://b/day=1/new.csv", true),
            ("s3://b/d/*.csv", "s3://b/d/new.parquet", false),
            ("s3://b/d", "s3://b/d/e/new.csv", false),
            ("s3://b/d.csv", "s3://b/d.csv", false),
            ("s3://b/d", "gs://b/d/new.csv", false),
            ("s3://b/d", "s3://b/d/_new.csv", false),
            ("s3://b/d", "s3://b/dd/new.csv", false),
        ] {
            assert_eq!(
                is_in(output.as_ref(), input.as_ref()),
                among,
                "{output} in {input}"
            );
        }
        assert!(!is_in("-".as_ref(), place.path()));
        assert!(is_in("new.csv".as_ref(), "*.csv".as_ref()));
    }
}
