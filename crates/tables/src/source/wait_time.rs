//! How long the bytes of a table are waited for.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that readers have spent on waiting for bytes.
#[derive(Clone, Debug)]
pub(crate) struct WaitTime {
    nanoseconds: Arc<AtomicU64>,
    /// Readers that wait side by side, each of whom adds its part of the time.
    readers: u64,
}

impl WaitTime {
    /// No time so far.
    pub(crate) fn nothing() -> WaitTime {
        WaitTime {
            nanoseconds: Arc::default(),
            readers: 1,
        }
    }

    /// The same time, for one of so many readers that wait side by side.
    #[cfg(feature = "parquet")]
    pub(crate) fn shared_by(&self, readers: usize) -> WaitTime {
        WaitTime {
            readers: self.readers * readers as u64,
            ..self.clone()
        }
    }

    /// So much so far.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// What `read` returns, whose time counts.
    pub(crate) fn count<T>(&self, read: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let value = read();
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds
            .fetch_add(nanoseconds / self.readers, Ordering::Relaxed);
        value
    }

    /// A reader whose time counts.
    pub(crate) fn timed<R>(&self, reader: R) -> Timed<R> {
        Timed {
            reader,
            wait_time: self.clone(),
        }
    }
}

pub(crate) struct Timed<R> {
    reader: R,
    wait_time: WaitTime,
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_time.count(|| self.reader.read(buffer))
    }
}

impl<R: Seek> Seek for Timed<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.reader.seek(to)
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
        let wait_time = WaitTime::nothing();
        let mut text = String::new();
        wait_time.timed(Slow(4)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "xxxx");
        let so_far = wait_time.time();
        assert!(so_far >= Duration::from_millis(50), "{so_far:?}");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(wait_time.time(), so_far);
        wait_time
            .timed(&[7; 100][..])
            .read_exact(&mut [0; 100])
            .unwrap();
        assert!(wait_time.time() < so_far + Duration::from_millis(50));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn readers_side_by_side_wait_as_long_as_one() {
        let wait_time = WaitTime::nothing();
        let one = wait_time.shared_by(5);
        let began = Instant::now();
        for _ in 0..5 {
            one.timed(Slow(1)).read_exact(&mut [0]).unwrap();
        }
        let fifth = began.elapsed() / 5;
        assert!(wait_time.time() > Duration::ZERO && wait_time.time() <= fifth);
    }
}
