//! ML-KEM-768, the key encapsulation mechanism of FIPS 203, by the crate `libcrux-ml-kem`: its portable code and that for
//! AVX2 are verified to be what the standard says, and to branch and address by no secret.

use libcrux_ml_kem::mlkem768::{self, MlKem768KeyPair, MlKem768PublicKey};
use zeroize::Zeroizing;

/// Bytes of what a decapsulation key is made from.
pub const SEED: usize = 64;

/// Bytes of an encapsulation key.
pub const KEY: usize = 1184;

/// Bytes of what an encapsulation is made from.
pub const MESSAGE: usize = 32;

/// Bytes of a ciphertext.
pub const CIPHERTEXT: usize = 1088;

/// Bytes of a shared secret.
pub const SECRET: usize = 32;

/// Bytes of a decapsulation key in its expanded form.
const EXPANDED: usize = 2400;

/// A key pair, overwritten when it is dropped.
pub struct DecapsulationKey(MlKem768KeyPair);

crate::opaque!(DecapsulationKey);

impl DecapsulationKey {
    /// The key pair of uniform bytes.
    pub fn from_seed(seed: &[u8; SEED]) -> Self {
        DecapsulationKey(mlkem768::generate_key_pair(*seed))
    }

    /// The encapsulation key.
    pub fn encapsulation_key(&self) -> &[u8; KEY] {
        self.0.pk()
    }

    /// The secret of a ciphertext. One that is of no encapsulation to this key has a secret that nobody else knows.
    pub fn decapsulate(&self, ciphertext: &[u8; CIPHERTEXT]) -> Zeroizing<[u8; SECRET]> {
        let secret = mlkem768::decapsulate(self.0.private_key(), &ciphertext.into());
        Zeroizing::new(secret)
    }
}

impl Drop for DecapsulationKey {
    fn drop(&mut self) {
        self.0 = MlKem768KeyPair::new([0; EXPANDED], [0; KEY]);
        std::hint::black_box(&self.0);
    }
}

/// The ciphertext and the secret that uniform bytes make for an encapsulation key. `None` for what is no key: a number in it
/// is not below the modulus (FIPS 203, section 7.2).
pub fn encapsulate(
    key: &[u8; KEY],
    message: &[u8; MESSAGE],
) -> Option<([u8; CIPHERTEXT], Zeroizing<[u8; SECRET]>)> {
    let key = MlKem768PublicKey::from(key);
    mlkem768::validate_public_key(&key).then(|| {
        let (ciphertext, secret) = mlkem768::encapsulate(&key, *message);
        (ciphertext.into(), Zeroizing::new(secret))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_reference::base_ot_lattice as reference;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Answers of another implementation (kyber-py 1.1).
    #[test]
    fn answers_are_those_of_the_standard() {
        let seed: [u8; SEED] = std::array::from_fn(|i| i as u8);
        let message: [u8; MESSAGE] = std::array::from_fn(|i| 100 + i as u8);
        let hash = |bytes: &[u8]| blake3::hash(bytes).to_string();
        let key = DecapsulationKey::from_seed(&seed);
        assert_eq!(
            hash(key.encapsulation_key()),
            "cc4b207d7b69fc89154fcfc6f0b96f989939873391969bc1fe2eea03e6f389aa"
        );
        let (mut ciphertext, secret) = encapsulate(key.encapsulation_key(), &message).unwrap();
        assert_eq!(
            hash(&ciphertext),
            "e3d3f2a91ce4e371d2380aa757658afed6f33f532b5a83f426a5e7c14220e97f"
        );
        assert_eq!(
            hex(&*secret),
            "c5a74110c158acbaf9c01deb86fa6cc10c14533feda54bec1fdd000d61f07e4e"
        );
        assert_eq!(*key.decapsulate(&ciphertext), *secret);
        ciphertext[0] ^= 1;
        assert_eq!(
            hex(&*key.decapsulate(&ciphertext)),
            "bb28c25ed3222c13ce49d65f663f1c9f148565a664747e142f1abe06f33f4826"
        );
    }

    /// The reference has another implementation, RustCrypto's.
    #[test]
    fn two_implementations_agree() {
        for i in 0..100u8 {
            let mut random = [0; SEED + MESSAGE];
            blake3::Hasher::new()
                .update(&[i])
                .finalize_xof()
                .fill(&mut random);
            let (seed, message) = random.split_first_chunk::<SEED>().unwrap();
            let message = message.first_chunk().unwrap();
            let key = DecapsulationKey::from_seed(seed);
            let (mut ciphertext, secret) = encapsulate(key.encapsulation_key(), message).unwrap();
            let expected = reference::encapsulation_key(seed);
            assert_eq!(key.encapsulation_key()[..], expected);
            let found = (ciphertext.to_vec(), secret.to_vec());
            assert_eq!(found, reference::encapsulate(&expected, message));
            ciphertext[usize::from(i)] ^= 1;
            let decapsulated = reference::decapsulate(seed, &ciphertext);
            assert_eq!(key.decapsulate(&ciphertext)[..], decapsulated);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let key = DecapsulationKey::from_seed(&[7; SEED]);
        let mut key = *key.encapsulation_key();
        key[..2].fill(0xff); // 4095, and so not below 3329.
        assert!(encapsulate(&key, &[0; MESSAGE]).is_none());
    }
}
