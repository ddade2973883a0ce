//! Tables as other programs leave them: what runs make of their values.

use crate::support::{Arguments, Place, exchange};

#[test]
fn denied_values_match_nothing_and_the_peer_hears_nothing() {
    let place = Place::new();
    let table = "mail,n\nTest@Test.com,1\nnoreply@x.org,2\nann@x.org,3\n";
    place.write("t.csv", table);
    place.write(
        "deny.txt",
        "\u{feff}test@test.com\r\n\r\nmailto:noreply@x.org\nnobody\n",
    );
    let side = || Arguments::new("t.csv", "mail").with("--normalize mail=email");
    let denying = side().with("--deny deny.txt --report r.json");
    let pair = exchange(&place, &denying.output("found.csv"), &side());
    pair.expect_success();
    assert_eq!(place.read("found.csv"), "mail,n\nann@x.org,3\n");
    let warning = "warning: 2 of 3 rows have a key that is denied, and take no part";
    assert!(pair.receiver.err.contains(warning), "{}", pair.receiver.err);
    assert!(!pair.sender.err.contains("denied"), "{}", pair.sender.err);
    let report: serde_json::Value = serde_json::from_str(&place.read("r.json")).unwrap();
    assert_eq!(
        (&report["denied"], &report["items"]),
        (&2.into(), &1.into())
    );
    // The peer sees what it does of a table without these rows.
    let seen = |ours: Arguments| {
        let theirs = side().with("--report s.json");
        exchange(&place, &ours.output("found.csv"), &theirs).expect_success();
        let report: serde_json::Value = serde_json::from_str(&place.read("s.json")).unwrap();
        ["peer_items", "bytes_received"].map(|name| {
            let value = report[name].as_u64();
            value.unwrap_or_else(|| panic!("{name}: {report}"))
        })
    };
    place.write("rest.csv", "mail,n\nann@x.org,3\n");
    let rest = Arguments::new("rest.csv", "mail").with("--normalize mail=email");
    assert_eq!(seen(side().with("--deny deny.txt")), seen(rest));
    // The other side alone.
    let denying = side().with("--deny deny.txt");
    let pair = exchange(&place, &side().output("found.csv"), &denying);
    pair.expect_success();
    assert_eq!(place.read("found.csv"), "mail,n\nann@x.org,3\n");
    assert!(
        !pair.receiver.err.contains("denied"),
        "{}",
        pair.receiver.err
    );
    for (words, problem) in [
        (
            "--key mail,n --deny deny.txt",
            "values to deny are for a key of one column",
        ),
        ("--key mail --deny nothing.txt", "nothing.txt"),
    ] {
        let ended = place.run(&format!("check --input t.csv {words}"));
        ended.expect_failure(2, problem);
    }
}

#[test]
fn a_check_names_the_options_that_help() {
    let place = Place::new();
    place.write(
        "t.csv",
        "id, mail\n1, \"ann@x.org\"\n2, \"test@test.com\"\n",
    );
    let ended = place.run("check --input t.csv --key mail --normalize mail=email");
    // It prints what it found before it fails.
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let words = "--skip-initial-space reads CSV";
    assert!(ended.text().contains(words), "{}", ended.text());
    place.write("u.csv", "mail\n'test@test.com\ntest@test.com\n");
    let ended = place.run("check --input u.csv --key mail");
    ended.expect_success();
    for words in [
        "--skip-initial-space reads CSV",
        "--deny keeps them from matching",
    ] {
        assert!(ended.text().contains(words), "{}", ended.text());
    }
    let ended = place
        .run("check --input t.csv --key mail --skip-initial-space --normalize mail=email --show 1");
    ended.expect_success();
    let line = "key of row 1: \"ann@x.org\" is compared as \"ann@x.org\"";
    assert!(ended.text().contains(line), "{}", ended.text());
}

/// What it says is of the keys as they are compared, and so.
#[test]
fn a_check_reads_values_as_a_run_does() {
    let place = Place::new();
    place.write("deny", "test@test.com\n");
    place.write(
        "t.csv",
        "mail,tel,born\nmailto:test@test.com,4930123456.0,1.1.1900\nann@x.org,4930123456.0,2.1.1900\nann@x.org,,\n",
    );
    let mail = "check --input t.csv --key mail --normalize mail=email";
    let said = |words: &str| {
        let ended = place.run(words);
        ended.expect_success();
        ended.text().to_owned()
    };
    let all = said(mail);
    assert!(all.contains("1 value that many people give"), "{all}");
    assert!(all.contains("1 row that repeats an earlier key"), "{all}");
    assert!(all.contains("0 rows with an invalid key"), "{all}");
    assert!(!all.contains("with a key that is denied"), "{all}");
    let denied = said(&format!("{mail} --deny deny --show 1"));
    assert!(denied.contains("com\" is denied"), "{denied}");
    assert!(
        denied.contains("1 row with a key that is denied"),
        "{denied}"
    );
    assert!(!denied.contains("many people give"), "{denied}");
    let dates = said("check --input t.csv --key born --normalize born=date:DMY");
    assert!(dates.contains("1 value that many people give"), "{dates}");
    assert!(!dates.contains("date:DMY, date:MDY"), "{dates}");
    // A phone number that is lost beside an address that is not.
    let both = "--match e=mail --match t=tel --match both=mail,tel --normalize mail=email --normalize tel=phone:DE";
    let both = format!("check --input t.csv --deny deny {both}");
    let found = said(&both);
    assert!(
        found.contains("2 values in the form of a number"),
        "{found}"
    );
    assert!(found.contains("1 distinct identifier\n"), "{found}");
    assert!(
        found.contains("1 identifier that repeats an earlier one"),
        "{found}"
    );
    let json: serde_json::Value = serde_json::from_str(&said(&format!("{both} --json"))).unwrap();
    for (name, rows) in [
        ("number_forms", 2),
        ("partly_invalid", 1),
        ("partly_denied", 0),
        ("denied", 1),
    ] {
        assert_eq!(json[name], rows, "{name}: {json}");
    }
}

#[test]
fn profiles_for_people_and_their_cuts_are_in_the_contract() {
    let place = Place::new();
    place.write("r.csv", "f,g,d\nO\u{2019}Neil,Jos\u{e9},31.12.1984\n");
    place.write("s.csv", "f,g,d\nONEIL,J.,1984-12-31\n");
    let normalized = |input: &str, given: &str, date: &str| {
        Arguments::new(input, "f,g,d").with(&format!(
            "--normalize f=name:family --normalize g={given} --normalize d={date}"
        ))
    };
    let ours = normalized("r.csv", "name:given@1", "date:DMY");
    let theirs = normalized("s.csv", "name:given/1@1", "date");
    let pair = exchange(&place, &ours.output("found.csv"), &theirs);
    pair.expect_success();
    assert_eq!(place.read("found.csv").lines().count(), 2);
    // Another cut is another normalisation.
    let ours = normalized("r.csv", "name:given@2", "date:DMY");
    let pair = exchange(&place, &ours.output("none.csv"), &theirs);
    let words = "disagree on normalization: here …@2,date/1, there …@1,date/1";
    pair.receiver.expect_failure(6, words);
}

#[test]
fn a_set_of_a_former_version_is_looked_up_in_that_version() {
    let place = Place::new();
    place.write("t.csv", "k\nO\u{2019}Neil\nann\n");
    place.write("deny", "O\u{2019}Neil\n");
    let publish = "publish --input t.csv --key k --normalize k=text/1 --identity sender.key --database database \
                   --output set.vset --progress none";
    place.run(publish).expect_success();
    place.write("clients", format!("{} the charity\n", place.receiver));
    let words = "serve --identity sender.key --database database --clients clients --quota 200 --listen 127.0.0.1:0";
    let mut server = place.start_after("true", words);
    let (endpoint, sender) = (server.endpoint(), place.sender);
    let look_up = |profile: &str| {
        place.run(&format!(
            "lookup --input t.csv --key k --normalize k={profile} --identity receiver.key --peer {sender} --set set.vset \
             --output found.csv --progress none {endpoint}"
        ))
    };
    look_up("text").expect_success();
    assert_eq!(place.read("found.csv"), "k\nO\u{2019}Neil\nann\n");
    look_up("text --deny deny").expect_success();
    assert_eq!(place.read("found.csv"), "k\nann\n");
    look_up("email").expect_failure(6, "normalised as text/1, and those of the table as email/2");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
}
