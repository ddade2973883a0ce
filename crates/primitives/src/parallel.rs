//! Loops over the threads of the current rayon pool.
//!
//! A loop takes its tasks from an ordinary iterator: parts of slices, zipped and numbered. Under a lock a thread takes a
//! part of those that are left: neighbours, whose memory is often on one page, and ever fewer, so that all threads end
//! together. A task should take a microsecond at least. Rayon's parallel iterators can do more, but how they split, join and
//! reduce is compiled anew for each loop; here it is a lock and a call. Loops may be nested. If a task panics, the loop does,
//! after its other threads have ended.

use std::iter;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Most items of a task of [`each_item`].
const ITEMS: usize = 1 << 12;

/// Fewest tasks of [`each_item`] for each thread: one that begins late then leaves little to wait for.
const TASKS: usize = 8;

/// Runs all tasks.
pub fn each<I>(tasks: I, work: impl Fn(I::Item) + Sync)
where
    I: ExactSizeIterator + Send,
{
    each_with(tasks, || (), |(), task| work(task));
}

/// Runs all tasks, each with what `scratch` has made for its thread.
pub fn each_with<I, S>(
    tasks: I,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I::Item) + Sync,
) where
    I: ExactSizeIterator + Send,
{
    let threads = tasks.len().clamp(1, rayon::current_num_threads());
    let tasks = Mutex::new(tasks);
    // A function, so that the lock is not held while a task runs.
    let take = |taken: &mut Vec<I::Item>| {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..tasks.len().div_ceil(2 * threads - 1) {
            taken.extend(tasks.next());
        }
    };
    on_threads(threads, &|| {
        let (mut made, mut taken) = (None, Vec::new());
        loop {
            take(&mut taken);
            if taken.is_empty() {
                break;
            }
            for task in taken.drain(..) {
                work(made.get_or_insert_with(&scratch), task);
            }
        }
    });
}

/// Runs tasks until one fails.
///
/// # Errors
/// That of a task that failed.
pub fn try_each<I, E>(tasks: I, work: impl Fn(I::Item) -> Result<(), E> + Sync) -> Result<(), E>
where
    I: ExactSizeIterator + Send,
    E: Send + Sync,
{
    try_each_with(tasks, || (), |(), task| work(task))
}

/// Runs tasks as [`each_with`] does, until one fails.
///
/// # Errors
/// That of a task that failed.
pub fn try_each_with<I, S, E>(
    tasks: I,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I::Item) -> Result<(), E> + Sync,
) -> Result<(), E>
where
    I: ExactSizeIterator + Send,
    E: Send + Sync,
{
    let failure = OnceLock::new();
    each_with(tasks, scratch, |scratch, task| {
        if failure.get().is_none()
            && let Err(error) = work(scratch, task)
        {
            // Of several failures at once, one is enough.
            let _ = failure.set(error);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// What the tasks give, in their order. A result is moved, and its former place is not wiped: secrets belong behind a
/// pointer, or go with the task.
pub fn map<I, T>(tasks: I, work: impl Fn(I::Item) -> T + Sync) -> Vec<T>
where
    I: ExactSizeIterator + Send,
    T: Send,
{
    let mut results: Vec<Option<T>> = iter::repeat_with(|| None).take(tasks.len()).collect();
    each(results.iter_mut().zip(tasks), |(result, task)| {
        *result = Some(work(task));
    });
    let done = |result: Option<T>| result.expect("every task has run");
    results.into_iter().map(done).collect()
}

/// Runs `work` on each item and its number; many items are one task.
pub fn each_item<T: Send>(items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
    let tasks = TASKS * rayon::current_num_threads();
    let at_once = items.len().div_ceil(tasks).clamp(1, ITEMS);
    each(items.chunks_mut(at_once).enumerate(), |(task, items)| {
        for (number, item) in (task * at_once..).zip(items) {
            work(number, item);
        }
    });
}

/// What each item gives, in their order; many items are one task.
pub fn map_items<T, U>(items: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U>
where
    T: Sync,
    U: Clone + Default + Send,
{
    let mut results = vec![U::default(); items.len()];
    each_item(&mut results, |number, result| {
        *result = work(&items[number]);
    });
    results
}

/// Runs `work`, which takes tasks until there are none, on so many threads. Not generic, so that it is compiled once.
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    if threads == 1 {
        return work();
    }
    rayon::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| work());
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(run)
    }

    #[test]
    fn results_are_in_order() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 1000, 100_001] {
                let items: Vec<usize> = (0..count).collect();
                let twice: Vec<usize> = items.iter().map(|item| 2 * item).collect();
                let [tasks, in_parts] = with_threads(threads, || {
                    let tasks = map(items.iter(), |item| 2 * item);
                    [tasks, map_items(&items, |item| 2 * item)]
                });
                assert_eq!(tasks, twice);
                assert_eq!(in_parts, twice);
            }
        }
    }

    #[test]
    fn the_threads_of_the_pool_run_tasks_at_once() {
        let threads = 3;
        let all = Barrier::new(threads);
        let seen = Mutex::new(HashSet::new());
        with_threads(threads, || {
            // None of the first three tasks ends before all have begun.
            each(0..threads, |_| {
                all.wait();
                seen.lock().unwrap().insert(thread::current().id());
            });
        });
        assert_eq!(seen.into_inner().unwrap().len(), threads);
    }

    #[test]
    fn scratch_is_made_once_a_thread_and_only_for_tasks() {
        let made = AtomicUsize::new(0);
        let scratch = || made.fetch_add(1, Ordering::Relaxed);
        with_threads(2, || {
            each_with(0..0, scratch, |_, _| ());
            assert_eq!(made.load(Ordering::Relaxed), 0);
            each_with(0..1000, scratch, |_, _| ());
        });
        assert!((1..=2).contains(&made.into_inner()));
    }

    #[test]
    fn a_failure_ends_the_tasks() {
        let run = AtomicUsize::new(0);
        let fail_from = |first: usize| {
            let work = move |task| if task < first { Ok(()) } else { Err(task) };
            try_each_with(
                0..1000,
                || (),
                |(), task| {
                    run.fetch_add(1, Ordering::Relaxed);
                    work(task)
                },
            )
        };
        assert_eq!(with_threads(1, || fail_from(7)), Err(7));
        assert_eq!(run.swap(0, Ordering::Relaxed), 8);
        assert!(with_threads(3, || fail_from(7)).is_err_and(|task| task >= 7));
        assert!(run.swap(0, Ordering::Relaxed) >= 8);
        assert_eq!(with_threads(3, || fail_from(1000)), Ok(()));
        assert_eq!(run.into_inner(), 1000);
    }

    #[test]
    fn loops_inside_loops_end() {
        for threads in [1, 2, 4] {
            let sums = with_threads(threads, || {
                map(0..100, |i| {
                    map(0..20, |j| map(0..5, |k| i + j + k).iter().sum::<usize>())
                        .iter()
                        .sum::<usize>()
                })
            });
            let sum = |i: usize| 100 * i + 20 * 10 + 5 * 190;
            assert_eq!(sums, (0..100).map(sum).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_of_a_task_is_the_callers() {
        for threads in [1, 3] {
            with_threads(threads, || {
                let loops = || each(0..100, |task| assert_ne!(task, 50));
                assert!(catch_unwind(AssertUnwindSafe(loops)).is_err());
                // The pool is as good as before.
                assert_eq!(map(0..3, |task| task), [0, 1, 2]);
            });
        }
    }
}
