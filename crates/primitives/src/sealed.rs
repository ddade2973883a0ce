//! Messages that outlive a process, which only holders of a long-lived key can read or change.
//!
//! AES-256-GCM in pieces of 1 MiB: the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár, *Online
//! authenticated-encryption and its nonce-reuse misuse-resistance* (CRYPTO 2015), so that pieces cannot be dropped,
//! exchanged or appended. What is legible before the content is authenticated with each piece.
//!
//! **Nonces.** Every message has an AES key of its own, derived from the long-lived key and a fresh salt, and STREAM
//! counts its pieces from zero. So a nonce repeats under a key only if two messages have the same salt: for q messages
//! with salts of s bits the probability is at most q²/2^(s+1). With 256 bits, 2^40 messages stay below 2^-176.

use std::io::{self, Read, Write};

use aead_stream::{DecryptorLE31, EncryptorLE31};
use aes_gcm::aead::{KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of content in each piece but the last.
pub const PIECE: usize = 1 << 20;
/// Bytes that encryption adds to each piece.
pub const TAG: usize = 16;

/// Why a message cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The operating system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not a message under this key, or not as it was written.
    #[error("damaged, or written under another key")]
    NotAuthentic,
    /// Longer than the memory that can be had.
    #[error("too long for the memory of this machine")]
    TooLong,
}

/// The cipher of one message.
pub struct Sealed(Aes256Gcm);

impl Sealed {
    /// From a long-lived key; `context` says what the message is, and ends in the message's own salt. It is hashed as a
    /// whole: under one key, all of its parts but one must have fixed lengths.
    pub fn new(key: &[u8; 32], context: &[&[u8]]) -> Sealed {
        let mut hasher = blake3::Hasher::new_keyed(key);
        for part in context {
            hasher.update(part);
        }
        let key = Zeroizing::new(*hasher.finalize().as_bytes());
        Sealed(Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key)))
    }

    /// Writes the content, encrypted and bound to `head`, which is not written.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(self, head: &[u8], content: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut encryptor = EncryptorLE31::from_aead(self.0, &Default::default());
        let full = content.len().div_ceil(PIECE).max(1) - 1;
        let (pieces, last) = content.split_at(full * PIECE);
        for piece in pieces.chunks(PIECE) {
            let sealed = encryptor.encrypt_next(payload(piece, head));
            out.write_all(&sealed.map_err(io::Error::other)?)?;
        }
        let sealed = encryptor.encrypt_last(payload(last, head));
        out.write_all(&sealed.map_err(io::Error::other)?)
    }

    /// Reads the content of which [`Sealed::write`] has made `length` bytes, to the end of `input`.
    ///
    /// # Errors
    /// Any [`Unreadable`].
    pub fn read(
        self,
        head: &[u8],
        length: u64,
        input: &mut impl Read,
    ) -> Result<Zeroizing<Vec<u8>>, Unreadable> {
        let length = usize::try_from(length).map_err(|_| Unreadable::TooLong)?;
        let mut content = Zeroizing::new(Vec::new());
        // The length is anybody's. In one piece, since what is moved is not wiped.
        content
            .try_reserve_exact(length)
            .map_err(|_| Unreadable::TooLong)?;
        let mut decryptor = DecryptorLE31::from_aead(self.0, &Default::default());
        let mut piece = Vec::with_capacity(PIECE.min(length) + TAG);
        let mut next = |piece: &mut Vec<u8>| {
            piece.clear();
            input.take((PIECE + TAG) as u64).read_to_end(piece)
        };
        let not_authentic = |_| Unreadable::NotAuthentic;
        for _ in 1..length.div_ceil(PIECE + TAG).max(1) {
            next(&mut piece)?;
            let plain = decryptor.decrypt_next(payload(&piece, head));
            content.extend_from_slice(&Zeroizing::new(plain.map_err(not_authentic)?));
        }
        next(&mut piece)?;
        let plain = decryptor.decrypt_last(payload(&piece, head));
        content.extend_from_slice(&Zeroizing::new(plain.map_err(not_authentic)?));
        Ok(content)
    }
}

fn payload<'a>(msg: &'a [u8], aad: &'a [u8]) -> Payload<'a, 'a> {
    Payload { msg, aad }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];
    const HEAD: &[u8] = b"head";

    fn sealed(context: &[&[u8]], content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Sealed::new(&KEY, context)
            .write(HEAD, content, &mut out)
            .unwrap();
        out
    }

    fn read(key: &[u8; 32], salt: u8, head: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
        let sealed = Sealed::new(key, &[b"test", &[salt; 32]]);
        match sealed.read(head, bytes.len() as u64, &mut &bytes[..]) {
            Ok(content) => Some(content.to_vec()),
            Err(Unreadable::NotAuthentic) => None,
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn a_message_comes_back_under_its_key_salt_and_head_alone() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1] {
            let content: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
            let bytes = sealed(&[b"test", &[1; 32]], &content);
            assert_eq!(
                bytes.len(),
                length + TAG * length.div_ceil(PIECE).max(1),
                "{length}"
            );
            assert!(read(&KEY, 1, HEAD, &bytes) == Some(content), "{length}");
        }
        let bytes = sealed(&[b"test", &[1; 32]], b"content");
        assert_eq!(read(&[8; 32], 1, HEAD, &bytes), None);
        assert_eq!(read(&KEY, 2, HEAD, &bytes), None);
        assert_eq!(read(&KEY, 1, b"tail", &bytes), None);
        assert_eq!(read(&KEY, 1, HEAD, &[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn every_bit_is_authenticated() {
        let bytes = sealed(&[b"test", &[1; 32]], b"content");
        for bit in 0..8 * bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&KEY, 1, HEAD, &spoilt), None, "{bit}");
        }
        for bit in 0..8 * HEAD.len() {
            let mut spoilt = HEAD.to_vec();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&KEY, 1, &spoilt, &bytes), None, "{bit}");
        }
        assert!((0..bytes.len()).all(|end| read(&KEY, 1, HEAD, &bytes[..end]).is_none()));
    }

    /// Equal messages are unequal on the disk.
    #[test]
    fn a_salt_changes_everything() {
        let [a, b] = [1, 2].map(|salt| sealed(&[b"test", &[salt; 32]], &[0; 4096]));
        let blocks = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
            bytes.chunks_exact(16).map(<[u8]>::to_vec).collect()
        };
        assert!(blocks(&a).is_disjoint(&blocks(&b)));
    }
}
