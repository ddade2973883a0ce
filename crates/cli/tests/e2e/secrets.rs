//! Nothing of a private key is shown, wherever one is given in the place of something else: every command, option, variable
//! and key of a file of options, from their declarations. Nor is what signs an address.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;

use crate::declared::{commands, id};
use crate::support::{Ended, Place, Running};

/// The forms in which people have keys at hand.
fn forms(place: &Place) -> Vec<String> {
    let pem = place.read("receiver.key");
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let whole = STANDARD.encode(&pem);
    let bytes = STANDARD.decode(&body).unwrap();
    vec![
        pem.clone(),
        pem.replace('\n', " "),
        pem.replace('\n', "\\n"),
        body.clone(),
        grouped(&body, 8, " "),
        // As Kubernetes writes a secret, and as tools break it.
        whole.clone(),
        grouped(&whole, 76, "\n"),
        grouped(&whole, 12, "\\n"),
        grouped(&whole, 16, " "),
        grouped(&whole, 10, ":"),
        STANDARD.encode(&whole),
        grouped(&hexadecimal(&bytes), 2, ":"),
        hexadecimal(pem.as_bytes()),
    ]
}

fn grouped(text: &str, length: usize, between: &str) -> String {
    let groups = text.as_bytes().chunks(length).map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(between)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refused, and no piece of the key is in what was said or printed.
#[track_caller]
fn expect_hidden(place: &Place, ended: &Ended, what: &str) {
    assert_eq!(ended.code, Some(2), "{what}: {}", ended.err);
    let said = [ended.err.as_bytes(), &ended.out].concat();
    let said = String::from_utf8_lossy(&said);
    let pem = place.read("receiver.key");
    let body = pem.lines().nth(1).unwrap().as_bytes();
    for piece in body.windows(8) {
        let piece = str::from_utf8(piece).unwrap();
        assert!(!said.contains(piece), "{what}: {said}");
    }
    for form in forms(place) {
        for piece in form.as_bytes().windows(24) {
            let piece = String::from_utf8_lossy(piece);
            assert!(!said.contains(&*piece), "{what}: {said}");
        }
    }
    assert!(!said.contains("BEGIN"), "{what}: {said}");
    assert!(said.contains("private key"), "{what}: {said}");
}

fn start(place: &Place, words: &[String], variable: Option<(&str, &str)>) -> Ended {
    let mut command = place.command(words);
    if let Some((name, value)) = variable {
        command.env(name, value);
    }
    Running::start(command).wait()
}

#[test]
fn no_key_is_shown_in_the_place_of_an_argument() {
    let place = Place::new();
    let forms = forms(&place);
    let mut turn = 0;
    for declared in commands() {
        for arg in declared.command.get_arguments() {
            let form = &forms[turn % forms.len()];
            turn += 1;
            let words = match arg.get_long() {
                None => vec![form.clone()],
                Some(long) if turn % 2 == 0 => vec![format!("--{long}={form}")],
                Some(long) => vec![format!("--{long}"), form.clone()],
            };
            // With all else that the command needs: what is wrong with a key alone.
            let mut line = declared.line(&place, &[]);
            line.extend(words);
            if turn % 3 == 0 {
                line.extend(["--log-format".to_owned(), "json".to_owned()]);
            }
            let what = format!("{:?} {}", declared.words, id(arg));
            expect_hidden(&place, &start(&place, &line, None), &what);
        }
    }
    assert!(turn > 300, "{turn}");
}

#[test]
fn no_key_is_shown_in_a_stray_argument() {
    let place = Place::new();
    let forms = forms(&place);
    for form in &forms {
        let words =
            |line: &[&str]| -> Vec<String> { line.iter().map(|word| (*word).to_owned()).collect() };
        let lines = [
            words(&[form]),
            words(&["receive", form]),
            words(&["nonsense", form]),
            words(&["receive", &format!("--{form}")]),
            words(&["receive", &format!("--x{form}"), "y"]),
            words(&["man", form]),
            words(&["offline", form]),
            // As a shell makes words of it.
            [
                words(&["receive", "--identity"]),
                form.split_whitespace().map(str::to_owned).collect(),
            ]
            .concat(),
        ];
        for line in lines {
            expect_hidden(&place, &start(&place, &line, None), &format!("{line:?}"));
        }
    }
}

/// Each option once, by a variable and by a file.
#[test]
fn no_key_is_shown_in_the_place_of_a_setting() {
    let place = Place::new();
    let forms = forms(&place);
    let mut seen = BTreeSet::new();
    for declared in commands() {
        for arg in declared.command.get_arguments() {
            let Some(long) = arg
                .get_long()
                .filter(|long| !["help", "version"].contains(long))
            else {
                continue;
            };
            if !seen.insert(long.to_owned()) {
                continue;
            }
            let form = &forms[seen.len() % forms.len()];
            let line = declared.line(&place, &[]);
            let variable = format!("VESICA_{}", long.to_uppercase().replace('-', "_"));
            let ended = start(&place, &line, Some((&variable, form)));
            expect_hidden(&place, &ended, &variable);
            if long == "config" {
                continue;
            }
            let quoted = serde_json::to_string(form).unwrap();
            for text in [
                format!("{long} = {quoted}\n"),
                format!("{long} = [{quoted}]\n"),
                format!("{long} = '''{form}'''\n"),
            ] {
                place.write("options.toml", &text);
                let config = ["--config".to_owned(), "options.toml".to_owned()];
                let line = [&line[..], &config].concat();
                expect_hidden(&place, &start(&place, &line, None), &text);
            }
        }
    }
    for text in [
        format!("{} = 1\n", serde_json::to_string(&forms[0]).unwrap()),
        format!("{} = 1\n", forms[3]),
        format!("key = {}\n", forms[3]),
        forms[0].clone(),
    ] {
        place.write("options.toml", &text);
        let line = ["receive", "--config", "options.toml"].map(str::to_owned);
        expect_hidden(&place, &start(&place, &line, None), &text);
    }
}

/// Paths and addresses have one line: what has several may be another secret.
#[test]
fn no_path_or_address_of_several_lines_is_shown() {
    let place = Place::new();
    for declared in commands() {
        for arg in declared.values() {
            let is_address = arg
                .get_value_names()
                .is_some_and(|names| names[0] == "ADDR");
            if vesica_cli::path_use(arg).is_none() && !is_address {
                continue;
            }
            for value in [
                "first\nSECRET",
                "first\rSECRET:7",
                "127.0.0.1:7\nSECRET",
                "first\n\nSECRET:7",
            ] {
                let line = declared.line(&place, &[(id(arg), value.to_owned())]);
                let ended = start(&place, &line, None);
                let what = format!("{line:?}: {ended:?}");
                assert_eq!(ended.code, Some(2), "{what}");
                assert!(!ended.err.contains("SECRET"), "{what}");
                assert!(!ended.err.contains("first"), "{what}");
            }
        }
    }
}

/// What is behind the question mark of an address may be a signature, and what is before its server a password.
#[test]
fn no_signature_of_an_address_is_shown() {
    let place = Place::new();
    let signed = "https://127.0.0.1:1/a.csv?X-Amz-Signature=SECRET";
    for declared in commands() {
        let usual = declared.line(&place, &[]);
        for stray in [
            signed.to_owned(),
            format!("--{signed}"),
            format!("--x={signed}"),
        ] {
            let ended = start(&place, &[usual.clone(), vec![stray]].concat(), None);
            assert!(
                !ended.err.contains("SECRET"),
                "{:?}: {}",
                declared.words,
                ended.err
            );
        }
        for arg in declared.values() {
            for value in [
                signed,
                "https://127.0.0.1:1/a b.csv?sig=SECRET",
                // As people mistype them.
                "https:/user:SECRET@127.0.0.1:1/a.csv",
                "https:user:SECRET@127.0.0.1:1/a.csv",
                "//user:SEC/SECRET@127.0.0.1:1/a.csv",
                "user:SECRET@127.0.0.1:1/a.csv",
            ] {
                let line = declared.line(&place, &[(id(arg), value.to_owned())]);
                let ended = start(&place, &line, None);
                assert!(!ended.err.contains("SECRET"), "{line:?}: {}", ended.err);
            }
        }
    }
}
