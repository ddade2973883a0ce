//! Rijndael-256/256 and AES-128 a byte at a time, from the definition in *The Design of Rijndael*.

use std::sync::OnceLock;

fn times(a: u8, b: u8) -> u8 {
    (0..8).fold(0, |sum, bit| {
        let shifted = (0..bit).fold(a, |x, _| (x << 1) ^ ((x >> 7) * 0x1b));
        sum ^ (shifted * (b >> bit & 1))
    })
}

/// The S-box: inverse in GF(2^8), then an affine map.
fn s_box(x: u8) -> u8 {
    let inverse = (0..254).fold(1, |power, _| times(power, x));
    let inverse = if x == 0 { 0 } else { inverse };
    (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// Encrypts one 256-bit block under a 256-bit key.
pub fn encrypt_256(key: &[u8; 32], block: &[u8; 32]) -> [u8; 32] {
    let table: Vec<u8> = (0..=255).map(s_box).collect();
    let sub = |x: u8| table[usize::from(x)];

    let mut words: Vec<[u8; 4]> = key.chunks(4).map(|w| w.try_into().unwrap()).collect();
    let mut constant = 1;
    for i in 8..8 * 15 {
        let last = words[i - 1];
        let changed = match i % 8 {
            0 => {
                let c = constant;
                constant = times(constant, 2);
                [sub(last[1]) ^ c, sub(last[2]), sub(last[3]), sub(last[0])]
            }
            4 => last.map(sub),
            _ => last,
        };
        words.push(std::array::from_fn(|b| words[i - 8][b] ^ changed[b]));
    }
    let add_key = |state: &mut [u8; 32], round: usize| {
        for (i, byte) in state.iter_mut().enumerate() {
            *byte ^= words[8 * round + i / 4][i % 4];
        }
    };

    let mut state = *block;
    add_key(&mut state, 0);
    for round in 1..=14 {
        let shifts = [0, 1, 3, 4];
        let shifted: [u8; 32] =
            std::array::from_fn(|i| sub(state[4 * ((i / 4 + shifts[i % 4]) % 8) + i % 4]));
        state = shifted;
        if round < 14 {
            for column in state.chunks_mut(4) {
                let c: [u8; 4] = std::array::from_fn(|r| column[r]);
                for r in 0..4 {
                    column[r] =
                        times(c[r], 2) ^ times(c[(r + 1) % 4], 3) ^ c[(r + 2) % 4] ^ c[(r + 3) % 4];
                }
            }
        }
        add_key(&mut state, round);
    }
    state
}

/// AES-128: four columns, four words of key, ten rounds.
pub fn encrypt_128(key: &[u8; 16], block: &[u8; 16]) -> [u8; 16] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    let table = TABLE.get_or_init(|| (0..=255).map(s_box).collect());
    let sub = |x: u8| table[usize::from(x)];

    let mut words: Vec<[u8; 4]> = key.chunks(4).map(|w| w.try_into().unwrap()).collect();
    let mut constant = 1;
    for i in 4..4 * 11 {
        let mut changed = words[i - 1];
        if i % 4 == 0 {
            changed.rotate_left(1);
            changed = changed.map(sub);
            changed[0] ^= constant;
            constant = times(constant, 2);
        }
        words.push(std::array::from_fn(|b| words[i - 4][b] ^ changed[b]));
    }

    let mut state: [u8; 16] = std::array::from_fn(|i| block[i] ^ words[i / 4][i % 4]);
    for round in 1..=10 {
        let s: [u8; 16] = std::array::from_fn(|i| sub(state[4 * ((i / 4 + i % 4) % 4) + i % 4]));
        state = std::array::from_fn(|i| {
            let at = |turn: usize| s[i / 4 * 4 + (i + turn) % 4];
            let mixed = times(at(0), 2) ^ times(at(1), 3) ^ at(2) ^ at(3);
            (if round < 10 { mixed } else { s[i] }) ^ words[4 * round + i / 4][i % 4]
        });
    }
    state
}
