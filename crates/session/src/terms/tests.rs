use super::*;

#[test]
fn sizes_are_numbers_or_powers() {
    let size = |text| parse_size(text).ok();
    assert_eq!((size("2^20"), size("0")), (Some(1 << 20), Some(0)));
    assert_eq!((size("2^64"), size("2^29"), size("-1")), (None, None, None));
    assert_eq!((size("1k"), size("20M")), (Some(1000), Some(20_000_000)));
    assert_eq!((size("1G"), size("M"), size("1.5M")), (None, None, None));
}

#[test]
fn what_is_revealed() {
    let revealed = |name: &str| {
        let mut terms = Terms::default();
        let set = terms.set_option("reveal", name);
        set.ok()
            .map(|()| (terms.get(&REVEAL), terms.get(&MIN_SIZE)))
    };
    assert_eq!(revealed("size"), Some((Reveal::Size.into(), 0)));
    assert_eq!(revealed("threshold:2^4"), Some((Reveal::Size.into(), 17)));
    assert_eq!(
        revealed("threshold-matches:0"),
        Some((Reveal::ThresholdMatches.into(), 1))
    );
    let both = "size,sum".parse().unwrap();
    for text in ["size,sum", "sum,size"] {
        assert_eq!(revealed(text), Some((both, 0)));
    }
    for wrong in [
        "size,matches",
        "threshold:3,sum",
        "threshold:",
        "threshold",
        "threshold-matches",
        "size:3",
        "shares:1",
    ] {
        assert_eq!(revealed(wrong), None, "{wrong}");
    }
}

#[test]
fn of_two_thresholds_the_larger_one_counts() {
    for order in [["reveal", "min_size"], ["min_size", "reveal"]] {
        for (least, expected) in [("3", 8), ("9", 9)] {
            let mut terms = Terms::default();
            for option in order {
                let text = if option == "reveal" {
                    "threshold:7"
                } else {
                    least
                };
                terms.set_option(option, text).unwrap();
            }
            assert_eq!(terms.get(&MIN_SIZE), expected);
        }
    }
}

#[test]
fn every_option_takes_its_default_and_says_what_there_is() {
    for (name, option) in Terms::options() {
        let mut terms = Terms::default();
        if !option.default.is_empty() {
            terms.set_option(name, option.default).unwrap();
        }
        assert_eq!(terms, Terms::default(), "{name}");
        assert!(terms.set_option(name, "nonsense").is_err());
    }
    assert!(
        Terms::default()
            .set_option("normalization", "email/1")
            .is_err()
    );
}

#[test]
fn classes_of_keys_are_told_and_may_differ() {
    let rule = |ours: &[&str], theirs: &[&str]| {
        let classes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        (KEY_CLASSES.rule)(&KEY_CLASSES, &classes(ours), &classes(theirs)).unwrap()
    };
    let sides = [&["text", "time", "bytes"][..], &["text", "decimal", "text"]];
    let both = ["text", "decimal/time", "bytes/text"];
    assert_eq!(rule(sides[0], sides[1]), both);
    assert_eq!(rule(sides[1], sides[0]), both);
    assert!(rule(&["text"], &[]).is_empty());
    for wrong in ["", "Text", "a b", "\u{1b}[m", &"x".repeat(MAX_CLASS + 1)] {
        let mut terms = Terms::default();
        terms.set(&KEY_CLASSES, vec![wrong.to_owned()]);
        assert!(terms.problem().is_some(), "{wrong:?}");
    }
}

#[test]
fn terms_come_back_from_json_and_unknown_ones_do_not() {
    let mut terms = Terms::default();
    terms.set(&LAMBDA, 64);
    terms.set(&REVEAL, Reveal::InnerProduct.into());
    let mut json = serde_json::to_value(&terms).unwrap();
    assert_eq!(
        serde_json::from_value::<Terms>(json.clone()).unwrap(),
        terms
    );
    json["another"] = 1.into();
    assert!(serde_json::from_value::<Terms>(json).is_err());
}

#[test]
fn what_can_be_revealed_is_what_can_be_asked_for() {
    let ask = |text: &str| Terms::default().set_option("reveal", text);
    let problem = ask("everything").unwrap_err();
    let names = problem.strip_prefix("there are ").unwrap();
    let mut asked = 0;
    for name in names.split(", ") {
        ask(&name.replace(":N", ":3")).unwrap();
        asked += 1;
    }
    // A threshold is asked for besides what it is of.
    assert_eq!(asked, Reveals::all().count() + 1);
}
