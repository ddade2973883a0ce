//! Whether paths are of one thing.

use std::path::{Path, PathBuf};

/// Whether two paths name one file, whether or not it exists yet. Devices and pipes are never
/// replaced, so that two uses of one are fine.
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b && (a.is_file() || !a.exists()),
        _ => a == b,
    }
}

/// Whether a path is of something that is, or would be, in a directory itself.
pub fn is_in(path: &Path, directory: &Path) -> bool {
    if path == Path::new("-") {
        return false;
    }
    let parent = place(path).and_then(|place| place.parent().map(Path::to_owned));
    directory.is_dir() && parent.is_some() && parent == directory.canonicalize().ok()
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
}
