//! How long the bytes of a table are waited for.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that readers have spent on waiting for bytes, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waited(Arc<AtomicU64>);

impl Waited {
    /// So much so far.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// A reader whose time counts.
    pub(crate) fn timed<R: Read>(&self, reader: R) -> Timed<R> {
        Timed {
            reader,
            waited: self.clone(),
        }
    }
}

pub(crate) struct Timed<R> {
    reader: R,
    waited: Waited,
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        let read = self.reader.read(buffer);
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.0.fetch_add(nanoseconds, Ordering::Relaxed);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes its time for each of so many bytes.
    struct Slow(u32);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(10));
            let left = self.0.min(1);
            self.0 -= left;
            buffer[..left as usize].fill(b'x');
            Ok(left as usize)
        }
    }

    #[test]
    fn time_in_reads_counts_and_no_other() {
        let waited = Waited::default();
        let mut text = String::new();
        waited.timed(Slow(4)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "xxxx");
        let so_far = waited.time();
        assert!(so_far >= Duration::from_millis(50), "{so_far:?}");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(waited.time(), so_far);
        waited
            .timed(&[7; 100][..])
            .read_exact(&mut [0; 100])
            .unwrap();
        assert!(waited.time() < so_far + Duration::from_millis(50));
    }
}
