//! Who may do what with files on Windows, by their access control lists.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use vesica_kernels::windows::{self, Descriptor};

/// Opens a link itself, and not what it leads to.
pub(crate) const OPEN_LINK: u32 = 0x0020_0000;
/// Opens directories too.
const OPEN_DIRECTORY: u32 = 0x0200_0000;

/// The right to see who may do what.
pub(crate) const READ_CONTROL: u32 = 0x0002_0000;
/// The right to delete, and so to move.
pub(crate) const DELETE: u32 = 0x0001_0000;
/// What tells of a file, and not what is in it.
const ATTRIBUTES: u32 = READ_CONTROL | 0x0010_0000 | 0x80 | 0x08;
/// And what is in it, or in a directory.
pub(crate) const READING: u32 = ATTRIBUTES | 0x8000_0000 | 0x2000_0000 | 0x20 | 0x01;
/// And making files and directories in a directory, without touching those of others.
pub(crate) const ADDING: u32 = READING | 0x4000_0000 | 0x100 | 0x10 | 0x04 | 0x02;

/// Opens what has this name with these rights: a directory too, and a link itself if `link` says so.
pub(crate) fn look(path: &Path, rights: u32, link: bool) -> io::Result<File> {
    let link = if link { OPEN_LINK } else { 0 };
    let mut options = OpenOptions::new();
    options
        .access_mode(rights)
        .custom_flags(OPEN_DIRECTORY | link);
    options.open(path)
}

/// Opens what is in a file that was opened with [`OPEN_LINK`], by the same options and name, if that is elsewhere: what
/// deduplication, compression of the whole system and clouds leave in its place only says where.
pub(crate) fn content_of(
    file: &File,
    options: &mut OpenOptions,
    path: &Path,
) -> io::Result<Option<File>> {
    const REPARSE_POINT: u32 = 0x400;
    let there = file.metadata()?;
    let is_elsewhere = !there.is_symlink() && there.file_attributes() & REPARSE_POINT != 0;
    let content = is_elsewhere.then(|| options.custom_flags(0).open(path));
    content.transpose()
}

/// Whether anybody but this user, the system and administrators may do anything with an open file but look at its
/// attributes.
pub(crate) fn is_exposed(file: &File) -> io::Result<bool> {
    Ok(!is_own(file)? || lets_others(file, ATTRIBUTES)?)
}

/// Whether what is open belongs to this user, to the system or to administrators.
pub(crate) fn is_own(file: &File) -> io::Result<bool> {
    Ok(windows::descriptor(file)?.has_safe_owner(&windows::user()?))
}

/// Makes a file that only this user, the system and administrators may use.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    windows::create_file(path, &Descriptor::private(&windows::user()?, false))
}

/// Makes a directory that only they may use, and so for what is made in it.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    windows::create_directory(path, &Descriptor::private(&windows::user()?, true))
}

/// Lets those use a file of [`create`] who may use another.
pub(crate) fn share(file: &File, with: &File) -> io::Result<()> {
    windows::set_list(file, &windows::descriptor(with)?)
}

/// Whether anybody but this user, the system and administrators may do more than these rights with what is open.
pub(crate) fn lets_others(file: &File, harmless: u32) -> io::Result<bool> {
    Ok(windows::descriptor(file)?.lets_others(&windows::user()?, harmless))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrivateFile, Readers, UnsafeDirectory, WholeFile, is_exposed, private_directory};
    use std::io::Write;

    #[test]
    fn secrets_are_private_from_the_start_and_results_as_it_is_said() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let exposed = |name: &str| is_exposed(&File::open(at(name)).unwrap()).unwrap();
        let mut secret = PrivateFile::create(&at("secret")).unwrap();
        secret.write_all(b"secret").unwrap();
        secret.place_new().unwrap();
        assert!(!exposed("secret"));
        // What its directory hands down is what any file gets.
        std::fs::write(at("plain"), "").unwrap();
        for readers in [Readers::OWNER, Readers::ANYBODY] {
            let mut file = WholeFile::create(&at("result")).unwrap();
            file.readable_by(readers);
            file.commit().unwrap();
            let shared = readers == Readers::ANYBODY;
            assert_eq!(exposed("result"), shared && exposed("plain"));
            std::fs::remove_file(at("result")).unwrap();
        }
    }

    /// Longer than the system takes of those who do not ask for more.
    #[test]
    fn a_path_may_be_long() {
        let place = tempfile::tempdir().unwrap();
        let mut path = place.path().to_owned();
        while path.as_os_str().len() < 400 {
            path.push("directory".repeat(5));
            create_directory(&path).unwrap();
        }
        let name = path.join("secret");
        let mut secret = PrivateFile::create(&name).unwrap();
        secret.write_all(b"secret").unwrap();
        secret.place_new().unwrap();
        let again = PrivateFile::create(&name).unwrap().place_new().unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(!is_exposed(&File::open(&name).unwrap()).unwrap());
        let lock = crate::open_own(&path.join("lock"), Some(0o600)).unwrap();
        assert!(!is_exposed(&lock).unwrap());
    }

    /// A list by which everybody may read a file, or write to a directory, as `icacls` would set it.
    fn open_to_everybody() -> Descriptor {
        let everybody = [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        Descriptor::private(&everybody, false)
    }

    #[test]
    fn a_list_that_lets_others_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = windows::create_file(&path, &open_to_everybody()).unwrap();
        assert!(is_exposed(&file).unwrap());
        let private = Descriptor::private(&windows::user().unwrap(), false);
        windows::set_list(&file, &private).unwrap();
        assert!(!is_exposed(&file).unwrap());
        windows::set_list(&file, &open_to_everybody()).unwrap();
        assert!(is_exposed(&file).unwrap());
    }

    #[test]
    fn directories_are_private_or_refused() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        let others = place.path().join("others");
        windows::create_directory(&others, &open_to_everybody()).unwrap();
        let refused = private_directory(&others).unwrap();
        assert_eq!(refused, Some(UnsafeDirectory::Writable));
        // Whether it is safe depends on what is above the place for temporary files.
        let safe = private_directory(&own).unwrap();
        assert!(matches!(safe, None | Some(UnsafeDirectory::Movable { .. })));
        let inside = others.join("inside");
        assert!(matches!(
            private_directory(&inside).unwrap(),
            Some(UnsafeDirectory::Movable { .. })
        ));
    }
}
