//! How much memory this process has held.

/// Peak memory of this process, in bytes; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    // Not getrusage: its maximum outlives exec, so that a small child of a large parent looks large.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Peak memory of this process, in bytes; `None` where the system does not tell.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let most = getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss();
    let unit = if cfg!(target_vendor = "apple") {
        1
    } else {
        1024
    };
    u64::try_from(most).ok().map(|most| most * unit)
}

/// Peak memory of this process, in bytes; `None` where the system does not tell.
#[cfg(windows)]
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    vesica_kernels::windows::peak_memory()
}
