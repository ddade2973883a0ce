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
