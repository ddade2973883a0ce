//! Protocol messages: each side of each protocol against a peer that sends the fuzzer's bytes, and
//! the mask exchange alone.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_plan::Registry;
use vesica_psi::masks::Exchange;
use vesica_psi::{Input, Item, Output, Params, Protocol, Reveal, Security, Task};
use vesica_wire::{Channel, Error};

use crate::record::{Recordings, received};
use crate::script::{HONEST, Script};

/// Set in the first byte: the weakest security that the protocol has.
pub const WEAK: u8 = 0x80;

/// Set in the first byte: both sides learn the matches.
pub const BOTH: u8 = 0x40;

/// The sizes of a set; two bits of the second byte choose one.
pub const SIZES: [usize; 4] = [0, 1, 2, 7];

/// A run, as the first two bytes choose it.
struct Run {
    protocol: &'static dyn Protocol,
    params: Params,
    task: Task,
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
            session: [7; 32],
        },
        task: Task {
            both: choice & BOTH != 0,
            ..Task::new(Reveal::Matches)
        },
    };
    (run, [choice & 0xc0 | number as u8, sizes & 15])
}

/// Both sides have the first so many of these.
fn items(count: usize) -> Vec<Item> {
    (1..=count as u8).map(|i| [i; 32]).collect()
}

/// The items that both sides have.
fn common(params: &Params, own: usize) -> Vec<bool> {
    let common = params.receiver_size.min(params.sender_size);
    (0..own).map(|i| i < common).collect()
}

fn receiver(channel: &mut dyn Channel, run: &Run) -> Result<Vec<bool>, Error> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let items = items(run.params.receiver_size);
    let prepared = run.protocol.prepare(items.len(), &mut rng);
    let (params, task, input) = (&run.params, &run.task, Input::new(&items));
    let output = run
        .protocol
        .receive(channel, params, task, input, prepared, &mut rng)?;
    Ok(matches(output).expect("a receiver learns the matches"))
}

fn sender(channel: &mut dyn Channel, run: &Run) -> Result<Option<Vec<bool>>, Error> {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let items = items(run.params.sender_size);
    let input = Input::new(&items);
    let output = run
        .protocol
        .send(channel, &run.params, &run.task, input, &mut rng)?;
    Ok(matches(output))
}

fn matches(output: Output) -> Option<Vec<bool>> {
    match output {
        Output::Matches(matches) => Some(matches),
        _ => None,
    }
}

/// A receiver whose sender is hostile. The first byte chooses the protocol, [`WEAK`] and [`BOTH`],
/// the second the two sizes, the rest is the peer's script.
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
    if channel.faithful() {
        assert_eq!(
            result.ok(),
            Some(common(&run.params, run.params.receiver_size))
        );
    } else if let Ok(matches) = result {
        assert_eq!(matches.len(), run.params.receiver_size);
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
    if channel.faithful() {
        let told = run
            .task
            .both
            .then(|| common(&run.params, run.params.sender_size));
        assert_eq!(result.ok(), Some(told));
    } else if let Ok(Some(matches)) = result {
        assert_eq!(matches.len(), run.params.sender_size);
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
