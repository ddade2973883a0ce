//! What a command names: nothing that is written may take the place of anything else that it names.
//!
//! Files are compared by their [`Place`], so that links, hard links, mounts and detours do not matter; what does not exist
//! yet by where links lead and its name in the nearest directory that does, whatever its case where the file system ignores
//! that; objects by the canonical form of their addresses. Devices and pipes
//! are never replaced, so that two uses of one are fine.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::iter;
use std::path::{Component, Path, PathBuf};

use vesica_files::{DirectoryKind, Place, directory_of, found_at, holds_key, redirected};

use crate::error::{Error, ErrorKind, Overlap, Result};
use crate::objects::address::{Address, shown};
#[cfg(feature = "object-stores")]
use crate::objects::find::environment;
use crate::objects::stored::StoredObject;
use crate::source::files::{Found, expand, would_find};

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
    /// A database in a file, with its journals beside it.
    Database,
    /// A directory in which are the command's own files alone.
    Directory(DirectoryKind),
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

    fn is_directory(self) -> bool {
        matches!(self, PathKind::Directory(_))
    }

    /// What may be beside such a file, without the numbers.
    fn beside(self) -> &'static [&'static str] {
        match self {
            PathKind::Set => &[".part"],
            PathKind::Database => &["-journal", "-wal", "-shm", ".wal"],
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
    /// What tells the file from others, if it is known.
    id: Option<Place>,
    /// Whether it is standard output or standard error, which may be one file.
    is_standard: bool,
}

/// Variables that name files with credentials.
const CREDENTIALS: &[&str] = &[
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLROOTCERT",
    "SSL_CERT_FILE",
];

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
            is_standard: is_written && path.as_os_str() == "-",
        });
    }

    /// Adds standard error, which messages are added to.
    pub fn writes_messages(&mut self) {
        self.writes("standard error", PathKind::File, Path::new(""));
        if let Some(last) = self.0.last_mut() {
            last.id = place_of(redirected(&io::stderr()));
            last.is_standard = true;
        }
    }

    /// The variables that name files with credentials.
    #[doc(hidden)]
    pub fn credentials() -> &'static [&'static str] {
        CREDENTIALS
    }

    /// Adds the files with credentials that variables of the environment name, of those that clients of stores and databases
    /// read.
    pub fn reads_credentials(&mut self) {
        for variable in CREDENTIALS {
            let path = std::env::var_os(variable).map(PathBuf::from);
            // What is no file is complained of where it is needed.
            if let Some(path) = path.filter(|path| path.is_file()) {
                self.reads(*variable, PathKind::File, &path);
            }
        }
    }

    /// Adds a file that is read, by its name, and by its place, as far as that is known.
    pub(crate) fn reads_file(
        &mut self,
        what: &str,
        kind: PathKind,
        path: &Path,
        id: Option<Place>,
    ) {
        self.reads(what, kind, path);
        if let Some(last) = self.0.last_mut() {
            last.id = id;
        }
    }

    /// Fails if a path is a private key or has a line end; if what is written would take the place of anything else, or be
    /// among the files of an input; if anything is in a directory that belongs to the command; if it is a fingerprint, or
    /// leads to a directory in the place of a file or the other way round, or to one that a command has made for something
    /// else; and if there is no directory for what is written.
    ///
    /// # Errors
    /// Usage: it would.
    pub fn check(&self) -> Result<()> {
        self.check_those(|_| true)
    }

    /// Whether what is called this is fit to be written, whatever is wrong with all else.
    pub fn may_write(&self, what: &str) -> bool {
        self.check_those(|named| named.what == what).is_ok()
    }

    /// Checks some, each against all.
    fn check_those(&self, is_one: impl Fn(&Named) -> bool) -> Result<()> {
        let those = || self.0.iter().filter(|named| is_one(named));
        those().try_for_each(Named::check)?;
        let located: Vec<Located<'_>> = self.0.iter().map(Located::of).collect();
        for (at, written) in located.iter().enumerate() {
            if !written.named.is_written {
                continue;
            }
            for (_, other) in located.iter().enumerate().filter(|(i, _)| *i != at) {
                if !is_one(written.named) && !is_one(other.named) {
                    continue;
                }
                if let Some((one, how, other)) = written.overlap(other) {
                    // What a directory is or lacks says more than what is in it.
                    let both = [one.named, other.named];
                    both.into_iter().try_for_each(Named::check_use)?;
                    return Err(Error::new(ErrorKind::TakesPlace {
                        what: one.named.what.clone(),
                        other: other.named.what.clone(),
                        how,
                        lacks: both.into_iter().find_map(Named::lacks),
                    }));
                }
            }
        }
        those().try_for_each(Named::check_kind)
    }
}

impl Named {
    /// Fails if something of another kind is there, or the path is no path but a fingerprint.
    fn check_kind(&self) -> Result<()> {
        let there = self.path.metadata().ok();
        let is_directory = there.as_ref().is_some_and(|there| there.is_dir());
        let is_file = there.is_some() && !is_directory;
        let (expected, fits) = match self.kind {
            PathKind::File => ("a file", is_file),
            PathKind::Set => ("a published set", is_file),
            PathKind::Table => (
                "a table",
                is_file || is_directory && DirectoryKind::of(&self.path).is_none(),
            ),
            PathKind::Directory(kind) if is_directory => (
                kind.name(),
                kind.is_at(&self.path) || DirectoryKind::of(&self.path).is_none(),
            ),
            PathKind::Directory(_) => ("a directory", false),
            PathKind::Database | PathKind::Address => return Ok(()),
        };
        // A file that fits is not opened.
        let found = (!fits).then(|| found_at(&self.path)).flatten();
        match found {
            Some(found) => Err(Error::usage(format!(
                "{} {} is {found}, and not {expected}",
                self.what,
                shown(&self.path)
            ))),
            None => self.check_directory(),
        }
    }

    /// Fails if a directory is there that a command has made for something else.
    fn check_use(&self) -> Result<()> {
        match DirectoryKind::of(&self.path) {
            Some(_) => self.check_kind(),
            None => Ok(()),
        }
    }

    /// What a directory lacks that is to be the command's own, if it is there.
    fn lacks(&self) -> Option<String> {
        match self.kind {
            PathKind::Directory(kind) if self.path.is_dir() && !kind.is_at(&self.path) => Some(
                format!("{} {} is not {}", self.what, shown(&self.path), kind.name()),
            ),
            _ => None,
        }
    }

    /// Fails if it is written to a directory that is not there.
    fn check_directory(&self) -> Result<()> {
        let is_name = !self.path.as_os_str().is_empty() && self.path.as_os_str() != "-";
        let is_local =
            is_name && self.kind != PathKind::Address && Address::of(&self.path).is_none();
        if !self.is_written || !is_local {
            return Ok(());
        }
        // Whatever else keeps one from being used is complained of then.
        let is_missing = |directory: &&Path| match directory.metadata() {
            Ok(there) => !there.is_dir(),
            Err(e) => matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        };
        let above = directory_of(&self.path).ancestors();
        let above = above.take_while(|above| !above.as_os_str().is_empty());
        match above.take_while(is_missing).last() {
            Some(missing) => Err(Error::usage_with(
                format!(
                    "{} {}: there is no directory {}",
                    self.what,
                    shown(&self.path),
                    shown(missing)
                ),
                "make the directory first, or name another place",
            )),
            None => Ok(()),
        }
    }

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
    object: Option<StoredObject>,
    /// The name itself, and where its links lead, without links and detours above; both in lower case too where that is the
    /// same. None of a device or pipe.
    paths: Vec<PathBuf>,
    /// Of the file and of those beside it, as far as they are there.
    ids: Vec<Place>,
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
            located.ids.extend(match named.is_written {
                true => place_of(redirected(&io::stdout())),
                false => place_of(redirected(&io::stdin())),
            });
            return located;
        }
        if let Some(address) = Address::of(path) {
            // One that is none is complained of when it is opened.
            #[cfg(feature = "object-stores")]
            let object = address.map(|address| StoredObject::of(&address, &environment()));
            #[cfg(not(feature = "object-stores"))]
            let object = address.map(|address| StoredObject::of(&address));
            located.object = object.ok();
            return located;
        }
        let there = path.metadata().ok();
        if there
            .as_ref()
            .is_some_and(|there| !there.is_file() && !there.is_dir())
        {
            return located;
        }
        let id = there.as_ref().and_then(|there| Place::at(path, there));
        located.ids.extend(id);
        let name = match path.file_name() {
            Some(name) => resolved(directory_of(path)).join(name),
            None => resolved(path),
        };
        for path in [name, resolved(path)] {
            let lower = in_lower_case(&path);
            for path in iter::once(path).chain(lower) {
                if !located.paths.contains(&path) {
                    located.paths.push(path);
                }
            }
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
            _ if self.named.is_standard && other.named.is_standard => return None,
            _ if self.is_beside(other) => Overlap::Among,
            _ if other.is_beside(self) => return Some((other, Overlap::Among, self)),
            kind if self.is_same(other) => {
                let are_to_be = kind.is_directory() && self.named.kind.is_directory();
                match are_to_be || self.named.path.is_dir() {
                    true => Overlap::SameDirectory,
                    false if self.named.is_standard || other.named.is_standard => {
                        Overlap::Redirected
                    }
                    false => Overlap::Same,
                }
            }
            PathKind::Directory(_) if self.is_inside(other) => Overlap::Inside,
            // What is read there might be taken for the command's own, and removed.
            _ if self.holds(other) => return Some((other, Overlap::Inside, self)),
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
            (Some(object), Some(other)) => object.is_same(other),
            (None, None) => {
                self.ids.iter().any(|id| other.ids.contains(id))
                    || (self.paths.iter())
                        .any(|own| other.paths.iter().any(|of| is_same_name(own, of)))
            }
            _ => false,
        }
    }

    fn is_inside(&self, directory: &Located<'_>) -> bool {
        self.paths.iter().any(|path| directory.is_above(path))
    }

    fn is_above(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| {
            let id = place_at(above);
            id.is_some_and(|id| self.ids.contains(&id))
                || self.paths.iter().any(|its| is_same_name(its, above))
        })
    }

    /// Whether it is a directory of the command's own, and another or one of its files is in it.
    fn holds(&self, other: &Located<'_>) -> bool {
        if !self.named.kind.is_directory() {
            return false;
        }
        let is_table = other.named.kind == PathKind::Table;
        let is_here = |path: &PathBuf| self.is_above(&resolved(path));
        other.is_inside(self) || is_table && other.found().iter().any(is_here)
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
        let is_directory = self.named.kind.is_directory();
        let by_name =
            |path: &PathBuf| would_find(path) || is_directory && would_find(&path.join("any"));
        self.paths.iter().any(by_name) || self.is_found(input)
    }

    /// Whether a file that is there is one of an input's under another name.
    fn is_found(&self, input: &Located<'_>) -> bool {
        !self.ids.is_empty()
            && input.found().iter().any(|path| {
                let id = place_at(path);
                id.is_some_and(|id| self.ids.contains(&id))
            })
    }

    /// The files of an input.
    fn found(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        if self.paths.is_empty() {
            return files;
        }
        // What cannot be listed is complained of when it is read.
        for found in expand(std::slice::from_ref(&self.named.path)).unwrap_or_default() {
            match found {
                Found::File { path, .. } => files.push(path),
                #[cfg(feature = "object-stores")]
                Found::Object(_) => {}
            }
        }
        files
    }
}

fn place_of(file: Option<File>) -> Option<Place> {
    Place::of(&file?).ok()
}

/// Of what has this path, links followed, if it is there.
fn place_at(path: &Path) -> Option<Place> {
    Place::at(path, &path.metadata().ok()?)
}

/// Whether two names are one: in any case if they are of Windows, which drops dots and blanks at the end too.
fn is_same_name(name: &Path, other: &Path) -> bool {
    let lower = |path: &Path| {
        let name = path.to_string_lossy().to_lowercase();
        name.trim_end_matches(['.', ' ']).to_owned()
    };
    name == other || cfg!(windows) && lower(name) == lower(other)
}

/// What identifies the files beside one, as far as they are there.
fn beside(kind: PathKind, path: &Path) -> Vec<Place> {
    let id = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        place_at(Path::new(&name))
    };
    let mut ids: Vec<Place> = kind
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

/// As many links as systems follow.
const MAX_LINKS: usize = 40;

/// The path without links and detours, whether or not there is anything at the end of the last link: where a file that is
/// made would be.
fn resolved(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..MAX_LINKS {
        match as_far_as_a_link(&path) {
            Ok(place) => return place,
            Err(target) => path = target,
        }
    }
    path
}

/// The path without links and detours; or with the target of the first link on it that leads to nothing in the place of this.
fn as_far_as_a_link(path: &Path) -> std::result::Result<PathBuf, PathBuf> {
    let mut above = path.ancestors();
    let there = above.find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, mut place)) = there else {
        return Ok(path.to_owned());
    };
    let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
    let mut rest = rest.components();
    while let Some(component) = rest.next() {
        match component {
            Component::ParentDir => drop(place.pop()),
            Component::Normal(name) => match place.join(name).read_link() {
                Ok(target) => return Err(place.join(target).join(rest)),
                Err(_) => place.push(name),
            },
            _ => {}
        }
    }
    Ok(place)
}

/// The path with its last name, and what is not there yet, in lower case; `None` if the directory where that begins tells
/// upper from lower case.
fn in_lower_case(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().skip(1).find(|above| above.is_dir())?;
    let rest = path.strip_prefix(there).ok()?.to_str()?;
    // As good as folding: some letters have one form in upper case, and two in lower case.
    let lower = rest.to_uppercase().to_lowercase();
    ignores_case(there).then(|| there.join(lower))
}

/// Names by which it is found out whether a directory ignores case.
const MAX_PROBED: usize = 16;

/// Whether a directory takes two names for one that differ by upper and lower case alone. Looks at what is there, and makes
/// nothing.
fn ignores_case(directory: &Path) -> bool {
    let there = std::fs::read_dir(directory).into_iter().flatten();
    let there = there.take(MAX_PROBED).flatten().map(|entry| entry.path());
    let above = directory.ancestors().map(Path::to_owned);
    let mut known = there
        .chain(above)
        .filter_map(|path| is_same_in_other_case(&path));
    known
        .next()
        .unwrap_or(cfg!(any(windows, target_os = "macos")))
}

/// Whether a path leads to the same file with upper case for lower case in its last name, and the other way round; `None` if
/// that is the same name, or it cannot be told.
fn is_same_in_other_case(path: &Path) -> Option<bool> {
    let name = path.file_name()?.to_str()?;
    let swapped: String = name
        .chars()
        .map(|c| match c.is_ascii_lowercase() {
            true => c.to_ascii_uppercase(),
            false => c.to_ascii_lowercase(),
        })
        .collect();
    let there = path.symlink_metadata().ok()?;
    let in_other_case = path.with_file_name(&swapped);
    match in_other_case.symlink_metadata() {
        _ if swapped == name => None,
        Ok(other) => Some(Place::at(path, &there)? == Place::at(&in_other_case, &other)?),
        Err(e) => (e.kind() == io::ErrorKind::NotFound).then_some(false),
    }
}

#[cfg(test)]
mod tests;
