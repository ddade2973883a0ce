//! The files that an input names: itself, those of a directory, those that fit a pattern.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::{Pattern, glob_with};

use crate::error::{Error, ErrorKind, Result};
use crate::names::{FITTING, is_no_data, names_no_data};
use crate::objects::address::Address;
#[cfg(feature = "object-stores")]
use crate::objects::find;

/// A file of a table, or an object.
#[derive(Debug)]
pub(crate) enum Found {
    File(PathBuf),
    #[cfg(feature = "object-stores")]
    Object(find::Found),
}

impl Found {
    fn path(&self) -> &Path {
        match self {
            Found::File(path) => path,
            #[cfg(feature = "object-stores")]
            Found::Object(object) => &object.path,
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
            None => add(input, &mut files)?,
        }
    }
    refuse_lakes(&files)?;
    let mut found: Vec<_> = files.into_iter().map(Found::File).collect();
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
fn refuse_lakes(files: &[PathBuf]) -> Result<()> {
    let mut seen = HashSet::new();
    for file in files {
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

/// A file, or the files of a directory.
fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        return directory(path, files).map_err(|e| e.in_path(&path.display().to_string()));
    }
    files.push(path.to_owned());
    Ok(())
}

/// The files that fit a pattern, and those of the directories that do.
fn fitting(pattern: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    let paths = glob_with(pattern, FITTING)
        .map_err(|e| Error::usage(format!("is no pattern: {}", e.msg)))?;
    let before = files.len();
    for path in paths {
        let path = path.map_err(|e| Error::new(ErrorKind::Unreadable(e.into())))?;
        if names_no_data(pattern) || !is_no_data(&path) {
            add(&path, files)?;
        }
    }
    match files.len() {
        after if after == before => Err(Error::new(ErrorKind::NoFiles)),
        _ => Ok(()),
    }
}

/// The files of a directory. Directories in it are refused: the files in them would be missing, and what the names
/// of such directories say, as in `year=2024`, is in no file.
fn directory(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |e| Error::new(ErrorKind::Unreadable(e));
    let before = files.len();
    for entry in path.read_dir().map_err(unreadable)? {
        let found = entry.map_err(unreadable)?.path();
        let name = found.file_name().unwrap_or_default().to_string_lossy();
        if is_no_data(&found) {
            continue;
        }
        if found.is_dir() {
            let name = name.into_owned();
            return Err(Error::new(ErrorKind::Subdirectory { name }));
        }
        files.push(found);
    }
    match files.len() {
        after if after == before => Err(Error::new(ErrorKind::NoFiles)),
        _ => Ok(()),
    }
}

/// Whether [`expand`] would find a file of this name, if it were there, among those of an input that is a directory or a
/// pattern. `directory` is without links and detours.
pub(crate) fn would_find(input: &Path, directory: &Path, name: &OsStr) -> bool {
    let is_here = |path: &Path| path.canonicalize().is_ok_and(|path| path == directory);
    let is_data = !is_no_data(Path::new(name));
    let Some(text) = pattern(input) else {
        return is_data && is_here(input);
    };
    let any_is_here = |pattern: &str| {
        let mut paths = glob_with(pattern, FITTING).into_iter().flatten().flatten();
        paths.any(|path| is_here(&path))
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
    is_data && any_is_here(text) || fits && (is_data || names_no_data(text)) && any_is_here(parent)
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
        let error = names(&["d"]).unwrap_err();
        let ErrorKind::Subdirectory { name } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(name, "year=2024");
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
