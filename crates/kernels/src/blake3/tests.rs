use super::ops::MAX_LANES;
use super::*;

const KEY: [u8; 32] = *b"a key of thirty-two bytes, no le";

/// Bytes without a short period.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * i) / 7 + i) as u8).collect()
}

#[test]
fn every_version_is_blake3_at_every_length() {
    let data = bytes(MAX_INPUT + 3 * MAX_LANES);
    for length in 0..=MAX_INPUT {
        // Groups of lanes that are full, and a rest.
        let inputs: Vec<&[u8]> = (0..2 * MAX_LANES + 5)
            .map(|i| &data[i..][..length])
            .collect();
        for backend in Backend::ALL {
            let mut out = vec![[0; 32]; inputs.len()];
            hash(backend, &KEY, KEYED_HASH, |i| inputs[i], &mut out);
            for (input, out) in inputs.iter().zip(&out) {
                assert_eq!(
                    blake3::keyed_hash(&KEY, input),
                    *out,
                    "{backend:?}, {length}"
                );
            }
        }
    }
}

#[test]
fn lengths_may_differ_from_lane_to_lane() {
    let context = "vesica kernels test";
    let key = blake3::hazmat::hash_derive_key_context(context);
    let data = bytes(4 * MAX_INPUT);
    let inputs: Vec<&[u8]> = (0..150)
        .map(|i| &data[i..][..i * 37 % (MAX_INPUT + 1)])
        .collect();
    for backend in Backend::ALL {
        let mut out = vec![[0; 32]; inputs.len()];
        derive_key_each(backend, &key, &inputs, &mut out);
        for (input, out) in inputs.iter().zip(&out) {
            assert_eq!(blake3::derive_key(context, input), *out);
        }
    }
    for backend in Backend::ALL {
        let mut out = vec![[0; 32]; inputs.len()];
        hash(backend, &KEY, KEYED_HASH, |i| inputs[i], &mut out);
        for (input, out) in inputs.iter().zip(&out) {
            assert_eq!(blake3::keyed_hash(&KEY, input), *out, "{backend:?}");
        }
    }
}

#[test]
fn inputs_of_one_length_follow_one_another() {
    let data = bytes(48 * 33);
    let mut out = [[0; 32]; 33];
    keyed_hash_many(Backend::Best, &KEY, &data, 48, &mut out);
    for (input, out) in data.chunks(48).zip(&out) {
        assert_eq!(blake3::keyed_hash(&KEY, input), *out);
    }
    keyed_hash_many(Backend::Best, &KEY, &[], 0, &mut []);
}

#[test]
#[should_panic]
fn inputs_of_three_blocks_are_refused() {
    keyed_hash_many(Backend::Best, &KEY, &[0; 129], 129, &mut [[0; 32]]);
}

#[test]
#[should_panic]
fn long_material_is_refused() {
    derive_key_each(Backend::Best, &KEY, &[&[0; 129]], &mut [[0; 32]]);
}

#[test]
#[should_panic]
fn a_wrong_total_length_is_refused() {
    keyed_hash_many(Backend::Best, &KEY, &[0; 63], 32, &mut [[0; 32]; 2]);
}
