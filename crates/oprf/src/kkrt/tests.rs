use std::collections::{HashMap, VecDeque};

use super::*;
use crate::Output;
use vesica_correlations::ideal::random_transfers;
use vesica_primitives::security::KeyAgreement;
use vesica_testing::{
    Tape, chi_squared, items, limit, misbehaviour, rng, too_long, try_both, unexpected,
    wrong_length,
};
use vesica_wire::{Limit, Spoil, Tamper, memory_pair};

fn row_bytes(params: &Params) -> usize {
    Batch::of_sets(params).row_bytes
}

fn params(receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [6; 32],
    }
}

/// The receiver's outputs and the items that they are of; the sender's outputs.
type Outcomes = (
    Result<(Vec<Output>, Vec<u32>), Error>,
    Result<Vec<Output>, Error>,
);

/// Where the base transfers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Real,
    Ideal,
}

fn run_over(
    base: Base,
    params: &Params,
    ours: &[Item],
    theirs: &[Item],
    receiving: impl Channel,
    sending: impl Channel,
) -> Outcomes {
    let s = Choices::random(columns(params), &mut rng(9));
    let (pairs, seeds) = random_transfers(5, &s);
    let (own, sent) = try_both(
        (receiving, sending),
        |channel| match base {
            Base::Real => Kkrt.receive(channel, params, ours, (), &mut rng(2)),
            Base::Ideal => receive_with(channel, params, ours, &pairs),
        },
        |channel| match base {
            Base::Real => Kkrt.send(channel, params, theirs, &mut rng(1)),
            Base::Ideal => send_with(channel, params, theirs, &s, &seeds),
        },
    );
    (
        own.map(Outputs::into_short),
        sent.map(|outputs| outputs.into_short().0),
    )
}

fn run(
    base: Base,
    params: &Params,
    ours: &[Item],
    theirs: &[Item],
) -> ((Vec<Output>, Vec<u32>), Vec<Output>) {
    let (receiving, sending) = memory_pair();
    let (own, other) = run_over(base, params, ours, theirs, receiving, sending);
    (own.unwrap(), other.unwrap())
}

/// The item that each output of the sender's is of.
fn owners(params: &Params, theirs: &[Item]) -> Vec<usize> {
    let keys: Vec<Block> = theirs.iter().map(|item| halves(item)[0]).collect();
    let table = simple::table(&functions(params), &keys);
    table.entries().iter().map(|entry| entry.item()).collect()
}

fn check(base: Base, params: &Params, common: usize) {
    let ours = items(3, params.receiver_size);
    let mut theirs = items(4, params.sender_size);
    theirs[..common].copy_from_slice(&ours[..common]);
    theirs.reverse();
    let (own, other) = run(base, params, &ours, &theirs);
    assert_eq!(own.0.len(), ours.len());
    assert_eq!(other.len(), HASHES * theirs.len());
    let mut numbers = own.1.clone();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..ours.len() as u32));
    let index: HashMap<Output, u32> = own.0.iter().copied().zip(own.1).collect();
    assert_eq!(index.len(), ours.len());
    let mut met = 0;
    for (output, owner) in other.iter().zip(owners(params, &theirs)) {
        if let Some(number) = index.get(output) {
            assert_eq!(ours[*number as usize], theirs[owner]);
            met += 1;
        }
    }
    assert_eq!(met, common, "{base:?} {params:?}");
}

#[test]
fn outputs_agree_on_common_items_and_nowhere_else() {
    for base in [Base::Real, Base::Ideal] {
        for (n_r, n_s, common) in [
            (0, 0, 0),
            (0, 3, 0),
            (3, 0, 0),
            (1, 1, 1),
            (1, 1, 0),
            (1, 3000, 1),
            (3000, 1, 1),
            (700, 1300, 250),
        ] {
            check(base, &params(n_r, n_s), common);
        }
    }
}

/// Several chunks, the last of them not whole; and rows that need a second block of the hash.
#[test]
fn chunks_and_long_rows() {
    check(Base::Ideal, &params(20_000, 30_000), 7_000);
    for lambda in [46, 64, 80, 100] {
        let params = Params {
            lambda,
            ..params(500, 900)
        };
        assert_eq!(row_bytes(&params) > 56, lambda > 46);
        check(Base::Ideal, &params, 100);
    }
}

#[test]
fn rows_are_as_wide_as_the_bound_asks_for() {
    assert_eq!(columns(&params(5, 1 << 20)), 448);
    assert_eq!(columns(&params(5, 1 << 26)), 456);
    // Whatever the contract allows fits: λ is at most 125 less the logarithm of 3·n_s·n_r.
    for log in [0u32, 10, 20, 26] {
        let params = Params {
            lambda: 123 - log,
            ..params(1, 1 << log)
        };
        assert!(Batch::of_sets(&params).pieces() <= MAX_PIECES);
    }
}

fn looks_uniform(bytes: impl Iterator<Item = u8>, what: &str) {
    let chi = chi_squared(bytes);
    assert!((120.0..420.0).contains(&chi), "{what}: {chi}");
}

/// Outputs for items that the receiver does not hold look uniform, and differ from run to run and
/// from bin to bin.
#[test]
fn other_outputs_look_random() {
    let (ours, theirs) = (items(3, 100), items(4, 4000));
    let (_, other) = run(Base::Ideal, &params(100, 4000), &ours, &theirs);
    let again = Params {
        session: [7; 32],
        ..params(100, 4000)
    };
    let (_, second) = run(Base::Ideal, &again, &ours, &theirs);
    let mut all: Vec<Output> = other.iter().chain(&second).copied().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * HASHES * 4000);
    for byte in 0..16 {
        let bytes = other
            .iter()
            .map(|output| bytemuck::must_cast_ref::<Output, [u8; 16]>(output)[byte]);
        looks_uniform(bytes, "outputs");
    }
}

/// What the receiver sends is as long for all items, looks uniform, and comes in frames of bounded size.
#[test]
fn rows_do_not_tell_the_items() {
    let params = params(15_000, 100);
    let choices = Choices::random(columns(&params), &mut rng(9));
    let (pairs, _) = random_transfers(5, &choices);
    let sent = |seed| {
        let mut tape = Tape::default();
        receive_with(&mut tape, &params, &items(seed, 15_000), &pairs).unwrap();
        tape.0
    };
    let (a, b) = (sent(3), sent(4));
    let lengths = |sent: &VecDeque<(Kind, Vec<u8>)>| {
        sent.iter()
            .map(|s| (s.0.code, s.1.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(lengths(&a), lengths(&b));
    let bins = functions(&params).parameters().bins;
    assert_eq!(a.len(), bins.div_ceil(CHUNK));
    assert!(
        a.iter()
            .all(|(kind, rows)| *kind == ROWS && rows.len() <= CHUNK * 55)
    );
    for sent in [&a, &b] {
        looks_uniform(
            sent.iter().flat_map(|(_, rows)| rows.iter().copied()),
            "rows",
        );
    }
    // With equal seeds the rows differ by code words, where there is an item.
    let differences = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| a.1.iter().zip(&b.1).map(|(a, b)| a ^ b));
    let zeros = differences.filter(|byte| *byte == 0).count() as f64 / (bins * 54) as f64;
    assert!((0.04..0.07).contains(&zeros), "{zeros}");
}

/// The receiver's frames on ideal base transfers: the rows of each chunk.
#[test]
fn malformed_rows_are_refused() {
    let (ours, theirs) = (items(3, 10_000), items(4, 60));
    let params = params(10_000, 60);
    let found = |frame, spoil| {
        let (receiving, sending) = memory_pair();
        let receiving = Tamper::new(receiving, frame, spoil);
        misbehaviour(run_over(Base::Ideal, &params, &ours, &theirs, receiving, sending).1)
    };
    let name = ROWS.name;
    let row = row_bytes(&params);
    let bins = functions(&params).parameters().bins;
    for (frame, bytes) in [(0, CHUNK * row), (1, (bins - CHUNK) * row)] {
        for cut in [1, bytes] {
            let short = wrong_length(name, bytes - cut);
            assert_eq!(found(frame, Spoil::Truncate(cut)), short);
        }
        let long = too_long(name, bytes + 1, bytes);
        assert_eq!(found(frame, Spoil::Extend(vec![1])), long);
        assert_eq!(found(frame, Spoil::Kind(99)), unexpected(ROWS, 99));
    }
    let twice = too_long(name, CHUNK * row, (bins - CHUNK) * row);
    assert_eq!(found(0, Spoil::Duplicate), twice);
}

/// A bit of a row that is wrong spoils the outputs of its bin at most, and only where s is 1.
#[test]
fn a_flipped_bit_reaches_no_other_bin() {
    let ours = items(3, 300);
    let params = params(300, 300);
    let mut spoilt = 0;
    for column in 0..20 {
        let (receiving, sending) = memory_pair();
        let flip = Spoil::FlipBit(8 * 7 * row_bytes(&params) + column);
        let receiving = Tamper::new(receiving, 0, flip);
        let (own, other) = run_over(Base::Ideal, &params, &ours, &ours, receiving, sending);
        let (own, other) = (own.unwrap(), other.unwrap());
        let missing = own.0.iter().filter(|mask| !other.contains(mask)).count();
        assert!(missing <= 1);
        spoilt += missing;
    }
    assert!(spoilt < 20);
}

/// Base transfers of the wrong length are refused with real ones.
#[test]
fn malformed_base_transfers_are_refused() {
    let (ours, theirs) = (items(3, 50), items(4, 60));
    let params = params(50, 60);
    let (receiving, sending) = memory_pair();
    let receiving = Tamper::new(receiving, 0, Spoil::Truncate(1));
    let (_, sender) = run_over(Base::Real, &params, &ours, &theirs, receiving, sending);
    let short = wrong_length("base-transfer key", 31);
    assert_eq!(misbehaviour(sender), short);
    let (receiving, sending) = memory_pair();
    let sending = Tamper::new(sending, 0, Spoil::Truncate(1));
    let (receiver, _) = run_over(Base::Real, &params, &ours, &theirs, receiving, sending);
    let short = wrong_length("base-transfer functions", 64 * columns(&params) - 1);
    assert_eq!(misbehaviour(receiver), short);
}

/// More equal items than an item has bins: an error of this side's, before anything of them is sent.
#[test]
fn items_without_places_are_an_error() {
    let ours = vec![[1; 32]; 4];
    let params = params(4, 1);
    let choices = Choices::random(columns(&params), &mut rng(9));
    let (pairs, _) = random_transfers(5, &choices);
    let mut tape = Tape::default();
    let found = receive_with(&mut tape, &params, &ours, &pairs);
    assert_eq!(limit(found), Limit::Encoding);
    assert!(tape.0.is_empty());
}
