//! The files that an input names: itself, those of a directory, those that fit a pattern.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::{Pattern, glob_with};

use crate::error::{Error, ErrorKind, Result};
use crate::names::{FITTING, is_no_data, names_column, names_no_data};
use crate::objects::address::Address;
#[cfg(feature = "object-stores")]
use crate::objects::find;
use crate::source::partition::Partition;

/// A file of a table, or an object.
#[derive(Debug)]
pub(crate) enum Found {
    File {
        path: PathBuf,
        /// The directory below which names of directories say columns.
        root: PathBuf,
        is_below: bool,
    },
    #[cfg(feature = "object-stores")]
    Object(find::Found),
}

impl Found {
    fn path(&self) -> &Path {
        match self {
            Found::File { path, .. } => path,
            #[cfg(feature = "object-stores")]
            Found::Object(object) => &object.path,
        }
    }

    /// The columns that its directories say.
    pub(crate) fn partition(&self) -> Result<Partition> {
        let root = match self {
            Found::File { root, .. } => root,
            #[cfg(feature = "object-stores")]
            Found::Object(object) => &object.root,
        };
        let partition = Partition::of(self.path(), root);
        partition.map_err(|e| e.in_path(&self.path().display().to_string()))
    }

    /// Whether it is in a directory below one that was named.
    pub(crate) fn is_below(&self) -> bool {
        match self {
            Found::File { is_below, .. } => *is_below,
            #[cfg(feature = "object-stores")]
            Found::Object(object) => object.is_below,
        }
    }
}

/// The files and objects of all inputs, ordered by path.
pub(crate) fn expand(inputs: &[PathBuf]) -> Result<Vec<Found>> {
    let (mut files, mut addresses) = (Vec::new(), Vec::new());
    for input in inputs {
        if let Some(address) = Address::of(input) {
            addresses.push(address?);
            continue;
        }
        match pattern(input) {
            Some(pattern) => fitting(pattern, &mut files).map_err(|e| e.in_path(pattern))?,
            None => add(input, input, &mut files)?,
        }
    }
    refuse_lakes(&files)?;
    let mut found = files;
    find_objects(&addresses, &mut found)?;
    found.sort_by(|a, b| a.path().cmp(b.path()));
    if let Some(twice) = found
        .windows(2)
        .find(|pair| pair[0].path() == pair[1].path())
    {
        let name = twice[0].path().display().to_string();
        return Err(Error::usage("is named twice").in_path(&name));
    }
    Ok(found)
}

#[cfg(feature = "object-stores")]
fn find_objects(addresses: &[Address], found: &mut Vec<Found>) -> Result<()> {
    let (mut finder, mut objects) = (find::Finder::default(), Vec::new());
    for address in addresses {
        let searched = finder.find(address, &mut objects);
        searched.map_err(|e| e.in_path(&address.shown()))?;
    }
    found.extend(objects.into_iter().map(Found::Object));
    Ok(())
}

#[cfg(not(feature = "object-stores"))]
fn find_objects(addresses: &[Address], _: &mut Vec<Found>) -> Result<()> {
    match addresses {
        [] => Ok(()),
        _ => Err(crate::objects::address::not_built()),
    }
}

/// Refuses files of tables whose log says which of them count, and which of their rows: deleted ones are still in them.
fn refuse_lakes(files: &[Found]) -> Result<()> {
    let mut seen = HashSet::new();
    for file in files.iter().map(Found::path) {
        let Ok(place) = file.canonicalize() else {
            continue; // whoever opens it says why
        };
        for directory in place.ancestors().skip(1) {
            if !seen.insert(directory.to_owned()) {
                break;
            }
            if let Some(what) = lake(directory) {
                return Err(Error::of_a_lake(what).in_path(&file.display().to_string()));
            }
        }
    }
    Ok(())
}

/// What kind of table a directory is the root of, if it is one with a log.
fn lake(directory: &Path) -> Option<&'static str> {
    let is_there = |name: &str| directory.join(name).is_dir();
    let is_iceberg = || {
        let mut logs = directory.join("metadata").read_dir().into_iter().flatten();
        logs.any(|entry| {
            entry.is_ok_and(|entry| {
                let name = entry.file_name();
                name.as_encoded_bytes().ends_with(b".metadata.json")
            })
        })
    };
    match () {
        () if is_there("_delta_log") => Some("a Delta table"),
        () if is_there(".hoodie") => Some("a Hudi table"),
        () if is_iceberg() => Some("an Iceberg table"),
        () => None,
    }
}

/// A path that is a pattern. Brackets and stars may be in names too.
fn pattern(input: &Path) -> Option<&str> {
    let text = input
        .to_str()
        .filter(|text| text.contains(['*', '?', '[']))?;
    input.symlink_metadata().is_err().then_some(text)
}

/// A file, or the files of a directory. Names of directories below `root` say columns.
fn add(path: &Path, root: &Path, files: &mut Vec<Found>) -> Result<()> {
    if path.is_dir() {
        let added = directory(path, root, 0, files);
        return added.map_err(|e| e.in_path(&path.display().to_string()));
    }
    files.push(Found::File {
        path: path.to_owned(),
        root: root.to_owned(),
        is_below: false,
    });
    Ok(())
}

/// The files that fit a pattern, and those of the directories that do.
fn fitting(pattern: &str, files: &mut Vec<Found>) -> Result<()> {
    let root = before_wildcards(pattern);
    let paths = glob_with(pattern, FITTING)
        .map_err(|e| Error::usage(format!("is no pattern: {}", e.msg)))?;
    let before = files.len();
    for path in paths {
        let path = path.map_err(|e| Error::new(ErrorKind::Unreadable(e.into())))?;
        if names_no_data(pattern) || !is_no_data(&path) {
            add(&path, root, files)?;
        }
    }
    match files.len() {
        after if after == before => Err(Error::new(ErrorKind::NoFiles)),
        _ => Ok(()),
    }
}

/// The directory of a pattern above the first name with a wildcard.
fn before_wildcards(pattern: &str) -> &Path {
    let literal = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let above = pattern[..literal].rfind('/').map_or(0, |slash| slash + 1);
    Path::new(&pattern[..above])
}

/// The deepest directories that say columns.
const MAX_DEPTH: usize = 32;

/// The files of a directory, and of those in it that say columns, as `year=2024` does. Other directories in it are refused: the
/// files in them would be missing.
fn directory(path: &Path, root: &Path, depth: usize, files: &mut Vec<Found>) -> Result<()> {
    let unreadable = |e| Error::new(ErrorKind::Unreadable(e));
    let before = files.len();
    for entry in path.read_dir().map_err(unreadable)? {
        let found = entry.map_err(unreadable)?.path();
        let name = found.file_name().unwrap_or_default().to_string_lossy();
        if is_no_data(&found) {
            continue;
        }
        if found.is_dir() {
            if depth == MAX_DEPTH || !names_column(&name) {
                let name = name.into_owned();
                return Err(Error::new(ErrorKind::Subdirectory { name }));
            }
            directory(&found, root, depth + 1, files)?;
            continue;
        }
        files.push(Found::File {
            path: found,
            root: root.to_owned(),
            is_below: depth > 0,
        });
    }
    match files.len() {
        after if after == before => Err(Error::new(ErrorKind::NoFiles)),
        _ => Ok(()),
    }
}

/// Whether [`expand`] would find a file of this name, if it were there, among those of an input that is a directory or a
/// pattern. `directory` is without links and detours.
pub(crate) fn would_find(input: &Path, directory: &Path, name: &OsStr) -> bool {
    let is_in = |path: &Path| {
        let below = directory.strip_prefix(path);
        below.is_ok_and(|below| {
            let mut names = below.iter().map(OsStr::to_string_lossy);
            names.all(|name| names_column(&name))
        })
    };
    let is_above = |path: &Path| path.canonicalize().is_ok_and(|path| is_in(&path));
    let is_here = |path: &Path| path.canonicalize().is_ok_and(|path| path == directory);
    let is_data = !is_no_data(Path::new(name));
    let Some(text) = pattern(input) else {
        return is_data && is_above(input);
    };
    let any_is = |pattern: &str, is_it: &dyn Fn(&Path) -> bool| {
        let mut paths = glob_with(pattern, FITTING).into_iter().flatten().flatten();
        paths.any(|path| is_it(&path))
    };
    let fits = match (input.file_name(), name.to_str()) {
        (Some(last), Some(name)) => {
            Pattern::new(&last.to_string_lossy()).is_ok_and(|last| last.matches_with(name, FITTING))
        }
        _ => false,
    };
    let parent = match input.parent().and_then(Path::to_str) {
        None | Some("") => ".",
        Some(parent) => parent,
    };
    is_data && any_is(text, &is_above)
        || fits && (is_data || names_no_data(text)) && any_is(parent, &is_here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn directories_patterns_and_files_in_order_of_their_paths() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        for name in ["b.csv", "a.csv", "c[1].csv", "_x.csv", ".h.csv"] {
            std::fs::write(at(name), "").unwrap();
        }
        for name in ["part-10", "part-2", "_SUCCESS", ".part-2.crc"] {
            std::fs::write(at("d").join(name), "").unwrap();
        }
        let names = |inputs: &[&str]| -> Result<Vec<String>> {
            let inputs: Vec<PathBuf> = inputs.iter().map(|name| at(name)).collect();
            let relative = |file: &Found| {
                let file = file.path().strip_prefix(place.path()).unwrap();
                file.to_str().unwrap().to_owned()
            };
            Ok(expand(&inputs)?.iter().map(relative).collect())
        };
        for (inputs, expected) in [
            (&["b.csv", "a.csv"][..], &["a.csv", "b.csv"][..]),
            (&["d"], &["d/part-10", "d/part-2"]),
            (&["*.csv"], &["a.csv", "b.csv", "c[1].csv"]),
            (&["_*.csv"], &["_x.csv"]),
            (&["c[1].csv"], &["c[1].csv"]),
            (&["[ab].csv"], &["a.csv", "b.csv"]),
            (&["b.csv", "d/part-?"], &["b.csv", "d/part-2"]),
            (&["?"], &["d/part-10", "d/part-2"]),
            (&["none.csv"], &["none.csv"]),
        ] {
            assert_eq!(names(inputs).unwrap(), expected, "{inputs:?}");
        }
        for (inputs, class) in [
            (&["none*"][..], ErrorClass::Data),
            (&["empty"], ErrorClass::Data),
            (&["a.csv", "?.csv"], ErrorClass::Usage),
            (&["a**"], ErrorClass::Usage),
        ] {
            let error = names(inputs).unwrap_err();
            assert_eq!(error.class(), class, "{inputs:?}: {error}");
            assert!(error.place().path.is_some());
        }
        std::fs::create_dir(at("d/year=2024")).unwrap();
        std::fs::write(at("d/year=2024/part-0"), "").unwrap();
        let expected = ["d/part-10", "d/part-2", "d/year=2024/part-0"];
        assert_eq!(names(&["d"]).unwrap(), expected);
        assert_eq!(names(&["d/*=*"]).unwrap(), expected[2..]);
        for (input, says) in [("d", true), ("d/*=*", true), ("d/year=2024/*", false)] {
            let found = expand(&[at(input)]).unwrap();
            let partition = found.last().unwrap().partition().unwrap();
            assert_eq!(!partition.columns.is_empty(), says, "{input}");
        }
        let name = OsStr::new("part-1");
        let here = place.path().canonicalize().unwrap();
        assert!(would_find(&at("d"), &here.join("d/year=2025"), name));
        assert!(!would_find(&at("d"), &here.join("d/year"), name));
        std::fs::create_dir(at("d/2024")).unwrap();
        let error = names(&["d"]).unwrap_err();
        let ErrorKind::Subdirectory { name } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(name, "2024");
    }

    #[test]
    fn files_below_a_log_of_rows_that_count_are_refused() {
        for (log, file) in [
            (
                "_delta_log/00000000000000000000.json",
                "day=0/part-0.parquet",
            ),
            ("_delta_log/_last_checkpoint", "day=1/part-0.parquet"),
            ("metadata/v2.metadata.json", "data/day=1/0.parquet"),
            (".hoodie/hoodie.properties", "day=1/0.parquet"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let at = |name: &str| place.path().join("table").join(name);
            let write = |name: &str| {
                std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
                std::fs::write(at(name), "").unwrap();
            };
            write(file);
            write("metadata/notes.json");
            let pattern = at(file).with_file_name("*.parquet");
            let inputs = [at(file), pattern, at(file).parent().unwrap().into()];
            for input in inputs.iter().skip(1) {
                expand(std::slice::from_ref(input)).unwrap();
            }
            write(log);
            for input in inputs {
                let error = expand(&[input]).unwrap_err();
                assert!(
                    matches!(error.kind(), ErrorKind::UnsupportedInput { .. }),
                    "{log} {file}: {error}"
                );
            }
            let beside = place.path().join("export.parquet");
            std::fs::write(&beside, "").unwrap();
            expand(&[beside]).unwrap();
        }
    }
}
