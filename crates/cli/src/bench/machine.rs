//! The machine.

/// Processor, cores and system, in a line.
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
    format!("{model}, {cores} cores, {os} {arch}")
}
