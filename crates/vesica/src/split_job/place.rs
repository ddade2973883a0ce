//! The directory of a job that is not there yet: locked, and empty.
//!
//! Other files could be another job's, whose marks would count as this one's, or somebody's who named the wrong directory. So
//! there may be nothing but what a driver has left that was killed: its lock, files without their names, and what goes with
//! its draft.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use vesica_files::{
    DirectoryKind, is_at, is_unfinished, private_directory, read_regular, remove_unfinished,
};
use vesica_session::Admission;
use vesica_tables::PathKind;

use super::{CALLERS, DRAFT, GATEWAY, JOB, MAX_JOB, SplitJob, cannot};
use crate::apart::check_apart;
use crate::work_dir::{LOCK, take_lock};
use crate::{Error, JobProblem, WorkDirProblem};

/// A directory that no other driver makes a job in, as long as this is held.
pub(crate) struct JobPlace {
    lock: File,
    directory: Directory,
}

/// Goes again with whoever has made it, if nothing has come into it.
struct Directory {
    path: PathBuf,
    is_new: bool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_new {
            // One with a job stays.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl JobPlace {
    /// Makes a directory, or takes over one in which a driver was killed.
    ///
    /// # Errors
    /// Usage: there is none to make it in, or it is something else's. Job: it is unsafe, cannot be locked, or has a job or
    /// other files, of which none is changed. `WorkDir`: another driver has it. Resource: it cannot be made, or what is left
    /// there cannot be removed.
    pub(crate) fn prepare(directory: &Path) -> Result<JobPlace, Error> {
        let is_new = directory.symlink_metadata().is_err();
        check_apart(&[], None, |paths| {
            paths.writes(
                "the job",
                PathKind::Directory(DirectoryKind::Job),
                directory,
            );
        })?;
        let safe = private_directory(directory).map_err(|e| cannot(directory, &e))?;
        let made = Directory {
            path: directory.to_owned(),
            is_new,
        };
        if let Some(reason) = safe {
            return Err(problem(directory, JobProblem::Unsafe(reason)));
        }
        // Nothing is made in a directory that is refused.
        leftovers(directory)?;
        let place = JobPlace {
            directory: made,
            lock: take_lock(directory).map_err(|error| match error {
                // It is for tasks on other machines, too, unlike that of a run.
                Error::WorkDir {
                    problem: WorkDirProblem::NoLocks,
                    path,
                } => problem(&path, JobProblem::NoLocks),
                error => error,
            })?,
        };
        let draft = leftovers(directory)?;
        draft
            .map_or(Ok(()), |draft| draft.remove())
            .and_then(|()| remove_unfinished(directory))
            .map_err(|e| cannot(directory, &e))?;
        Ok(place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory.path
    }
}

impl Drop for JobPlace {
    fn drop(&mut self) {
        let path = self.path().join(LOCK);
        if is_at(&self.lock, &path) {
            // One that stays is empty, and is taken again.
            let _ = fs::remove_file(path);
        }
    }
}

fn problem(directory: &Path, problem: JobProblem) -> Error {
    Error::Job {
        path: directory.to_owned(),
        problem,
    }
}

/// The draft of a driver that was killed in this directory, if there is one. Refuses a directory with anything else.
fn leftovers(directory: &Path) -> Result<Option<SplitJob>, Error> {
    if directory.join(JOB).symlink_metadata().is_ok() {
        return Err(problem(directory, JobProblem::Taken));
    }
    let draft = SplitJob::read(directory, DRAFT).ok();
    for name in names(directory).map_err(|e| cannot(directory, &e))? {
        let is_own = match &name[..] {
            LOCK => (directory.join(LOCK).symlink_metadata())
                .is_ok_and(|lock| lock.is_file() && lock.len() == 0),
            name => is_unfinished(name) || draft.as_ref().is_some_and(|draft| draft.has_left(name)),
        };
        if !is_own {
            return Err(problem(directory, JobProblem::OtherFiles(name)));
        }
    }
    Ok(draft)
}

/// The names of the files in a directory, in order.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| {
        let name = entry?.file_name();
        Ok(name.to_string_lossy().into_owned())
    };
    let mut names = fs::read_dir(directory)?
        .map(name)
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

impl SplitJob {
    /// Whether a file in the directory is this job's, as far as it has come before tasks begin.
    fn has_left(&self, name: &str) -> bool {
        let path = self.directory.join(name);
        match name {
            JOB | DRAFT => {
                let job = SplitJob::read(&self.directory, name);
                job.is_ok_and(|job| job.key == self.key)
            }
            GATEWAY => {
                let admission = Admission::of(&self.agreement).to_json();
                read_regular(&path, MAX_JOB).is_ok_and(|text| text[..] == admission[..])
            }
            _ if CALLERS.contains(&name) => true,
            _ => (0..self.contract().buckets).any(|bucket| name == SplitJob::keys_name(bucket)),
        }
    }

    /// Removes what this job has left, so that no task begins it and another one may have its directory.
    fn remove(&self) -> io::Result<()> {
        let mut names = names(&self.directory)?;
        names.retain(|name| self.has_left(name));
        // Tasks go by the first. The last says whose the others are.
        names.sort_by_key(|name| match &name[..] {
            JOB => 0,
            DRAFT => 2,
            _ => 1,
        });
        let remove = |name| fs::remove_file(self.directory.join(name));
        names.into_iter().try_for_each(remove)
    }

    /// Gives up a job that the peer does not have. Nothing of others is removed.
    pub(crate) fn discard(&self) {
        let _ = self.remove();
    }

    /// Removes a bucket that was cut after the driver had given up.
    pub(super) fn check_wanted(&self, bucket: u32) -> Result<(), Error> {
        // In this order: there is the job before the draft goes.
        let is_gone = |name| matches!(self.directory.join(name).try_exists(), Ok(false));
        if !(is_gone(DRAFT) && is_gone(JOB)) {
            return Ok(());
        }
        let _ = fs::remove_file(self.directory.join(SplitJob::keys_name(bucket)));
        let why = "its driver has given it up".to_owned();
        Err(self.problem(JobProblem::NoJob(why)))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use vesica_session::terms::SECURITY;
    use vesica_session::{BoundListener, Endpoint, Identity, Listener, NoProgress, Role, Security};
    use vesica_tables::{KeySpec, Source, SourceOptions};

    use super::*;
    use crate::{ErrorClass, Party, RemoteKeys, Tasks, WorkDirProblem};

    const TASKS: Tasks = Tasks {
        memory: 1 << 30,
        attempts: 3,
        valid_for: Duration::from_secs(60),
    };

    /// Splits ten keys of one table in memory and ten that are elsewhere, which `cut` cuts up.
    fn split_elsewhere(
        place: &Path,
        cut: impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, Error> + Send,
    ) -> [Result<SplitJob, Error>; 2] {
        let [near, far] = [(), ()].map(|()| Identity::generate().unwrap());
        let key = KeySpec::parse("key", &[] as &[&str]).unwrap();
        let listener = BoundListener::new(Listener::bind("127.0.0.1:0").unwrap());
        let connects = Endpoint::Connect(listener.local_addr().to_string());
        let party = |own, peer: &Identity, endpoint| {
            Party::new(own, peer.fingerprint(), endpoint).with(&SECURITY, Security::SemiHonest)
        };
        let rows: String = (0..10).map(|key| format!("k{key}\n")).collect();
        let table = format!("key\n{rows}").into_bytes();
        let table = Source::from_bytes("table.csv", table, SourceOptions::default()).unwrap();
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let (party, directory) = (party(&far, &near, connects), place.join("far"));
                let (role, open) = (Role::Sender, || Ok(&table));
                party.split(role, open, &key, &directory, TASKS, &mut NoProgress)
            });
            let party = party(&near, &far, Endpoint::Bound(listener));
            let (role, directory) = (Role::Receiver, place.join("near"));
            let count = || Ok(10);
            let keys = RemoteKeys { count, cut };
            let receiver =
                party.split_elsewhere(role, keys, &key, &directory, TASKS, &mut NoProgress);
            [receiver, sender.join().unwrap()]
        })
    }

    fn all(draft: &SplitJob) -> Result<Vec<[u8; 32]>, Error> {
        let draft = SplitJob::open_draft(draft.directory())?;
        let digests = (0..10).map(|key| [key; 32]).collect();
        Ok(vec![draft.cut(0, digests, Vec::new())?])
    }

    #[test]
    fn a_directory_is_locked_until_there_is_a_job() {
        let place = tempfile::tempdir().unwrap();
        let [near, far] = split_elsewhere(place.path(), |draft| {
            let hashes = all(draft)?;
            let before = names(draft.directory()).unwrap();
            let other = JobPlace::prepare(draft.directory()).err().unwrap();
            assert!(
                matches!(
                    other,
                    Error::WorkDir {
                        problem: WorkDirProblem::InUse,
                        ..
                    }
                ),
                "{other}"
            );
            assert_eq!(other.class(), ErrorClass::Usage);
            assert_eq!(names(draft.directory()).unwrap(), before);
            Ok(hashes)
        });
        for job in [near.unwrap(), far.unwrap()] {
            let expected = ["bucket-0.keys", GATEWAY, JOB];
            assert_eq!(names(job.directory()).unwrap(), expected);
            let other = JobPlace::prepare(job.directory()).err().unwrap();
            assert_eq!(other.class(), ErrorClass::Usage);
            assert_eq!(names(job.directory()).unwrap(), expected);
        }
    }

    #[test]
    fn a_job_that_fails_removes_its_own_files_alone() {
        let place = tempfile::tempdir().unwrap();
        let mut late = None;
        let [near, far] = split_elsewhere(place.path(), |draft| {
            let hashes = all(draft)?;
            late = Some(SplitJob::open_draft(draft.directory())?);
            for name in [GATEWAY, "notes"] {
                fs::write(draft.directory().join(name), "theirs").unwrap();
            }
            Ok(hashes)
        });
        assert_eq!(near.err().unwrap().class(), ErrorClass::Resource);
        assert!(far.is_err());
        let near = place.path().join("near");
        assert!(!place.path().join("far").exists());
        // Who cuts a bucket later leaves nothing.
        let late = late.unwrap().cut(0, Vec::new(), Vec::new());
        assert_eq!(late.err().unwrap().class(), ErrorClass::Data);
        assert_eq!(names(&near).unwrap(), [GATEWAY, "notes"]);
        assert_eq!(fs::read(near.join(GATEWAY)).unwrap(), b"theirs");
    }

    #[test]
    fn what_a_killed_driver_leaves_makes_room() {
        let place = tempfile::tempdir().unwrap();
        let killed = place.path().join("killed");
        let [near, _] = split_elsewhere(place.path(), |draft| {
            let hashes = all(draft)?;
            fs::create_dir(&killed).unwrap();
            for name in [DRAFT, "bucket-0.keys"] {
                fs::copy(draft.directory().join(name), killed.join(name)).unwrap();
            }
            Ok(hashes)
        });
        let gateway = near.unwrap().directory().join(GATEWAY);
        private_directory(&killed).unwrap();
        for name in [CALLERS[0], CALLERS[1], LOCK] {
            fs::write(killed.join(name), "").unwrap();
        }
        // No bucket of that job, and no gateway's file of it.
        for name in ["bucket-1.keys", GATEWAY] {
            fs::write(killed.join(name), "theirs").unwrap();
            let before = names(&killed).unwrap();
            let refused = JobPlace::prepare(&killed).err().unwrap();
            let expected = JobProblem::OtherFiles(name.into());
            assert!(matches!(refused, Error::Job { problem, .. } if problem == expected));
            assert_eq!(names(&killed).unwrap(), before);
            fs::remove_file(killed.join(name)).unwrap();
        }
        fs::copy(gateway, killed.join(GATEWAY)).unwrap();
        let taken = JobPlace::prepare(&killed).unwrap();
        assert_eq!(names(&killed).unwrap(), [LOCK]);
        drop(taken);
        assert_eq!(names(&killed).unwrap(), [""; 0]);
    }
}
