//! Nothing of a private key is shown, wherever one is given in the place of something else: every command, option, variable
//! and key of a file of options, from their declarations. Nor is what signs an address.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use clap::Arg;
use vesica_cli::PathUse;

use crate::declared::{commands, id};
use crate::support::{Ended, Place, Running};

/// A key of nobody, as PKCS#8 has it, in base64.
const BODY: &str = "MC4CAQAwBQYDK2VwBCIEIMJXjBT3E5iZU0ChGRHHDnnCCmavfF8UOt6sUyAqBjsj";

/// The bytes that PKCS#8 has before the key itself.
const HEAD: usize = 16;

fn pem() -> String {
    format!("-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n")
}

/// The forms in which people have keys at hand, each with what it is.
fn forms() -> Vec<(&'static str, String)> {
    let (pem, body) = (pem(), BODY);
    let whole = STANDARD.encode(&pem);
    let bytes = STANDARD.decode(body).unwrap();
    let openssh = [b"openssh-key-v1\0\0\0\0\x04none", &bytes[HEAD..]].concat();
    let octal = |bytes: &[u8], between: &str| each(bytes, between, |byte| format!("{byte:03o}"));
    vec![
        ("PEM", pem.clone()),
        ("PEM with blanks", pem.replace('\n', " ")),
        ("PEM with escapes", pem.replace('\n', "\\n")),
        ("its body", body.to_owned()),
        ("its body in groups", grouped(body, 8, " ")),
        // As Kubernetes writes a secret, and as tools break it.
        ("base64", whole.clone()),
        ("base64 in lines", grouped(&whole, 76, "\n")),
        ("base64 in escaped lines", grouped(&whole, 12, "\\n")),
        ("base64 in groups", grouped(&whole, 16, " ")),
        ("base64 with colons", grouped(&whole, 10, ":")),
        ("base64 twice", STANDARD.encode(&whole)),
        ("hexadecimal DER", grouped(&hexadecimal(&bytes), 2, ":")),
        ("hexadecimal PEM", hexadecimal(pem.as_bytes())),
        // As programs write bytes.
        ("Python's bytes", python(&bytes)),
        ("Python's bytes twice", python(python(&bytes).as_bytes())),
        ("a list", format!("[{}]", each(&bytes, ", ", u8::to_string))),
        (
            "C",
            format!("{{{}}}", each(&bytes, ", ", |byte| format!("0x{byte:02x}"))),
        ),
        ("a shell's octal", format!("\\{}", octal(&bytes, "\\"))),
        (
            "an address",
            each(&bytes, "", |byte| format!("%{byte:02X}")),
        ),
        // Dumps.
        ("od -b", dump(&bytes, 7, |bytes| octal(bytes, " "))),
        (
            "od",
            dump(pem.as_bytes(), 7, |bytes| {
                pairs(bytes, |pair| format!("{pair:06o}"))
            }),
        ),
        (
            "hexdump",
            dump(&bytes, 7, |bytes| {
                pairs(bytes, |pair| format!("{pair:04x}"))
            }),
        ),
        (
            "xxd",
            dump(&bytes, 8, |bytes| {
                format!(": {}", grouped(&hexadecimal(bytes), 4, " "))
            }),
        ),
        ("base32", base32(pem.as_bytes())),
        ("base32 DER", base32(&bytes)),
        // Parts of it, with what is around the key.
        ("without a tail", body[..40].to_owned()),
        ("without a head", STANDARD.encode(&bytes[7..])),
        (
            "from the key's length on",
            STANDARD.encode(&bytes[HEAD - 4..]),
        ),
        (
            "hexadecimal digits without a head",
            hexadecimal(&bytes[7..]),
        ),
        ("OpenSSH", STANDARD.encode(&openssh)),
    ]
}

/// Nothing but the key itself, or a part of it, which could be anything.
fn pieces() -> Vec<(&'static str, String)> {
    let bytes = STANDARD.decode(BODY).unwrap();
    let key = &bytes[HEAD..];
    vec![
        ("base64", STANDARD.encode(key)),
        ("hexadecimal digits", hexadecimal(key)),
        ("base32", base32(key)),
        ("the end", BODY[24..].to_owned()),
        (
            "the end of a path",
            format!("/nowhere/{}", STANDARD.encode(key)),
        ),
    ]
}

fn grouped(text: &str, length: usize, between: &str) -> String {
    let groups = text.as_bytes().chunks(length).map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(between)
}

fn each(bytes: &[u8], between: &str, form: impl Fn(&u8) -> String) -> String {
    bytes.iter().map(form).collect::<Vec<_>>().join(between)
}

fn hexadecimal(bytes: &[u8]) -> String {
    each(bytes, "", |byte| format!("{byte:02x}"))
}

/// As Python shows bytes.
fn python(bytes: &[u8]) -> String {
    let form = |byte: &u8| match byte {
        b'\\' | b'\'' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    format!("b'{}'", each(bytes, "", form))
}

/// Lines of 16 bytes, after offsets of so many digits.
fn dump(bytes: &[u8], digits: usize, form: impl Fn(&[u8]) -> String) -> String {
    let lines = bytes.chunks(16).zip((0..).step_by(16));
    let line = |(bytes, at): (&[u8], usize)| match digits {
        8 => format!("{at:08x}{}\n", form(bytes)),
        _ => format!("{at:07o} {}\n", form(bytes)),
    };
    lines.map(line).collect()
}

/// Numbers of two bytes, as most machines read them.
fn pairs(bytes: &[u8], form: impl Fn(u16) -> String) -> String {
    let pair = |pair: &[u8]| form(u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    bytes.chunks(2).map(pair).collect::<Vec<_>>().join(" ")
}

fn base32(bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let digit = |bits: &[u8]| {
        let value = (0..5).fold(0, |value, at| 2 * value + bits.get(at).unwrap_or(&0));
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[usize::from(value)])
    };
    bits.chunks(5).map(digit).collect()
}

/// No piece of the key is in what was said or printed.
#[track_caller]
fn expect_nothing_of(texts: &[(&str, String)], ended: &Ended, what: &str) {
    let said = [ended.err.as_bytes(), &ended.out].concat();
    let said = String::from_utf8_lossy(&said);
    for piece in BODY.as_bytes().windows(8) {
        let piece = str::from_utf8(piece).unwrap();
        assert!(!said.contains(piece), "{what}: {said}");
    }
    for (form, text) in texts {
        for piece in text.as_bytes().windows(12) {
            let piece = String::from_utf8_lossy(piece);
            assert!(
                piece.trim().len() < 12 || !said.contains(&*piece),
                "{what}: {form}: {said}"
            );
        }
    }
    assert!(!said.contains("BEGIN"), "{what}: {said}");
}

/// Refused for what it is, and not shown.
#[track_caller]
fn expect_hidden(ended: &Ended, what: &str) {
    expect_nothing_of(&forms(), ended, what);
    assert_eq!(ended.code, Some(2), "{what}: {}", ended.err);
    assert!(ended.err.contains("private key"), "{what}: {}", ended.err);
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
    let forms = forms();
    let turns = in_place_of_arguments(&place, &forms, |_| true, expect_hidden);
    assert!(turns > 300, "{turns}");
}

/// Of what could be anything it cannot be known that it is a key; messages have nothing of it.
#[test]
fn no_piece_of_a_key_is_shown_in_the_place_of_an_argument() {
    let place = Place::new();
    let pieces = pieces();
    // A file of any name may be made.
    let is_read = |arg: &Arg| !matches!(vesica_cli::path_use(arg), Some(PathUse::Writes(_)));
    let turns = in_place_of_arguments(&place, &pieces, is_read, |ended, what| {
        expect_nothing_of(&pieces, ended, what);
    });
    assert!(turns > 200, "{turns}");
}

/// Runs every command with one of these texts in the place of each of its arguments in turn; returns how many there are.
fn in_place_of_arguments(
    place: &Place,
    texts: &[(&str, String)],
    takes: impl Fn(&Arg) -> bool,
    mut check: impl FnMut(&Ended, &str),
) -> usize {
    let mut turn = 0;
    for declared in commands() {
        for arg in declared.command.get_arguments().filter(|arg| takes(arg)) {
            let (form, text) = &texts[turn % texts.len()];
            turn += 1;
            let words = match arg.get_long() {
                None => vec![text.clone()],
                Some(long) if turn % 2 == 0 => vec![format!("--{long}={text}")],
                Some(long) => vec![format!("--{long}"), text.clone()],
            };
            // With all else that the command needs: what is wrong with a key alone.
            let mut line = declared.line(place, &[]);
            line.extend(words);
            if turn % 3 == 0 {
                line.extend(["--log-format".to_owned(), "json".to_owned()]);
            }
            let what = format!("{:?} {}: {form}", declared.words, id(arg));
            check(&start(place, &line, None), &what);
        }
    }
    turn
}

#[test]
fn no_key_is_shown_in_a_stray_argument() {
    let place = Place::new();
    for (what, form) in &forms() {
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
            expect_hidden(&start(&place, &line, None), &format!("{what}: {line:?}"));
        }
    }
}

/// Each option once, by a variable and by a file.
#[test]
fn no_key_is_shown_in_the_place_of_a_setting() {
    let place = Place::new();
    let forms = forms();
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
            let (_, form) = &forms[seen.len() % forms.len()];
            let line = declared.line(&place, &[]);
            let variable = format!("VESICA_{}", long.to_uppercase().replace('-', "_"));
            let ended = start(&place, &line, Some((&variable, form)));
            expect_hidden(&ended, &variable);
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
                expect_hidden(&start(&place, &line, None), &text);
            }
        }
    }
    for text in [
        format!("{} = 1\n", serde_json::to_string(&pem()).unwrap()),
        format!("{BODY} = 1\n"),
        format!("key = {BODY}\n"),
        pem(),
    ] {
        place.write("options.toml", &text);
        let line = ["receive", "--config", "options.toml"].map(str::to_owned);
        expect_hidden(&start(&place, &line, None), &text);
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
