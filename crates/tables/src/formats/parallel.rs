//! Work on pieces of a table side by side, whose results are taken in order.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use rayon::Yield;

use crate::error::{Error, Result};

/// Pieces that threads work on, in order.
struct Pending<P, T> {
    /// Each with the bytes that it takes.
    pieces: VecDeque<(usize, Receiver<(P, T)>)>,
    bytes: usize,
}

impl<P, T> Pending<P, T> {
    fn add(&mut self, bytes: usize, done: Receiver<(P, T)>) {
        self.pieces.push_back((bytes, done));
        self.bytes += bytes;
    }

    /// The next piece that is done; `None` if it is not and at most `most` bytes are pending.
    fn next(&mut self, most: usize) -> Option<(P, T)> {
        let (bytes, done) = self.pieces.front()?;
        let done = match done.try_recv() {
            Ok(done) => done,
            Err(_) if self.bytes <= most => return None,
            // The scope passes the panic of another thread on.
            Err(_) => awaited(done)?,
        };
        self.bytes -= bytes;
        self.pieces.pop_front();
        Some(done)
    }
}

/// What a job of another thread sends; `None` if it ended without. Rather than wait, this thread works.
pub(crate) fn awaited<T>(done: &Receiver<T>) -> Option<T> {
    loop {
        match done.try_recv() {
            Ok(done) => return Some(done),
            Err(TryRecvError::Empty) if rayon::yield_now() == Some(Yield::Executed) => {}
            Err(_) => return done.recv().ok(),
        }
    }
}

/// Lets `pieces` hand over pieces, with the bytes of each. All threads do `work` on them; meanwhile this one goes on with
/// `pieces`, and hands each piece with what came of it to `take`, in order. Approximately `most` bytes wait at once; a
/// larger piece does not wait for others.
///
/// An error of `take` is the outer one, and ends `pieces`, which passes it on. The inner one is any other error of
/// `pieces`, once all that came before has been taken.
pub(crate) fn in_parallel<P: Send, T: Send>(
    most: usize,
    pieces: impl FnOnce(&mut dyn FnMut(P, usize) -> Result<()>) -> Result<()>,
    work: impl Fn(&P) -> T + Sync,
    mut take: impl FnMut(P, T) -> Result<()>,
) -> Result<Result<()>> {
    rayon::in_place_scope(|scope| {
        let work = &work;
        let mut pending = Pending {
            pieces: VecDeque::new(),
            bytes: 0,
        };
        let mut has_failed = false;
        let mut take_all = |pending: &mut Pending<P, T>, most| {
            while let Some((piece, found)) = pending.next(most) {
                take(piece, found)?;
            }
            Ok(())
        };
        let handed_over = pieces(&mut |piece, bytes| {
            let (done, receiver) = sync_channel(1);
            scope.spawn(move |_| {
                let found = work(&piece);
                // After an error nobody takes it.
                let _ = done.send((piece, found));
            });
            // Even a piece of nothing is waited for at the end.
            pending.add(bytes.max(1), receiver);
            take_all(&mut pending, most).inspect_err(|_: &Error| has_failed = true)
        });
        if has_failed {
            return handed_over.map(Ok);
        }
        take_all(&mut pending, 0)?;
        Ok(handed_over)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(
        count: u64,
        end: Result<()>,
    ) -> impl FnOnce(&mut dyn FnMut(u64, usize) -> Result<()>) -> Result<()> {
        move |each| {
            (0..count).try_for_each(|number| each(number, number as usize % 3))?;
            end
        }
    }

    #[test]
    fn results_come_in_order_and_errors_in_their_place() {
        let pool = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
        };
        for (threads, most) in [(1, 5), (2, 0), (2, 7), (4, 1000)] {
            let mut taken = Vec::new();
            let ended = pool(threads).install(|| {
                let late = |number: &u64| {
                    std::thread::sleep(std::time::Duration::from_micros(number % 7 * 50));
                    number * number
                };
                in_parallel(
                    most,
                    numbers(200, Err(Error::usage("the end"))),
                    late,
                    |number, square| {
                        taken.push((number, square));
                        Ok(())
                    },
                )
            });
            assert_eq!(ended.unwrap().unwrap_err().to_string(), "the end");
            assert!(taken.iter().copied().eq((0..200).map(|n| (n, n * n))));
            let failed = pool(threads).install(|| {
                in_parallel(
                    most,
                    numbers(200, Ok(())),
                    |number| *number,
                    |number, _| match number {
                        20 => Err(Error::usage("twenty")),
                        _ => {
                            assert!(number < 20);
                            Ok(())
                        }
                    },
                )
            });
            assert_eq!(failed.unwrap_err().to_string(), "twenty");
        }
    }
}
