//! The relaxed batch OPPRF of CGS22, figures 3 and 4: keys, pads, the garbled cuckoo table and its evaluation. A string
//! is a vector of bits, the lowest first.

/// BLAKE3 keyed by a label and a session.
fn oracle(label: &str, session: &[u8; 32], input: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(&blake3::derive_key(label, session), input).as_bytes()
}

/// The key of an item for the hash function that puts it into a bin.
pub fn key(session: &[u8; 32], item: &[u8; 32], function: u64) -> [u8; 32] {
    let input = [&item[..], &function.to_le_bytes()].concat();
    oracle("vesica/1 opprf key", session, &input)
}

/// Pad number `index` of an OPRF's output in a bin: 256 bits.
pub fn pad(session: &[u8; 32], output: [u64; 2], bin: u64, index: u64) -> Vec<bool> {
    let input = [output[0], output[1], bin, index].map(u64::to_le_bytes);
    bits(&oracle("vesica/1 opprf pad", session, &input.concat()))
}

/// The bits of bytes.
pub fn bits(bytes: &[u8]) -> Vec<bool> {
    let bit = |i: usize| bytes[i / 8] >> (i % 8) & 1 == 1;
    (0..8 * bytes.len()).map(bit).collect()
}

/// The bytes of bits; zeros after the last one.
pub fn bytes(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| {
        bits.iter()
            .rev()
            .fold(0, |byte, bit| byte << 1 | u8::from(*bit))
    };
    bits.chunks(8).map(byte).collect()
}

/// The sum of two strings, as long as the first.
pub fn sum(a: &[bool], b: &[bool]) -> Vec<bool> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// A point of the sender's.
pub struct Point {
    /// Its slots in the table, one for each function.
    pub slots: [usize; 3],
    /// Its pads, one for each function.
    pub pads: [Vec<bool>; 3],
    /// What the receiver finds if it asks for this point.
    pub target: Vec<bool>,
}

/// Figure 3, Hint: the table whose empty slots are those of `filler`. `None` if there is no place for some point.
pub fn hint(points: &[Point], filler: &[Vec<bool>]) -> Option<Vec<Vec<bool>>> {
    // Steps 1 and 2: the point and the function in each slot.
    let mut inside: Vec<Option<(usize, usize)>> = vec![None; filler.len()];
    for point in 0..points.len() {
        if !place(points, point, &mut inside, &mut vec![false; filler.len()]) {
            return None;
        }
    }
    // Steps 3 to 10.
    let slot = |(inside, random): (&Option<(usize, usize)>, &Vec<bool>)| match inside {
        Some((point, function)) => sum(&points[*point].target, &points[*point].pads[*function]),
        None => random.clone(),
    };
    Some(inside.iter().zip(filler).map(slot).collect())
}

/// Puts a point into one of its slots, moving others out of the way: a search for an augmenting path.
fn place(
    points: &[Point],
    point: usize,
    inside: &mut [Option<(usize, usize)>],
    tried: &mut [bool],
) -> bool {
    for (function, slot) in points[point].slots.into_iter().enumerate() {
        if std::mem::replace(&mut tried[slot], true) {
            continue;
        }
        let free = match inside[slot] {
            None => true,
            Some((other, _)) => place(points, other, inside, tried),
        };
        if free {
            inside[slot] = Some((point, function));
            return true;
        }
    }
    false
}

/// Figure 3, F: the three candidates of a query with these slots and pads.
pub fn candidates(table: &[Vec<bool>], slots: [usize; 3], pads: &[Vec<bool>; 3]) -> [Vec<bool>; 3] {
    std::array::from_fn(|function| sum(&table[slots[function]], &pads[function]))
}
