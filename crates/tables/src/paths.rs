//! Whether paths are of one thing.

use std::path::{Path, PathBuf};

use vesica_files::directory_of;

use crate::files::would_find;
use crate::objects::address::Address;

/// Whether two paths name one file, whether or not it exists yet. Devices and pipes are never
/// replaced, so that two uses of one are fine.
pub fn same_file(a: &Path, b: &Path) -> bool {
    if let (Some(Ok(a)), Some(Ok(b))) = (Address::of(a), Address::of(b)) {
        return a == b;
    }
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b && (a.is_file() || !a.exists()),
        _ => a == b,
    }
}

/// Whether a path is of something that is, or would be, among the files of an input that is a directory or a pattern.
pub fn is_in(path: &Path, input: &Path) -> bool {
    if let (Some(Ok(path)), Some(Ok(input))) = (Address::of(path), Address::of(input)) {
        return input.would_find(&path);
    }
    let place = place(path).filter(|_| path != Path::new("-"));
    place.is_some_and(|place| match (place.parent(), place.file_name()) {
        (Some(directory), Some(name)) => would_find(input, directory, name),
        _ => false,
    })
}

/// The path without links and detours. What does not exist has at least a directory that does.
fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let directory = directory_of(path).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
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
        assert!(same_file("s3://b/k".as_ref(), "s3a://b/k".as_ref()));
        assert!(!same_file("s3://b/k".as_ref(), "gs://b/k".as_ref()));
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
