//! Words that nobody but a program reads. They may be secrets, in whatever way these are encoded or cut, and messages have none
//! of them: keys, tokens, random names.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;
use std::path::Path;

/// Fewer letters and digits on end are read by people whatever they are: ends of names, short hashes, numbers of versions.
const MIN_PIECE: usize = 5;

/// Random letters and digits of a word from which it may be a secret.
const MIN_RANDOM: usize = 24;

/// Numbers of bytes on end from which they may be a key of 32.
const MIN_BYTES: usize = 30;

/// Hexadecimal digits in groups from which they may be a key.
const MIN_HEX: usize = 48;

/// Letters and digits of base64 in groups from which they may be a key of 32 bytes.
const MIN_BASE64: usize = 43;

/// What is between groups is not longer.
const MAX_BETWEEN: usize = 8;

/// Letters and digits on end without a vowel, which no word has.
const UNSPOKEN: usize = 7;

/// Nothing longer names a file.
const LONGEST_PATH: usize = 4096;

/// One in so many letters and digits at least is of another kind than the one before it, in what is random. In base64 that is
/// every second, in base32 every third; in names, one for each word or number.
const MAX_ALIKE: usize = 5;

/// A text without words that nobody but a program reads, whole, as a key in groups of one length, or as a list of bytes. What
/// names a file that is there stays, and so do fingerprints, UUIDs, ULIDs, cells of H3, and names of 128 and 384 bits in
/// hexadecimal digits. Of a path the directories that are there stay, and of an address its server.
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

/// A text without keys in groups, such as `d2:fc:3c`, and without lists of bytes, such as `[210, 252, 60]`.
fn without_groups(text: &str) -> Cow<'_, str> {
    let groups = Groups::of(text);
    let mut hidden: Vec<Range<usize>> = Vec::new();
    for run_at in [
        Groups::hex_at,
        Groups::base64_at,
        Groups::bytes_at,
        Groups::entries_at,
    ] {
        let mut first = 0;
        while first < groups.words.len() {
            let (length, is_secret) = run_at(&groups, first);
            if is_secret {
                let last = &groups.words[first + length - 1];
                hidden.push(groups.words[first].start..last.end);
            }
            // What ends a run may begin the next.
            first += length.max(2) - 1;
        }
    }
    hidden.sort_by_key(|range| range.start);
    let (mut kept, mut done) = (String::new(), 0);
    for range in hidden {
        if range.start >= done {
            kept += &text[done..range.start];
            kept.push('…');
        }
        done = done.max(range.end);
    }
    match done {
        0 => text.into(),
        done => (kept + &text[done..]).into(),
    }
}

/// Letters and digits on end, of base64 too, and numbers with their sign and `.0`.
struct Groups<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
    /// What is before each word but the first, without blanks and quotation marks.
    between: Vec<Option<String>>,
}

impl<'a> Groups<'a> {
    fn of(text: &'a str) -> Groups<'a> {
        let bytes = text.as_bytes();
        let is_word =
            |at: &usize| bytes[*at].is_ascii_alphanumeric() || b"+/_".contains(&bytes[*at]);
        let mut words: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        while let Some(mut start) = (at..bytes.len()).find(is_word) {
            let mut end = (start..bytes.len())
                .find(|at| !is_word(at))
                .unwrap_or(bytes.len());
            if text[start..end].bytes().all(|byte| byte.is_ascii_digit()) {
                let sign = text[at..start].strip_suffix('-').map(|before| before.len());
                start -= usize::from(sign.is_some_and(|before| before > 0 || at == 0));
                let zeros = text[end..].strip_prefix('.').unwrap_or_default();
                let rest = zeros.trim_start_matches('0');
                if rest.len() < zeros.len()
                    && !rest.starts_with(|c: char| c == '.' || c.is_ascii_alphanumeric())
                {
                    end = text.len() - rest.len();
                }
            }
            words.push(start..end);
            at = end;
        }
        let between = words.windows(2).map(|pair| {
            let between = text[pair[0].end..pair[1].start].chars();
            let said = between.filter(|c| !c.is_whitespace() && !"'\"`".contains(*c));
            let said: String = said.take(MAX_BETWEEN + 1).collect();
            (said.len() <= MAX_BETWEEN).then_some(said)
        });
        let between = iter::once(None).chain(between).collect();
        Groups {
            text,
            words,
            between,
        }
    }

    fn word(&self, at: usize) -> &'a str {
        self.words
            .get(at)
            .map_or("", |word| &self.text[word.clone()])
    }

    /// How many words from the first on are alike and have the same between them.
    fn alike(&self, first: usize, is_alike: impl Fn(&str) -> bool) -> usize {
        let goes_on = |at: &usize| {
            let between = &self.between[*at];
            between.is_some() && *between == self.between[first + 1] && is_alike(self.word(*at))
        };
        1 + (first + 1..self.words.len()).take_while(goes_on).count()
    }

    /// The words from `first` on that are groups of one length, but for the last, which may lack something.
    fn of_one_length(&self, first: usize, is_part: impl Fn(&str) -> bool) -> (usize, String) {
        let length = self.word(first).len();
        if !is_part(self.word(first)) {
            return (1, String::new());
        }
        let mut count = self.alike(first, |word| word.len() == length && is_part(word));
        let rest = first + count;
        let goes_on = rest < self.words.len() && self.between[rest] == self.between[first + 1];
        if goes_on && self.word(rest).len() < length && is_part(self.word(rest)) {
            count += 1;
        }
        (
            count,
            (first..first + count).map(|at| self.word(at)).collect(),
        )
    }

    /// What is between the word `first` and the next.
    fn separator(&self, first: usize) -> Option<&str> {
        self.between.get(first + 1)?.as_deref()
    }

    /// How many words on end are groups of hexadecimal digits, and whether these may be a key. Those of names, as in
    /// `a1 a2 a3`, are made in one way.
    fn hex_at(&self, first: usize) -> (usize, bool) {
        let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (count, whole) = self.of_one_length(first, is_hex);
        let length = self.word(first).len();
        let is_grouped = match self.separator(first) {
            Some("" | ":" | "-") => [1, 2, 4, 8].contains(&length),
            Some(",") => length == 2,
            _ => false,
        };
        let form = |at: usize| self.word(at).bytes().map(kind).collect::<Vec<_>>();
        let others = || (first + 1..first + count).filter(|at| form(*at) != form(at - 1));
        let is_secret = is_grouped && whole.len() >= MIN_HEX && 3 * others().count() >= count - 1;
        (count, is_secret)
    }

    /// How many words on end are groups of base64, and whether these may be a key.
    fn base64_at(&self, first: usize) -> (usize, bool) {
        let (count, whole) = self.of_one_length(first, |_| true);
        let has = |is: fn(&u8) -> bool| whole.as_bytes().iter().any(is);
        let is_secret = [4, 8].contains(&self.word(first).len())
            && matches!(self.separator(first), Some("" | ":" | "-"))
            && whole.len() >= MIN_BASE64
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_digit)
            && whole.len() <= MAX_ALIKE * changes_of(&whole);
        (count, is_secret)
    }

    /// How many words on end are numbers of bytes, and whether these may be a key. What ascends is an enumeration.
    fn bytes_at(&self, first: usize) -> (usize, bool) {
        if byte(self.word(first)).is_none() {
            return (1, false);
        }
        let count = self.alike(first, |word| byte(word).is_some());
        let bytes = (first..first + count).map(|at| byte(self.word(at)));
        (count, count >= MIN_BYTES && !bytes.is_sorted())
    }

    /// How many words on end are numbers of bytes, each after its place, as in `{"0":48,"1":46}`, and whether these may be a
    /// key.
    fn entries_at(&self, first: usize) -> (usize, bool) {
        let Ok(place) = self.word(first).parse::<usize>() else {
            return (1, false);
        };
        let same = |at: usize, other: usize| {
            self.between[at].is_some() && self.between[at] == self.between[other]
        };
        let is_entry = |entry: &usize| {
            let at = first + 2 * entry;
            self.word(at).parse() == Ok(place.saturating_add(*entry))
                && byte(self.word(at + 1)).is_some()
                && same(at + 1, first + 1)
                && (*entry == 0 || same(at, first + 2))
        };
        let count = (0..self.words.len()).take_while(is_entry).count();
        let bytes = (0..count).map(|entry| byte(self.word(first + 2 * entry + 1)));
        ((2 * count).max(1), count >= MIN_BYTES && !bytes.is_sorted())
    }
}

/// The byte that a number is, in decimal or with `0x`, `\\x` or `0b` before it, and also with a sign or `.0`.
fn byte(word: &str) -> Option<i16> {
    let hex = ["0x", "0X", "x"]
        .iter()
        .find_map(|start| word.strip_prefix(start));
    let value = if let Some(digits) = hex {
        i16::from_str_radix(digits, 16)
    } else if let Some(digits) = word.strip_prefix("0b") {
        i16::from_str_radix(digits, 2)
    } else {
        let (number, _) = word.split_once('.').unwrap_or((word, ""));
        number.parse()
    };
    value.ok().filter(|value| (-128..=255).contains(value))
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
/// measurement, or a cell of H3; or a ULID of our days. Keys have other lengths.
fn is_known(piece: &str) -> bool {
    let are_all = |is: fn(&u8) -> bool| piece.as_bytes().iter().all(is);
    let is_lower = are_all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match piece.len() {
        15 => is_lower && piece.starts_with('8'),
        26 => {
            piece.starts_with("01")
                && are_all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z'))
                && !piece.contains(['I', 'L', 'O', 'U'])
        }
        32 | 96 => is_lower || are_all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F')),
        _ => false,
    }
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
            "columns are: lat1,lon1,lat2,lon2,name,zip5,city,adr1",
            "columns are: id1, sex, age, zip, dob, q01, q02, q03, inc, edu",
            "handed over: p10,avg,p50,max,p90,min,p99,sum",
            "columns are: 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
            "columns are: 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54,56,58,60,62",
            "columns are: 2001, 2002, 2003, 2004, 2005, 2006, 2007, 2008, 2009, 2010, 2011, 2012, 2013, 2014",
            "A1,B1,C1,D1,A2,B2,C2,D2,A3,B3,C3,D3,A4,B4,C4,D4,A5,B5,C5,D5,A6,B6,C6,D6",
            "face,bead,cafe,f00d,d00d,beef,dead,feed,fade,babe,ace5,add1,a1b2",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV.csv and 01BX5ZZKBKACTAV9WEVGEMMVRZ",
            "F2E18CE6903B475C9B2B4BD3AB89D7C3",
            "/srv/8928308280fffff/8a28308280c7fff/89283082837ffff.csv",
            "2001:db8:85a3:8d3:1319:8a2e:370",
            "2001:0db8:85a3:08d3:1319:8a2e:0370",
            "2001:0db8:85a3:08d3:1319:8a2e:0370:7348:1b2c",
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
        let grouped = [1, 2, 4, 8].map(|length| (hex, length)).into_iter();
        let grouped = grouped.chain([4, 8].map(|length| (base64, length)));
        let grouped = grouped.flat_map(|(secret, length)| {
            let ends = [":", " ", "-", "\n  ", "' '"];
            ends.map(|between| in_groups(secret, length, between))
        });
        let in_pairs = [", ", ",", "','", "\",\n  \""].map(|between| in_groups(hex, 2, between));
        let grouped = grouped.chain(in_pairs);
        let upper = grouped.clone().filter(|secret| secret.starts_with('d'));
        let upper = upper.map(|secret| secret.to_uppercase());
        let list = |write: &dyn Fn(usize, u8) -> String| {
            let written = bytes.iter().enumerate().map(|(at, byte)| write(at, *byte));
            written.collect::<Vec<_>>().join(",")
        };
        let lists = [
            format!("{bytes:?}"),
            format!("{bytes:02x?}"),
            format!("{bytes:#04x?}"),
            format!("{bytes:#?}"),
            format!("[{}]", list(&|_, byte| format!("{byte:#010b}"))),
            format!("[{}]", list(&|_, byte| format!("{byte}.0"))),
            format!("[{}]", list(&|_, byte| format!("{byte:>4}."))),
            format!("[{}]", list(&|_, byte| byte.cast_signed().to_string())),
            format!("{{{}}}", list(&|at, byte| format!("\"{at}\":{byte}"))),
            format!("{{{}}}", list(&|at, byte| format!(" {at}: {byte}"))),
            list(&|_, byte| byte.to_string()).replace(',', " "),
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
            "F2E18CE6903B475C9B2B4BD3AB89D7C3765C27AB0B99877D",
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
