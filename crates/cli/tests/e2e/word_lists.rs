//! Real word lists, from Debian packages; run with
//! `cargo test --release --locked -p vesica-cli -- --ignored word_lists`.

use std::collections::HashSet;
use std::io::Write;
use std::time::Instant;

use crate::support::{Arguments, Pair, Place, csv_of, exchange};

/// The list of this size in `american-english` or `british-english`.
fn words(language: &str, size: &str) -> Vec<String> {
    let path = format!("/usr/share/dict/{language}-{size}");
    match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(e) => {
            panic!("{path}: {e}; install the Debian packages wamerican-{size} and wbritish-{size}")
        }
    }
}

/// The rows of `ours` whose last field is one of `theirs`, in order.
fn shared(ours: &[Vec<String>], theirs: &[String]) -> Vec<Vec<String>> {
    let theirs: HashSet<&String> = theirs.iter().collect();
    let kept = ours
        .iter()
        .filter(|row| theirs.contains(&row[row.len() - 1]));
    kept.cloned().collect()
}

/// Runs both sides with nothing but the defaults; the receiver's rows go to `shared.csv`.
fn run(place: &Place) -> Pair {
    let pair = exchange(
        place,
        &Arguments::new("american.csv", "word").output("shared.csv"),
        &Arguments::new("british.csv", "word"),
    );
    pair.expect_success();
    pair
}

#[test]
#[ignore = "needs the Debian packages wamerican-small and wbritish-small"]
fn american_and_british_english() {
    let american = words("american-english", "small");
    let british = words("british-english", "small");
    assert!(american.len() > 40_000 && british.len() > 40_000);
    assert!(american.iter().any(|w| !w.is_ascii()), "accents matter");
    let place = Place::new();
    let numbered = |words: &[String]| -> Vec<Vec<String>> {
        (1u32..)
            .zip(words)
            .map(|(n, w)| vec![n.to_string(), w.clone()])
            .collect()
    };
    let american = numbered(&american);
    place.write("american.csv", csv_of(&["n", "word"], &american));
    place.write("british.csv", csv_of(&["n", "word"], &numbered(&british)));
    run(&place);
    let expected = shared(&american, &british);
    assert!(expected.len() > 30_000 && expected.len() < american.len());
    assert!(place.read("shared.csv") == csv_of(&["n", "word"], &expected));
}

/// Tables of one column, the key; prints the time from the start of the first command to the end of
/// the last.
#[test]
#[ignore = "needs the Debian packages wamerican-huge and wbritish-huge"]
fn huge_american_and_british_english() {
    let american = words("american-english", "huge");
    let british = words("british-english", "huge");
    assert!(american.len() > 340_000 && british.len() > 340_000);
    assert!(american.iter().all(|w| !w.contains([',', '"', '\r'])));
    let place = Place::new();
    let alone = |words: &[String]| -> Vec<Vec<String>> {
        words.iter().map(|word| vec![word.clone()]).collect()
    };
    let ours = alone(&american);
    place.write("american.csv", csv_of(&["word"], &ours));
    place.write("british.csv", csv_of(&["word"], &alone(&british)));
    let start = Instant::now();
    let pair = run(&place);
    let seconds = start.elapsed().as_secs_f64();
    for ended in [&pair.receiver, &pair.sender] {
        assert!(ended.err.contains("protocol        vole"), "{}", ended.err);
        assert!(
            ended.err.contains("security        malicious"),
            "{}",
            ended.err
        );
    }
    let expected = shared(&ours, &british);
    assert!(expected.len() > 300_000 && expected.len() < american.len());
    assert!(place.read("shared.csv") == csv_of(&["word"], &expected));
    // Not by `println`, which the test harness keeps to itself when all is well.
    writeln!(
        std::io::stderr(),
        "{} and {} words: {seconds:.2} s, both commands",
        american.len(),
        british.len(),
    )
    .unwrap();
}
