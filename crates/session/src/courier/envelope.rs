//! What a courier carries: a message of one side, signed by its identity, and all but the first sealed to the reader's
//! key.
//!
//! ```text
//! magic (8) | number (1) | job (32) | public key (32) | key of this run | encapsulated key | content | signature (64)
//! ```
//!
//! Two bytes of length come before each of the two keys, which may be empty. Integers are little-endian. The job is a hash
//! of the message with number 0, the offer. Each side's first message has its key of this run, to which the other seals:
//! HPKE (RFC 9180) with X-Wing (X25519 and ML-KEM-768), HKDF-SHA256 and AES-256-GCM. Header and both fingerprints are its
//! associated data, and are signed with the content. That a message is for another reader, of another run or out of turn
//! is known before it is opened.

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::{
    Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open,
    single_shot_seal_with_rng,
};
use zeroize::Zeroizing;

use crate::codec::Reader;
use crate::turns::Turns;
use crate::{Error, Fingerprint, Identity, PublicKey, SIGNATURE_BYTES, random};

/// Most bytes of a message.
pub const MAX_MESSAGE: u64 = 1 << 28;

const MAGIC: &[u8; 8] = b"vesicax2";
const CONTEXT: &str = "vesica/1 message by courier";
const WHAT: &str = "message";

/// A message whose signature is the peer's.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Which message of the run it is: 0 is the offer.
    pub number: u8,
    /// The run, but of an offer.
    job: [u8; 32],
    /// The writer's key of this run, in its first message.
    key: &'a [u8],
    encapsulated: &'a [u8],
    content: &'a [u8],
    /// What is authenticated with the content.
    head: Vec<u8>,
}

impl Turns {
    /// The key of this side to which the peer seals.
    fn sealing_key(&self) -> (<XWing as Kem>::PrivateKey, <XWing as Kem>::PublicKey) {
        XWing::derive_keypair(&*self.derive("vesica/1 sealing key of a session by messages"))
    }
}

/// The run that an offer begins.
fn job_of(offer: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 offer by courier", offer)
}

/// What is authenticated: from whom to whom, and what is legible.
fn head(from: Fingerprint, to: Fingerprint, legible: &[u8]) -> Vec<u8> {
    [from.as_bytes(), to.as_bytes(), legible].concat()
}

/// What is signed.
fn hash(head: &[u8], content: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 signed message by courier");
    hasher.update(&(head.len() as u64).to_le_bytes());
    *hasher.update(head).update(content).finalize().as_bytes()
}

impl<'a> Envelope<'a> {
    /// Reads a message from `peer` to `local`.
    ///
    /// Fails with [`Error::Message`] if it is none, or none of this peer to this side.
    pub fn read(
        bytes: &'a [u8],
        peer: Fingerprint,
        local: Fingerprint,
    ) -> Result<Envelope<'a>, Error> {
        let wrong = Error::Message;
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            let (name, _) = MAGIC.split_at(MAGIC.len() - 1);
            return Err(wrong(match bytes.starts_with(name) {
                true => "it is of another version of this program",
                false => "it is no message of a run by files",
            }));
        };
        let cut = |_| wrong("it is cut off");
        let (rest, signature) =
            (rest.split_last_chunk::<SIGNATURE_BYTES>()).ok_or_else(|| wrong("it is cut off"))?;
        let mut reader = Reader::new(WHAT, rest);
        let number = reader.u8().map_err(cut)?;
        let job = reader.array::<32>().map_err(cut)?;
        let writer = PublicKey(reader.array::<32>().map_err(cut)?);
        let mut keys = [&[][..]; 2];
        for key in &mut keys {
            let length = u16::from_le_bytes(reader.array::<2>().map_err(cut)?);
            *key = reader.bytes(length.into()).map_err(cut)?;
        }
        let content = reader.rest();
        if writer.fingerprint() == local {
            return Err(wrong("this is a message that this side made"));
        }
        if writer.fingerprint() != peer {
            return Err(wrong("it is of another sender than the pinned peer"));
        }
        let legible = &bytes[..MAGIC.len() + rest.len() - content.len()];
        let head = head(peer, local, legible);
        if !writer.has_signed(CONTEXT, &hash(&head, content), signature) {
            return Err(wrong(
                "its signature does not fit: it was cut off or changed, or is for another reader",
            ));
        }
        Ok(Envelope {
            number,
            job,
            key: keys[0],
            encapsulated: keys[1],
            content,
            head,
        })
    }

    /// Writes message `number` of the run of an offer to the peer whose first message is given with it; `None` where this
    /// is the offer.
    ///
    /// Fails with [`Error::Message`] for a peer's key that is none, and as the operating system's randomness.
    pub fn write(
        identity: &Identity,
        peer: Fingerprint,
        turns: &Turns,
        number: u8,
        earlier: Option<(&[u8], &Envelope<'_>)>,
        content: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let local = identity.fingerprint();
        let mut bytes = MAGIC.to_vec();
        bytes.push(number);
        bytes.extend_from_slice(&earlier.map_or([0; 32], |(offer, _)| job_of(offer)));
        bytes.extend_from_slice(&identity.public_key().0);
        let key = match number {
            0 | 1 => turns.sealing_key().1.to_bytes().to_vec(),
            _ => Vec::new(),
        };
        let put = |bytes: &mut Vec<u8>, key: &[u8]| {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(key);
        };
        put(&mut bytes, &key);
        let content = match earlier {
            None => {
                put(&mut bytes, &[]);
                content.to_vec()
            }
            Some((_, theirs)) => {
                let reader = <XWing as Kem>::PublicKey::from_bytes(theirs.key);
                let reader = reader.map_err(|_| Error::Message("it has no key to seal to"))?;
                // The encapsulated key is authenticated by what it encapsulates.
                let aad = head(local, peer, &bytes);
                let (encapsulated, sealed) =
                    single_shot_seal_with_rng::<AesGcm256, HkdfSha256, XWing>(
                        &OpModeS::Base,
                        &reader,
                        CONTEXT.as_bytes(),
                        content,
                        &aad,
                        &mut random::fresh_rng()?,
                    )
                    .map_err(|_| Error::Message("it has no key to seal to"))?;
                put(&mut bytes, &encapsulated.to_bytes());
                sealed
            }
        };
        let signature = identity.sign(CONTEXT, &hash(&head(local, peer, &bytes), &content))?;
        bytes.extend_from_slice(&content);
        bytes.extend_from_slice(&signature);
        Ok(bytes)
    }

    /// What the message says; `offer` is that of the run, `None` where this is the offer.
    ///
    /// Fails with [`Error::Message`] if it is of another run or start.
    pub fn open(&self, turns: &Turns, offer: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, Error> {
        if self.job != offer.map_or([0; 32], job_of) {
            return Err(Error::Message("it is of another run"));
        }
        if offer.is_none() {
            return Ok(Zeroizing::new(self.content.to_vec()));
        }
        let unreadable = |_| Error::Message("it answers another start of this run");
        let encapsulated = <XWing as Kem>::EncappedKey::from_bytes(self.encapsulated);
        let legible = self.head.len() - self.encapsulated.len() - 2;
        let opened = single_shot_open::<AesGcm256, HkdfSha256, XWing>(
            &OpModeR::Base,
            &turns.sealing_key().0,
            &encapsulated.map_err(unreadable)?,
            CONTEXT.as_bytes(),
            self.content,
            &self.head[..legible],
        );
        Ok(Zeroizing::new(opened.map_err(unreadable)?))
    }
}
