//! Limits of the machine and of the process.

use std::fmt;
use std::io;
#[cfg(unix)]
use std::path::Component;
use std::path::{Path, PathBuf};

/// Whether `e` says that something has run out: space on a disk, memory, open files.
pub fn is_exhausted(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    let ran_out = matches!(
        e.kind(),
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge | K::OutOfMemory
    );
    ran_out || has_no_descriptors(e)
}

#[cfg(unix)]
fn has_no_descriptors(e: &io::Error) -> bool {
    use nix::errno::Errno;
    let full = [Errno::EMFILE, Errno::ENFILE].map(|errno| errno as i32);
    e.raw_os_error().is_some_and(|code| full.contains(&code))
}

#[cfg(windows)]
fn has_no_descriptors(e: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: i32 = 4;
    const TOO_MANY_SOCKETS: i32 = 10_024;
    matches!(
        e.raw_os_error(),
        Some(TOO_MANY_OPEN_FILES | TOO_MANY_SOCKETS)
    )
}

/// Bytes that this user can write in a directory; `None` if nobody can tell.
#[cfg(unix)]
pub fn free_bytes(directory: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    // Both are as wide as the system has them.
    #[allow(clippy::useless_conversion, reason = "not on every system")]
    let (blocks, bytes) = (
        u64::from(found.blocks_available()),
        u64::from(found.fragment_size()),
    );
    Some(blocks.saturating_mul(bytes))
}

/// Bytes that this user can write in a directory; `None` if nobody can tell.
#[cfg(windows)]
pub fn free_bytes(directory: &Path) -> Option<u64> {
    vesica_kernels::windows::free_space(directory)
}

/// Memory that this process may take, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Approximate, as everything else on the machine takes memory too.
    pub bytes: u64,
    /// What has this limit.
    pub of: LimitOf,
}

/// What limits the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitOf {
    /// All memory of the machine.
    Machine,
    /// A control group, its own or one above: the file that says so.
    ControlGroup(PathBuf),
    /// The address space of the process (`ulimit -v`), or its data (`ulimit -d`).
    Process,
}

impl fmt::Display for LimitOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitOf::Machine => f.write_str("the machine"),
            LimitOf::ControlGroup(file) => write!(f, "the control group of {}", file.display()),
            LimitOf::Process => f.write_str("the process"),
        }
    }
}

/// The least limit of memory that this process is under; `None` if nobody can tell.
#[cfg(unix)]
pub fn memory_limit() -> Option<MemoryLimit> {
    use nix::sys::resource::{Resource, getrlimit};
    let of_process = [Resource::RLIMIT_AS, Resource::RLIMIT_DATA].map(|of| {
        let (bytes, _) = getrlimit(of).ok()?;
        // As wide as the system has it.
        #[allow(clippy::useless_conversion, reason = "not on every system")]
        let bytes = u64::from(bytes);
        let of = LimitOf::Process;
        Some(MemoryLimit { bytes, of })
    });
    let all = [of_machine(Path::new("/"))].into_iter().chain(of_process);
    let groups = of_groups(Path::new("/"));
    all.chain([groups])
        .flatten()
        .min_by_key(|limit| limit.bytes)
}

/// The least limit of memory that this process is under; `None` if nobody can tell.
#[cfg(windows)]
pub fn memory_limit() -> Option<MemoryLimit> {
    let bytes = vesica_kernels::windows::memory()?;
    let of = LimitOf::Machine;
    Some(MemoryLimit { bytes, of })
}

#[cfg(unix)]
fn of_machine(root: &Path) -> Option<MemoryLimit> {
    let total = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kibibytes = total
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"))?;
    let bytes = kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let of = LimitOf::Machine;
    Some(MemoryLimit { bytes, of })
}

/// The least limit of the control groups of this process, version 1 or 2, and of those above them. `root` is `/` but in tests.
#[cfg(unix)]
fn of_groups(root: &Path) -> Option<MemoryLimit> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).ok();
    let (groups, mounts) = (read("proc/self/cgroup")?, read("proc/self/mountinfo")?);
    let groups = groups.lines().filter_map(Group::parse);
    let limits = groups.filter_map(|group| {
        let mut mounts = mounts.lines().filter_map(Mount::parse);
        let mount = mounts.find(|mount| mount.shows(&group))?;
        mount.least(root, &group)
    });
    limits.min_by_key(|limit| limit.bytes)
}

/// A control group of this process.
#[cfg(unix)]
struct Group<'a> {
    is_v2: bool,
    path: &'a Path,
}

#[cfg(unix)]
impl<'a> Group<'a> {
    /// Of a line of `/proc/self/cgroup`, if it has to do with memory.
    fn parse(line: &'a str) -> Option<Group<'a>> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_v2 = controllers.is_empty();
        let counts = is_v2 || controllers.split(',').any(|name| name == "memory");
        let path = Path::new(path);
        counts.then_some(Group { is_v2, path })
    }
}

/// A file system that is mounted.
#[cfg(unix)]
struct Mount<'a> {
    kind: &'a str,
    options: &'a str,
    /// What of the file system is seen there.
    root: &'a Path,
    place: PathBuf,
}

#[cfg(unix)]
impl<'a> Mount<'a> {
    /// Of a line of `/proc/self/mountinfo`.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, place) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        Some(Mount {
            kind,
            options,
            root: Path::new(root),
            place: place.replace("\\040", " ").into(),
        })
    }

    fn shows(&self, group: &Group<'_>) -> bool {
        match group.is_v2 {
            true => self.kind == "cgroup2",
            false => self.kind == "cgroup" && self.options.split(',').any(|name| name == "memory"),
        }
    }

    /// The least limit of a group and of those above it, as far as they are seen.
    fn least(&self, root: &Path, group: &Group<'_>) -> Option<MemoryLimit> {
        let files: &[&str] = match group.is_v2 {
            true => &["memory.max", "memory.high"],
            false => &["memory.limit_in_bytes"],
        };
        // A container may see its own group alone, whatever its name is outside.
        let below = group.path.strip_prefix(self.root).unwrap_or(Path::new(""));
        let is_inside = below
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let below = if is_inside { below } else { Path::new("") };
        let limits = below.ancestors().flat_map(|level| {
            let level = self.place.join(level);
            files.iter().filter_map(move |name| {
                let file = level.join(name);
                let seen = root.join(file.strip_prefix("/").unwrap_or(&file));
                let bytes = std::fs::read_to_string(seen).ok()?.trim().parse().ok()?;
                let of = LimitOf::ControlGroup(file);
                Some(MemoryLimit { bytes, of })
            })
        });
        limits.min_by_key(|limit| limit.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_space_or_no_such_place() {
        let place = tempfile::tempdir().unwrap();
        assert!(free_bytes(place.path()) > Some(0));
        assert_eq!(free_bytes(&place.path().join("nowhere")), None);
    }

    #[cfg(unix)]
    fn limit_of(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let limit = of_groups(root.path())?;
        Some((limit.bytes, limit.of.to_string()))
    }

    #[cfg(unix)]
    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    #[cfg(unix)]
    const V1: &str = "24 18 0:21 / /proc rw - proc proc rw\n\
                      33 32 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      36 32 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[cfg(unix)]
    #[test]
    fn the_least_limit_of_all_levels_counts() {
        let group = ("proc/self/cgroup", "0::/system.slice/job.service/step\n");
        let at = |level: &str, name: &str| format!("sys/fs/cgroup/system.slice{level}/{name}");
        let [own, above, top] =
            ["/job.service/step", "/job.service", ""].map(|of| at(of, "memory.max"));
        let high = at("/job.service", "memory.high");
        let found = limit_of(&[
            group,
            ("proc/self/mountinfo", V2),
            (&own, "max\n"),
            (&above, "5000\n"),
            (&high, "max\n"),
            (&top, "4000\n"),
        ]);
        let of = |file: &str| format!("the control group of /{file}");
        assert_eq!(found, Some((4000, of(&top))));
        let files = [
            group,
            ("proc/self/mountinfo", V2),
            (&above, "5000"),
            (&high, "3000"),
        ];
        assert_eq!(limit_of(&files), Some((3000, of(&high))));
        let unlimited = [group, ("proc/self/mountinfo", V2), (&own, "max")];
        assert_eq!(limit_of(&unlimited), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_first_version_has_a_hierarchy_for_memory() {
        let groups = "9:memory:/slurm/job_7/step_0\n4:cpu,cpuacct:/other\n1:name=systemd:/slurm\n";
        let limit =
            |level: &str| format!("sys/fs/cgroup/memory/slurm{level}/memory.limit_in_bytes");
        let [own, job] = ["/job_7/step_0", "/job_7"].map(limit);
        let files = [
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", V1),
            (&own, "9223372036854771712\n"),
            (&job, "7000\n"),
        ];
        let expected = (7000, format!("the control group of /{job}"));
        assert_eq!(limit_of(&files), Some(expected));
    }

    #[cfg(unix)]
    #[test]
    fn a_container_sees_its_own_group() {
        // Its name outside is known, and what is seen of the hierarchy begins at it; or not even that.
        let mount = V2.replace("0:26 / ", "0:26 /docker/abc ");
        for (name, mount) in [
            ("0::/docker/abc/inner\n", &*mount),
            ("0::/../../elsewhere\n", V2),
        ] {
            let own = ("sys/fs/cgroup/memory.max", "6000\n");
            let files = [
                ("proc/self/cgroup", name),
                ("proc/self/mountinfo", mount),
                own,
            ];
            assert_eq!(
                limit_of(&files).map(|(bytes, _)| bytes),
                Some(6000),
                "{name}"
            );
        }
    }

    #[test]
    fn something_limits_the_memory() {
        let limit = memory_limit().unwrap();
        assert!(limit.bytes > 1 << 20);
        assert!(!limit.of.to_string().is_empty());
    }
}
