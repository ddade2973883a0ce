use std::collections::HashMap;

use super::*;
use crate::{LongOutput, Output};
use chacha20::ChaCha12Rng;
use rand_core::Rng;
use vesica_correlations::ideal;
use vesica_primitives::security::KeyAgreement;
use vesica_primitives::security::lambda_each;
use vesica_testing::{
    bad_value, chi_squared, honest, items, limit, misbehaviour, rng, too_long, try_both,
    unexpected, wrong_length,
};
use vesica_wire::{Limit, Spoil, Tamper, memory_pair};

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

/// Outputs, and the items that they are of.
type Short = (Vec<Output>, Vec<u32>);

type Outcomes = (Result<Short, Error>, Result<Short, Error>);

fn run_over<M: Message>(
    params: &Params,
    ours: &[Item],
    theirs: &[Item],
    receiving: impl Channel,
    sending: impl Channel,
) -> Outcomes {
    let (own, sent) = try_both(
        (receiving, sending),
        |channel| Sparse::<M>::new().receive(channel, params, ours, (), &mut rng(2)),
        |channel| Sparse::<M>::new().send(channel, params, theirs, &mut rng(1)),
    );
    (own.map(Outputs::into_short), sent.map(Outputs::into_short))
}

fn run<M: Message>(params: &Params, ours: &[Item], theirs: &[Item]) -> (Short, Short) {
    let (receiving, sending) = memory_pair();
    let (own, other) = run_over::<M>(params, ours, theirs, receiving, sending);
    (own.unwrap(), other.unwrap())
}

/// Common items meet, each in one of the sender's points, and no others do.
fn meets<M: Message>((own, other): (Short, Short), ours: &[Item], theirs: &[Item]) {
    assert_eq!(own.0.len(), ours.len());
    assert_eq!(other.0.len(), M::POINTS * theirs.len());
    let index: HashMap<Output, u32> = own.0.iter().copied().zip(own.1.iter().copied()).collect();
    assert_eq!(index.len(), ours.len());
    let mut met = Vec::new();
    for (mask, number) in other.0.iter().zip(&other.1) {
        if let Some(own) = index.get(mask) {
            assert_eq!(ours[*own as usize], theirs[*number as usize]);
            met.push(*own);
        }
    }
    met.sort_unstable();
    let common: Vec<u32> = (0..ours.len() as u32)
        .filter(|i| theirs.contains(&ours[*i as usize]))
        .collect();
    assert_eq!(met, common);
}

fn all_sizes<M: Message>() {
    for (n_r, n_s, common) in [
        (0, 0, 0),
        (0, 3, 0),
        (3, 0, 0),
        (1, 1, 1),
        (1, 1, 0),
        (2, 900, 1),
        (900, 2, 2),
        (700, 1300, 250),
    ] {
        let ours = items(3, n_r);
        let mut theirs = items(4, n_s);
        theirs[..common].copy_from_slice(&ours[..common]);
        theirs.reverse();
        let params = params(n_r, n_s);
        meets::<M>(run::<M>(&params, &ours, &theirs), &ours, &theirs);
    }
}

#[test]
fn a_polynomial_carries_the_rows() {
    all_sizes::<Slices>();
}

#[test]
fn bins_carry_the_rows() {
    all_sizes::<Bins>();
}

#[test]
fn stores_carry_the_rows() {
    all_sizes::<Store>();
}

fn against_senders(receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::MaliciousSender,
        ..params(receiver_size, sender_size)
    }
}

/// The outputs of both parties where the sender may be malicious.
fn long(params: &Params, ours: &[Item], theirs: &[Item]) -> [Vec<LongOutput>; 2] {
    let (own, other) = honest(
        |channel| Sparse::<Slices>::new().receive(channel, params, ours, (), &mut rng(2)),
        |channel| Sparse::<Slices>::new().send(channel, params, theirs, &mut rng(1)),
    );
    [own, other].map(|outputs| match outputs {
        Outputs::Long(values) => values,
        Outputs::Short { .. } => panic!("outputs of 256 bits were expected"),
    })
}

#[test]
fn outputs_against_a_malicious_sender_are_long() {
    for (n_r, n_s, common) in [(0, 3, 0), (3, 0, 0), (1, 1, 1), (500, 700, 100)] {
        let ours = items(3, n_r);
        let theirs = [&ours[n_r - common..], &items(4, n_s - common)].concat();
        let [own, other] = long(&against_senders(n_r, n_s), &ours, &theirs);
        assert_eq!((own.len(), other.len()), (n_r, n_s));
        assert_eq!(own[n_r - common..], other[..common]);
        assert!(other[common..].iter().all(|mask| !own.contains(mask)));
    }
}

/// Items of which the first halves agree have one point and one row. Their short outputs agree too, the long ones do not.
#[test]
fn long_outputs_of_items_with_one_point_differ() {
    let ours = items(3, 1);
    let mut other = ours[0];
    other[31] ^= 1;
    let theirs = [ours[0], other];
    let (own, sent) = run::<Slices>(&params(1, 2), &ours, &theirs);
    assert_eq!(sent.0, [own.0[0]; 2]);
    let [own, sent] = long(&against_senders(1, 2), &ours, &theirs);
    assert_eq!(sent[0], own[0]);
    assert_ne!(sent[1], own[0]);
}

/// PRTY19, theorem 2: whatever a sender sends, the receiver finds the items that the simulator extracts, those of which the
/// sender has computed the row and sends the mask.
#[test]
fn a_malicious_sender_has_the_items_that_are_extracted() {
    const COUNT: usize = 60;
    let params = against_senders(COUNT, COUNT);
    let ours = items(3, COUNT);
    let others = items(4, 10);
    let columns = Slices::new(&params, width(&params, 1)).columns();
    let bits = |block: Block| {
        Choices::from_blocks(Zeroizing::new(vec![block; columns.div_ceil(128)]), columns)
    };
    for (s, is_zero) in [
        (bits(0), true),
        (bits(Block::MAX), false),
        (Choices::random(columns, &mut rng(8)), false),
    ] {
        let (own, sent) = honest(
            |channel| Sparse::<Slices>::new().receive(channel, &params, &ours, (), &mut rng(2)),
            |channel| {
                let message = Slices::new(&params, width(&params, 1));
                let keys = sender_keys(channel, &params, &s, &mut rng(1))?;
                // Rows of more items than it has announced.
                let all = [&ours[..], &others].concat();
                let points = message.sender_points(&all);
                let q = rows::one(&AesBit::new(keys.iter().copied()), &points.points);
                let mut rows = q.clone();
                let row_of_s = rows::row_of_blocks(s.blocks());
                message.read(channel, &points, &row_of_s, &mut rows)?;
                let masks =
                    |items: &[Item], rows: &[Row]| rows::outputs(&with_items(&params, items), rows);
                let mut flipped = masks(&ours[10..20], &rows[10..20]);
                flipped.iter_mut().for_each(|mask| mask[31] ^= 1);
                Ok([
                    masks(&ours[..10], &rows[..10]),
                    flipped,
                    // The rows of other items.
                    masks(&ours[20..30], &rows[30..40]),
                    // No look at the message.
                    masks(&ours[40..50], &q[40..50]),
                    masks(&others, &rows[COUNT..]),
                    // The same again.
                    masks(&ours[..10], &rows[..10]),
                ]
                .concat())
            },
        );
        let Outputs::Long(own) = own else {
            panic!("outputs of 256 bits were expected");
        };
        assert_eq!(sent.len(), COUNT);
        let found: Vec<usize> = (0..COUNT).filter(|i| sent.contains(&own[*i])).collect();
        // The message adds nothing to the rows of a sender whose bits are all 0.
        let unread = if is_zero { 40..50 } else { 0..0 };
        assert_eq!(found, (0..10).chain(unread).collect::<Vec<_>>());
    }
}

/// Other widths.
#[test]
fn other_settings_serve() {
    fn serves<M: Message>() {
        let ours = items(3, 70);
        let theirs = [&ours[20..40], &items(4, 50)].concat();
        for lambda in [20, 64] {
            let params = Params {
                lambda,
                ..params(70, 70)
            };
            meets::<M>(run::<M>(&params, &ours, &theirs), &ours, &theirs);
        }
    }
    serves::<Slices>();
    serves::<Bins>();
    serves::<Store>();
}

/// On ideal base transfers.
#[test]
fn rows_meet_on_ideal_transfers() {
    fn meet<M: Message>() {
        let ours = items(3, 300);
        let theirs = [&ours[100..200], &items(4, 200)].concat();
        let params = params(300, 300);
        let message = M::new(&params, width(&params, M::POINTS));
        let mut rng = rng(1);
        let s = Choices::random(message.columns(), &mut rng);
        let (pairs, keys) = ideal::random_transfers(7, &s);
        let (own, other) = honest(
            |c| receive_with::<M, AesBit>(c, &params, &message, &ours, &pairs, &mut rng),
            |c| send_with::<M, AesBit>(c, &params, &message, &theirs, &s, &keys),
        );
        meets::<M>((own.into_short(), other.into_short()), &ours, &theirs);
    }
    meet::<Slices>();
    meet::<Bins>();
    meet::<Store>();
}

/// What hides the output of an item that the receiver does not hold is at least 128 bits of s: the
/// matrix has as many columns as the bound asks for, and the message differs from the row in half of them.
#[test]
fn other_rows_are_far_from_the_message() {
    fn far<M: Message>() {
        let params = params(200, 1000);
        let width = width(&params, M::POINTS);
        let message = M::new(&params, width);
        assert!(message.columns() >= width && message.columns() <= width + 7);
        let (mut receiving, mut sending) = memory_pair();
        let mut rng = rng(5);
        let keys = |rng: &mut ChaCha12Rng| {
            let mut keys = vec![0u128; message.columns()];
            rng.fill_bytes(bytemuck::must_cast_slice_mut(&mut keys));
            AesBit::new(keys.into_iter())
        };
        let (t, u) = (keys(&mut rng), keys(&mut rng));
        let ours = message.receiver_points(&items(3, 200)).unwrap();
        let (_, rows) = rows::both(&t, &u, &output_oracle(&params), &ours.points);
        message
            .write(&mut receiving, &ours, &rows, &mut rng)
            .unwrap();
        // With s all ones, what is read added to R(x) is P(x) ⊕ R(x).
        let theirs = message.sender_points(&items(4, 1000));
        let (_, mut differences) = rows::both(&t, &u, &output_oracle(&params), &theirs.points);
        let ones: Row = std::array::from_fn(|i| {
            let left = message.columns().saturating_sub(64 * i);
            u64::MAX.checked_shr(64 - left.min(64) as u32).unwrap_or(0)
        });
        message
            .read(&mut sending, &theirs, &ones, &mut differences)
            .unwrap();
        let half = message.columns() as f64 / 2.0;
        let mut sum = 0.0;
        for row in differences.iter() {
            let weight: u32 = row.iter().map(|word| word.count_ones()).sum();
            assert!(weight >= 128);
            sum += f64::from(weight);
        }
        let mean = sum / differences.len() as f64;
        // Six deviations of a mean of as many sums of bits.
        let deviation = (half / 2.0 / differences.len() as f64).sqrt();
        assert!((mean - half).abs() < 6.0 * deviation, "{mean} of {half}");
        // At its own points the message is the row.
        let (mut receiving, mut sending) = memory_pair();
        message
            .write(&mut receiving, &ours, &rows, &mut rng)
            .unwrap();
        let mut own = rows.clone();
        message.read(&mut sending, &ours, &ones, &mut own).unwrap();
        assert!(own.iter().all(|row| *row == [0; 8]));
    }
    far::<Slices>();
    far::<Bins>();
    far::<Store>();
}

#[test]
fn the_widest_matrix_has_room() {
    let each = lambda_each(MAX_LAMBDA, EVENTS);
    assert!(crate::width::width(1 << 27, each).next_multiple_of(8) <= MAX_COLUMNS);
}

/// Of n = 2^r points that are uniform in GF(2^k), two agree or one is of the 2^(r−1) of the transform with
/// probability at most 2^(2r−1−k) + 2^(2r−1−k), for the largest set and the narrowest field.
#[test]
fn points_are_wide_enough() {
    const LOG_MOST: usize = 22;
    for lambda in 1..=MAX_LAMBDA {
        let each = lambda_each(lambda, EVENTS);
        let bits = strings::bits(crate::width::width(1, each));
        if lambda >= 40 {
            assert!(2 * LOG_MOST + each as usize <= bits);
        }
    }
}

#[test]
fn the_smallest_matrix_has_a_field() {
    for lambda in [1, 2, 40, MAX_LAMBDA] {
        for (n_r, n_s) in [(1, 0), (1, 1), (2, 2)] {
            let (ours, theirs) = (items(3, n_r), items(3, n_s));
            let params = Params {
                lambda,
                ..params(n_r, n_s)
            };
            meets::<Slices>(run::<Slices>(&params, &ours, &theirs), &ours, &theirs);
            meets::<Bins>(run::<Bins>(&params, &ours, &theirs), &ours, &theirs);
        }
    }
}

/// Keys depend on what the receiver says after the base transfers.
#[test]
fn another_salt_makes_other_rows() {
    let ours = items(3, 50);
    let (receiving, sending) = memory_pair();
    let receiving = Tamper::new(receiving, 1, Spoil::FlipBit(77));
    let (own, other) = run_over::<Slices>(&params(50, 50), &ours, &ours, receiving, sending);
    let (own, other) = (own.unwrap(), other.unwrap());
    assert!(own.0.iter().all(|mask| !other.0.contains(mask)));
}

/// Every byte of a message is uniform, whatever the items: χ² with 255 degrees of freedom, deviation
/// √510; seven of them allowed.
#[test]
fn messages_look_uniform() {
    fn uniform<M: Message>(kind: vesica_wire::Kind) {
        // So many that no string is missing in a group of eight, in bins either.
        let params = params(640, 1);
        let message = M::new(&params, width(&params, M::POINTS));
        let mut sent = Vec::new();
        for seed in 0..10 {
            let mut rng = rng(seed);
            // The same items with new rows.
            let points = message.receiver_points(&items(3, 640)).unwrap();
            let mut rows = vec![[0; 8]; 640];
            rng.fill_bytes(bytemuck::must_cast_slice_mut(&mut rows));
            for row in &mut rows {
                for (i, word) in row.iter_mut().enumerate() {
                    let left = message.columns().saturating_sub(64 * i);
                    *word &= u64::MAX.checked_shr(64 - left.min(64) as u32).unwrap_or(0);
                }
            }
            let (mut writing, mut reading) = memory_pair();
            message
                .write(&mut writing, &points, &rows, &mut rng)
                .unwrap();
            drop(writing);
            while let Ok(bytes) = reading.recv(kind, 1 << 24) {
                sent.extend(bytes);
            }
        }
        assert!(sent.len() > 200_000);
        let chi = chi_squared(sent);
        assert!((chi - 255.0).abs() < 7.0 * 510f64.sqrt(), "{chi}");
    }
    uniform::<Slices>(SLICE);
    uniform::<Bins>(BINS);
    uniform::<Store>(STORE);
}

/// Frames of the receiver's: the key of the base transfers, the salt, then the message.
#[test]
fn malformed_messages_are_refused() {
    fn refused<M: Message>(kind: Kind, bytes: usize, packed: bool) {
        let (ours, theirs) = (items(3, 50), items(4, 60));
        let params = params(50, 60);
        let found = |spoil| {
            let (receiving, sending) = memory_pair();
            let receiving = Tamper::new(receiving, 2, spoil);
            misbehaviour(run_over::<M>(&params, &ours, &theirs, receiving, sending).1)
        };
        let name = kind.name;
        let short = wrong_length(name, bytes - 1);
        assert_eq!(found(Spoil::Truncate(1)), short);
        let long = too_long(name, bytes + 1, bytes);
        assert_eq!(found(Spoil::Extend(vec![1])), long);
        assert_eq!(found(Spoil::Kind(99)), unexpected(kind, 99));
        if packed {
            let stray = bad_value(name, "bits behind its end");
            assert_eq!(found(Spoil::FlipBit(8 * bytes - 1)), stray);
        }
        // Any strings are a message: nothing matches that should not.
        let (receiving, sending) = memory_pair();
        let receiving = Tamper::new(receiving, 2, Spoil::Replace(vec![0; bytes]));
        let (own, other) = run_over::<M>(&params, &ours, &ours_and(&ours, 10), receiving, sending);
        let (own, other) = (own.unwrap(), other.unwrap());
        assert!(own.0.iter().all(|mask| !other.0.contains(mask)));
    }
    fn ours_and(ours: &[Item], more: usize) -> Vec<Item> {
        [ours, &items(9, more)].concat()
    }
    let width = |points| width(&params(50, 60), points);
    refused::<Slices>(SLICE, width(1).div_ceil(4) * 7, true);
    let each = lambda_each(40, EVENTS);
    let capacity = vesica_encodings::two_choice::Parameters::new(50, each);
    let strings = (capacity.bins * capacity.capacity).div_ceil(8);
    refused::<Bins>(BINS, width(2).div_ceil(4) * strings, false);
    let slots = vesica_encodings::random_band::Parameters::new(50, each).size();
    refused::<Store>(STORE, width(1).div_ceil(8) * slots, false);
}

#[test]
fn equal_items_are_an_error() {
    fn fails<M: Message>() {
        let mut ours = items(3, 50);
        ours[49] = ours[7];
        let params = params(50, 50);
        let (receiving, sending) = memory_pair();
        let (own, _) = run_over::<M>(&params, &ours, &items(4, 50), receiving, sending);
        assert_eq!(limit(own), Limit::Encoding);
    }
    fails::<Slices>();
    fails::<Store>();
}
