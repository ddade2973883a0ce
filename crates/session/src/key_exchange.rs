//! X25519MLKEM768, the key exchange of every connection: ML-KEM-768 and X25519 side by side, so that the traffic stays
//! secret as long as either of them holds. Whoever records it today cannot read it with a quantum computer later.
//!
//! Source: draft-ietf-tls-ecdhe-mlkem, section 4, and FIPS 203 for ML-KEM. X25519 is that of rustls' provider.
//!
//! | | bytes |
//! |---|---|
//! | share of the connecting side | encapsulation key (1184), then X25519 (32) |
//! | share of the listener | ciphertext (1088), then X25519 (32) |
//! | secret | that of ML-KEM (32), then that of X25519 (32) |

use rand_core::Rng;
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use vesica_primitives::kem::{self, DecapsulationKey};
use zeroize::Zeroizing;

use crate::random::fresh_rng;

/// Bytes of a share of X25519.
const X25519_SHARE: usize = 32;

/// The group that both sides offer and take.
#[derive(Debug)]
pub(crate) struct X25519MlKem768;

const INVALID_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// The ML-KEM part of a share, and that of X25519.
fn split(share: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let at = share.len().checked_sub(X25519_SHARE);
    at.map(|at| share.split_at(at)).ok_or(INVALID_SHARE)
}

fn both(ml_kem: &[u8], x25519: &SharedSecret) -> SharedSecret {
    let both = Zeroizing::new([ml_kem, x25519.secret_bytes()].concat());
    SharedSecret::from(&both[..])
}

impl SupportedKxGroup for X25519MlKem768 {
    /// The connecting side's half.
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut rng = fresh_rng().map_err(|_| Error::FailedToGetRandomBytes)?;
        let x25519 = X25519.start()?;
        let mut seed = Zeroizing::new([0; kem::SEED]);
        rng.fill_bytes(&mut *seed);
        let key = Box::new(DecapsulationKey::from_seed(&seed));
        let share = [key.encapsulation_key(), x25519.pub_key()].concat();
        Ok(Box::new(Started { key, x25519, share }))
    }

    /// The listener's half, which is all of it.
    fn start_and_complete(&self, theirs: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, x25519) = split(theirs)?;
        let key = key.try_into().map_err(|_| INVALID_SHARE)?;
        let mut rng = fresh_rng().map_err(|_| Error::FailedToGetRandomBytes)?;
        let mut message = Zeroizing::new([0; kem::MESSAGE]);
        rng.fill_bytes(&mut *message);
        let (ciphertext, secret) = kem::encapsulate(key, &message).ok_or(INVALID_SHARE)?;
        let x25519 = X25519.start_and_complete(x25519)?;
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &x25519.pub_key].concat(),
            secret: both(&*secret, &x25519.secret),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// The connecting side, which waits for the other's share.
struct Started {
    key: Box<DecapsulationKey>,
    x25519: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, theirs: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, x25519) = split(theirs)?;
        let ciphertext = ciphertext.try_into().map_err(|_| INVALID_SHARE)?;
        let secret = self.key.decapsulate(ciphertext);
        let x25519 = self.x25519.complete(x25519)?;
        Ok(both(&*secret, &x25519))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        X25519MlKem768.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(exchange: Box<dyn ActiveKeyExchange>, theirs: &[u8]) -> Result<Vec<u8>, Error> {
        let secret = exchange.complete(theirs)?;
        Ok(secret.secret_bytes().to_vec())
    }

    #[test]
    fn both_sides_have_one_secret_of_two_halves() {
        let started = X25519MlKem768.start().unwrap();
        assert_eq!(started.pub_key().len(), 1216);
        let answer = X25519MlKem768
            .start_and_complete(started.pub_key())
            .unwrap();
        assert_eq!(answer.pub_key.len(), 1120);
        let theirs = answer.secret.secret_bytes();
        assert_eq!(theirs.len(), 64);
        assert_eq!(secret(started, &answer.pub_key).unwrap(), theirs);
    }

    #[test]
    fn each_half_enters_the_secret() {
        for (place, half) in [(0, 0..32), (1119 - 31, 32..64)] {
            let started = X25519MlKem768.start().unwrap();
            let answer = X25519MlKem768
                .start_and_complete(started.pub_key())
                .unwrap();
            let mut changed = answer.pub_key.clone();
            changed[place] ^= 1;
            // ML-KEM takes any ciphertext; the secret is another one then.
            let found = secret(started, &changed).unwrap();
            let theirs = answer.secret.secret_bytes();
            assert_ne!(found[half.clone()], theirs[half.clone()]);
            assert_eq!(
                found.iter().zip(theirs).filter(|(a, b)| a == b).count() / 32,
                1
            );
        }
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        let share = X25519MlKem768.start().unwrap().pub_key().to_vec();
        let mut no_key = share.clone();
        no_key[..2].fill(0xff); // a coefficient of 4095, beyond q
        let mut low_order = share.clone();
        low_order[1184..].fill(0);
        for wrong in [&[][..], &share[..31], &share[1..], &no_key, &low_order] {
            assert!(X25519MlKem768.start_and_complete(wrong).is_err());
        }
        let answer = X25519MlKem768.start_and_complete(&share).unwrap().pub_key;
        let mut low_order = answer.clone();
        low_order[1088..].fill(0);
        for wrong in [&[][..], &answer[..40], &answer[1..], &low_order] {
            let started = X25519MlKem768.start().unwrap();
            assert!(secret(started, wrong).is_err());
        }
    }
}
