//! Fetching: the files of a published set from its server, from where an earlier attempt was cut.
//!
//! A file comes as `NAME.part`, and gets its name once all of it is verified. Its header is checked as soon as it is here: no
//! more is written than a file with that header can have.

use std::ffi::OsString;
use std::fs::{File, remove_file, rename};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use vesica_files::{NotLocked, is_at, is_exhausted, lock, open_own, sync_name};
use vesica_session::codec::differ;
use vesica_session::{Deadline, Fingerprint, Progress};
use vesica_wire::{Error as WireError, FramedChannel, Limit, recv_exact};

use crate::client::Client;
use crate::error::{Error, SetProblem};
use crate::header::Header;
use crate::messages::{Announced, FILE, FILE_BYTES, Lacking, PART};
use crate::set::{
    PublishedSet, check_replaceable, later_releases, max_file_bytes, read_head, release_path,
    signed_beginning, verify_release,
};

/// At most so many bytes that have come give a fetch more time than it has from the start: some eight days' worth. What a
/// server announces gives none.
const MAX_TIMED: u64 = 8 << 30;

/// Gives a fetch the time that so many bytes take, once they have come.
type Allow<'a> = &'a dyn Fn(u64);

impl Client {
    /// Over a channel to the server of a set, after fetching the releases that are missing beside the file at this path, or
    /// all, within the time that the deadline gives to the bytes that have come. Returns the set too, and how many bytes of files have
    /// come. Fetching again goes on where it was cut.
    ///
    /// # Errors
    /// Contract: the server has another key than the files here, fewer releases, or does not hand out files. Peer: what it
    /// hands out is not what its publisher has signed, or does not follow. Resource: no room on the disk, or too much in a
    /// day. Data: the files here are damaged. Usage: one cannot be written, or another process fetches it.
    pub fn fetch(
        channel: FramedChannel,
        deadline: Option<&Deadline>,
        set: &Path,
        publisher: Fingerprint,
        progress: &mut dyn Progress,
    ) -> Result<(Client, PublishedSet, u64), Error> {
        let began = Instant::now();
        let allow = |bytes: u64| {
            if let Some(deadline) = deadline {
                deadline.of_exchange(began, bytes.min(MAX_TIMED), 0);
            }
        };
        Client::fetch_allowing(channel, &allow, set, publisher, progress)
    }

    fn fetch_allowing(
        channel: FramedChannel,
        allow: Allow<'_>,
        set: &Path,
        publisher: Fingerprint,
        progress: &mut dyn Progress,
    ) -> Result<(Client, PublishedSet, u64), Error> {
        allow(0);
        for release in later_releases(set).map_err(|e| Error::io(set, &e))? {
            check_replaceable(&release_path(set, release), publisher)?;
        }
        let is_here = set.try_exists().map_err(|e| Error::io(set, &e))?;
        let here = is_here.then(|| PublishedSet::open(set, publisher));
        let here = here.transpose()?;
        let mut last = here.as_ref().map(|set| set.header().clone());
        let have = last.as_ref().map_or(0, |header| header.release);
        let mut begun = Part::begun(set, have + 1, publisher)?;
        let lacking = Lacking {
            release: have + 1,
            offset: begun.as_ref().map_or(0, |part| part.bytes),
            hash: begun
                .as_ref()
                .and_then(|part| part.header.as_ref())
                .map_or([0; 32], Header::hash),
        };
        let mut client = Client::meet(channel, Some(&lacking))?;
        if let Some(here) = here
            && client.welcome.check_key(&here.header().oprf_key).is_err()
        {
            let files = here.files();
            return Err(Error::set(set, SetProblem::PublishedAnew { files }));
        }
        let released = client.release();
        if released < have.max(1) {
            return Err(differ("last release", have, released).into());
        }
        let mut fetched = 0;
        for release in have + 1..=released {
            let announced = recv_exact(&mut client.channel, FILE, FILE_BYTES)?;
            let have = begun.as_ref().map_or(0, |part| part.bytes);
            let announced = Announced::decode(&announced, have)?;
            let mut part = match begun.take() {
                Some(part) => part,
                None => Part::create(set, release, publisher)?,
            };
            let header = part.receive(
                &mut client,
                announced,
                last.as_ref(),
                &mut fetched,
                allow,
                progress,
            )?;
            last = Some(header);
        }
        Ok((client, PublishedSet::open(set, publisher)?, fetched))
    }
}

/// A file of which only the beginning is here. Other processes stay away from it.
struct Part {
    path: PathBuf,
    /// What it will be.
    target: PathBuf,
    publisher: Fingerprint,
    file: File,
    bytes: u64,
    /// Its header, if that is here.
    header: Option<Header>,
}

impl Part {
    /// What an earlier attempt has left.
    fn begun(set: &Path, release: u64, publisher: Fingerprint) -> Result<Option<Part>, Error> {
        let mut part = match Part::open(set, release, publisher, false) {
            Ok(part) => part,
            Err((_, e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err((path, e)) => return Err(Error::io(&path, &e)),
        };
        part.lock()?;
        part.check_replaceable()?;
        // Other bytes are of no use, and are not the server's fault.
        match signed_beginning(&mut part.file, &part.path, publisher) {
            Ok((header, bytes)) => {
                part.file.set_len(bytes).map_err(|e| part.fail(&e))?;
                (part.header, part.bytes) = (Some(header), bytes);
            }
            Err(_) => part.clear()?,
        }
        Ok(Some(part))
    }

    fn create(set: &Path, release: u64, publisher: Fingerprint) -> Result<Part, Error> {
        let part = Part::open(set, release, publisher, true);
        let mut part = part.map_err(|(path, e)| Error::io(&path, &e))?;
        part.lock()?;
        part.check_replaceable()?;
        part.clear()?;
        Ok(part)
    }

    fn open(
        set: &Path,
        release: u64,
        publisher: Fingerprint,
        create: bool,
    ) -> Result<Part, (PathBuf, io::Error)> {
        let target = release_path(set, release);
        let mut path = OsString::from(&target);
        path.push(".part");
        let path = PathBuf::from(path);
        match open_own(&path, create.then_some(0o666)) {
            Ok(file) => Ok(Part {
                path,
                target,
                publisher,
                file,
                bytes: 0,
                header: None,
            }),
            Err(e) => Err((path, e)),
        }
    }

    /// Fails if what is there already, or under the name that this gets, is no release.
    fn check_replaceable(&self) -> Result<(), Error> {
        [&self.path, &self.target]
            .into_iter()
            .try_for_each(|path| check_replaceable(path, self.publisher))
    }

    /// Fails if another process fetches it, or has just done so and given it its name.
    fn lock(&self) -> Result<(), Error> {
        lock(&self.file).map_err(|cause| match cause {
            NotLocked::InUse => self.wrong(SetProblem::BeingFetched),
            NotLocked::NoLocks => self.wrong(SetProblem::NoLocks),
            NotLocked::Io(e) => self.fail(&e),
        })?;
        match is_at(&self.file, &self.path) {
            true => Ok(()),
            false => Err(self.wrong(SetProblem::BeingFetched)),
        }
    }

    fn fail(&self, e: &io::Error) -> Error {
        Error::io(&self.path, e)
    }

    /// Why the rest of a file cannot be written, and how much that is if there is no room for it.
    fn no_room(&self, e: &io::Error, length: u64) -> Error {
        if !is_exhausted(e) {
            return self.fail(e);
        }
        let here = self.file.metadata().map_or(self.bytes, |file| file.len());
        let (path, missing) = (self.path.display(), length.saturating_sub(here));
        let line = format!("{path}: no room for the set, {missing} bytes are missing: {e}");
        WireError::limit(Limit::Storage, line).into()
    }

    fn wrong(&self, problem: SetProblem) -> Error {
        Error::set(&self.path, problem)
    }

    fn clear(&mut self) -> Result<(), Error> {
        (self.bytes, self.header) = (0, None);
        self.file.set_len(0).map_err(|e| self.fail(&e))
    }

    fn read_header(&self) -> Result<Header, Error> {
        let file = File::open(&self.path).map_err(|e| self.fail(&e))?;
        let head = read_head(&mut BufReader::new(file), &self.path, self.publisher);
        head.map(|(header, _)| header)
    }

    /// Receives the rest, verifies all of it and gives it its name; returns its header. What does not verify is removed.
    fn receive(
        &mut self,
        client: &mut Client,
        announced: Announced,
        last: Option<&Header>,
        fetched: &mut u64,
        allow: Allow<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Header, Error> {
        if announced.offset == 0 {
            self.clear()?;
        }
        let taken = self.take(client, announced, last, fetched, allow, progress);
        match taken {
            Err(Error::Set { problem, .. }) => {
                let _ = remove_file(&self.path);
                let path = self.target.clone();
                Err(Error::HandedOut { path, problem })
            }
            taken => taken,
        }
    }

    fn take(
        &mut self,
        client: &mut Client,
        announced: Announced,
        last: Option<&Header>,
        fetched: &mut u64,
        allow: Allow<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Header, Error> {
        if let Some(header) = &self.header {
            self.check(header, client, announced, last)?;
        }
        let seek = self.file.seek(SeekFrom::Start(self.bytes));
        seek.map_err(|e| self.fail(&e))?;
        for bytes in announced.parts() {
            let part = recv_exact(&mut client.channel, PART, bytes)?;
            let written = self.file.write_all(&part);
            written.map_err(|e| self.no_room(&e, announced.length))?;
            self.bytes += bytes as u64;
            *fetched += bytes as u64;
            allow(*fetched);
            if self.header.is_none() {
                match self.read_header() {
                    Ok(header) => {
                        self.check(&header, client, announced, last)?;
                        self.header = Some(header);
                    }
                    // A long one goes on in the next part.
                    Err(Error::Set {
                        problem: SetProblem::Truncated,
                        ..
                    }) if self.bytes < announced.length => {}
                    Err(error) => return Err(error),
                }
            }
            progress.step(self.bytes, announced.length);
        }
        let header = self.header.take();
        let header = header.ok_or_else(|| self.wrong(SetProblem::Truncated))?;
        verify_release(&self.path, self.publisher)?;
        self.file.sync_all().map_err(|e| self.fail(&e))?;
        rename(&self.path, &self.target).map_err(|e| self.fail(&e))?;
        sync_name(&self.target);
        Ok(header)
    }

    /// Whether a header is that of the release that comes next.
    fn check(
        &self,
        header: &Header,
        client: &Client,
        announced: Announced,
        last: Option<&Header>,
    ) -> Result<(), Error> {
        let problem = match last {
            Some(last) => last.problem_of_next(header),
            None if header.release != 1 => Some(SetProblem::OutOfOrder {
                expected: 1,
                got: header.release,
            }),
            None => None,
        };
        let is_other = header.oprf_key != client.welcome.key;
        let problem = problem.or(is_other.then_some(SetProblem::OtherSet));
        let is_large = announced.length > max_file_bytes(header);
        let problem = problem.or(is_large.then_some(SetProblem::TooLarge(announced.length)));
        problem.map_or(Ok(()), |problem| Err(self.wrong(problem)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use vesica_primitives::voprf::SecretKey;
    use vesica_session::{Identity, NoProgress, random};
    use vesica_wire::{Channel, memory_pair};

    use super::*;
    use crate::messages::{HELLO, MAX_HELLO_BYTES, PART_BYTES, WELCOME, Welcome};

    /// A server promises more than anybody could send, and sends nothing more than a part.
    #[test]
    fn what_is_announced_gives_no_time() {
        let place = tempfile::tempdir().unwrap();
        let publisher = Identity::generate().unwrap().fingerprint();
        let (channel, mut server) = memory_pair();
        let allowed = Cell::new(0);
        let most = Cell::new(0);
        let allow = |bytes: u64| {
            allowed.set(allowed.get() + 1);
            most.set(bytes.max(most.get()));
        };
        let fetched = thread::scope(|scope| {
            scope.spawn(move || {
                server.recv(HELLO, MAX_HELLO_BYTES).unwrap();
                let mut rng = random::fresh_rng().unwrap();
                let welcome = Welcome {
                    key: SecretKey::random(&mut rng).public_key(),
                    left: 1,
                    release: 1,
                };
                let announced = Announced {
                    length: u64::MAX,
                    offset: 0,
                };
                server.send(WELCOME, welcome.encode()).unwrap();
                server.send(FILE, announced.encode()).unwrap();
                server.send(PART, vec![0; PART_BYTES]).unwrap();
                server.flush().unwrap();
            });
            let set = place.path().join("set.vset");
            let fetched = Client::fetch_allowing(channel, &allow, &set, publisher, &mut NoProgress);
            fetched.map(drop)
        });
        assert!(
            matches!(fetched, Err(Error::HandedOut { .. })),
            "{fetched:?}"
        );
        assert_eq!((allowed.get(), most.get()), (2, PART_BYTES as u64));
    }
}
