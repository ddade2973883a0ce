//! One extension of random correlated OTs, or of entries of a subfield VOLE, by primal LPN, both parties at once.

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

/// The nodes of the levels of a correlated tree, the first of them `root` and `root` ⊕ `delta`.
fn levels(session: &[u8; 32], tree: u64, root: u128, delta: u128, depth: u32) -> Vec<Vec<u128>> {
    let keys = public_key("vesica/1 bulk COT tree keys", session);
    let mut levels = vec![vec![root, root ^ delta]];
    for level in 1..depth {
        let key = aes(keys, u128::from(tree) << 64 | u128::from(level));
        let nodes = &levels[level as usize - 1];
        let ones = nodes.iter().map(|node| {
            let x = node << 64 ^ node >> 64 << 64 ^ node >> 64;
            aes(key, x) ^ x
        });
        let ones: Vec<u128> = ones.collect();
        let zeros = nodes.iter().zip(&ones).map(|(node, one)| node ^ one);
        levels.push(zeros.chain(ones.iter().copied()).collect());
    }
    levels
}

/// For each level of a tree, the sum of the children 0 with the q of a COT added; and the point to which the choice bits
/// of these COTs lead.
fn sums(levels: &[Vec<u128>], cots: &[u128], choices: &[bool]) -> (Vec<u128>, usize) {
    let halves = levels.iter().map(|nodes| &nodes[..nodes.len() / 2]);
    let masked = halves.zip(cots);
    let message = masked.map(|(nodes, q)| nodes.iter().fold(*q, |a, b| a ^ b));
    // The choice opens one side; the point is on the other.
    let sides = choices.iter().enumerate();
    let point = sides.map(|(level, choice)| usize::from(!choice) << level);
    (message.collect(), point.sum())
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
    let mut made = Extension {
        messages: Vec::new(),
        sender: Vec::new(),
        choices: Vec::new(),
    };
    for (i, root) in roots.iter().enumerate() {
        let tree = first + i as u64;
        let nodes = levels(session, tree, *root, delta, depth);
        let own = i * depth as usize..(i + 1) * depth as usize;
        let (message, point) = sums(&nodes, &cots[own.clone()], &cot_choices[own]);
        made.messages.push(message);
        for (j, leaf) in nodes[nodes.len() - 1].iter().enumerate() {
            let columns = row(session, (u128::from(tree) << depth) + j as u128, base.len());
            let q = columns.iter().fold(*leaf & !1, |q, c| q ^ base[*c]);
            let x = columns.iter().fold(j == point, |x, c| x ^ base_choices[*c]);
            made.sender.push(q);
            made.choices.push(x);
        }
    }
    made
}

/// Entries of a VOLE over GF(2^w), w = 3 or 4: the sender's blocks, and the receiver's elements.
#[derive(Default)]
pub struct Entries {
    /// The sender's message for each tree.
    pub messages: Vec<Vec<u128>>,
    /// The sender's blocks.
    pub sender: Vec<u128>,
    /// The receiver's elements.
    pub elements: Vec<u8>,
}

/// The product of two elements of GF(2^`width`), polynomials modulo x^`width` + x + 1.
pub fn product(width: u32, a: u8, b: u8) -> u8 {
    let whole = (0..width)
        .filter(|j| b >> j & 1 == 1)
        .fold(0, |sum, j| sum ^ u32::from(a) << j);
    let reduced = (width..2 * width).rev().fold(whole, |left, j| {
        if left >> j & 1 == 1 {
            left ^ (1 << width | 0b11) << (j - width)
        } else {
            left
        }
    });
    reduced as u8
}

/// The elements of a block, those of the low word first.
pub fn elements(width: u32, block: u128) -> Vec<u8> {
    let plane = 64 / width;
    (0..2 * plane)
        .map(|e| {
            let first = 64 * (e / plane) + e % plane;
            (0..width).fold(0, |sum, j| sum | (block >> (first + j * plane) & 1) << j) as u8
        })
        .collect()
}

/// The block with these elements.
pub fn block(width: u32, elements: &[u8]) -> u128 {
    let plane = 64 / width;
    let bit = |e: u32, j: u32| {
        u128::from(elements[e as usize] >> j & 1) << (64 * (e / plane) + j * plane + e % plane)
    };
    (0..2 * plane)
        .flat_map(|e| (0..width).map(move |j| (e, j)))
        .fold(0, |sum, (e, j)| sum | bit(e, j))
}

/// An element times a block.
pub fn multiple(width: u32, factor: u8, of: u128) -> u128 {
    let products = elements(width, of).into_iter();
    let products: Vec<u8> = products
        .map(|element| product(width, factor, element))
        .collect();
    block(width, &products)
}

/// The coefficients of row `i` of the matrix over GF(2^`width`): of ten bytes of a stream, the part of 2^`width` − 1 that
/// each is of 256, and one more.
pub fn coefficients(session: &[u8; 32], width: u32, i: u128) -> Vec<u8> {
    let key = public_key("vesica/1 bulk COT matrix", session);
    (10 * i..10 * i + 10)
        .map(|number| {
            let byte = aes(key, (1 << 127) + number / 16) >> (8 * (number % 16)) & 0xff;
            1 + (byte * ((1 << width) - 1) / 256) as u8
        })
        .collect()
}

/// Hashes a leaf. Its halves are (a, b), b in the low word.
fn hashed(width: u32, key: u128, leaf: u128) -> u128 {
    let all = elements(width, leaf);
    let (b, a) = all.split_at(all.len() / 2);
    let high: Vec<u8> = a.iter().map(|a| product(width, 2, *a)).collect();
    let mixed = high.iter().zip(b).map(|(a, b)| a ^ b);
    let x: Vec<u8> = high.iter().copied().chain(mixed).collect();
    let x = block(width, &x);
    let mut hash = elements(width, aes(key, x) ^ x);
    hash[0] = 0;
    block(width, &hash)
}

/// [`extension`] for entries: `base` and `entries`, one for each tree, are the sender's blocks with the receiver's elements;
/// `cots` are for the choices.
#[allow(
    clippy::too_many_arguments,
    reason = "all that an extension depends on"
)]
pub fn entries(
    session: &[u8; 32],
    width: u32,
    delta: u128,
    depth: u32,
    first: u64,
    roots: &[u128],
    (base, base_elements): (&[u128], &[u8]),
    (entries, noise): (&[u128], &[u8]),
    (cots, choices): (&[u128], &[bool]),
) -> Entries {
    let keys = public_key("vesica/1 bulk COT tree keys", session);
    let mut made = Entries::default();
    for (i, root) in roots.iter().enumerate() {
        let tree = first + i as u64;
        let nodes = levels(session, tree, *root, delta, depth);
        let own = i * depth as usize..(i + 1) * depth as usize;
        let (mut message, point) = sums(&nodes, &cots[own.clone()], &choices[own]);
        let key = aes(keys, u128::from(tree) << 64 | u128::from(depth));
        let leaves = nodes[nodes.len() - 1].iter();
        let leaves: Vec<u128> = leaves.map(|leaf| hashed(width, key, *leaf)).collect();
        message.push(leaves.iter().fold(entries[i], |sum, leaf| sum ^ leaf));
        made.messages.push(message);
        for (j, leaf) in leaves.into_iter().enumerate() {
            let number = (u128::from(tree) << depth) + j as u128;
            let (mut y, mut x) = (leaf, if j == point { noise[i] } else { 0 });
            let factors = coefficients(session, width, number);
            for (column, factor) in row(session, number, base.len()).into_iter().zip(factors) {
                y ^= multiple(width, factor, base[column]);
                x ^= product(width, factor, base_elements[column]);
            }
            made.sender.push(y);
            made.elements.push(x);
        }
    }
    made
}
