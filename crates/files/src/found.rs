//! What is there where something else was expected, in words.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::open_regular;
use crate::secret::is_fingerprint;

/// Bytes of a file that are looked at.
const HEAD: u64 = 4096;

/// What [`found_at`] calls a message of a run by files.
pub const MESSAGE: &str = "a message of a run by files";

/// What PEM begins with, and an identity.
const PEM: &[u8] = b"-----BEGIN ";
const KEYS: [&[u8]; 2] = [
    b"-----BEGIN PRIVATE KEY",
    b"-----BEGIN ENCRYPTED PRIVATE KEY",
];

/// What files of our own begin with, and what such a file is. The first that fits counts.
const OWN: &[(&[u8], &str)] = &[
    (b"vesica\0S", "a published set"),
    (b"vesicax", MESSAGE),
    (b"vesica", "a file that a command keeps for itself"),
];

/// What texts of our own begin with.
const TEXTS: &[(&[u8], &str)] = &[(b"{\n  \"format\":", "the record of a job")];

/// What files of other programs begin with that are no tables here.
const NO_TABLES: &[(&[u8], &str)] = &[
    (b"PARE", "an encrypted Parquet file"),
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet"),
    (
        b"\xd0\xcf\x11\xe0",
        "an old spreadsheet, or one with a password",
    ),
    (b"\xfd7zXZ\0", "a file compressed with xz"),
    (b"\x04\x22\x4d\x18", "a file compressed with LZ4"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"%PDF-", "a PDF document"),
    (b"FEA1", "a Feather file of version 1"),
    (b"Obj\x01", "an Avro file"),
    (b"SQLite format 3\0", "an SQLite database"),
];

/// And those that are, or may be.
const TABLES: &[(&[u8], &str)] = &[
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x1f\x8b", "a file compressed with gzip"),
    (b"\x28\xb5\x2f\xfd", "a file compressed with zstd"),
];

/// What a directory is for that a command has made for itself. No command uses one of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectoryKind {
    /// What another run goes on with.
    WorkDir,
    /// How far a run by files has come.
    Courier,
    /// A job for tasks.
    Job,
    /// Several of them, each in a directory in it.
    Jobs,
    /// The private side of a published set.
    Database,
    /// What later look-ups need not ask.
    LookUp,
    /// Stored halves of correlations.
    Store,
}

impl DirectoryKind {
    /// All that are known by what is in them.
    pub const ALL: &[DirectoryKind] = &[
        DirectoryKind::WorkDir,
        DirectoryKind::Courier,
        DirectoryKind::Job,
        DirectoryKind::Database,
        DirectoryKind::LookUp,
        DirectoryKind::Store,
    ];

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            DirectoryKind::WorkDir => "the work directory of a run",
            DirectoryKind::Courier => "the state of a run by files",
            DirectoryKind::Job => "the directory of a job",
            DirectoryKind::Jobs => "a directory for jobs",
            DirectoryKind::Database => "the database of a published set",
            DirectoryKind::LookUp => "the state of look-ups",
            DirectoryKind::Store => "a store of halves",
        }
    }

    /// The files of which it has one at least, in any version, and what these begin with.
    fn marks(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            DirectoryKind::WorkDir => &[("journal", b"vesicaj")],
            DirectoryKind::Courier => &[("run", b"vesicac")],
            DirectoryKind::Job => &[
                ("job.json", b"{\n  \"format\":"),
                ("draft.json", b"{\n  \"format\":"),
            ],
            DirectoryKind::Jobs => &[],
            DirectoryKind::Database => &[
                ("key", b"vesica database "),
                ("publishing-journal", b"vesica publishing "),
            ],
            DirectoryKind::LookUp => &[("state", b"vesica look-up ")],
            DirectoryKind::Store => &[(".half", b"vesicao")],
        }
    }

    /// Whether a command has made this directory for such a use.
    pub fn is_at(self, directory: &Path) -> bool {
        self.marks().iter().any(|(name, begin)| {
            if !name.starts_with('.') {
                return begins(&directory.join(name), begin);
            }
            // One of the files whose names end so.
            let mut files = fs::read_dir(directory).into_iter().flatten().flatten();
            files.any(|file| {
                let ends = file
                    .file_name()
                    .as_encoded_bytes()
                    .ends_with(name.as_bytes());
                ends && begins(&file.path(), begin)
            })
        })
    }

    /// What a command has made this directory for, if one has.
    pub fn of(directory: &Path) -> Option<DirectoryKind> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.is_at(directory))
    }
}

/// Whether a file is there that begins so.
fn begins(path: &Path, with: &[u8]) -> bool {
    let mut head = Vec::new();
    let file = open_regular(path).map(|file| file.take(with.len() as u64));
    let read = file.and_then(|mut file| file.read_to_end(&mut head));
    read.is_ok() && head == with
}

/// What is at a path, such as "a directory" or "a published set", as far as its first bytes tell, and of a directory
/// [what it is for](DirectoryKind); "a fingerprint" if the path itself is one, and nothing is there. `None` if nothing is there
/// or it cannot be read. Nothing of its content is told.
pub fn found_at(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Ok(there) if there.is_dir() => {
            let own = DirectoryKind::of(path).map(DirectoryKind::name);
            return Some(own.unwrap_or("a directory"));
        }
        Ok(_) => {}
        Err(_) => {
            let is_one = path.to_str().is_some_and(is_fingerprint);
            return is_one.then_some("a fingerprint");
        }
    }
    let mut head = Vec::new();
    let mut file = open_regular(path).ok()?;
    // What it is is known before its key, which would stay in memory.
    for bytes in [KEYS[1].len() as u64, HEAD] {
        let mut part = file.by_ref().take(bytes);
        part.read_to_end(&mut head).ok()?;
        if head.starts_with(PEM) {
            break;
        }
    }
    Some(found_in(&head))
}

fn found_in(head: &[u8]) -> &'static str {
    let own = own_file(head).or_else(|| foreign_file(head));
    match own.or_else(|| named(TABLES, head)) {
        Some(what) => what,
        None if head.is_empty() => "an empty file",
        None if is_text(head) => named(TEXTS, head).unwrap_or("a text file"),
        None => "a file of another kind",
    }
}

/// What a file is that begins so, if one of our commands has made it, or it is a key.
pub fn own_file(head: &[u8]) -> Option<&'static str> {
    if KEYS.iter().any(|key| head.starts_with(key)) {
        return Some("an identity");
    }
    if head.starts_with(PEM) {
        return Some("a PEM file of another kind");
    }
    // A text may begin with any word.
    named(OWN, head).filter(|_| !is_text(head))
}

/// What a file of another program is that begins so, if it is none that can be read as a table.
pub fn foreign_file(head: &[u8]) -> Option<&'static str> {
    // A digit for the level is in between.
    let is_bzip2 = head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY");
    named(NO_TABLES, head)
        .or(is_bzip2.then_some("a file compressed with bzip2"))
        .or_else(|| markup(head))
}

/// What a document of tags is.
fn markup(head: &[u8]) -> Option<&'static str> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start();
    let begins = |tag: &[u8]| {
        let start = text.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    match () {
        () if begins(b"<!doctype html") || begins(b"<html") => Some("an HTML page"),
        () if begins(b"<table") => Some("an HTML page"),
        () if begins(b"<?xml") => Some("an XML document"),
        () => None,
    }
}

fn named(known: &[(&[u8], &'static str)], head: &[u8]) -> Option<&'static str> {
    let found = known.iter().find(|(begin, _)| head.starts_with(begin));
    found.map(|(_, what)| *what)
}

/// Whether it is text, but for a character that is cut in two at the end.
fn is_text(head: &[u8]) -> bool {
    let valid = match str::from_utf8(head) {
        Ok(_) => head.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return false,
    };
    !head[..valid].contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        assert_eq!(found_at(place.path()), Some("a directory"));
        assert_eq!(found_at(&at("missing")), None);
        let fingerprint = format!("vs1:{}", "a".repeat(56));
        assert_eq!(found_at(Path::new(&fingerprint)), Some("a fingerprint"));
        assert_eq!(found_at(Path::new("vs1:a")), None);
        for (content, expected) in [
            (&b""[..], "an empty file"),
            (b"id\n1\n", "a text file"),
            ("\u{fc}ber\n".as_bytes(), "a text file"),
            (&"\u{fc}".as_bytes()[..1], "a text file"),
            (b"\xff\xfe", "a file of another kind"),
            (b"id\0", "a file of another kind"),
            (b"-----BEGIN PRIVATE KEY-----\n", "an identity"),
            (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "an identity"),
            (
                b"-----BEGIN CERTIFICATE-----\n",
                "a PEM file of another kind",
            ),
            (b"vesica\0S\x01", "a published set"),
            (b"vesicax2\0", "a message of a run by files"),
            (
                b"vesica ledger 2\n\0",
                "a file that a command keeps for itself",
            ),
            (b"vesica,id\n1,2\n", "a text file"),
            (b"PAR1\x15", "a Parquet file"),
            (b"BZh91AY&SY\x00", "a file compressed with bzip2"),
            (b"BZh9,id\n", "a text file"),
            (b"\xef\xbb\xbf\n<!DOCTYPE HTML>", "an HTML page"),
            (b"<id>,mail\n", "a text file"),
        ] {
            fs::write(at("file"), content).unwrap();
            assert_eq!(found_at(&at("file")), Some(expected));
        }
    }

    /// The command's tests have the commands make them.
    #[test]
    fn a_directory_is_known_by_what_is_in_it() {
        for kind in DirectoryKind::ALL {
            for (name, begin) in kind.marks() {
                let place = tempfile::tempdir().unwrap();
                let name = name.replace(".half", "abcd.half");
                fs::write(place.path().join("lock"), "").unwrap();
                fs::write(place.path().join(&name), "notes").unwrap();
                assert_eq!(found_at(place.path()), Some("a directory"));
                fs::write(place.path().join(&name), [begin, &b" 9"[..]].concat()).unwrap();
                assert_eq!(found_at(place.path()), Some(kind.name()));
                let known = DirectoryKind::ALL.iter();
                assert_eq!(known.filter(|kind| kind.is_at(place.path())).count(), 1);
            }
        }
    }
}
