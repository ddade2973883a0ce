//! What is never shown: private keys.

/// What PEM begins with.
const PEM: &[u8] = b"-----BEGIN";

/// Whether a text has a private key in it: what PEM begins with, or the first bytes of PKCS#8, PKCS#1 or SEC 1, in base64 or
/// hexadecimal digits or as they are. One that does is not to be shown, nor any part of it. That other text is taken for a
/// key happens once in some 2^30 characters.
pub fn holds_key(text: &[u8]) -> bool {
    let is_pem = text.windows(PEM.len()).any(|word| word == PEM);
    is_pem || (0..text.len()).any(|at| begins_key(&text[at..]))
}

fn begins_key(text: &[u8]) -> bool {
    match text.first() {
        Some(b'M') => is_key(&decoded(text, 6, of_base64)),
        Some(b'3') => is_key(&decoded(text, 4, of_hexadecimal)),
        _ => is_key(text),
    }
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

/// The first bytes that digits of so many bits stand for: as many as a key is known by.
fn decoded(text: &[u8], bits: u32, value: impl Fn(u8) -> Option<u8>) -> Vec<u8> {
    const KNOWN_BY: usize = 8;
    let mut bytes = Vec::with_capacity(KNOWN_BY);
    let (mut pending, mut count) = (0u32, 0);
    for digit in text {
        let Some(value) = value(*digit).filter(|_| bytes.len() < KNOWN_BY) else {
            break;
        };
        pending = pending << bits | u32::from(value);
        count += bits;
        if count >= 8 {
            count -= 8;
            bytes.push((pending >> count) as u8);
        }
    }
    bytes
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
            let text: Vec<u8> = (0..1 << 17)
                .map(|_| digits[random() % digits.len()])
                .collect();
            assert!(!holds_key(&text));
        }
    }
}
