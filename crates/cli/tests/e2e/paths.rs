//! Nothing that a command writes takes the place of anything else that it names: every command and option, from their
//! declarations.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use vesica::{Destination, Identity, KeySpec, LookUp, NoProgress, Source, SourceOptions};
use vesica_cli::{PathKind, PathUse};

use crate::declared::{Declared, commands, file, id};
use crate::support::{Ended, Place, Running};

/// What a command says that refuses a place.
const WORDS: [&str; 4] = [
    "are the same file",
    "are the same directory",
    "would be one of the files of",
    "is in the directory of",
];

fn refuses(ended: &Ended) -> bool {
    let line = ended.err.lines().find(|line| line.starts_with("vesica: "));
    ended.code == Some(2)
        && WORDS
            .iter()
            .any(|words| line.is_some_and(|line| line.contains(words)))
}

/// Every path is declared to be read or written.
#[test]
fn every_path_says_what_becomes_of_it() {
    for declared in commands() {
        for arg in declared.values() {
            let says = vesica_cli::path_use(arg).is_some();
            let of = arg.get_value_parser().type_id();
            let is_path = of == std::any::TypeId::of::<std::path::PathBuf>();
            let names = arg.get_value_names().unwrap_or_default().iter();
            let mut names = names.flat_map(|name| name.split(['.', '|', '-']));
            let is_named =
                names.any(|name| ["FILE", "DIR", "PATH", "URI", "SET", "vset"].contains(&name));
            assert!(
                says || !is_path && !is_named,
                "{:?}: say of {} whether it is read or written: its type is one of args/paths.rs",
                declared.words,
                id(arg)
            );
        }
    }
}

fn kind(of: PathUse) -> PathKind {
    match of {
        PathUse::Reads(kind) | PathUse::Writes(kind) | PathUse::Fetches(kind) => kind,
        PathUse::Database => PathKind::Database,
        _ => PathKind::File,
    }
}

fn is_directory(of: PathUse) -> bool {
    matches!(kind(of), PathKind::Directory(_))
}

/// What is there under the usual name of every path.
fn furnish(place: &Place) {
    for declared in commands() {
        for (arg, of) in declared.paths() {
            let path = place.path(&file(of, id(arg)));
            match kind(of) {
                PathKind::Directory(_) => fs::create_dir_all(path).unwrap(),
                _ if path.exists() => {}
                _ => fs::write(path, format!("# the {}", id(arg))).unwrap(),
            }
        }
    }
    for other in ["a.set.2", "a.sqlite-wal"] {
        place.write(other, other);
    }
    fs::create_dir(place.path("d")).unwrap();
    place.write("d/part-0.csv", "id\n1\n");
    symlink(place.path("d"), place.path("to d")).unwrap();
}

/// Every file and its content.
fn contents(place: &Place) -> BTreeMap<String, Vec<u8>> {
    fn add(directory: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            match path.is_dir() && !path.is_symlink() {
                true => {
                    all.insert(name, Vec::new());
                    add(&path, all);
                }
                false => {
                    all.insert(name, fs::read(path).unwrap_or_default());
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    add(&place.path(""), &mut all);
    all
}

/// The place that is about to be written to, as the value of an option.
fn as_value(of: PathUse, path: &str) -> String {
    match of {
        PathUse::Database => format!("sqlite:{path}"),
        _ => path.to_owned(),
    }
}

/// Ways to write to what another option names, by what that is.
fn ways(place: &Place, of: PathUse, path: &str) -> Vec<String> {
    let link = |name: &str, made: std::io::Result<()>| {
        made.unwrap();
        vec![name.to_owned()]
    };
    let at = |name: &str| place.path(name);
    for old in ["soft", "hard"] {
        let _ = fs::remove_file(at(old));
    }
    let mut ways = vec![path.to_owned(), format!("./d/../{path}")];
    ways.extend(link("soft", symlink(at(path), at("soft"))));
    match kind(of) {
        PathKind::Directory(_) => {
            ways.push(format!("{path}/new"));
            ways.push("soft/new".to_owned());
        }
        PathKind::Set => {
            ways.extend([
                format!("{path}.2"),
                format!("{path}.7"),
                format!("{path}.part"),
            ]);
        }
        PathKind::Database => ways.push(format!("{path}-wal")),
        _ => {}
    }
    if !is_directory(of) {
        ways.extend(link("hard", fs::hard_link(at(path), at("hard"))));
    }
    ways
}

/// A command with an option that writes, and another.
struct Pair<'a> {
    declared: &'a Declared,
    writes: (&'a str, PathUse),
    other: (&'a str, PathUse),
}

fn pairs(declared: &Declared) -> Vec<Pair<'_>> {
    let paths = declared.paths();
    let writes = paths.iter().filter(|(_, of)| {
        matches!(of, PathUse::Writes(_) | PathUse::Fetches(_))
            || *of == PathUse::Database && declared.has("output_table")
    });
    let pairs = writes.flat_map(|(arg, of)| {
        let others = paths.iter().filter(move |(other, _)| id(other) != id(arg));
        others.map(move |(other, its)| Pair {
            declared,
            writes: (id(arg), *of),
            other: (id(other), *its),
        })
    });
    pairs.collect()
}

impl Pair<'_> {
    /// The command line in which the option that writes has this value.
    fn line(&self, place: &Place, value: &str) -> Vec<String> {
        let usual = self.declared.usual(place, self.other.0);
        self.line_with(place, value, usual)
    }

    /// The same with this value of the other option.
    fn line_with(&self, place: &Place, value: &str, its_value: String) -> Vec<String> {
        let ((writes, of), (other, its)) = (self.writes, self.other);
        let mut given = vec![(writes, as_value(of, value)), (other, its_value)];
        let of_table =
            [of, its].contains(&PathUse::Database) && ![writes, other].contains(&"output");
        if of_table && self.declared.has("output_table") {
            given.push(("output_table", "results".to_owned()));
        }
        let mut line = self.declared.line(place, &given);
        if matches!(of, PathUse::Fetches(_)) {
            line.push("--fetch".to_owned());
        }
        line
    }

    /// Whether both may be given, which no other test says.
    fn is_possible(&self) -> bool {
        let names = [self.writes.0, self.other.0];
        let both = |a: &str, b: &str| names.contains(&a) && names.contains(&b);
        // One takes the place of the other.
        !both("database", "database_file")
            && !(self.declared.words == ["publish"]
                && (both("add", "input") || both("remove", "input")))
    }
}

/// Each option that writes, in the place of each other path of its command, under every name that leads there. Nothing has
/// changed when the command has ended.
#[test]
fn nothing_is_written_in_the_place_of_anything_else() {
    let place = Place::new();
    furnish(&place);
    let mut runs = 0;
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            let (other, its) = pair.other;
            let path = file(its, other);
            let ways = ways(&place, its, &path);
            let before = contents(&place);
            for way in ways {
                let line = pair.line(&place, &way);
                let ended = Running::start(place.command(&line)).wait();
                assert!(refuses(&ended), "{line:?}: {ended:?}");
                runs += 1;
            }
            // Named by no more than its name.
            let usual = declared.usual(&place, other).replace("./", "");
            let line = pair.line_with(&place, &path, usual);
            let ended = Running::start(place.command(&line)).wait();
            assert!(refuses(&ended), "{line:?}: {ended:?}");
            assert!(
                contents(&place) == before,
                "{:?} {:?}",
                declared.words,
                pair.writes
            );
        }
    }
    assert!(runs > 300, "{runs}");
}

/// Two outputs that are not there yet: by links that lead to one in the end, and by names that differ by case where that is
/// ignored, as it seems in a directory in which a file has a name in either case.
#[test]
fn nothing_is_written_in_the_place_of_what_will_be_written() {
    let place = Place::new();
    furnish(&place);
    symlink("gone", place.path("once")).unwrap();
    symlink("once", place.path("twice")).unwrap();
    fs::create_dir(place.path("twins")).unwrap();
    place.write("twins/a", "");
    fs::hard_link(place.path("twins/a"), place.path("twins/A")).unwrap();
    let before = contents(&place);
    let mut runs = 0;
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            let (_, its) = pair.other;
            if !matches!(its, PathUse::Writes(_)) {
                continue;
            }
            for (way, other) in [
                ("twice", "gone"),
                ("gone", "twice"),
                ("twins/Gone", "twins/gone"),
            ] {
                let line = pair.line_with(&place, way, as_value(its, other));
                let ended = Running::start(place.command(&line)).wait();
                assert!(refuses(&ended), "{line:?}: {ended:?}");
                runs += 1;
            }
        }
    }
    assert!(contents(&place) == before);
    assert!(runs > 50, "{runs}");
}

/// Ways to name a file as a database.
fn spellings(path: &Path) -> Vec<String> {
    let path = path.display();
    let mut spellings = vec![path.to_string()];
    for start in [
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "SQLite:",
        "sqlite+pysqlite:",
        "sqlite+pysqlite:///",
        "Sqlite+PySQLite:///",
        "sqlite+any://",
        "file:",
        "file://",
        "file://localhost",
        "FILE:",
    ] {
        spellings.push(format!("{start}{path}"));
        if start.to_lowercase().starts_with("file") {
            let escaped = path.to_string().replace("a.", "%61%2E");
            spellings.push(format!("{start}{escaped}?mode=ro&cache=shared#here"));
        }
    }
    spellings
}

/// Ways to name a file that is not there yet, for a driver of which nothing is known.
fn spellings_of_others(path: &Path) -> Vec<String> {
    let (path, name) = (path.display(), path.file_name().unwrap().to_str().unwrap());
    vec![
        name.to_owned(),
        path.to_string(),
        format!("duckdb:{name}"),
        format!("duckdb:///{name}?access_mode=READ_WRITE"),
        format!("DuckDB://{path}"),
    ]
}

/// However a database is named, by an option or in a file.
#[test]
fn nothing_is_written_in_the_place_of_a_database() {
    let place = Place::new();
    furnish(&place);
    let (sqlite, other) = (place.path("a.sqlite"), place.path("new.duck"));
    let of_sqlite = spellings(&sqlite).into_iter().map(|uri| {
        let driver = (!uri.contains(':')).then_some("sqlite");
        (uri, driver, ["a.sqlite", "a.sqlite-wal"])
    });
    let of_others = spellings_of_others(&other).into_iter();
    let of_others = of_others.map(|uri| (uri, Some("duckdb"), ["new.duck", "new.duck.wal"]));
    let all: Vec<_> = of_sqlite.chain(of_others).collect();
    let before = contents(&place);
    let mut runs = 0;
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            let is_file = pair.other.0 == "database_file";
            if pair.other.1 != PathUse::Database && !is_file {
                continue;
            }
            for (turn, (spelling, driver, ways)) in all.iter().enumerate() {
                // What may have a password in it is not typed.
                if !is_file && vesica_tables::has_credentials(spelling) {
                    continue;
                }
                let its = match is_file {
                    true => {
                        place.write("uri", spelling);
                        let mode = fs::Permissions::from_mode(0o600);
                        fs::set_permissions(place.path("uri"), mode).unwrap();
                        "uri".to_owned()
                    }
                    false => spelling.clone(),
                };
                let mut line = pair.line_with(&place, ways[turn % 2], its);
                if let Some(driver) = driver {
                    line.extend(["--driver".to_owned(), (*driver).to_owned()]);
                }
                let ended = Running::start(place.command(&line)).wait();
                assert!(refuses(&ended), "{line:?}: {ended:?}");
                runs += 1;
            }
        }
    }
    let _ = fs::remove_file(place.path("uri"));
    assert!(contents(&place) == before);
    assert!(runs > 100, "{runs}");
}

/// What is in a directory of the command's own may be taken for its lock or a leftover.
#[test]
fn nothing_is_read_from_a_directory_of_the_commands_own() {
    let place = Place::new();
    furnish(&place);
    fs::create_dir(place.path("own")).unwrap();
    place.write("own/a", "# a table, a key or options");
    symlink(place.path("own"), place.path("to own")).unwrap();
    symlink(place.path("own/a"), place.path("soft")).unwrap();
    let before = contents(&place);
    let mut runs = 0;
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            let (other, its) = pair.other;
            if !is_directory(pair.writes.1) {
                continue;
            }
            let table = (kind(its) == PathKind::Table).then_some("own/*");
            let ways = ["own/a", "./d/../own/a", "to own/a", "./soft"];
            for way in ways.into_iter().chain(table) {
                let line = pair.line_with(&place, "own", as_value(its, way));
                let ended = Running::start(place.command(&line)).wait();
                assert!(refuses(&ended), "{other}: {line:?}: {ended:?}");
                runs += 1;
            }
        }
    }
    assert!(contents(&place) == before);
    assert!(runs > 100, "{runs}");
}

/// The same command lines with a place for everything are not refused so.
#[test]
fn places_of_their_own_are_taken() {
    let place = Place::new();
    furnish(&place);
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            let mine = format!("new.{}", pair.writes.0);
            let line = pair.line(&place, &mine);
            if declared.words[0] == "keygen" {
                continue;
            }
            let ended = Running::start(place.command(&line)).wait();
            let said = &ended.err;
            assert!(
                !WORDS.iter().any(|words| said.contains(words)),
                "{line:?}: {said}"
            );
            // Nor by what the command line lacks.
            assert!(!said.contains("cannot be used with"), "{line:?}: {said}");
            assert!(!said.contains("required arguments"), "{line:?}: {said}");
        }
    }
}

/// Files among those of a directory or a pattern, under names of their own or others.
#[test]
fn nothing_is_written_among_the_files_of_an_input() {
    let place = Place::new();
    furnish(&place);
    fs::hard_link(place.path("d/part-0.csv"), place.path("hard")).unwrap();
    let before = contents(&place);
    for declared in commands() {
        for pair in pairs(&declared).iter().filter(|pair| pair.is_possible()) {
            if kind(pair.other.1) != PathKind::Table || pair.writes.1 == PathUse::Database {
                continue;
            }
            for (input, way) in [
                ("d", "d/new.csv"),
                ("to d", "d/new.csv"),
                ("d", "to d/new.csv"),
                ("d/*.csv", "d/new.csv"),
                ("d", "hard"),
                ("d/p*", "hard"),
            ] {
                if way == "hard" && is_directory(pair.writes.1) {
                    continue;
                }
                let line = pair.line(&place, way);
                let usual = file(pair.other.1, pair.other.0);
                let line = line.into_iter().map(|word| match word == usual {
                    true => input.to_owned(),
                    false => word,
                });
                let line: Vec<String> = line.collect();
                let ended = Running::start(place.command(&line)).wait();
                assert!(refuses(&ended), "{line:?}: {ended:?}");
            }
        }
    }
    assert!(contents(&place) == before);
}

/// Standard input and output are files, too.
#[test]
fn redirected_input_and_output() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    let peer = place.sender;
    let words = |input: &str, output: &str| -> Vec<String> {
        let line = format!(
            "receive --input {input} --key id {output} --identity receiver.key --peer {peer} --connect 127.0.0.1:1 --wait 1"
        );
        line.split_whitespace().map(str::to_owned).collect()
    };
    let table = || {
        fs::OpenOptions::new()
            .read(true)
            .append(true)
            .open(place.path("t.csv"))
            .unwrap()
    };
    for output in ["--output t.csv", "--report t.csv --output o.csv"] {
        let mut command = place.command(&words("-", output));
        let ended = Running::start({
            command.stdin(Stdio::from(table()));
            command
        });
        let ended = ended.wait();
        assert!(refuses(&ended), "{ended:?}");
    }
    for output in ["", "--output -"] {
        let mut command = place.command(&words("t.csv", output));
        let ended = command.stdout(Stdio::from(table())).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.code() == Some(2) && said.contains(WORDS[0]),
            "{said}"
        );
    }
    assert_eq!(place.read("t.csv"), "id\n1\n");
    // The hint says how to write to standard output, and messages are added to what they are redirected to.
    let log = || {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(place.path("log"))
    };
    let mut command = place.command(&words("t.csv", "--output /dev/stdout"));
    let ended = command
        .stdout(Stdio::from(log().unwrap()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains(WORDS[0]) && said.contains("- is standard output"),
        "{said}"
    );
    for (input, output) in [
        ("t.csv", "--output log"),
        ("t.csv", "--output o.csv --report log"),
        ("log", "--output o.csv"),
        ("t.csv", "--output /dev/stderr"),
    ] {
        let mut command = place.command(&words(input, output));
        let code = command
            .stderr(Stdio::from(log().unwrap()))
            .status()
            .unwrap()
            .code();
        let said = place.read("log");
        assert!(
            code == Some(2) && said.contains("standard error"),
            "{output}: {said}"
        );
        assert!(said.contains(WORDS[0]), "{output}: {said}");
        fs::remove_file(place.path("log")).unwrap();
    }
    // Both streams may go to one file.
    let mut command = place.command(&words("t.csv", "--output o.csv"));
    command.stdout(Stdio::from(log().unwrap()));
    command
        .stderr(Stdio::from(log().unwrap()))
        .status()
        .unwrap();
    assert!(
        !place.read("log").contains(WORDS[0]),
        "{}",
        place.read("log")
    );
}

/// In the library too, and before anybody is asked for a file.
#[test]
fn a_look_up_checks_its_places_before_it_fetches() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    let identity = Identity::load(place.path("receiver.key")).unwrap();
    let set = place.path("own/set");
    let own = |state: &str| LookUp {
        fetch: true,
        state: Some(place.path(state)),
        ..LookUp::new(identity.clone(), place.sender, "127.0.0.1:1", &set)
    };
    let key = KeySpec::parse("id", &[] as &[&str]).unwrap();
    let source = Source::open(place.path("t.csv"), SourceOptions::default()).unwrap();
    for (state, output) in [
        ("state", "own/set.2"),
        ("state", "state/o"),
        ("state", "t.csv"),
    ] {
        let output = place.path(output);
        let output = Some(Destination::File(&output));
        let error = own(state)
            .run(&source, &key, output, &mut NoProgress)
            .err()
            .unwrap();
        let said = error.to_string();
        assert!(WORDS.iter().any(|words| said.contains(words)), "{said}");
    }
    let error = own("own").open(&key, &mut NoProgress).err().unwrap();
    assert!(error.to_string().contains(WORDS[3]), "{error}");
}

/// Each variable that names a file with credentials: none of them is an output, nor in a directory of the command's own.
#[test]
fn files_with_credentials_are_not_replaced() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    fs::create_dir(place.path("own")).unwrap();
    let peer = place.sender;
    let line = format!(
        "receive --input t.csv --key id --identity receiver.key --peer {peer} --connect 127.0.0.1:1 --wait 1"
    );
    let mut names = vesica_tables::Paths::credentials().to_vec();
    names.sort_unstable();
    assert!(names.len() > 9 && names.contains(&"GOOGLE_APPLICATION_CREDENTIALS"));
    for name in names {
        for (path, output) in [
            ("secret", "--report ./own/../secret"),
            ("secret", "--output secret"),
            ("own/secret", "--output o.csv --work-dir own"),
        ] {
            place.write(path, "a secret");
            let line = format!("{line} {output}");
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let mut command = place.command(&words);
            command.env(name, place.path(path));
            let ended = Running::start(command).wait();
            assert!(refuses(&ended) && ended.err.contains(name), "{ended:?}");
            assert_eq!(place.read(path), "a secret");
        }
    }
}
