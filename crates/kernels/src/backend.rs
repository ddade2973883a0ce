//! Which versions of the kernels run.

use std::sync::atomic::{AtomicU8, Ordering};

/// A version of the kernels, each faster than those before it. A kernel that lacks a version, or runs on a
/// machine that does, takes the next one down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Backend {
    /// The version that defines the meaning.
    Portable,
    /// 256-bit registers, AES-NI and PCLMULQDQ.
    Avx2,
    /// GFNI besides: processors of recent years without AVX-512.
    Gfni,
    /// The best that this machine offers, up to [`limit`].
    Best,
}

/// The best version that this process runs: any, unless it was compiled with `--cfg vesica_portable`.
static LIMIT: AtomicU8 = AtomicU8::new(match cfg!(vesica_portable) {
    true => Backend::Portable as u8,
    false => Backend::Best as u8,
});

/// Lets no kernel of this process run a better version than `backend`: for measurements.
pub fn limit(backend: Backend) {
    LIMIT.store(backend as u8, Ordering::Relaxed);
}

impl Backend {
    /// All of them, for tests.
    pub const ALL: [Backend; 4] = [
        Backend::Portable,
        Backend::Avx2,
        Backend::Gfni,
        Backend::Best,
    ];

    /// Whether a version that needs `version` may run where this one is asked for.
    #[inline]
    pub(crate) fn allows(self, version: Backend) -> bool {
        version as u8 <= LIMIT.load(Ordering::Relaxed).min(self as u8)
    }
}

/// The first of some versions of a kernel that may run, or the portable one: in a function that takes `backend`
/// and returns the kernel's result. The condition of a version says that the CPU has the features for which the
/// called function was compiled.
macro_rules! first_version {
    ($backend:ident: $($arch:literal if $available:expr => $call:expr;)* else $portable:expr) => {{
        $(
            #[cfg(target_arch = $arch)]
            if $available {
                #[allow(unused_unsafe, reason = "names of versions are chosen like calls")]
                // SAFETY: the CPU has the features that the function was compiled for.
                return unsafe { $call };
            }
        )*
        let _ = $backend;
        $portable
    }};
}
pub(crate) use first_version;
