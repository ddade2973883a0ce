//! The machine.

use vesica_kernels::Backend;

/// Processor, the instruction sets that kernels take, cores and system, in a line.
///
/// Virtual machines give processors with different instruction sets the same name.
pub(crate) fn describe() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let kernels = vesica_kernels::backends(Backend::Best);
    let mut sets: Vec<&str> = kernels
        .map(|(_, of)| of.split(',').next().unwrap_or(of))
        .into();
    sets.sort_unstable();
    sets.dedup();
    format!("{model} ({}), {cores} cores, {os} {arch}", sets.join(" "))
}
