//! What a command needs from its process that the standard library cannot do safely.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was open when the process started.
///
/// The runtime opens `/dev/null` in its place before `main`, so that writing to a closed standard output
/// succeeds and goes nowhere; this is looked up earlier. `true` where it cannot be known.
pub fn standard_output_was_open() -> bool {
    #[cfg(target_os = "linux")]
    {
        !at_start::STDOUT_CLOSED.load(Ordering::Relaxed)
    }
    #[cfg(not(target_os = "linux"))]
    true
}

#[cfg(target_os = "linux")]
mod at_start {
    use super::{AtomicBool, Ordering};

    pub(super) static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

    extern "C" fn look() {
        // SAFETY: asking for the flags of a descriptor changes nothing, and fails if it is closed.
        let closed = unsafe { libc::fcntl(1, libc::F_GETFD) } == -1;
        STDOUT_CLOSED.store(closed, Ordering::Relaxed);
    }

    // SAFETY: the C library calls each pointer of this section once, before `main`. `look` uses
    // nothing of the Rust runtime, which is not set up yet.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail with `EFBIG`; otherwise the signal
/// `SIGXFSZ` ends the process.
pub fn ignore_file_size_signal() {
    #[cfg(target_os = "linux")]
    // SAFETY: ignoring a signal installs no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Keeps what is in the memory of this process out of core dumps and away from other processes of this user. Debuggers
/// and tracers cannot attach from now on.
pub fn leave_no_core() {
    #[cfg(target_os = "linux")]
    // SAFETY: both change limits of this process only; the struct outlives the call.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // A program that takes cores in the kernel's place (`core_pattern`) is not bound by the limit.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// An allocator that ends the process where `A` has no memory left: it prints `message` to standard
/// error and exits with `code`. The standard library would abort instead.
///
/// No destructor runs. Allocations that are allowed to fail (`try_reserve`) end the process too.
pub struct OrExit<A> {
    /// The allocator.
    pub allocator: A,
    /// What is printed, line end included.
    pub message: &'static str,
    /// The exit code.
    pub code: u8,
    /// Whether it does so; otherwise it hands the failure on, as `A` alone would.
    pub exits: AtomicBool,
}

impl<A> OrExit<A> {
    fn checked(&self, block: *mut u8) -> *mut u8 {
        if block.is_null() && self.exits.load(Ordering::Relaxed) {
            self.exit();
        }
        block
    }

    #[cold]
    #[cfg(target_os = "linux")]
    fn exit(&self) {
        // SAFETY: both calls are allowed anywhere, even in a signal handler; neither allocates. The
        // message is valid for its length.
        unsafe {
            libc::write(2, self.message.as_ptr().cast(), self.message.len());
            libc::_exit(self.code.into());
        }
    }

    #[cold]
    #[cfg(windows)]
    fn exit(&self) {
        crate::windows::end(self.message, self.code);
    }

    /// Leaves it to the standard library.
    #[cfg(not(any(target_os = "linux", windows)))]
    fn exit(&self) {}
}

// SAFETY: every call is handed on; what comes back is what `A` gave.
unsafe impl<A: GlobalAlloc> GlobalAlloc for OrExit<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are handed on.
        self.checked(unsafe { self.allocator.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are handed on.
        self.checked(unsafe { self.allocator.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { self.allocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are handed on.
        self.checked(unsafe { self.allocator.realloc(block, layout, new_size) })
    }
}
