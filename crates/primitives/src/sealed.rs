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
        let mut writer = self.writer_for(content.len(), head, out);
        writer.write_all(content)?;
        writer.finish()
    }

    /// Encrypts as [`Sealed::write`] does what comes bit by bit.
    pub fn writer<W: Write>(self, head: &[u8], out: W) -> SealedWriter<'_, W> {
        self.writer_for(PIECE, head, out)
    }

    /// For so many bytes.
    fn writer_for<W: Write>(self, bytes: usize, head: &[u8], out: W) -> SealedWriter<'_, W> {
        SealedWriter {
            encryptor: EncryptorLE31::from_aead(self.0, &Default::default()),
            head,
            // In one place, since what is moved is not wiped.
            piece: Zeroizing::new(Vec::with_capacity(bytes.min(PIECE))),
            out,
        }
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
        let bytes = usize::try_from(length).map_err(|_| Unreadable::TooLong)?;
        let mut content = Zeroizing::new(Vec::new());
        // The length is anybody's. In one piece, since what is moved is not wiped.
        content
            .try_reserve_exact(bytes)
            .map_err(|_| Unreadable::TooLong)?;
        let mut reader = self.reader(head, length, input);
        while reader.next()? {
            content.extend_from_slice(&reader.plain);
        }
        Ok(content)
    }

    /// Decrypts as [`Sealed::read`] does, a piece at a time. What was read is authentic, and all of it is there once the
    /// reader has come to its end.
    pub fn reader<R: Read>(self, head: &[u8], length: u64, input: R) -> SealedReader<'_, R> {
        SealedReader {
            decryptor: Some(DecryptorLE31::from_aead(self.0, &Default::default())),
            head,
            left: length.div_ceil((PIECE + TAG) as u64).max(1),
            input,
            sealed: Vec::with_capacity(length.min((PIECE + TAG) as u64) as usize),
            plain: Zeroizing::default(),
            at: 0,
        }
    }
}

/// Encrypts what is written to it. It is whole once it is [finished](SealedWriter::finish).
pub struct SealedWriter<'h, W> {
    encryptor: EncryptorLE31<Aes256Gcm>,
    head: &'h [u8],
    /// What is still to be encrypted.
    piece: Zeroizing<Vec<u8>>,
    out: W,
}

impl<W: Write> SealedWriter<'_, W> {
    /// Writes the last piece.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> io::Result<()> {
        let sealed = self.encryptor.encrypt_last(payload(&self.piece, self.head));
        self.out.write_all(&sealed.map_err(io::Error::other)?)
    }
}

impl<W: Write> Write for SealedWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The last piece is full, or empty if it is the only one.
        if self.piece.len() == PIECE && !bytes.is_empty() {
            let sealed = self.encryptor.encrypt_next(payload(&self.piece, self.head));
            self.out.write_all(&sealed.map_err(io::Error::other)?)?;
            self.piece.clear();
        }
        let some = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..some]);
        Ok(some)
    }

    /// Pieces are whole: nothing is written before there is one.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Decrypts what it reads. Damage is [`io::ErrorKind::InvalidData`].
pub struct SealedReader<'h, R> {
    /// `None` after the last piece, and after damage.
    decryptor: Option<DecryptorLE31<Aes256Gcm>>,
    head: &'h [u8],
    /// Pieces that are left.
    left: u64,
    input: R,
    sealed: Vec<u8>,
    /// A piece, and what of it was read.
    plain: Zeroizing<Vec<u8>>,
    at: usize,
}

impl<R: Read> SealedReader<'_, R> {
    /// Goes on to the next piece, if there is one.
    fn next(&mut self) -> Result<bool, Unreadable> {
        if self.left == 0 {
            return Ok(false);
        }
        // There is none after damage.
        let mut decryptor = self.decryptor.take().ok_or(Unreadable::NotAuthentic)?;
        self.sealed.clear();
        let mut piece = (&mut self.input).take((PIECE + TAG) as u64);
        piece.read_to_end(&mut self.sealed)?;
        let sealed = payload(&self.sealed, self.head);
        let plain = match self.left {
            1 => decryptor.decrypt_last(sealed),
            _ => {
                let plain = decryptor.decrypt_next(sealed);
                self.decryptor = Some(decryptor);
                plain
            }
        };
        self.plain = Zeroizing::new(plain.map_err(|_| Unreadable::NotAuthentic)?);
        (self.at, self.left) = (0, self.left - 1);
        Ok(true)
    }
}

impl<R: Read> Read for SealedReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.plain.len() {
            let next = self.next().map_err(|error| match error {
                Unreadable::Io(e) => e,
                other => io::Error::new(io::ErrorKind::InvalidData, other),
            });
            if !next? {
                return Ok(0);
            }
        }
        let some = out.len().min(self.plain.len() - self.at);
        out[..some].copy_from_slice(&self.plain[self.at..][..some]);
        self.at += some;
        Ok(some)
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

    /// The same bytes as in one piece, however they come and go.
    #[test]
    fn what_comes_bit_by_bit_is_the_same_message() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let content: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
            let whole = sealed(&[b"test", &[1; 32]], &content);
            let new = || Sealed::new(&KEY, &[b"test", &[1; 32]]);
            for some in [7 * PIECE / 8, 5 * PIECE] {
                let mut bytes = Vec::new();
                let mut writer = new().writer(HEAD, &mut bytes);
                for part in content.chunks(some) {
                    writer.write_all(part).unwrap();
                }
                writer.finish().unwrap();
                assert!(bytes == whole, "{length}");
                let mut reader = new().reader(HEAD, bytes.len() as u64, &bytes[..]);
                let (mut found, mut part) = (Vec::new(), vec![0; some]);
                loop {
                    match reader.read(&mut part).unwrap() {
                        0 => break,
                        read => found.extend_from_slice(&part[..read]),
                    }
                }
                assert!(found == content, "{length}");
            }
            // What is before damage is read, and then nothing.
            let mut cut = new().reader(HEAD, whole.len() as u64, &whole[..whole.len() - 1]);
            let mut found = Vec::new();
            let error = cut.read_to_end(&mut found).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(content.starts_with(&found) && found.len() < length.max(1));
            assert!(cut.read(&mut [0]).is_err());
        }
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
