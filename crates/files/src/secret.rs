//! What is never shown: private keys, and words that nobody but a program reads.

mod words;

pub(crate) use words::is_fingerprint;
pub use words::legible;

/// What PEM begins with.
const PEM: &[u8] = b"-----BEGIN";

/// What the format of OpenSSH begins with.
const OPENSSH: &[u8] = b"openssh-key-v1";

/// How often a key may be encoded: Kubernetes has base64 of what may be base64.
const MAX_ENCODINGS: usize = 2;

/// Fewer digits stand for nothing that a key is known by.
const MIN_DIGITS: usize = 11;

/// Digits of an offset, which dumps have before their lines.
const OFFSET: usize = 7;

/// Whether a text has a private key in it: what PEM or OpenSSH's format begins with, the first bytes of PKCS#8, PKCS#1 or SEC 1,
/// or those around a key of Curve25519 or Curve448 in PKCS#8. They are found as they are, in escapes of languages, in base64,
/// base32 and hexadecimal digits with anything between them, and in lists and dumps of numbers; once or twice. A text that has
/// one is not to be shown, nor any part of it. That other text is taken for a key happens once in some 2^28 characters.
pub fn holds_key(text: &[u8]) -> bool {
    is_in(text, MAX_ENCODINGS)
}

fn is_in(text: &[u8], encodings: usize) -> bool {
    if has_key(text) {
        return true;
    }
    readings(text).any(|bytes| {
        // What is encoded once more is text.
        let is_text =
            |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || *byte == 0;
        let mut texts = bytes.split(|byte| !is_text(byte));
        has_key(&bytes)
            || encodings > 1
                && texts.any(|text| text.len() >= MIN_DIGITS && is_in(text, encodings - 1))
    })
}

/// Whether bytes have in them what a key is known by. What PEM begins with may have anything between its letters.
fn has_key(bytes: &[u8]) -> bool {
    let digits = digits(&without_escapes(bytes), of_base64);
    digits.windows(PEM.len()).any(|word| word == PEM)
        || (0..bytes.len()).any(|at| is_key(&bytes[at..]) || bytes[at..].starts_with(OPENSSH))
}

/// Whether these are the first bytes of a key in DER: a sequence of any length; the version; then the algorithm (PKCS#8), a
/// number (PKCS#1) or the key (SEC 1). Or those that PKCS#8 has right before a key of Curve25519 or Curve448: a string in a
/// string.
fn is_key(bytes: &[u8]) -> bool {
    let inside = match bytes {
        [0x04, 0x22, 0x04, 0x20, ..] | [0x04, 0x3b, 0x04, 0x39, ..] => return true,
        [0x30, 0x81, _, rest @ ..] | [0x30, 0x82, _, _, rest @ ..] => rest,
        [0x30, 0x02..=0x7f, rest @ ..] => rest,
        _ => return false,
    };
    matches!(inside, [0x02, 0x01, 0 | 1, 0x30 | 0x02 | 0x04, ..])
}

/// All that a text may stand for.
fn readings(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let plain = without_escapes(text);
    let words: Vec<u8> = plain
        .iter()
        .copied()
        .filter(u8::is_ascii_alphanumeric)
        .collect();
    let of_words = words.split(|digit| of_hexadecimal(*digit).is_none());
    let hexadecimal: Vec<_> = of_words
        .flat_map(|word| decodings(word, 4, of_hexadecimal))
        .collect();
    let base32 = decodings(&digits(&plain, of_base32), 5, of_base32);
    let base64 = decodings(&digits(&plain, of_base64), 6, of_base64);
    let forms = [(2, 0), (8, 0), (10, 1), (10, 2), (10, 4), (16, 0)];
    let numbers = forms.map(|(radix, bytes)| numbers(text, radix, bytes));
    let escaped = [unescaped(text), characters(text)];
    let digits = hexadecimal.into_iter().chain(base32).chain(base64);
    digits.chain(numbers.into_iter().flatten()).chain(escaped)
}

fn digits(text: &[u8], value: fn(u8) -> Option<u8>) -> Vec<u8> {
    let is_digit = |digit: &u8| value(*digit).is_some();
    text.iter().copied().filter(is_digit).collect()
}

/// The text without line ends, tabs and quotes that are written with a backslash.
fn without_escapes(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.iter().copied().peekable();
    let mut rest = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next_if(|next| b"nrt".contains(next))),
            _ => rest.push(byte),
        }
    }
    rest
}

/// The bytes that escapes of programming languages and addresses stand for, among others.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let (value, length) = match (first, after) {
            (b'\\', after) => escape(after),
            // Quoted-printable writes what addresses have a percent sign for with another one.
            (b'%' | b'=', after) => (number(after, 2, 16), 2),
            _ => (None, 0),
        };
        bytes.push(value.unwrap_or(*first));
        rest = &after[value.map_or(0, |_| length)..];
    }
    bytes
}

/// What is behind a backslash, and its length.
fn escape(text: &[u8]) -> (Option<u8>, usize) {
    match text {
        [b'x', digits @ ..] => (number(digits, 2, 16), 3),
        [b'u', b'0', b'0', digits @ ..] => (number(digits, 2, 16), 5),
        [b'0'..=b'7', ..] => {
            let octal = text
                .iter()
                .take(3)
                .take_while(|digit| matches!(digit, b'0'..=b'7'));
            let length = octal.count();
            (number(text, length, 8), length)
        }
        [letter, ..] => {
            let known = b"abtnvfr"
                .iter()
                .zip(7..)
                .find(|(known, _)| *known == letter);
            (Some(known.map_or(*letter, |(_, value)| value)), 1)
        }
        [] => (None, 0),
    }
}

/// A byte in so many digits.
fn number(text: &[u8], digits: usize, radix: u32) -> Option<u8> {
    let digits = str::from_utf8(text.get(..digits)?).ok()?;
    u8::from_str_radix(digits, radix).ok()
}

/// The bytes of a dump that has a sign for each, or its number in octal digits.
fn characters(text: &[u8]) -> Vec<u8> {
    let byte = |word: &[u8]| match word {
        [sign] => Some(*sign),
        [b'\\', rest @ ..] => escape(rest).0,
        [_, _, _] => number(word, 3, 8),
        _ => None,
    };
    let words = text.split(u8::is_ascii_whitespace);
    words.filter_map(byte).collect()
}

/// The bytes of numbers in a text, in lists and in the dumps of `od`, `hexdump` and `xxd`: with the first byte of a number
/// before the others, and behind them. A number has so many `bytes`, or those that its digits take if that is 0.
fn numbers(text: &[u8], radix: u32, bytes: usize) -> [Vec<u8>; 2] {
    let mut read = [Vec::new(), Vec::new()];
    for word in text.split(|byte| !byte.is_ascii_alphanumeric()) {
        let word = word.strip_prefix(b"0x").unwrap_or(word);
        let digits = str::from_utf8(word).unwrap_or_default();
        let Ok(value) = u64::from_str_radix(digits, radix) else {
            continue;
        };
        let bytes = match (radix, digits.len()) {
            (10, _) => bytes,
            (2, 8) | (8, 1..=3) | (16, 1..=2) => 1,
            (8, 6) | (16, 4) => 2,
            (8, 11) | (16, 8) => 4,
            (8, 22) | (16, 16) => 8,
            _ => continue,
        };
        let is_offset = radix > 2 && digits.len() >= OFFSET && value == read[0].len() as u64;
        if is_offset || bytes < 8 && value >> (8 * bytes) > 0 {
            continue;
        }
        let value = &value.to_le_bytes()[..bytes];
        read[0].extend(value.iter().rev());
        read[1].extend(value);
    }
    read
}

/// What digits of so many bits stand for, if a byte begins with the first, the second, and so on.
fn decodings(digits: &[u8], bits: u32, value: impl Fn(u8) -> Option<u8> + Copy) -> Vec<Vec<u8>> {
    let starts = match bits {
        _ if digits.len() < MIN_DIGITS => 0,
        4 => 2,
        6 => 4,
        _ => 8,
    };
    let decoded = |start: usize| {
        let mut bytes = Vec::with_capacity(digits.len() * bits as usize / 8);
        let (mut pending, mut count) = (0u32, 0);
        for value in digits[start..].iter().copied().filter_map(value) {
            pending = pending << bits | u32::from(value);
            count += bits;
            if count >= 8 {
                count -= 8;
                bytes.push((pending >> count) as u8);
            }
        }
        bytes
    };
    (0..starts).map(decoded).collect()
}

/// Of either alphabet.
fn of_base64(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// In upper case or lower case.
fn of_base32(digit: u8) -> Option<u8> {
    match digit {
        b'2'..=b'7' => Some(digit - b'2' + 26),
        _ => digit
            .is_ascii_alphabetic()
            .then(|| digit.to_ascii_uppercase() - b'A'),
    }
}

fn of_hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_however_they_are_written() {
        for key in [
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAA\n",
            "-----BEGIN",
            "x=-----BEGIN OPENSSH PRIVATE KEY-----",
            // Ed25519, EC and RSA in PKCS#8; RSA in PKCS#1; EC in SEC 1.
            "MC4CAQAwBQYDK2VwBCIEIAAA",
            "/some/place/MC4CAQAwBQYDK2VwBCIEI",
            "MFECAQEwBQYDK2VwBCIEIHYV",
            "MIGHAgEAMBMGByqGSM49AgEG",
            "MIIEvQIBADANBgkqhkiG9w0B",
            "MIIEpAIBAAKCAQEA7v1b",
            "MHcCAQEEIIrYSSNQFaA2",
            "302e020100300506032b657004220420",
            "30:2e:02:01:00:30:05:06:03",
            "30 2e 02 01\n00 30 05 06 03",
            // The base64 of a whole PEM file, as it is, in groups, in lines and behind something; with another's in it.
            "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1DNENBUUF3QlFZ",
            "LS0tLS1CR\nUdJTiBQUklW\nQVRFIEtFWS0t",
            "LS0t LS1C RUdJ TiBQ",
            "LS0t:LS1C:RUdJ:TiBQ",
            r"LS0tLS\n1CRUdJT\niBQ",
            r"LS0tLS\r\n1CRUdJT\r\niBQ",
            r#"["LS0tLS1C","RUdJTiBQ"]"#,
            "/run/secrets/LS0tLS1CRUdJTiBQUklW",
            "s3://LS0tLS1CRUdJTiBQUklW",
            "Cg0KLS0tLS1CRUdJTiBQUklWQVRF",
            "TFMwdExTMUNSVWRKVGlCUVVrbFdRVlJG",
            "2d2d2d2d2d424547494e2050524956",
            // In UTF-16.
            "-\0-\0-\0-\0-\0B\0E\0G\0I\0N\0 \0",
            "LQAtAC0ALQAtAEIARQBHAEkATgAgAFAAUgBJAFYA",
            // The base64 of the base64 of a key in DER, and its body in groups.
            "TUM0Q0FRQXdCUVlESzJWd0JDSUVJQUFB",
            "MC4C AQAw BQYD K2Vw BCIE",
            "MC4C:AQAw:BQYD:K2Vw:BCIE",
            "30 or 302E020100300506032B6570",
            "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70",
            // As Python, C, JSON, shells and addresses write bytes.
            r"b'0.\x02\x01\x000\x05\x06\x03+ep\x04",
            r"b'0.\\x02\\x01\\x000\\x05\\x06\\x03+ep",
            r"$'0.\002\001\0000\005\006\003+ep'",
            r"0.\u0002\u0001\u00000\u0005",
            "%30%2E%02%01%00%30%05",
            "=30=2E=02=01=00=30=05",
            "{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05}",
            "[48, 46, 2, 1, 0, 48, 5, 6]",
            "[48 46 2 1 0 48 5 6]",
            // `od`, with -b, -c, -d, -x and -tx1; `hexdump`, `xxd` and `xxd -b`.
            "0000000 027060 000402 030000 003005 025403 070145",
            "0000000 060 056 002 001 000 060 005 006 003",
            r"0000000   0   . 002 001  \0   0 005 006 003   +   e   p",
            "0000000 11824 258 12288 1541 11011",
            "0000000 2e30 0102 3000 0605 2b03",
            "0000000 30 2e 02 01 00 30 05 06 03",
            "00000000  30 2e 02 01 00 30 05 06  03 2b 65 70",
            "00000000: 302e 0201 0030 0506 032b 6570 0422 0420  0......0...+ep.\n00000010: 8a1b",
            "00000000: 00110000 00101110 00000010 00000001 00000000 00110000  0....0",
            "00000000: 2d2d 2d2d 2d42 4547  -----BEG\n00000008: 494e 2050 5249 5641  IN PRIVA",
            "0000000 026455 026455 041055 043505 047111 050040",
            // Base32, of DER and of PEM.
            "GAXAEAIAGACQMAZLMVYAIIQEEA",
            "gaxaeaiagacqmazlmvyaiiqeea",
            "FUWS2LJNIJCUOSKOEBIFE",
            // The end of what PKCS#8 has before a key, in base64, hexadecimal digits and numbers.
            "ZXAEIgQg8uGM5pA7R1yb",
            "BAUGAytlcAQiBCDy4Yzm",
            "cAQiBCDy4Yzm",
            "032b657004220420f2e18ce6",
            "3, 43, 101, 112, 4, 34, 4, 32, 242, 225",
            // OpenSSH's.
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
            "6f70656e7373682d6b65792d7631",
        ] {
            assert!(holds_key(key.as_bytes()), "{key:?}");
        }
        for other in [
            "",
            "M",
            "charity.key",
            "MC4CAQ",
            "MTIzNDU2Nzg5MDEyMzQ1Njc4",
            "LS0tLS1CRUdJ",
            "LS0tLS1FTkQgUFJJVkFURSBLRVktLS0tLQo",
            "/srv/data/2026-11-28/customers-with-a-long-name/part-00000-of-00016.snappy.parquet",
            "/nix/store/0c5b1l2n4m6q8r0s2v4w6x8y0z1a3b5d-LS0tLS1-etc/share",
            "a3f5c2d1e0b94876543210fedcba9876543210fe",
            "----- a table ----- begins -----",
            "vs1:abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrstuvwx",
            "-----END PRIVATE KEY-----",
            "302e0201",
            "300000000000000000000000",
            // A public key.
            "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
        ] {
            assert!(!holds_key(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn other_text_is_hardly_ever_taken_for_a_key() {
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        for digits in [
            &b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[..],
            b"0123456789abcdef",
        ] {
            let text: Vec<u8> = (0..1 << 12)
                .map(|_| digits[random() % digits.len()])
                .collect();
            assert!(!holds_key(&text));
        }
    }
}
