//! What is never shown: private keys.

/// What PEM begins with.
const PEM: &[u8] = b"-----BEGIN";

/// How often a key may be encoded: Kubernetes has base64 of what may be base64.
const MAX_ENCODINGS: usize = 2;

/// Fewer digits stand for nothing that a key is known by.
const MIN_DIGITS: usize = 11;

/// Whether a text has a private key in it: what PEM begins with, or the first bytes of PKCS#8, PKCS#1 or SEC 1; as they are or
/// in base64 or hexadecimal digits, once or twice, with anything between the digits that is none. One that does is not to be
/// shown, nor any part of it. That other text is taken for a key happens once in some 2^32 characters.
pub fn holds_key(text: &[u8]) -> bool {
    is_in(text, MAX_ENCODINGS)
}

fn is_in(text: &[u8], encodings: usize) -> bool {
    if (0..text.len()).any(|at| is_key(&text[at..])) {
        return true;
    }
    let text = without_escapes(text);
    let is_digit = |digit: &u8| of_base64(*digit).is_some();
    let digits: Vec<u8> = text.iter().copied().filter(is_digit).collect();
    if digits.windows(PEM.len()).any(|word| word == PEM) {
        return true;
    }
    if encodings == 0 {
        return false;
    }
    let words: Vec<u8> = text.into_iter().filter(u8::is_ascii_alphanumeric).collect();
    let numbers = words.split(|digit| of_hexadecimal(*digit).is_none());
    let of_numbers = numbers.flat_map(|digits| decodings(digits, 4, of_hexadecimal));
    let mut all = decodings(&digits, 6, of_base64).chain(of_numbers);
    all.any(|bytes| is_in(&bytes, encodings - 1))
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

/// Whether these are the first bytes of a key in DER: a sequence of any length; the version; then the algorithm (PKCS#8), a
/// number (PKCS#1) or the key (SEC 1).
fn is_key(bytes: &[u8]) -> bool {
    let inside = match bytes {
        [0x30, 0x81, _, rest @ ..] | [0x30, 0x82, _, _, rest @ ..] => rest,
        [0x30, 0x02..=0x7f, rest @ ..] => rest,
        _ => return false,
    };
    matches!(inside, [0x02, 0x01, 0 | 1, 0x30 | 0x02 | 0x04, ..])
}

/// What digits of so many bits stand for, if a byte begins with the first, the second, and so on.
fn decodings(
    digits: &[u8],
    bits: u32,
    value: impl Fn(u8) -> Option<u8> + Copy,
) -> impl Iterator<Item = Vec<u8>> {
    let starts = if bits == 4 { 2 } else { 4 };
    let starts = if digits.len() < MIN_DIGITS { 0 } else { starts };
    (0..starts).map(move |start| {
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
    })
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
