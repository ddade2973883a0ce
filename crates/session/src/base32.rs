//! Base32 in lower case without padding (the alphabet of RFC 4648), for texts that people type and read aloud.

use data_encoding::BASE32_NOPAD_NOCASE;

/// The text of these bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE32_NOPAD_NOCASE.encode(bytes).to_ascii_lowercase()
}

/// The bytes of a text, in capitals too; `None` if no bytes have it. Fails with a character that is none of the alphabet.
pub(crate) fn decode(text: &str) -> Result<Option<Vec<u8>>, char> {
    let mut others = text
        .chars()
        .filter(|c| !matches!(c, 'a'..='z' | 'A'..='Z' | '2'..='7'));
    match others.next() {
        Some(other) => Err(other),
        None => Ok(BASE32_NOPAD_NOCASE.decode(text.as_bytes()).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn known_texts() {
        let texts = [
            "",
            "my",
            "mzxq",
            "mzxw6",
            "mzxw6yq",
            "mzxw6ytb",
            "mzxw6ytboi",
        ];
        for (length, text) in texts.into_iter().enumerate() {
            let bytes = &b"foobar"[..length];
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text), Ok(Some(bytes.to_vec())));
            assert_eq!(decode(&text.to_uppercase()), Ok(Some(bytes.to_vec())));
        }
        // A bit beside those of the bytes, and a character too many.
        assert_eq!(decode("mz"), Ok(None));
        assert_eq!(decode("mzx"), Ok(None));
        assert_eq!(decode("my1"), Err('1'));
        assert_eq!(decode("mé"), Err('é'));
    }
}
