//! One extension of random correlated OTs by primal LPN, both parties at once.

use crate::rijndael;

/// What an extension makes.
pub struct Extension {
    /// The sender's message for each tree.
    pub messages: Vec<Vec<u128>>,
    /// The sender's COTs.
    pub sender: Vec<u128>,
    /// The receiver's choice bits.
    pub choices: Vec<bool>,
}

fn aes(key: u128, block: u128) -> u128 {
    u128::from_le_bytes(rijndael::encrypt_128(
        &key.to_le_bytes(),
        &block.to_le_bytes(),
    ))
}

/// The AES key of a label in a session.
fn public_key(label: &str, session: &[u8; 32]) -> u128 {
    let key = blake3::derive_key(label, session);
    u128::from_le_bytes(std::array::from_fn(|i| key[i]))
}

/// The columns in which row `i` of the matrix has a one: in each of ten segments, the one that the next 16 bits of a
/// stream choose.
pub fn row(session: &[u8; 32], i: u128, columns: usize) -> Vec<usize> {
    let key = public_key("vesica/1 bulk COT matrix", session);
    let segment = columns / 10;
    (0..10)
        .map(|j| {
            let number = 10 * i + j;
            let word = aes(key, number / 8) >> (16 * (number % 8)) & 0xffff;
            j as usize * segment + word as usize % segment
        })
        .collect()
}

/// Grows the trees with these roots, the first of them number `first`, which each take as many COTs as they are deep.
/// `base` and `cots` are the sender's with the receiver's choice bits.
pub fn extension(
    session: &[u8; 32],
    delta: u128,
    depth: u32,
    first: u64,
    roots: &[u128],
    (base, base_choices): (&[u128], &[bool]),
    (cots, cot_choices): (&[u128], &[bool]),
) -> Extension {
    let keys = public_key("vesica/1 bulk COT tree keys", session);
    let mut made = Extension {
        messages: Vec::new(),
        sender: Vec::new(),
        choices: Vec::new(),
    };
    let levels = depth as usize;
    for (i, root) in roots.iter().enumerate() {
        let tree = first + i as u64;
        let mut message = Vec::new();
        let mut point = 0;
        let mut nodes = vec![*root, root ^ delta];
        for level in 0..levels {
            let half = 1 << level;
            if level > 0 {
                let key = aes(keys, u128::from(tree) << 64 | level as u128);
                let ones = nodes.iter().map(|node| {
                    let x = node << 64 ^ node >> 64 << 64 ^ node >> 64;
                    aes(key, x) ^ x
                });
                let ones: Vec<u128> = ones.collect();
                nodes = (nodes.iter().zip(&ones).map(|(node, one)| node ^ one))
                    .chain(ones.iter().copied())
                    .collect();
            }
            let q = cots[i * levels + level];
            message.push(nodes[..half].iter().fold(q, |a, b| a ^ b));
            // The choice opens one side; the point is on the other.
            point += half * usize::from(!cot_choices[i * levels + level]);
        }
        let leaves: Vec<u128> = nodes.iter().map(|leaf| leaf & !1).collect();
        made.messages.push(message);
        for (j, leaf) in leaves.iter().enumerate() {
            let columns = row(session, (u128::from(tree) << depth) + j as u128, base.len());
            let q = columns.iter().fold(*leaf, |q, c| q ^ base[*c]);
            let x = columns.iter().fold(j == point, |x, c| x ^ base_choices[*c]);
            made.sender.push(q);
            made.choices.push(x);
        }
    }
    made
}
