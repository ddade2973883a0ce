//! Two real word lists. Needs the Debian packages `wamerican-small` and `wbritish-small`; run with
//! `cargo test --release --locked -p vesica-cli -- --ignored word_lists`.

use std::collections::HashSet;

use crate::support::{Arguments, Place, csv_of, exchange};

fn words(name: &str) -> Vec<String> {
    let path = format!("/usr/share/dict/{name}");
    match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(e) => {
            panic!("{path}: {e}; install the Debian packages wamerican-small and wbritish-small")
        }
    }
}

#[test]
#[ignore = "needs the Debian packages wamerican-small and wbritish-small"]
fn american_and_british_english() {
    let (american, british) = (
        words("american-english-small"),
        words("british-english-small"),
    );
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
    exchange(
        &place,
        &Arguments::new("american.csv", "word").output("shared.csv"),
        &Arguments::new("british.csv", "word"),
    )
    .expect_success();
    let theirs: HashSet<&String> = british.iter().collect();
    let total = american.len();
    let shared: Vec<Vec<String>> = american
        .into_iter()
        .filter(|row| theirs.contains(&row[1]))
        .collect();
    assert!(shared.len() > 30_000 && shared.len() < total);
    assert!(place.read("shared.csv") == csv_of(&["n", "word"], &shared));
}
