//! Random oracles: BLAKE3 keyed with a hash of the run and the oracle's name.

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
}
