//! Private names: what a file is called in the directory of the one that it becomes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

use crate::locks::try_lock;
use crate::open_regular;

/// The mode of files that only their owner may read.
pub(crate) const OWNER_ONLY: u32 = 0o600;
/// The mode of files that everybody may read, as far as the process lets others read its new files.
pub(crate) const EVERYBODY: u32 = 0o666;

const PREFIX: &str = ".vesica-";
const SUFFIX: &str = ".part";
/// Of the name of the file that it becomes. With four bytes each, no file system finds the private name too long.
const CHARACTERS: usize = 24;

/// A new file, to become `path`. It is locked as long as somebody writes it. Errors are the system's own:
/// [`Builder::tempfile_in`] would hide their codes.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<(File, TempPath)> {
    loop {
        let made = with_private_name(path, |private| new_file(private, mode))?;
        let (file, private) = made.into_parts();
        // Between its first moment and the lock somebody may have taken it for a leftover.
        if lock(&file) && private.exists() {
            return Ok((file, private));
        }
    }
}

#[cfg(unix)]
fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options.read(true).write(true).create_new(true).open(path)
}

/// For this user only, or for those whom the directory lets use its files.
#[cfg(windows)]
fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    if mode == OWNER_ONLY {
        return crate::windows::create(path);
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).open(path)
}

/// Puts a file with a private name in the place of another one, at once.
pub(crate) fn persist(file: &File, private: TempPath, path: &Path) -> io::Result<()> {
    #[cfg(not(windows))]
    {
        private.persist(path).map_err(|e| e.error)?;
        unlock(file);
        Ok(())
    }
    // The other one may be open, which [`TempPath::persist`] does not allow there. No other process has copies of this one.
    #[cfg(windows)]
    {
        let _ = file;
        let mut private = private;
        fs::rename(&private, path)?;
        private.disable_cleanup(true);
        Ok(())
    }
}

/// Gives a file with a private name another one, which no other file may have.
pub(crate) fn persist_new(file: &File, private: TempPath, path: &Path) -> io::Result<()> {
    #[cfg(not(windows))]
    {
        private.persist_noclobber(path).map_err(|e| e.error)?;
        unlock(file);
        Ok(())
    }
    // [`TempPath::persist_noclobber`] takes no long paths there.
    #[cfg(windows)]
    {
        let _ = file;
        let mut private = private;
        vesica_kernels::windows::rename_new(&private, path)?;
        private.disable_cleanup(true);
        Ok(())
    }
}

/// Unlocks a file that has its name, so that whoever opens it next can lock it. To close it is not enough: a process that
/// another thread has just started has a copy of it, and with that the lock, until it runs its own program.
#[cfg(not(windows))]
fn unlock(file: &File) {
    let _ = file.unlock();
}

/// Gives a private name to a file without a name, which is to become `path`.
#[cfg(target_os = "linux")]
pub(crate) fn link(
    file: &File,
    path: &Path,
    link: impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<TempPath> {
    // From now on the file could be left behind. Nobody else can have locked what has no name.
    lock(file);
    Ok(with_private_name(path, link)?.into_temp_path())
}

/// Makes something at a private name that is not in use. Removes first what killed processes have left of the same file.
fn with_private_name<T>(
    path: &Path,
    make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<NamedTempFile<T>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let start: String = name.chars().take(CHARACTERS).collect();
    // Two names may begin in the same way.
    let prefix = format!("{PREFIX}{start}-{:08x}-", hasher.finish() as u32);
    // What stays does no harm but to the space on the disk.
    let _ = each_unfinished(directory_of(path), &prefix, remove);
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX);
    builder.make_in(directory_of(path), make)
}

/// The directory of a file: the present one if its path names none.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Locks a file, unless somebody else has. Where there are no locks nothing is ever found unfinished.
fn lock(file: &File) -> bool {
    !matches!(try_lock(file), Err(TryLockError::WouldBlock))
}

/// Whether a file of this name has no other one yet.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The files in a directory that killed processes have not finished, with their bytes.
///
/// # Errors
/// A directory that cannot be read.
pub fn unfinished(place: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    each_unfinished(place, PREFIX, |path, file| {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        found.push((path.to_owned(), bytes));
    })?;
    Ok(found)
}

/// Removes the same files. What cannot be removed stays.
///
/// # Errors
/// A directory that cannot be read.
pub fn remove_unfinished(place: &Path) -> io::Result<()> {
    each_unfinished(place, PREFIX, remove)
}

fn remove(path: &Path, _: &File) {
    let _ = fs::remove_file(path);
}

/// Files are locked meanwhile, so that nobody takes one that was just made for their own ([`create`]) while it is removed.
fn each_unfinished(
    place: &Path,
    prefix: &str,
    mut work: impl FnMut(&Path, &File),
) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !(name.starts_with(prefix) && name.ends_with(SUFFIX)) {
            continue;
        }
        // No link is followed.
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        // What has gone meanwhile was finished or removed.
        let Ok(file) = open_regular(&path) else {
            continue;
        };
        if try_lock(&file).is_ok() {
            work(&path, &file);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WholeFile;

    /// As if the process was killed: the name stays, the lock does not.
    fn leave(path: &Path) -> PathBuf {
        let (_, private) = create(path, OWNER_ONLY).unwrap();
        private.keep().unwrap()
    }

    #[test]
    fn what_nobody_writes_is_unfinished() {
        let place = tempfile::tempdir().unwrap();
        let (file, private) = create(&place.path().join("file"), OWNER_ONLY).unwrap();
        for other in ["x.part", ".vesica-x", ".vesica-dir.part"] {
            fs::create_dir(place.path().join(other)).unwrap();
        }
        // Of other programs, as of those that take the same library for names.
        fs::write(place.path().join(".tmpAbCdEf.part"), "foreign").unwrap();
        assert_eq!(unfinished(place.path()).unwrap(), []);
        let left = private.keep().unwrap();
        drop(file);
        fs::write(&left, "text").unwrap();
        assert_eq!(unfinished(place.path()).unwrap(), [(left, 4)]);
        // Whoever made one meanwhile would see that it is about to go.
        each_unfinished(place.path(), PREFIX, |path, _| {
            assert!(!lock(&open_regular(path).unwrap()));
        })
        .unwrap();
        remove_unfinished(place.path()).unwrap();
        assert_eq!(unfinished(place.path()).unwrap(), []);
        assert_eq!(place.path().read_dir().unwrap().count(), 4);
    }

    #[test]
    fn whoever_replaces_a_file_removes_what_was_left_of_it() {
        let place = tempfile::tempdir().unwrap();
        let long = "\u{1F600}".repeat(60);
        for name in ["out", &long] {
            let path = place.path().join(name);
            fs::write(&path, "old").unwrap();
            let left = leave(&path);
            let others = leave(&place.path().join(format!("{name}-2")));
            let (_written, private) = create(&path, OWNER_ONLY).unwrap();
            assert!(!left.exists() && others.exists() && private.exists());
            let left = leave(&path);
            WholeFile::create(&path).unwrap().commit().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"");
            assert!(!left.exists() && others.exists() && private.exists());
        }
    }

    #[test]
    fn a_file_in_its_place_is_locked_by_nobody() {
        let place = tempfile::tempdir().unwrap();
        for (name, persist) in [
            ("other", persist as fn(&_, _, &_) -> _),
            ("new", persist_new),
        ] {
            let path = place.path().join(name);
            let (file, private) = create(&path, OWNER_ONLY).unwrap();
            assert!(!lock(&open_regular(&private).unwrap()));
            persist(&file, private, &path).unwrap();
            let copy = file.try_clone().unwrap();
            drop(file);
            assert!(lock(&open_regular(&path).unwrap()));
            drop(copy);
        }
    }

    /// Otherwise nobody could tell whether files have run out.
    #[test]
    fn an_error_has_the_code_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("nowhere/file");
        let error = create(&nowhere, OWNER_ONLY).unwrap_err();
        let plain = File::open(&nowhere).unwrap_err();
        assert_eq!(error.raw_os_error(), plain.raw_os_error());
        assert!(error.raw_os_error().is_some());
    }
}
