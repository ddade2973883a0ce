//! Protocol messages: each side of each protocol against a peer that sends the fuzzer's bytes, and
//! the mask exchange alone.

use std::collections::HashSet;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_plan::Registry;
use vesica_psi::masks::Exchange;
use vesica_psi::{
    Exact, Half, Input, Item, KeyAgreement, Output, Params, Prepared, Protocol, Reveal, Reveals,
    Security, StringBytes, Task, Values,
};
use vesica_wire::{Channel, Error};

use crate::record::{Recordings, received};
use crate::script::{HONEST, Script};

/// Set in the first byte: the weakest security that the protocol has.
pub const WEAK: u8 = 0x80;

/// Set in the first byte: both sides learn the matches. Circuit PSI has none of it.
pub const BOTH: u8 = 0x40;

/// What circuit PSI reveals, the minimum, and how many values receiver and sender have; the bits of the second byte from
/// the fifth on choose one.
pub const CIRCUITS: [(&[Reveal], u64, [u8; 2]); 6] = [
    (&[Reveal::Size, Reveal::Sum], 2, [0, 3]),
    (&[Reveal::InnerProduct], 0, [1, 1]),
    (&[Reveal::ThresholdMatches], 2, [0, 0]),
    (&[Reveal::Shares], 0, [1, 1]),
    (&[Reveal::Union], 0, [0, 0]),
    (&[Reveal::Ids], 0, [0, 0]),
];

/// Set in the second byte: a protocol that compares numbers as they are gets hashes all the same.
pub const HASHED: u8 = 0x10;

/// Set in the second byte: a protocol that can hands over labels.
pub const LABELLED: u8 = 0x20;

/// Bytes of a label, and of a string of either side of which both get shares.
const LABEL_BYTES: usize = 9;

/// The sizes of a set; two bits of the second byte choose one.
pub const SIZES: [usize; 4] = [0, 1, 2, 7];

/// A run, as the first two bytes choose it.
struct Run {
    protocol: &'static dyn Protocol,
    params: Params,
    task: Task,
    /// The bits of items that are numbers.
    bits: Option<u32>,
}

/// What the first two bytes choose, and those bytes without what has no meaning.
fn run(choice: u8, sizes: u8) -> (Run, [u8; 2]) {
    let all = Registry::standard().all();
    let number = usize::from(choice & 0x3f) % all.len();
    let protocol = all[number];
    let asked = match choice & WEAK {
        0 => Security::Malicious,
        _ => Security::SemiHonest,
    };
    let run = Run {
        protocol,
        params: Params {
            security: protocol.spec().runs(asked),
            lambda: 40,
            receiver_size: SIZES[usize::from(sizes & 3)],
            sender_size: SIZES[usize::from(sizes >> 2 & 3)],
            key_agreement: KeyAgreement::Classical,
            session: [7; 32],
        },
        bits: match sizes & HASHED {
            0 => protocol.spec().compares(Some(16)).map(|(_, bits)| bits),
            _ => None,
        },
        task: match protocol.reveals().contains(&Reveal::Matches) {
            true => Task {
                both: choice & BOTH != 0,
                label_bytes: match protocol.labels_per_item() {
                    Some(_) if sizes & LABELLED != 0 => LABEL_BYTES,
                    _ => 0,
                },
                ..Task::new(Reveal::Matches)
            },
            false => {
                let number = usize::from(sizes >> 4 & 7) % CIRCUITS.len();
                let (reveals, min_size, [receiver, sender]) = CIRCUITS[number];
                let reveals = Reveals::of(reveals).expect("they go together");
                Task {
                    min_size,
                    values: Values { receiver, sender },
                    label_bytes: if reveals.is_rows() { LABEL_BYTES } else { 0 },
                    string_bytes: match reveals == Reveal::Shares {
                        true => StringBytes {
                            receiver: LABEL_BYTES,
                            sender: LABEL_BYTES,
                        },
                        false => StringBytes::default(),
                    },
                    ..Task::new(reveals)
                }
            }
        },
    };
    (run, [choice & 0xc0 | number as u8, sizes & 0x7f])
}

/// Both sides have the first so many of these.
fn items(count: usize) -> Vec<Item> {
    (1..=count as u8).map(|i| [i; 32]).collect()
}

/// The sender's labels, or either side's strings, of so many items.
fn labels(items: usize) -> Vec<u8> {
    (1..=items * LABEL_BYTES).map(|i| i as u8).collect()
}

/// A value of item number i, the same on both sides; none is 0.
fn value(i: usize, column: usize) -> i64 {
    (3 * i as i64 - 10) * (column as i64 + 1)
}

impl Run {
    /// A side's items, which are the first so many of the same sequence, and values if there are any.
    fn set(&self, size: usize, columns: u8) -> (Vec<Item>, Option<Vec<i64>>) {
        let columns = usize::from(columns);
        let values = |i| (0..columns).map(move |column| value(i, column));
        let values = (columns > 0).then(|| (0..size).flat_map(values).collect());
        (items(size), values)
    }

    /// A side's half of what a dealer deals, if the protocol takes that.
    fn dealt(&self, half: Half) -> Option<Prepared> {
        let offline = self
            .protocol
            .offline()
            .filter(|offline| offline.origin().is_dealt())?;
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let [receiver, sender] = offline.deal(&self.params, self.bits, &mut rng).ok()?;
        let bytes = match half {
            Half::Receiver => receiver,
            Half::Sender => sender,
        };
        offline.load(half, &self.params, self.bits, bytes)
    }

    /// A side's input.
    fn input<'a>(
        &self,
        items: &'a [Item],
        numbers: &'a [u64],
        values: Option<&'a [i64]>,
    ) -> Input<'a> {
        let input = Input::with_values(items, values);
        let exact = self.bits.map(|bits| Exact { bits, numbers });
        exact.map_or(input, |exact| input.with_exact(exact))
    }

    /// Whether a side of `own` items has learnt what it should.
    fn is_right(&self, output: &Output, own: usize) -> bool {
        let common = self.params.receiver_size.min(self.params.sender_size);
        let enough = common as u64 >= self.task.min_size;
        let number = |(reveal, column)| {
            let term = |i| match reveal {
                Reveal::Size => 1,
                Reveal::InnerProduct => i128::from(value(i, 0)).pow(2),
                _ => i128::from(value(i, column)),
            };
            (0..common).map(term).sum()
        };
        let expected = match self.task.reveal.last() {
            // Of shares only the shape is known.
            Reveal::Shares => return true,
            Reveal::Union => {
                let all = self::labels(self.params.sender_size);
                let mut expected: Vec<_> =
                    all[common * LABEL_BYTES..].chunks(LABEL_BYTES).collect();
                expected.sort_unstable();
                return match output {
                    Output::Rows(slots) => {
                        let mut rows: Vec<_> = slots.rows().collect();
                        rows.sort_unstable();
                        rows == expected
                    }
                    _ => false,
                };
            }
            Reveal::Ids => {
                let all = self.params.receiver_size.max(self.params.sender_size);
                return match output {
                    Output::Spine(spine) => spine.ids.len() == all,
                    _ => false,
                };
            }
            Reveal::Matches | Reveal::ThresholdMatches => {
                let expected: Vec<bool> = (0..own).map(|i| i < common && enough).collect();
                return match output {
                    Output::Matches(matched) => *matched == expected,
                    Output::Labelled {
                        matched, labels, ..
                    } => {
                        let mut all = self::labels(common);
                        all.resize(own * LABEL_BYTES, 0);
                        *matched == expected && **labels == all
                    }
                    _ => false,
                };
            }
            _ if !enough => Output::Below(self.task.min_size),
            _ => {
                let numbers = self.task.reveal.numbers(self.task.values);
                Output::Values(numbers.into_iter().map(number).collect())
            }
        };
        *output == expected
    }

    /// An output has the right shape whatever the peer sent.
    fn check_shape(&self, output: &Output, own: usize) {
        match output {
            Output::Matches(matches) => assert_eq!(matches.len(), own),
            Output::Labelled {
                matched, labels, ..
            } => {
                assert_eq!((matched.len(), labels.len()), (own, own * LABEL_BYTES));
            }
            Output::Rows(slots) => {
                let count = self.params.sender_size;
                assert_eq!(slots.is_row.len(), count);
                assert_eq!(slots.contents.len(), count * LABEL_BYTES);
            }
            Output::Spine(spine) => {
                assert_eq!(spine.rows.len(), own);
                assert!(spine.ids.is_sorted_by(|one, next| one < next));
                let rows: HashSet<_> = spine.rows.iter().collect();
                assert!(
                    rows.len() == own && rows.iter().all(|row| (**row as usize) < spine.ids.len())
                );
            }
            Output::Shares(shares) => {
                let cells = shares.matches.len();
                let values = [&shares.receiver_values, &shares.sender_values];
                assert!(values.into_iter().flatten().all(|v| v.len() == cells));
                let strings = [&shares.receiver_strings, &shares.sender_strings];
                assert!(strings.iter().all(|all| all.len() == cells * LABEL_BYTES));
                let items = shares.items.iter().flatten().flatten();
                assert!(items.into_iter().all(|item| (*item as usize) < own));
            }
            _ => {}
        }
    }
}

fn receiver(channel: &mut dyn Channel, run: &Run) -> Result<Output, Error> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let (items, values) = run.set(run.params.receiver_size, run.task.values.receiver);
    let dealt = run.dealt(Half::Receiver);
    let prepared = dealt.unwrap_or_else(|| run.protocol.prepare(items.len(), &mut rng));
    let (params, task) = (&run.params, &run.task);
    let numbers: Vec<u64> = (0..items.len() as u64).collect();
    let strings = (run.task.string_bytes.receiver > 0).then(|| labels(items.len()));
    let input = run.input(&items, &numbers, values.as_deref());
    let input = input.with_labels(strings.as_deref());
    let protocol = run.protocol;
    let output = protocol.receive(channel, params, task, input, prepared, &mut rng)?;
    protocol.open_whole(channel, Half::Receiver, params, task, output, &mut rng)
}

fn sender(channel: &mut dyn Channel, run: &Run) -> Result<Output, Error> {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let (items, values) = run.set(run.params.sender_size, run.task.values.sender);
    let numbers: Vec<u64> = (0..items.len() as u64).collect();
    let bytes = run.task.label_bytes.max(run.task.string_bytes.sender);
    let labels = (bytes > 0).then(|| labels(items.len()));
    let input = run.input(&items, &numbers, values.as_deref());
    let input = input.with_labels(labels.as_deref());
    let prepared = run.dealt(Half::Sender).unwrap_or_else(Prepared::nothing);
    let (protocol, params, task) = (run.protocol, &run.params, &run.task);
    let output = protocol.send(channel, params, task, input, prepared, &mut rng)?;
    protocol.open_whole(channel, Half::Sender, params, task, output, &mut rng)
}

/// A receiver whose sender is hostile. The first byte chooses the protocol, [`WEAK`] and [`BOTH`],
/// the second the two sizes, [`LABELLED`] and [`HASHED`] or one of [`CIRCUITS`], the rest is the peer's script.
pub fn psi_receive(bytes: &[u8]) {
    static HONEST: Recordings = Recordings::new();
    let [choice, sizes, script @ ..] = bytes else {
        return;
    };
    let (run, key) = run(*choice, *sizes);
    let honest = HONEST.get(key, || {
        let there = |channel: &mut dyn Channel| drop(sender(channel, &run));
        received(|channel| drop(receiver(channel, &run)), there)
    });
    let mut channel = Script::beside(script, &honest);
    let result = receiver(&mut channel, &run);
    let own = run.params.receiver_size;
    if channel.faithful() {
        assert!(
            result
                .as_ref()
                .is_ok_and(|output| run.is_right(output, own))
        );
    }
    if let Ok(output) = result {
        run.check_shape(&output, own);
    }
}

/// A sender whose receiver is hostile; the input is as that of [`psi_receive`].
pub fn psi_send(bytes: &[u8]) {
    static HONEST: Recordings = Recordings::new();
    let [choice, sizes, script @ ..] = bytes else {
        return;
    };
    let (run, key) = run(*choice, *sizes);
    let honest = HONEST.get(key, || {
        let there = |channel: &mut dyn Channel| drop(receiver(channel, &run));
        received(|channel| drop(sender(channel, &run)), there)
    });
    let mut channel = Script::beside(script, &honest);
    let result = sender(&mut channel, &run);
    let own = run.params.sender_size;
    if channel.faithful() {
        let told = run.task.both || run.task.reveal == Reveal::Shares || run.task.reveal.is_ids();
        assert!(result.as_ref().is_ok_and(|output| match told {
            true => run.is_right(output, own),
            false => *output == Output::Nothing,
        }));
    }
    if let Ok(output) = result {
        run.check_shape(&output, own);
    }
}

/// Set in the third byte of the `masks` target: the party is the sender.
pub const SENDER: u8 = 1;

/// Set in the third byte of the `masks` target: both sides learn the matches.
pub const TOLD: u8 = 2;

/// The mask exchange. The first byte is the width of a mask in bits, less one; the second the two
/// sizes, the receiver's in the lower four bits; the third the role and who learns; the rest is
/// the peer's script. Narrow masks repeat.
pub fn masks(bytes: &[u8]) {
    let [width, sizes, options, script @ ..] = bytes else {
        return;
    };
    let exchange = Exchange {
        width: usize::from(*width) + 1,
        sender_size: usize::from(sizes >> 4),
        masks_per_item: 1,
        receiver_size: usize::from(sizes & 15),
        both: options & TOLD != 0,
    };
    let mut all = [[0; 32]; 15];
    ChaCha20Rng::from_seed([3; 32]).fill_bytes(all.as_flattened_mut());
    let (theirs, own) = (&all[..exchange.sender_size], &all[..exchange.receiver_size]);
    let same = |a: &[u8; 32], b: &[u8; 32]| {
        (0..exchange.width).all(|bit| (a[bit / 8] ^ b[bit / 8]) << (bit % 8) & 0x80 == 0)
    };
    // What an honest sender says depends on nothing that it hears.
    let alone = Exchange {
        both: false,
        ..exchange
    };
    let mut honest = Script::new(&[]);
    assert!(alone.send_bytes(&mut honest, theirs).is_ok());
    let sent = honest.sent();
    if options & SENDER == 0 {
        let mut channel = Script::beside(script, &sent);
        let result = exchange.receive_bytes(&mut channel, own);
        if channel.faithful() {
            let found = own
                .iter()
                .map(|own| theirs.iter().any(|mask| same(mask, own)));
            assert_eq!(result.ok(), Some(found.collect()));
        } else if let Ok(matches) = result {
            assert_eq!(matches.len(), own.len());
        }
    } else {
        let answers = vec![HONEST; sent.len()];
        let mut receiver = Script::beside(&answers, &sent);
        assert!(exchange.receive_bytes(&mut receiver, own).is_ok());
        let answers = receiver.sent();
        let mut channel = Script::beside(script, &answers);
        let result = exchange.send_bytes(&mut channel, theirs);
        if channel.faithful() {
            assert!(result.is_ok());
        }
        if let Ok(Some(matches)) = result {
            assert_eq!(matches.len(), theirs.len());
        }
    }
}
