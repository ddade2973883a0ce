//! The machine: its name, its speed, and how much memory this process has held.

use std::time::{Duration, Instant};

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// Processor, cores and system, in a line.
pub(super) fn describe() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{model}, {cores} cores, {os} {arch}")
}

/// Fixed-key AES-128 encryptions per second on one core, in batches of 256 blocks: a yardstick for comparing
/// absolute times between machines. The median of several measurements.
pub(super) fn aes_blocks_per_second() -> u64 {
    const BATCH: usize = 256;
    const SAMPLES: usize = 15;
    let cipher = Aes128::new(&Array::from([7; 16]));
    let mut blocks = [Array::from([0; 16]); BATCH];
    let mut speeds = [0u64; SAMPLES];
    for speed in &mut speeds {
        let (start, mut count) = (Instant::now(), 0u64);
        while start.elapsed() < Duration::from_millis(20) {
            for _ in 0..64 {
                cipher.encrypt_blocks(std::hint::black_box(&mut blocks));
            }
            count += 64 * BATCH as u64;
        }
        *speed = (count as f64 / start.elapsed().as_secs_f64()) as u64;
    }
    speeds.sort_unstable();
    speeds[SAMPLES / 2]
}

/// Peak memory of this process, in bytes; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn peak_memory_bytes() -> Option<u64> {
    // Not getrusage: its maximum outlives exec, so that a small child of a large parent looks large.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Peak memory of this process, in bytes; `None` where the system does not tell.
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) fn peak_memory_bytes() -> Option<u64> {
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
#[cfg(not(unix))]
pub(super) fn peak_memory_bytes() -> Option<u64> {
    None
}
