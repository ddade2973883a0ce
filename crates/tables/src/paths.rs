//! Whether paths are of one thing.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use glob::Pattern;

use crate::files::{FITTING, pattern};

/// Whether two paths name one file, whether or not it exists yet. Devices and pipes are never
/// replaced, so that two uses of one are fine.
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b && (a.is_file() || !a.exists()),
        _ => a == b,
    }
}

/// Whether a path is of something that is, or would be, among the files of an input that is a directory or a pattern.
pub fn is_in(path: &Path, input: &Path) -> bool {
    let Some(place) = place(path).filter(|_| path != Path::new("-")) else {
        return false;
    };
    let directory = place.parent().unwrap_or(&place);
    match pattern(input).and_then(resolve) {
        Some(pattern) => [&*place, directory]
            .iter()
            .any(|path| pattern.matches_path_with(path, FITTING)),
        None => input.is_dir() && input.canonicalize().is_ok_and(|input| input == directory),
    }
}

/// The pattern for paths without links and detours in the directories that it names in full. None if there is no such
/// directory, so that nothing can fit.
fn resolve(pattern: &str) -> Option<Pattern> {
    let wild = pattern.find(['*', '?', '['])?;
    let named = pattern[..wild].rfind(MAIN_SEPARATOR).map_or(0, |at| at + 1);
    let directory = match &pattern[..named] {
        "" => ".",
        directory => directory,
    };
    let directory = Path::new(directory).canonicalize().ok()?;
    let escaped = Pattern::escape(directory.join("").to_str()?);
    Pattern::new(&(escaped + &pattern[named..])).ok()
}

/// The path without links and detours. What does not exist has at least a directory that does.
fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Some(parent.canonicalize().ok()?.join(path.file_name()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn what_an_input_would_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("day=1/[x]")).unwrap();
        std::fs::create_dir(at("day=2")).unwrap();
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
            ("**/*.csv", "day=1/[x]/new.csv", true),
            ("day=1/[[]x]/*", "day=1/[x]/new.csv", true),
            ("nowhere/*", "new.csv", false),
        ];
        for (input, output, among) in cases {
            assert_eq!(is_in(&at(output), &at(input)), among, "{output} in {input}");
        }
        assert!(!is_in("-".as_ref(), place.path()));
        assert!(is_in("new.csv".as_ref(), "*.csv".as_ref()));
    }
}
