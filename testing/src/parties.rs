//! Two parties in one process, the first of them on a thread of its own.

use std::thread;

use vesica_wire::{Channel, Error, memory_pair};

/// Runs two parties over channels that are each other's peer. A party's channel is dropped when it returns, so
/// that the other one does not wait for it.
pub fn run_both<A: Send, B>(
    channels: (impl Channel, impl Channel),
    first: impl FnOnce(&mut dyn Channel) -> A + Send,
    second: impl FnOnce(&mut dyn Channel) -> B,
) -> (A, B) {
    let (mut near, mut far) = channels;
    thread::scope(|scope| {
        let first = scope.spawn(move || first(&mut near));
        let second = second(&mut far);
        drop(far);
        (first.join().unwrap(), second)
    })
}

/// As [`run_both`]; a party that fails tells its peer by [`Channel::abort`].
pub fn try_both<A: Send, B>(
    channels: (impl Channel, impl Channel),
    first: impl FnOnce(&mut dyn Channel) -> Result<A, Error> + Send,
    second: impl FnOnce(&mut dyn Channel) -> Result<B, Error>,
) -> (Result<A, Error>, Result<B, Error>) {
    run_both(
        channels,
        |channel| first(channel).inspect_err(|error| channel.abort(error)),
        |channel| second(channel).inspect_err(|error| channel.abort(error)),
    )
}

/// A run over memory that nobody disturbs and in which nobody fails.
pub fn honest<A: Send, B>(
    first: impl FnOnce(&mut dyn Channel) -> Result<A, Error> + Send,
    second: impl FnOnce(&mut dyn Channel) -> Result<B, Error>,
) -> (A, B) {
    let (first, second) = try_both(memory_pair(), first, second);
    (first.unwrap(), second.unwrap())
}
