//! Writing on another thread than the one that has what is to be written.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rayon::Scope;
use vesica_files::catching;

/// What is written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Buffers that wait at most: then whoever has more writes as well.
const MOST_WAITING: usize = 16;

/// Lets `f` write to `out`, buffered. The threads of the pool that this one belongs to, if it has others, write what `f` has
/// handed over, in order; an error of theirs is one of all later writes, and of the flush with which `f` has to end. `out` may not
/// work on these threads itself.
pub(crate) fn in_background<W: Write + Send, T>(
    out: W,
    f: impl FnOnce(&mut (dyn Write + Send)) -> T,
) -> T {
    let has_others = rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1;
    if !has_others {
        return f(&mut BufWriter::with_capacity(BUFFER_BYTES, out));
    }
    let queue = Queue {
        waiting: Mutex::default(),
        out: Mutex::new(out),
    };
    rayon::in_place_scope(|scope| {
        f(&mut BackgroundWriter {
            queue: &queue,
            scope,
            buffer: Vec::with_capacity(BUFFER_BYTES),
        })
    })
}

/// Buffers on their way to a writer.
struct Queue<W> {
    waiting: Mutex<Waiting>,
    /// Who holds it takes buffers out of the queue, so that they stay in order.
    out: Mutex<W>,
}

#[derive(Default)]
struct Waiting {
    full: VecDeque<Vec<u8>>,
    /// Buffers that have been written.
    empty: Vec<Vec<u8>>,
    /// Why nothing more is written.
    failure: Option<io::Error>,
}

impl Waiting {
    fn check(&self) -> io::Result<()> {
        let Some(failure) = &self.failure else {
            return Ok(());
        };
        Err(match failure.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(failure.kind(), failure.to_string()),
        })
    }
}

impl<W: Write> Queue<W> {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits, unless another thread does so.
    fn write_some(&self) {
        match self.out.try_lock() {
            Ok(mut out) => self.write_to(&mut out),
            Err(TryLockError::Poisoned(out)) => self.write_to(&mut out.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Writes all that waits. Returns the writer.
    fn write_all(&self) -> MutexGuard<'_, W> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut W) {
        while let Some(mut buffer) = self.next() {
            let written = catching(|| out.write_all(&buffer));
            let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
            buffer.clear();
            let mut waiting = self.waiting();
            waiting.empty.push(buffer);
            if let Err(failure) = written {
                waiting.full.clear();
                waiting.failure = Some(failure);
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        self.waiting().full.pop_front()
    }
}

/// The end of a queue that is written to.
struct BackgroundWriter<'q, 'scope, W: Write> {
    queue: &'scope Queue<W>,
    scope: &'q Scope<'scope>,
    buffer: Vec<u8>,
}

impl<W: Write> BackgroundWriter<'_, '_, W> {
    /// Puts the buffer into the queue. Returns how many wait.
    fn hand_over(&mut self) -> io::Result<usize> {
        let mut waiting = self.queue.waiting();
        waiting.check()?;
        let empty = waiting.empty.pop();
        let empty = empty.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        let full = std::mem::replace(&mut self.buffer, empty);
        waiting.full.push_back(full);
        Ok(waiting.full.len())
    }
}

impl<W: Write + Send> Write for BackgroundWriter<'_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BUFFER_BYTES - self.buffer.len();
        let some = &bytes[..room.min(bytes.len())];
        self.buffer.extend_from_slice(some);
        if self.buffer.len() == BUFFER_BYTES {
            match self.hand_over()? {
                0..MOST_WAITING => {
                    let queue = self.queue;
                    self.scope.spawn(move |_| queue.write_some());
                }
                _ => drop(self.queue.write_all()),
            }
        }
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()?;
        let mut out = self.queue.write_all();
        self.queue.waiting().check()?;
        out.flush()
    }
}

/// As of other writers with a buffer, what comes before an error is written.
impl<W: Write> Drop for BackgroundWriter<'_, '_, W> {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.hand_over().is_ok() {
            drop(self.queue.write_all());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(f)
    }

    /// Panics.
    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("broken")
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_an_error_of_all_later_writes() {
        let errors = in_pool(2, || {
            in_background(Broken, |out| {
                let _ = out.write_all(&[1; BUFFER_BYTES]);
                [out.flush(), out.write_all(&[1; BUFFER_BYTES]), out.flush()]
            })
        });
        for error in errors {
            assert!(error.unwrap_err().to_string().contains("broken"));
        }
    }

    #[test]
    fn what_comes_before_an_error_is_written() {
        for threads in [1, 2] {
            let mut out = Vec::new();
            in_pool(threads, || {
                in_background(&mut out, |out| {
                    let _ = out.write_all(&[1; BUFFER_BYTES + 1]);
                });
            });
            assert_eq!(out.len(), BUFFER_BYTES + 1);
        }
    }

    /// Takes so many bytes, few at a time.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
        flushed: bool,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = bytes.len().min(100_000).min(self.room);
            if some == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= some;
            self.bytes.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.flushed = true;
            Ok(())
        }
    }

    #[test]
    fn bytes_come_in_order_and_a_full_disk_is_an_error() {
        let lengths = [
            0,
            1,
            1000,
            BUFFER_BYTES - 1,
            BUFFER_BYTES,
            3 * BUFFER_BYTES + 7,
        ];
        let pieces = (0..200u32).map(|i| vec![i as u8; lengths[i as usize % lengths.len()]]);
        let pieces: Vec<_> = pieces.collect();
        let all = pieces.concat();
        for threads in [1, 2, 4] {
            for room in [all.len(), all.len() - 1, all.len() / 2, 0] {
                let mut disk = Disk {
                    bytes: Vec::new(),
                    room,
                    flushed: false,
                };
                let written = in_pool(threads, || {
                    in_background(&mut disk, |out| {
                        pieces.iter().try_for_each(|piece| out.write_all(piece))?;
                        out.flush()
                    })
                });
                match room == all.len() {
                    true => written.unwrap(),
                    false => assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull),
                }
                assert_eq!(disk.bytes, all[..room], "{threads} threads");
                assert_eq!(disk.flushed, room == all.len());
            }
        }
    }
}
