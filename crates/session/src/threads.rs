//! How many threads a run computes on.

use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};
use vesica_wire::Error as WireError;

use crate::Error;
use crate::terms::MAX_BUCKETS_AT_ONCE;

/// Stack of each thread in bytes: as much as main threads have.
const STACK: usize = 8 << 20;

/// Runs `f` on a pool of this many threads, to which its parallel work is confined. `None` is as many as this
/// machine runs at once.
///
/// Fails with a resource error when no threads can be created.
pub fn with_threads<T: Send>(
    threads: Option<NonZeroUsize>,
    f: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    let pool = thread_pool(threads.map_or(0, NonZeroUsize::get))?;
    Ok(pool.install(f))
}

/// Threads that one bucket makes good use of. Buckets side by side are smaller ones, with more padding and more traffic.
const THREADS_OF_A_BUCKET: usize = 2;

/// As many buckets at once as pay for the threads of the pool that asks.
pub fn buckets_for_threads() -> u32 {
    let buckets = rayon::current_num_threads() / THREADS_OF_A_BUCKET;
    let buckets = u32::try_from(buckets).unwrap_or(u32::MAX);
    buckets.clamp(1, MAX_BUCKETS_AT_ONCE)
}

/// Threads to compute on, 0 for as many as this machine runs at once.
pub(crate) fn thread_pool(threads: usize) -> Result<ThreadPool, WireError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("vesica-{i}"))
        .stack_size(STACK);
    pool.build().map_err(WireError::no_thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_threads_that_it_asked_for() {
        for threads in [1, 3] {
            let seen = with_threads(NonZeroUsize::new(threads), rayon::current_num_threads);
            assert_eq!(seen.unwrap(), threads);
        }
        assert!(with_threads(None, rayon::current_num_threads).unwrap() > 0);
    }

    #[test]
    fn few_threads_work_on_one_bucket() {
        for (threads, buckets) in [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)] {
            let found = with_threads(NonZeroUsize::new(threads), buckets_for_threads);
            assert_eq!(found.unwrap(), buckets, "{threads}");
        }
    }
}
