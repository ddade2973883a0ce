//! Random oracles: BLAKE3 keyed with a hash of the run and the oracle's name.

use vesica_kernels::{Backend, blake3::keyed_hash_many};
use zeroize::Zeroizing;

/// One random oracle of one run. Two oracles that differ in the run or in the label are independent.
#[derive(Clone)]
pub struct Oracle {
    key: [u8; 32],
}

impl Oracle {
    /// The oracle named `label` (a string constant, unique in the engine) in the run named `session`.
    pub fn new(label: &'static str, session: &[u8; 32]) -> Self {
        Oracle {
            key: blake3::derive_key(label, session),
        }
    }

    /// 32 bytes for an input of fixed-size parts; inputs of one oracle must all have the same layout.
    pub fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        // Inputs are a block or less here, where one contiguous slice is BLAKE3's fastest path.
        let mut buffer = Zeroizing::new([0u8; 128]);
        let mut length = 0;
        for part in parts {
            buffer[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        *blake3::keyed_hash(&self.key, &buffer[..length]).as_bytes()
    }

    /// Encrypts or decrypts: XORs `data` with the oracle's output for an input of fixed-size parts, which is as long as
    /// `data` and begins with the [`Oracle::hash`] of the input. No two data may share an input.
    pub fn xor_stream(&self, parts: &[&[u8]], data: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(part);
        }
        let mut stream = hasher.finalize_xof();
        let mut buffer = Zeroizing::new([0; 64]);
        for chunk in data.chunks_mut(64) {
            let buffer = &mut buffer[..chunk.len()];
            stream.fill(buffer);
            chunk.iter_mut().zip(buffer).for_each(|(a, b)| *a ^= *b);
        }
    }

    /// `out[i]` becomes the [`Oracle::hash`] of `inputs[i]`, many times faster on machines with wide vector
    /// units. An input is at most 128 bytes.
    ///
    /// # Panics
    /// If there are not as many inputs as outputs.
    pub fn hash_many<const N: usize>(&self, inputs: &[[u8; N]], out: &mut [[u8; 32]]) {
        assert_eq!(inputs.len(), out.len());
        keyed_hash_many(Backend::Best, &self.key, inputs.as_flattened(), N, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracles_are_separated_by_label_session_and_input() {
        let a = Oracle::new("vesica test a", &[0; 32]);
        let outputs = [
            a.hash(&[b"x"]),
            a.hash(&[b"y"]),
            a.hash(&[]),
            Oracle::new("vesica test b", &[0; 32]).hash(&[b"x"]),
            Oracle::new("vesica test a", &[1; 32]).hash(&[b"x"]),
        ];
        for (i, x) in outputs.iter().enumerate() {
            assert!(outputs[..i].iter().all(|y| x != y));
        }
        assert_eq!(a.hash(&[b"ab", b"c"]), a.hash(&[b"abc"]));
    }

    #[test]
    fn streams_encrypt_and_decrypt_and_begin_with_the_hash() {
        let oracle = Oracle::new("vesica test", &[3; 32]);
        for length in [0, 1, 32, 64, 65, 300] {
            let mut data = vec![7; length];
            oracle.xor_stream(&[b"ab", b"c"], &mut data);
            let hash = oracle.hash(&[b"abc"]);
            assert!(data.iter().zip(hash).all(|(a, b)| *a == b ^ 7));
            oracle.xor_stream(&[b"a", b"bc"], &mut data);
            assert_eq!(data, vec![7; length]);
        }
    }

    #[test]
    fn many_inputs_are_hashed_as_one() {
        fn check<const N: usize>(oracle: &Oracle) {
            let inputs: Vec<[u8; N]> = (0..37)
                .map(|i| std::array::from_fn(|j| (i * i + j) as u8))
                .collect();
            let mut out = vec![[0; 32]; inputs.len()];
            oracle.hash_many(&inputs, &mut out);
            for (input, out) in inputs.iter().zip(out) {
                assert_eq!(out, oracle.hash(&[input]), "{N} bytes");
            }
        }
        let oracle = Oracle::new("vesica test", &[3; 32]);
        check::<1>(&oracle);
        check::<16>(&oracle);
        check::<48>(&oracle);
        check::<64>(&oracle);
        check::<128>(&oracle);
    }
}
