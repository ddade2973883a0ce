//! Equality by digits of five to eight bits: what `circuit::digits` does by narrower ones, with a table of 2^W entries.
//!
//! Every bit of a frame has its place, entries 0 of tables included, which are 0: that is 1 bit in 2^W more than is
//! needed. A digit of fewer bits has a shorter table, of whole bytes.
//!
//! Semi-honest, with the arguments of that module: an entry over GF(2^W) serves one table, and tiles have a key each.

use rand_core::CryptoRng;
use vesica_circuit::BitShares;
use vesica_correlations::bulk::{self, Optimize, SemiHonest};
use vesica_correlations::cot;
use vesica_correlations::subfield::{self, FromCots, Subfield};
use vesica_primitives::block::{Block, TileHash};
use vesica_primitives::parallel;
use vesica_primitives::security::KeyAgreement;
use vesica_wire::{Channel, Error, Kind, recv_exact};

use super::{SESSION, cots, levels};

/// Bits of the widest digits.
const WIDEST: u32 = 8;

/// Frames with corrections of digits, a byte for each.
const CORRECTIONS: Kind = Kind {
    code: 93,
    name: "wide digit corrections",
};

/// Frames with the tables of a digit.
const TABLES: Kind = Kind {
    code: 94,
    name: "wide digit tables",
};

/// Bins of a tile.
const PIECE: usize = 1 << 12;

/// Bins for which corrections are sent before tables come back. All corrections of a window fit into a channel's queue.
pub(super) const WINDOW: usize = 1 << 15;

/// Offsets that are hashed at a time.
const OFFSETS: usize = 16;

/// Up to 256 bits, sixteen in a word.
type Table = [u16; 1 << WIDEST >> 4];

fn hashes() -> TileHash {
    TileHash::new("vesica/1 research wide digits", &SESSION)
}

/// Bytes of the table of a digit of so many bits.
fn table_bytes(width: u32) -> usize {
    (1usize << width).div_ceil(8)
}

/// As many ones, up to eight.
fn mask_of(width: u32) -> u8 {
    ((1u16 << width) - 1) as u8
}

/// Bit u becomes bit u + `by`.
fn permute(table: Table, by: u8) -> Table {
    const LOW: [u16; 4] = [0x5555, 0x3333, 0x0f0f, 0x00ff];
    std::array::from_fn(|word| {
        let mut bits = table[word ^ usize::from(by >> 4)];
        for (j, low) in LOW.into_iter().enumerate() {
            let swapped = bits >> (1 << j) & low | (bits & low) << (1 << j);
            bits ^= (bits ^ swapped) & u16::from(by >> j & 1).wrapping_neg();
        }
        bits
    })
}

/// The windows of so many bins: where each begins and ends.
fn windows(bins: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..bins)
        .step_by(WINDOW)
        .map(move |from| (from, bins.min(from + WINDOW)))
}

/// The pieces of a window.
fn pieces(from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
    (from..to)
        .step_by(PIECE)
        .map(move |first| (first, to.min(first + PIECE)))
}

/// One side's shares of which digits of a level are equal: a byte of up to W of them for each bin.
type Shares = Vec<Vec<u8>>;

fn no_shares(width: u32, level: &[u32], bins: usize) -> Shares {
    vec![vec![0; bins]; level.len().div_ceil(width as usize)]
}

fn last(shares: &Shares, bins: usize) -> BitShares {
    BitShares::from_fn(bins, |bin| shares[0][bin].into())
}

/// The lowest bits are those of the digit.
fn digit_of(width: u32, string: Block, digit: usize) -> u8 {
    (string >> (width as usize * digit)) as u8
}

/// Digits with their widths; one of one bit takes no transfer beside others.
fn digits(level: &[u32]) -> impl Iterator<Item = (usize, u32, bool)> + '_ {
    let is_local = |width: u32| width == 1 && level.len() > 1;
    let digits = level.iter().enumerate();
    digits.map(move |(digit, width)| (digit, *width, is_local(*width)))
}

/// The side that builds tables.
pub(super) fn receive<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let (bins, count) = (strings.len(), cots(W, bits, strings.len()));
    let source = bulk::Sender::setup(
        channel,
        &SESSION,
        SemiHonest,
        count,
        Optimize::Time,
        KeyAgreement::Classical,
        rng,
    )?;
    let mut source = FromCots::<W, _>::new(source);
    let delta = cot::Sender::delta(&source) & Subfield::<W>::ENTRY;
    let elements = 0..Subfield::<W>::ORDER;
    let multiples: Vec<Block> = elements
        .map(|u| Subfield::<W>::multiple(u as u8, delta))
        .collect();
    let (hashes, mut tile) = (hashes(), 0);
    let mut below: Option<Shares> = None;
    for level in levels(W, bits) {
        let own = |digit: usize, bin: usize| match &below {
            None => digit_of(W, strings[bin], digit),
            Some(shares) => !shares[digit][bin],
        };
        let mut shares = no_shares(W, &level, bins);
        for (from, to) in windows(bins) {
            let mut entries = Vec::new();
            for (from, to) in pieces(from, to) {
                for _ in digits(&level).filter(|(_, _, is_local)| !is_local) {
                    let mut y = vec![0; to - from];
                    subfield::Sender::<W>::extend_entries(&mut source, channel, rng, &mut y)?;
                    entries.push(y);
                }
            }
            let mut entries = entries.into_iter();
            for (from, to) in pieces(from, to) {
                for (digit, width, is_local) in digits(&level) {
                    let (row, place) = (digit / W as usize, digit % W as usize);
                    let row = &mut shares[row][from..to];
                    if is_local {
                        let bits = (from..to).map(|bin| own(digit, bin) & 1 ^ 1);
                        row.iter_mut()
                            .zip(bits)
                            .for_each(|(row, bit)| *row |= bit << place);
                        continue;
                    }
                    let y = entries.next().expect("those of a digit");
                    let (cipher, bytes) = (hashes.tile(tile), table_bytes(width));
                    tile += 1;
                    // Bit 16·i + u of these words is that of input i and offset u.
                    let pads = parallel::map(multiples.chunks(OFFSETS), |offsets| {
                        let mut pads: Vec<u64> = vec![0; (to - from).div_ceil(4)];
                        cipher.hash_bits(offsets, &y, &mut pads);
                        pads
                    });
                    let corrections = recv_exact(channel, CORRECTIONS, to - from)?;
                    let mut message = vec![0; bytes * (to - from)];
                    for (i, to) in message.chunks_mut(bytes).enumerate() {
                        let pads = std::array::from_fn(|word| {
                            let pads = pads.get(word).map_or(0, |pads| pads[i / 4]);
                            (pads >> (OFFSETS * (i % 4))) as u16
                        });
                        let mut table = permute(pads, corrections[i]);
                        let value = own(digit, from + i) & mask_of(width);
                        table[usize::from(value >> 4)] ^= 1 << (value & 15);
                        // With share 1 every entry changes.
                        let share = table[0] & 1;
                        let table = table.map(|word| (word ^ share.wrapping_neg()).to_le_bytes());
                        to.copy_from_slice(&table.as_flattened()[..bytes]);
                        to[0] &= mask_of(1 << width.min(3));
                        row[i] |= (share as u8) << place;
                    }
                    channel.send(TABLES, message)?;
                }
            }
        }
        below = Some(shares);
    }
    Ok(last(&below.expect("a level"), bins))
}

/// The side that chooses from tables.
pub(super) fn send<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let (bins, count) = (strings.len(), cots(W, bits, strings.len()));
    let source = bulk::Receiver::setup(
        channel,
        &SESSION,
        SemiHonest,
        count,
        Optimize::Time,
        KeyAgreement::Classical,
        rng,
    )?;
    let mut source = FromCots::<W, _>::new(source);
    let (hashes, mut tile) = (hashes(), 0);
    let mut below: Option<Shares> = None;
    for level in levels(W, bits) {
        let own = |digit: usize, bin: usize| match &below {
            None => digit_of(W, strings[bin], digit),
            Some(shares) => shares[digit][bin],
        };
        let mut shares = no_shares(W, &level, bins);
        for (from, to) in windows(bins) {
            let mut rows = Vec::new();
            for (from, to) in pieces(from, to) {
                for _ in digits(&level).filter(|(_, _, is_local)| !is_local) {
                    let mut z = vec![0; to - from];
                    subfield::Receiver::<W>::extend_entries(&mut source, channel, rng, &mut z)?;
                    rows.push(z);
                }
            }
            let mut rows = rows.into_iter();
            let mut pads = Vec::new();
            for (from, _) in pieces(from, to) {
                for (digit, width, _) in digits(&level).filter(|(_, _, is_local)| !is_local) {
                    let mut z = rows.next().expect("those of a digit");
                    let corrections = z.iter().zip(from..).map(|(z, bin)| {
                        own(digit, bin) & mask_of(width) ^ Subfield::<W>::first(*z)
                    });
                    channel.send(CORRECTIONS, corrections.collect())?;
                    hashes.tile(tile).feed_forward(&mut z);
                    tile += 1;
                    pads.push(z);
                }
            }
            let mut pads = pads.into_iter();
            for (from, to) in pieces(from, to) {
                for (digit, width, is_local) in digits(&level) {
                    let (row, place) = (digit / W as usize, digit % W as usize);
                    let row = &mut shares[row][from..to];
                    if is_local {
                        let bits = (from..to).map(|bin| own(digit, bin) & 1);
                        row.iter_mut()
                            .zip(bits)
                            .for_each(|(row, bit)| *row |= bit << place);
                        continue;
                    }
                    let bytes = table_bytes(width);
                    let tables = recv_exact(channel, TABLES, bytes * (to - from))?;
                    let pads = pads.next().expect("those of a digit");
                    for (i, (table, pad)) in tables.chunks(bytes).zip(&pads).enumerate() {
                        let value = own(digit, from + i) & mask_of(width);
                        let bit = table[usize::from(value >> 3)] >> (value & 7);
                        row[i] |= ((bit ^ (pad >> 127) as u8) & 1) << place;
                    }
                }
            }
        }
        below = Some(shares);
    }
    Ok(last(&below.expect("a level"), bins))
}
