use super::*;

const OWN: PathKind = PathKind::Directory(DirectoryKind::WorkDir);

/// How an output would take the place of an input of this kind.
fn overlap(output: &Path, kind: PathKind, other: &Path) -> Option<Overlap> {
    let mut paths = Paths::default();
    paths.writes("the output", PathKind::File, output);
    paths.reads("the other", kind, other);
    match paths.check().err()?.kind() {
        ErrorKind::TakesPlace { how, .. } => Some(*how),
        // A directory may not be there.
        _ => None,
    }
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
}

/// Names on Windows are the same in any case, of files that are not there yet too.
#[cfg(windows)]
#[test]
fn whatever_leads_to_a_file_on_windows() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("a.csv"), "").unwrap();
    std::fs::hard_link(at("a.csv"), at("hard")).unwrap();
    for (output, other, same) in [
        ("hard", "a.csv", true),
        ("A.csv", "a.csv", true),
        ("New.csv", "nEW.csv", true),
        ("new.csv", "a.csv", false),
    ] {
        assert_eq!(same_file(&at(output), &at(other)), same, "{output} {other}");
    }
    assert!(is_in(&at("hard"), &at("*.csv")));
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
    // A link to a link, to nothing yet; in a directory that is one, too.
    std::os::unix::fs::symlink("dangling", at("twice")).unwrap();
    std::os::unix::fs::symlink(at("to job/../twice"), at("thrice")).unwrap();
    std::os::unix::fs::symlink("later", at("to later")).unwrap();
    std::os::unix::fs::symlink("round", at("round")).unwrap();
    std::fs::hard_link(at("a.csv"), at("hard")).unwrap();
    std::os::unix::fs::symlink(at("hard"), at("soft")).unwrap();
    std::fs::hard_link(at("d.db-wal"), at("hard wal")).unwrap();
    use Overlap::{Among, Inside, Same, SameDirectory};
    use PathKind::{Database, File, Set, Table};
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
        ("job", OWN, "job", Some(SameDirectory)),
        ("job/x", OWN, "job", Some(Inside)),
        ("job/deep/new", OWN, "job", Some(Inside)),
        ("to job/new", OWN, "job", Some(Inside)),
        ("job/new", OWN, "to job", Some(Inside)),
        ("dangling", OWN, "job", Some(Inside)),
        ("twice", File, "job/new", Some(Same)),
        ("job/new", File, "twice", Some(Same)),
        ("thrice", File, "job/new", Some(Same)),
        ("thrice", File, "dangling", Some(Same)),
        ("thrice", OWN, "job", Some(Inside)),
        ("twice", Table, "job", Some(Among)),
        ("twice", File, "job/other", None),
        ("round", File, "round", Some(Same)),
        ("round", File, "twice", None),
        ("to later/new", OWN, "later", Some(Inside)),
        ("to later/new", File, "later/new", Some(Same)),
        ("later/new", OWN, "later", Some(Inside)),
        ("job/../later/./new", OWN, "later", Some(Inside)),
        ("job2", OWN, "job", None),
        ("/dev/null", File, "/dev/null", None),
    ] {
        let found = overlap(&at(output), kind, &at(other));
        assert_eq!(found, expected, "{output} {kind:?} {other}");
    }
}

/// Two names of one file in either case look like a directory that ignores case.
#[cfg(unix)]
#[test]
fn names_that_differ_by_case_where_that_is_ignored() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    use Overlap::{Among, Inside, Same};
    use PathKind::{File, Set};
    let cases = [
        ("New.csv", File, "new.csv", Some(Same)),
        ("STRASSE", File, "straße", Some(Same)),
        ("s.VSET.2", Set, "S.vset", Some(Among)),
        ("Own/new", OWN, "own", Some(Inside)),
        ("new.csv", File, "new.tsv", None),
    ];
    std::fs::write(at("here"), "").unwrap();
    for (output, kind, other, _) in cases {
        assert_eq!(overlap(&at(output), kind, &at(other)), None, "{output}");
    }
    std::fs::hard_link(at("here"), at("HERE")).unwrap();
    for (output, kind, other, expected) in cases {
        assert_eq!(overlap(&at(output), kind, &at(other)), expected, "{output}");
    }
    // Another file, by another name.
    std::fs::remove_file(at("HERE")).unwrap();
    std::fs::write(at("HERE"), "").unwrap();
    assert!(!ignores_case(place.path()));
}

/// What belongs to the command is not among what it reads, and not one of its outputs.
#[test]
fn everything_that_is_written_is_compared() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at("in")).unwrap();
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("text"), "text").unwrap();
    let check = |writes: &[(PathKind, &str)]| {
        let mut paths = Paths::default();
        paths.reads("the input", PathKind::Table, &at("in"));
        for (kind, name) in writes {
            paths.writes(*name, *kind, &at(name));
        }
        let directory = place.path().display().to_string();
        let checked = paths.check();
        checked.map_err(|error| error.to_string().replace(&directory, "HERE"))
    };
    use PathKind::{Database, File, Set, Table};
    check(&[(File, "a"), (File, "b"), (OWN, "c")]).unwrap();
    std::fs::create_dir(at("state")).unwrap();
    std::fs::write(at("state/state"), "vesica look-up 4\n").unwrap();
    check(&[(PathKind::Directory(DirectoryKind::LookUp), "state")]).unwrap();
    // A table of the result beside one that is asked for.
    check(&[(Database, "d"), (Database, "d")]).unwrap();
    for (writes, words) in [
        (
            &[(OWN, "in")][..],
            "in HERE/in is not the work directory of a run, and in and the input are the same directory",
        ),
        (
            &[(File, "in/a")],
            "in/a would be one of the files of the input",
        ),
        (&[(File, "a"), (File, "a")], "a and a are the same file"),
        (&[(File, "d/a"), (OWN, "d")], "d/a is in the directory of d"),
        (&[(OWN, "d"), (OWN, "d/e")], "d/e is in the directory of d"),
        (
            &[(File, "s.2"), (Set, "s")],
            "s.2 would be one of the files of s",
        ),
        (
            &[(Set, "s"), (File, "s.part")],
            "s.part would be one of the files of s",
        ),
        (
            &[(File, "other")],
            "other HERE/other is a directory, and not a file",
        ),
        (
            &[(Set, "other")],
            "other HERE/other is a directory, and not a published set",
        ),
        (
            &[(OWN, "text")],
            "text HERE/text is a text file, and not a directory",
        ),
        (
            &[(OWN, "state")],
            "state HERE/state is the state of look-ups, and not the work directory of a run",
        ),
        (
            &[(Table, "state")],
            "state HERE/state is the state of look-ups, and not a table",
        ),
        (
            &[(File, "none/a")],
            "none/a HERE/none/a: there is no directory HERE/none",
        ),
        (
            &[(File, "none/b/a")],
            "none/b/a HERE/none/b/a: there is no directory HERE/none",
        ),
        (
            &[(OWN, "text/a")],
            "text/a HERE/text/a: there is no directory HERE/text",
        ),
    ] {
        assert_eq!(check(writes).unwrap_err(), words);
    }
}

/// A directory of the command's own may have a file of any name made or removed in it.
#[test]
fn nothing_is_read_from_a_directory_of_the_commands_own() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("own/deep")).unwrap();
    std::fs::write(at("own/deep/a.csv"), "").unwrap();
    std::fs::write(at("a.csv"), "").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(at("own/deep/a.csv"), at("soft")).unwrap();
    for (kind, read, inside) in [
        (PathKind::File, "own/new", true),
        (PathKind::File, "own/deep/../deep/a.csv", true),
        (PathKind::File, "soft", cfg!(unix)),
        (PathKind::Database, "own/a.db", true),
        (PathKind::Set, "own/a.set", true),
        (PathKind::Table, "own/deep", true),
        (PathKind::Table, "own/*/*.csv", true),
        (PathKind::Table, "o*/deep/a.csv", true),
        (PathKind::Table, "*.csv", false),
        (PathKind::File, "a.csv", false),
        (PathKind::File, "own2/a.csv", false),
        (PathKind::Address, "own/a", false),
    ] {
        let mut paths = Paths::default();
        paths.reads("the input", kind, &at(read));
        paths.writes("the work directory", OWN, &at("own"));
        let found = paths.check().map_err(|error| error.to_string());
        let words = format!(
            "the work directory {} is not the work directory of a run, and the input is in the directory of the work directory",
            at("own").display()
        );
        assert_eq!(found, if inside { Err(words) } else { Ok(()) }, "{read}");
    }
}

/// Which addresses are of one object is in [`crate::objects::stored`].
#[cfg(feature = "object-stores")]
#[test]
fn objects_by_whatever_address() {
    for (output, input, same) in [
        (
            "s3://b/k k",
            "https://b.s3.amazonaws.com:443/k%20k?X-Amz-Signature=s",
            true,
        ),
        ("s3://b/k", "https://example.com/b/k", false),
        ("s3://b/k", "gs://b/k", false),
        ("s3://b/k", "s3://b/K", false),
        ("s3://b/k", "k", false),
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
    let has_link = |input: &str| input.starts_with("link");
    for (input, output, among) in cases {
        let among = among && (cfg!(unix) || !has_link(input));
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
