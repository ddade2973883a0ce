//! The membership test of circuits by digits of other widths than the one that ships: what 1-of-2^W transfers take.
//!
//! Digits of two to four bits run in the engine that ships, over GF(2^W). Those of five, seven and eight bits have a test
//! of their own (`widths/wide.rs`), since the engine keeps all pads of a digit in a word. Entries over GF(8) and GF(16)
//! come from primal LPN. Those over other fields, for which no parameters are estimated, are made of W correlated OTs
//! (COTs) each.

use chacha20::ChaCha12Rng;
use rand_core::{CryptoRng, SeedableRng};
use vesica_circuit::{BitShares, Receiver, Sender};
use vesica_correlations::bulk::{self, Optimize, SemiHonest};
use vesica_correlations::subfield::FromCots;
use vesica_encodings::cuckoo;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::security::KeyAgreement;
use vesica_wire::{Channel, Error, Link};

use crate::runs::{Comparison, Run, both};

mod wide;

const SESSION: [u8; 32] = [7; 32];
const ENTRIES: [u8; 32] = [8; 32];
const ENGINE: [u8; 32] = [9; 32];

/// Bits of the strings: those of tags at 2^20 items.
const BITS: u32 = 61;

/// One side of a test of so many bits.
type Side = fn(&mut dyn Channel, &mut dyn CryptoRng, u32, &[Block]) -> Result<BitShares, Error>;

/// A width, the sender of its tables and who chooses from them.
pub struct Width {
    /// Bits of a digit.
    pub bits: u32,
    receive: Side,
    send: Side,
}

/// All widths that are compared.
pub static WIDTHS: [Width; 6] = [
    Width {
        bits: 2,
        receive: receive_cots::<2>,
        send: send_cots::<2>,
    },
    Width {
        bits: 3,
        receive: receive_entries::<3>,
        send: send_entries::<3>,
    },
    Width {
        bits: 4,
        receive: receive_entries::<4>,
        send: send_entries::<4>,
    },
    Width {
        bits: 5,
        receive: wide::receive::<5>,
        send: wide::send::<5>,
    },
    Width {
        bits: 7,
        receive: wide::receive::<7>,
        send: wide::send::<7>,
    },
    Width {
        bits: 8,
        receive: wide::receive::<8>,
        send: wide::send::<8>,
    },
];

/// Digits of each level of a test by digits of `width` bits, of strings of `bits` bits: their widths, lowest first.
fn levels(width: u32, bits: u32) -> Vec<Vec<u32>> {
    let digits = |bits: u32| -> Vec<u32> {
        (0..bits.div_ceil(width))
            .map(|digit| width.min(bits - width * digit))
            .collect()
    };
    let mut levels = vec![digits(bits)];
    while levels[levels.len() - 1].len() > 1 {
        let rows = levels[levels.len() - 1].len() as u32;
        levels.push(digits(rows));
    }
    levels
}

/// Entries of a test per bin. Digits of one bit take none beside others, since the next level makes shares of them anew.
pub fn entries(width: u32, bits: u32) -> usize {
    let levels = levels(width, bits);
    let of_level = |level: &Vec<u32>| {
        let is_transferred = |digit: &&u32| **digit > 1 || level.len() == 1;
        level.iter().filter(is_transferred).count()
    };
    levels.iter().map(of_level).sum()
}

/// A source of COTs for as many entries over GF(2^`width`), each made of `width` of them.
fn cots(width: u32, bits: u32, bins: usize) -> usize {
    width as usize * entries(width, bits) * bins
}

fn receive_cots<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let count = cots(W, bits, strings.len());
    let cots = bulk::Sender::setup(
        channel,
        &SESSION,
        SemiHonest,
        count,
        Optimize::Time,
        KeyAgreement::Classical,
        rng,
    )?;
    let mut engine = Receiver::<W>::new(&ENGINE, FromCots::new(cots));
    engine.equality(channel, rng, bits, strings)
}

fn send_cots<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let count = cots(W, bits, strings.len());
    let cots = bulk::Receiver::setup(
        channel,
        &SESSION,
        SemiHonest,
        count,
        Optimize::Time,
        KeyAgreement::Classical,
        rng,
    )?;
    let mut engine = Sender::<W>::new(&ENGINE, FromCots::new(cots));
    engine.equality(channel, rng, bits, strings)
}

fn receive_entries<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let (how, count) = (Optimize::Time, strings.len() * entries(W, bits));
    let cots = bulk::subfield::cots(W, count, how);
    let cots = bulk::Sender::setup(
        channel,
        &SESSION,
        SemiHonest,
        cots,
        how,
        KeyAgreement::Classical,
        rng,
    )?;
    let entries =
        bulk::subfield::Sender::setup(channel, &ENTRIES, SemiHonest, count, how, cots, rng)?;
    let mut engine = Receiver::<W>::new(&ENGINE, entries);
    engine.equality(channel, rng, bits, strings)
}

fn send_entries<const W: u32>(
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: u32,
    strings: &[Block],
) -> Result<BitShares, Error> {
    let (how, count) = (Optimize::Time, strings.len() * entries(W, bits));
    let cots = bulk::subfield::cots(W, count, how);
    let cots = bulk::Receiver::setup(
        channel,
        &SESSION,
        SemiHonest,
        cots,
        how,
        KeyAgreement::Classical,
        rng,
    )?;
    let entries =
        bulk::subfield::Receiver::setup(channel, &ENTRIES, SemiHonest, count, how, cots, rng)?;
    let mut engine = Sender::<W>::new(&ENGINE, entries);
    engine.equality(channel, rng, bits, strings)
}

/// Strings of both sides, of which every third pair is equal.
fn strings(bins: usize, seed: u64) -> [Vec<Block>; 2] {
    let mut ours = vec![0; bins];
    Prg::new(seed.into()).fill(&mut ours);
    let other = |(bin, ours): (usize, &Block)| match bin % 3 {
        0 => *ours,
        _ => ours ^ 1 << (bin as u32 % BITS),
    };
    let theirs = ours.iter().enumerate().map(other).collect();
    [ours, theirs]
}

/// One test of `bins` bins, which finds those that are equal.
fn test(width: &Width, bins: usize, link: Link, seed: u64) -> Result<Run, Error> {
    let [ours, theirs] = &strings(bins, seed);
    let rng = |party| ChaCha12Rng::seed_from_u64(2 * seed + party);
    let ([ours, theirs], seconds, phases) = both(
        link,
        |channel| {
            channel.begin_phase("membership");
            (width.receive)(channel, &mut rng(0), BITS, ours)
        },
        |channel| {
            let shares = (width.send)(channel, &mut rng(1), BITS, theirs)?;
            channel.flush()?;
            Ok(shares)
        },
    )?;
    let pairs = ours.words().iter().zip(theirs.words());
    Ok(Run {
        seconds,
        phases,
        matches: pairs.map(|(a, b)| (a ^ b).count_ones() as usize).sum(),
    })
}

/// Runs the test of each width that is wanted and prints its cost, for as many bins as there are with so many items; how
/// many widths there were.
///
/// # Errors
/// The protocols'.
pub fn compare(how: &Comparison) -> Result<usize, Error> {
    let bins = cuckoo::Parameters::new(how.sizes[0], 3, 40).bins;
    let subject = format!("{bins} strings of {BITS} bits");
    let named = WIDTHS.iter();
    let named = named.map(|width| (format!("digits of {} bits", width.bits), width));
    how.show(&subject, bins, named, |width, seed| {
        test(width, bins, how.link, seed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testing::{honest, rng};

    fn shares(width: &Width, bits: u32, ours: &[Block], theirs: &[Block]) -> Vec<bool> {
        let (ours, theirs) = honest(
            |channel| (width.receive)(channel, &mut rng(1), bits, ours),
            |channel| {
                let shares = (width.send)(channel, &mut rng(2), bits, theirs)?;
                channel.flush()?;
                Ok::<_, Error>(shares)
            },
        );
        let all = 0..ours.len();
        all.map(|bin| ours.get(bin) != theirs.get(bin)).collect()
    }

    /// Entries are those of the table in `docs/protocols/circuit.md`.
    #[test]
    fn entries_are_as_said() {
        assert_eq!(
            [2, 3, 4, 8].map(|width| entries(width, 63)),
            [62, 31, 21, 9]
        );
        assert_eq!(entries(4, 61), 20);
    }

    #[test]
    fn windows_and_pieces_follow_each_other() {
        for bins in [1, 4097, wide::WINDOW + 70] {
            let [ours, theirs] = strings(bins, 5);
            for width in WIDTHS.iter().filter(|width| width.bits > 4) {
                let found = shares(width, BITS, &ours, &theirs);
                let mut found = found.iter().enumerate();
                assert!(found.all(|(bin, equal)| *equal == (bin % 3 == 0)));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]
        #[test]
        fn strings_are_equal_by_digits_of_any_width(
            bits in 2u32..=128,
            pairs in prop::collection::vec((any::<u128>(), 0u32..256), 1..200),
        ) {
            let ours: Vec<Block> = pairs.iter().map(|(string, _)| *string).collect();
            // One bit is flipped, of those that count or beyond, or none.
            let flip = |(string, place): &(u128, u32)| string ^ 1u128.checked_shl(*place).unwrap_or(0);
            let theirs: Vec<Block> = pairs.iter().map(flip).collect();
            let expected: Vec<bool> = pairs.iter().map(|(_, place)| *place >= bits).collect();
            for width in &WIDTHS {
                prop_assert_eq!(&shares(width, bits, &ours, &theirs), &expected, "{}", width.bits);
            }
        }
    }
}
