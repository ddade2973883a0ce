//! Rijndael-256/256 a byte at a time, from the definition in *The Design of Rijndael*.

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
