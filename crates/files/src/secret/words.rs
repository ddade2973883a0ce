//! Words that nobody but a program reads. They may be secrets, in whatever way these are encoded or cut, and messages have none
//! of them: keys, tokens, random names.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::path::Path;

/// Fewer letters and digits on end are read by people whatever they are: ends of names, short hashes, numbers of versions.
const MIN_PIECE: usize = 5;

/// Random letters and digits of a word from which it may be a secret.
const MIN_RANDOM: usize = 24;

/// Numbers of bytes on end from which they may be a secret.
const MIN_BYTES: usize = 16;

/// Letters and digits on end without a vowel, which no word has.
const UNSPOKEN: usize = 7;

/// Nothing longer names a file.
const LONGEST_PATH: usize = 4096;

/// One in so many letters and digits at least is of another kind than the one before it, in what is random. In base64 that is
/// every second, in base32 every third; in names, one for each word or number.
const MAX_ALIKE: usize = 5;

/// A text without words that nobody but a program reads, whole, in groups of one length or as a list of numbers. What names a file that is there stays, and so do fingerprints, UUIDs,
/// and names of 128 and 384 bits in hexadecimal digits. Of a path the directories that are there stay, and of an address its
/// server.
///
/// ```
/// use vesica_files::legible;
///
/// let line = "nowhere/hT7dk2Xw91mZQpLr5sVbYc3N: no such file";
/// assert_eq!(legible(line), "…: no such file");
/// assert_eq!(legible("part-00000-of-00016: no such file"), "part-00000-of-00016: no such file");
/// ```
pub fn legible(text: &str) -> Cow<'_, str> {
    let text = without_groups(text);
    let ends_word = |c: char| c.is_whitespace() || "'\"`<>,;()[]{}|".contains(c);
    if !text.split(ends_word).any(is_random) {
        return text;
    }
    let words = text.split_inclusive(ends_word).map(|piece| {
        let word = piece.strip_suffix(ends_word).unwrap_or(piece);
        match is_random(word) {
            true => shortened(word) + &piece[word.len()..],
            false => piece.to_owned(),
        }
    });
    words.collect::<String>().into()
}

/// A text without random words in groups with the same between them, such as `d2:fc:3c` and `[210, 252, 60]`.
fn without_groups(text: &str) -> Cow<'_, str> {
    let groups = groups(text);
    let between = |group: usize| {
        let between = &text[groups[group - 1].end..groups[group].start];
        between.lines().next()
    };
    let (mut kept, mut done, mut first) = (String::new(), 0, 0);
    while first < groups.len() {
        let goes_on = |group: usize| {
            let [here, before] = [group, group - 1].map(|group| &text[groups[group].clone()]);
            let is_alike = here.len() == before.len() || is_byte(here) && is_byte(before);
            is_alike && between(group) == between(first + 1)
        };
        let all = (first + 1..groups.len()).take_while(|group| goes_on(*group));
        let mut end = first + 1 + all.count();
        // What is before other groups may be the first of them.
        let mut next = end.max(first + 2) - 1;
        if is_secret(text, &groups[first..end]) {
            // The last group may lack something.
            let is_rest = |group: &usize| between(*group) == between(first + 1);
            let rest = Some(end).filter(|end| *end < groups.len()).filter(is_rest);
            end += usize::from(rest.is_some_and(|rest| groups[rest].len() < groups[first].len()));
            kept += &text[done..groups[first].start];
            kept.push('…');
            done = groups[end - 1].end;
            next = end;
        }
        first = next;
    }
    match done {
        0 => text.into(),
        done => (kept + &text[done..]).into(),
    }
}

/// Letters and digits on end, of base64 too.
fn groups(text: &str) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match groups.last_mut() {
            _ if !(byte.is_ascii_alphanumeric() || b"+/_".contains(&byte)) => {}
            Some(last) if last.end == at => last.end += 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

fn is_byte(group: &str) -> bool {
    group.len() <= 3 && group.parse::<u8>().is_ok()
}

/// Whether groups may be those of a secret: of many bytes, or of letters and digits without any order. Those of names, as in
/// `c10, c11, c12`, are made in one way.
fn is_secret(text: &str, groups: &[Range<usize>]) -> bool {
    let whole: String = groups.iter().map(|group| &text[group.clone()]).collect();
    if whole.len() < MIN_RANDOM {
        return false;
    }
    if groups.iter().all(|group| is_byte(&text[group.clone()])) {
        return groups.len() >= MIN_BYTES;
    }
    let form = |group: &Range<usize>| {
        let bytes = text[group.clone()].bytes();
        bytes.map(kind).collect::<Vec<_>>()
    };
    let pairs = groups.windows(2);
    let others = pairs.filter(|pair| form(&pair[0]) != form(&pair[1]));
    let is_address = || text[groups[0].start..groups[groups.len() - 1].end].parse::<Ipv6Addr>();
    3 * others.count() >= groups.len() - 1
        && groups.len() > 1
        && whole.len() <= MAX_ALIKE * changes_of(&whole)
        && is_address().is_err()
}

/// A random word as far as people read it.
fn shortened(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") && !is_random(option) => {
            format!("{option}={}", shortened_name(value))
        }
        _ => shortened_name(word),
    }
}

fn shortened_name(word: &str) -> String {
    let name = word.trim_end_matches([':', '.']);
    let end = &word[name.len()..];
    if name.len() > LONGEST_PATH {
        return format!("…{end}");
    }
    if Path::new(name).symlink_metadata().is_ok() {
        return word.to_owned();
    }
    if let Some((scheme, rest)) = name.split_once("://") {
        let (host, _) = rest.split_once('/').unwrap_or(("", rest));
        return match host.is_empty() || is_random(host) || is_random(scheme) {
            true => format!("…{end}"),
            false => format!("{scheme}://{host}/…{end}"),
        };
    }
    let mut above = Path::new(name).ancestors().skip(1);
    let above = above.find(|above| above.is_dir());
    above.map_or_else(|| "…".into(), |above| above.join("…").display().to_string()) + end
}

/// Whether a word has so many letters and digits without any order that it may be a secret.
fn is_random(word: &str) -> bool {
    let word = word.trim_end_matches([':', '.']);
    if is_fingerprint(word) {
        return false;
    }
    let pieces = word.split(|c: char| !c.is_ascii_alphanumeric());
    let pieces: Vec<&str> = pieces.collect();
    let (mut length, mut at) = (0, 0);
    while let Some(piece) = pieces.get(at) {
        if pieces[at..].get(..UUID.len()).is_some_and(is_uuid) {
            at += UUID.len();
            continue;
        }
        at += 1;
        if piece.len() >= MIN_PIECE && !is_known(piece) {
            let is_mixed = piece.len() <= MAX_ALIKE * changes_of(piece);
            let is_unspoken = piece.len() >= MIN_RANDOM && unspoken(piece) >= UNSPOKEN;
            length += if is_mixed || is_unspoken {
                piece.len()
            } else {
                0
            };
        }
    }
    length >= MIN_RANDOM
}

/// How often a letter or digit is of another kind than the one before it: of upper case, of lower case or a digit. Words
/// begin in upper case and go on in lower case.
fn changes_of(piece: &str) -> usize {
    let changes = |pair: &&[u8]| {
        let begins_word = pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase();
        kind(pair[0]) != kind(pair[1]) && !begins_word
    };
    piece.as_bytes().windows(2).filter(changes).count()
}

/// Whether a letter or digit is a digit, and whether it is of upper case.
fn kind(byte: u8) -> (bool, bool) {
    (byte.is_ascii_digit(), byte.is_ascii_uppercase())
}

/// The most letters and digits on end without a vowel, of which half are letters.
fn unspoken(piece: &str) -> usize {
    let (mut most, mut length, mut letters) = (0, 0, 0);
    for byte in piece.bytes() {
        if b"aeiouy".contains(&byte.to_ascii_lowercase()) {
            (length, letters) = (0, 0);
            continue;
        }
        length += 1;
        letters += usize::from(byte.is_ascii_alphabetic());
        if 2 * letters >= length {
            most = most.max(length);
        }
    }
    most
}

/// Whether this is the fingerprint of a key, which is public: `vs1:` and 56 digits.
pub(crate) fn is_fingerprint(word: &str) -> bool {
    let digits = word.strip_prefix("vs1:").unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
    digits.len() == 56 && digits.bytes().all(is_digit)
}

/// Whether these are hexadecimal digits of a public name: of 128 bits, as that of stored correlations, or of 384, as a
/// measurement. Keys have other lengths.
fn is_known(piece: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    [32, 96].contains(&piece.len()) && piece.bytes().all(is_digit)
}

/// Digits of the groups of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// Whether pieces on end are the groups of a UUID.
fn is_uuid(pieces: &[&str]) -> bool {
    let is_group = |(piece, length): (&&str, usize)| {
        piece.len() == length && piece.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    pieces.iter().zip(UUID).all(is_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_stays() {
        for text in [
            "",
            "/srv/data/2026-11-28/customers-with-a-long-name/part-00000-of-00016.snappy.parquet",
            "part-00000-3f2a1b4c-91d7-4f5e-8a9b-0123456789ab-c000.snappy.parquet",
            "s3://bucket/3f2a1b4c-91d7-4f5e-8a9b-0123456789ab/00000-0-3F2A1B4C-91d7-4f5e-8a9b-a1b2c3d4e5f6-00001.parquet",
            "CustomersExport2026Q4FinalVersion.csv",
            "export-20261128T202918Z-20261129T000000Z.csv",
            "the peer is vs1:q6bxgjqccvo63mbjuf3lh3pyfrnfvt2hxwdv5zxkpib62szr3dkpkjyw, and not vs1:a",
            "a1b2c3d4e5f60718293a4b5c6d7e8f90-1234567890.us-east-1.elb.amazonaws.com:7340",
            "web-7d4b9c6f5-x2x9p.default.svc.cluster.local:7340",
            "ec2-203-0-113-25.compute-1.amazonaws.com",
            "no pair is called 3f2a1b4c91d74f5e8a9b0123456789ab",
            &format!("a measurement {}", "0f1e2d3c4b5a".repeat(8)),
            "/home/somebody/workspace/production/e2e-0f3a9b2c4d5e6f70/customers.csv",
            "FixedSizeBinary(16), Timestamp(Microsecond, None)",
            "/usr/lib/x86_64-linux-gnu/libadbc_driver_postgresql.so.1.2.3",
            "fe80::1ff:fe23:4567:890a, 2001:db8:85a3:8d3:1319:8a2e:370:7348",
            "1234567890123456789012345678901234567890",
            "2001:0db8:85a3:08d3:1319:8a2e:0370:7348",
            "no column is called \"c\"; there are c1, c2, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21",
            "rows 1, 2, 3, 5, 8, 13, 21, 34 and 55, and 10 of 16 GB by 10:15 on 2026-11-28",
            "10.0.0.1, 10.0.0.2, 10.0.0.3: none of them answers",
            "this word and that word with this side here",
        ] {
            assert_eq!(legible(text), text);
        }
    }

    #[test]
    fn long_words_are_soon_read() {
        let random = "hT7dk2Xw91mZQpLr5sVbYc3N";
        assert_eq!(legible(&("/a".repeat(100_000) + "/" + random)), "…");
        assert_eq!(legible(&("--a=".repeat(100_000) + random)), "--a=…");
    }

    #[test]
    fn groups_are_words_too() {
        let hex = "d2fc3c9a07b1e6584f10aa93c57e2b68d90134f8627bce55a1903d4e6f82b7c4";
        let base64 = "8uGM5pA7R1ybK0vTq4nXw3ZcJ6sLmYd9HfOeBtSgDxE";
        let in_groups = |secret: &str, length: usize, between: &str| {
            let groups = secret.as_bytes().chunks(length);
            let groups: Vec<_> = groups.map(|group| str::from_utf8(group).unwrap()).collect();
            groups.join(between)
        };
        let bytes: Vec<u8> = (0..32u32).map(|i| (i * i * 77 + 210) as u8).collect();
        let all = [
            (hex, 1),
            (hex, 2),
            (hex, 4),
            (hex, 8),
            (base64, 4),
            (base64, 8),
        ];
        let grouped = all.iter().flat_map(|(secret, length)| {
            let ends = [":", " ", ", ", "-", "','", "\",\n  \""];
            ends.map(|between| in_groups(secret, *length, between))
        });
        let upper = grouped.clone().map(|secret| secret.to_uppercase());
        let lists = [
            format!("{bytes:?}"),
            format!("{bytes:02x?}"),
            format!("{bytes:#04x?}"),
            format!(
                "b'{}'",
                bytes
                    .iter()
                    .map(|byte| format!("\\x{byte:02x}"))
                    .collect::<String>()
            ),
            // As `openssl pkey -text` prints them.
            in_groups(hex, 2, ":")
                .as_bytes()
                .chunks(45)
                .map(|line| format!("    {}\n", str::from_utf8(line).unwrap()))
                .collect(),
        ];
        for secret in grouped.chain(upper).chain(lists) {
            let said = legible(&format!("identity {secret}: no such file")).into_owned();
            // What stands before the first group may stay.
            let letters = said.chars().filter(char::is_ascii_alphanumeric).count();
            assert!(
                letters <= "b identity nosuchfile".len() - 2,
                "{secret}: {said}"
            );
            assert!(said.ends_with("such file"), "{said}");
        }
    }

    #[test]
    fn what_only_programs_read_is_left_out() {
        // Keys without what they would be known by, in base64, hexadecimal digits and base32, and cut anywhere.
        for secret in [
            "8uGM5pA7R1ybK0vTq4nXw3ZcJ6sLmYd9HfOeBtSgDxE=",
            "8uGM5pA7R1yb/0vTq4nX-3ZcJ6sLmYd9HfOe",
            "f2e18ce6903b475c9b2b4bd3ab89d7c3765c27ab0b99877d1df39e06d4a00f11",
            "F2E18CE6903B475C9B2B4BD3AB89D7C3",
            "6LQYZZUQHNDVZGZLJPJ2XCOXYN3FYJ5LBOMYO7I56OPANVFAB4IQ",
            "YJLYYFHXCOMJSU2AUEMRDRYOPHBAUZVPPRPRIOW6VRJSAKQGHMRQ",
            "AGE4SECRET9KEY1Q2W3E4R5T6Y7U8I9O0PASD",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0",
            "hT7dk2Xw91mZ/QpLr5sVbYc3N",
        ] {
            for (text, expected) in [
                (
                    format!("identity {secret}: no such file"),
                    "identity …: no such file",
                ),
                (
                    format!("no option '--identity={secret}'"),
                    "no option '--identity=…'",
                ),
                (format!("invalid '{secret}' here"), "invalid '…' here"),
                (format!("{secret}:7340"), "…"),
            ] {
                let said = legible(&text);
                assert!(said.starts_with(expected), "{said}");
                assert!(
                    !said.contains(&secret[..6]) && !said.contains(&secret[12..20]),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn of_names_stays_what_is_there() {
        let place = tempfile::tempdir().unwrap();
        let name = "f2e18ce6903b475c9b2b4bd3ab89d7c3765c27ab0b99877d1df39e06d4a00f11.csv";
        let directory = place.path().join("day=1");
        std::fs::create_dir(&directory).unwrap();
        let here = directory.join(name);
        let gone = directory.join("nowhere").join(name);
        let said = |path: &Path| legible(&format!("{}: damaged", path.display())).into_owned();
        let shown = format!("{}: damaged", directory.join("…").display());
        assert_eq!((said(&here), said(&gone)), (shown.clone(), shown));
        std::fs::write(&here, "").unwrap();
        assert_eq!(said(&here), format!("{}: damaged", here.display()));
        for (address, expected) in [
            (format!("s3://bucket/a/{name}: gone"), "s3://bucket/…: gone"),
            (format!("s3://{name}/a: gone"), "…: gone"),
            (format!("{name}://a/b: gone"), "…: gone"),
            (format!("https://host:8443/{name}"), "https://host:8443/…"),
        ] {
            assert_eq!(legible(&address), expected);
        }
    }
}
