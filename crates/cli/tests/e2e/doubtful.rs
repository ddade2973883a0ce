//! Keys that a run warns of: words for null, placeholders in very many rows, phone numbers in the form of numbers.

use crate::support::{Arguments, Ended, Place, Running, exchange};

const KEY: &str = "--key id,tel --normalize tel=phone:DE";

/// A hundred rows. The key of 30 is a placeholder, one has a word for null, and one a phone number as pandas writes it.
fn table() -> String {
    let mut text = "id,tel\nNULL,030 123456\n7,4930123456.0\n".to_owned();
    for row in 2..100 {
        let id = if row % 3 == 2 && row < 92 {
            "999-99-9999".to_owned()
        } else {
            row.to_string()
        };
        text.push_str(&format!("{id},+49 30 123456\n"));
    }
    text
}

#[track_caller]
fn expect_warnings(text: &str) {
    for words in [
        "a key that stands for no value, such as NULL",
        "a phone number in the form of a number, such as 4930123456.0",
        "one key is in 30 of 100 rows, first in row 3",
    ] {
        let found: Vec<&str> = text.lines().filter(|line| line.contains(words)).collect();
        assert_eq!(found.len(), 1, "{words}: {text}");
        assert!(
            found[0].starts_with("warning: ") && !found[0].contains("  "),
            "{}",
            found[0]
        );
    }
    assert!(!text.contains("999-99"), "{text}");
}

#[track_caller]
fn warned(ended: &Ended) {
    ended.expect_success();
    expect_warnings(&ended.err);
}

fn by_courier(place: &Place) {
    let step = |role: &str, step: &str, more: &str| {
        let peer = match role {
            "receiver" => place.sender,
            _ => place.receiver,
        };
        warned(&place.run(&format!(
            "exchange {step} --role {role} --input t.csv {KEY} --identity {role}.key --peer {peer} \
             --state {role}.state --progress none {more}"
        )));
    };
    step("sender", "offer", "--message-out m0");
    step("receiver", "start", "--message m0 --message-out m1");
    step("sender", "answer", "--message m1 --message-out m2");
    step("receiver", "finish", "--message m2 --output found.csv");
}

fn published(place: &Place) {
    warned(&place.run(&format!(
        "publish --input t.csv {KEY} --identity sender.key --set-dir database --output set.vset --progress none"
    )));
    place.write("clients", format!("{} the charity\n", place.receiver));
    let words = "serve --identity sender.key --set-dir database --clients clients --quota 200 --listen 127.0.0.1:0";
    let mut server = place.start_after("true", words);
    let (endpoint, sender) = (server.endpoint(), place.sender);
    warned(&place.run(&format!(
        "lookup --input t.csv {KEY} --identity receiver.key --peer {sender} --set set.vset --progress none {endpoint}"
    )));
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
}

fn split(place: &Place) {
    let start = |role: &str, peer, endpoint: &str| {
        place.start_after(
            "true",
            &format!(
                "split --role {role} --input t.csv --job {role}.job {KEY} --protocol dh --security semi-honest \
                 --task-memory 180K --progress plain --identity {role}.key --peer {peer} {endpoint}"
            ),
        )
    };
    let mut listening: Running = start("sender", place.receiver, "--listen 127.0.0.1:0");
    let endpoint = listening.endpoint();
    let connecting = start("receiver", place.sender, &endpoint);
    warned(&connecting.wait());
    warned(&listening.wait());
}

fn in_one_run(place: &Place) {
    let side = || Arguments::new("t.csv", "id,tel").with("--normalize tel=phone:DE");
    let pair = exchange(place, &side().output("found.csv"), &side());
    pair.expect_success();
    expect_warnings(&pair.receiver.err);
    expect_warnings(&pair.sender.err);
    // What is declared null matches nothing, and is not warned of.
    let side = || side().with("--null NULL --null 999-99-9999");
    let pair = exchange(place, &side().output("found.csv"), &side());
    pair.expect_success();
    for err in [&pair.receiver.err, &pair.sender.err] {
        assert!(
            !err.contains("stands for no value") && !err.contains("one key is in"),
            "{err}"
        );
    }
}

fn checked(place: &Place) {
    let ended = place.run(&format!("check --input t.csv {KEY}"));
    ended.expect_success();
    expect_found(ended.text());
}

/// What `check` finds, where nobody is met either.
fn examined(place: &Place) {
    let peer = place.sender;
    let ended = place.run(&format!(
        "doctor --input t.csv {KEY} --identity receiver.key --peer {peer} --connect 127.0.0.1:1 --wait 0.2"
    ));
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    let lines: Vec<&str> = ended.text().lines().map(str::trim).collect();
    expect_found(&lines.join("\n"));
}

fn expect_found(text: &str) {
    let text = text.replace("column \"id\": 1 value that stand", "a key that stands");
    let text = text.replace("column \"tel\": 1 value in", "a phone number in");
    expect_warnings(&text);
}

/// The words of a command, and what it is run on.
type Case<'a> = (&'a [&'a str], fn(&Place));

/// Every command that takes a key reads a table, and warns of its keys; `collect` reads one again.
#[test]
fn every_run_warns_of_keys_that_match_strangers() {
    let place = Place::new();
    place.write("t.csv", table());
    let commands: [Case; 7] = [
        (&["receive", "send"], in_one_run),
        (&["check"], checked),
        (&["doctor"], examined),
        (&["exchange"], by_courier),
        (&["publish", "lookup"], published),
        (&["split"], split),
        (&["collect"], |_| {}),
    ];
    let mut found: Vec<String> = Vec::new();
    for command in subcommands(&place, "") {
        match subcommands(&place, &command) {
            nested if nested.is_empty() => found.push(command),
            nested => found.extend(nested.iter().map(|nested| format!("{command} {nested}"))),
        }
    }
    found.retain(|command| {
        place
            .run(&format!("{command} --help"))
            .text()
            .contains("--key ")
    });
    let mut known: Vec<&str> = commands
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    known.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, known);
    commands.iter().for_each(|(_, run)| run(&place));
}

/// The commands that the help of a command names.
fn subcommands(place: &Place, command: &str) -> Vec<String> {
    let help = place.run(&format!("{command} --help"));
    let lines = help
        .text()
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}
