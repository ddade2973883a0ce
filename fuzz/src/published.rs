//! Published sets: whatever a publisher has signed, and however a server hands it out.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, io};

use vesica_lookup::{
    Client, Content, Database, Declared, MAX_QUERIES, PublishedSet, Service, SetBuilder, State,
    Update,
};
use vesica_primitives::sealed::Sealed;
use vesica_primitives::voprf::SecretKey;
use vesica_session::{Identity, Interrupt, NoProgress, random};
use vesica_wire::{ChannelOptions, FramedChannel, ReadHalf, WriteHalf};

/// A publisher, and the key of its set.
struct Publisher {
    identity: Identity,
    key: [u8; 32],
}

/// A directory for the files of a set.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    /// That of a release.
    fn file(&self, release: usize) -> PathBuf {
        let name = if release == 1 { "set" } else { "set.2" };
        self.0.path().join(name)
    }

    fn put(&self, files: &[Vec<u8>]) {
        for (release, file) in (1..).zip(files) {
            fs::write(self.file(release), file).expect("a file");
        }
    }
}

fn publisher() -> &'static Publisher {
    static PUBLISHER: OnceLock<Publisher> = OnceLock::new();
    PUBLISHER.get_or_init(|| {
        let mut rng = random::fresh_rng().expect("randomness");
        Publisher {
            identity: Identity::generate().expect("randomness"),
            key: *SecretKey::random(&mut rng).public_key().bytes(),
        }
    })
}

/// Bytes of an entry of the index.
const ENTRY: usize = 56;

/// A number of keys that come and one of those that leave, in 8 bytes each; what the publisher has declared, after its length in
/// 2; then index and blocks. The hashes in the index are made right, and all of it is signed: nothing is refused because
/// it is not authentic. Where keys leave it is the second release of a set of one key.
pub fn published(bytes: &[u8]) {
    let Some(files) = files(bytes) else { return };
    let place = Place::new();
    place.put(&files);
    if let Ok(set) = PublishedSet::open(&place.file(1), publisher().identity.fingerprint()) {
        // Whatever was signed.
        let _ = set.verify();
    }
}

/// What a server says: its last release, and of the file that it hands out length and offset, in 8 bytes each. Before that how
/// many bytes of that file the client has, in 2; after it files as [`published`] takes them, of which the last is handed
/// out and the others are here.
pub fn fetched(bytes: &[u8]) {
    let Some((have, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let Some((said, rest)) = rest.split_first_chunk::<24>() else {
        return;
    };
    let Some(files) = files(rest) else { return };
    let (file, here) = files.split_last().expect("one or two");
    let place = Place::new();
    place.put(here);
    let target = place.file(files.len());
    let mut part = target.clone().into_os_string();
    part.push(".part");
    let have = usize::from(u16::from_le_bytes(*have)).min(file.len());
    if have > 0 {
        fs::write(&part, &file[..have]).expect("a file");
    }
    let (release, announced) = said.split_at(8);
    let mut stream = Vec::new();
    let mut send = |code: u8, payload: &[&[u8]]| put_frame(&mut stream, code, &payload.concat());
    send(121, &[&publisher().key, &[5, 0, 0, 0, 0, 0, 0, 0], release]);
    send(124, &[announced]);
    let offset = u64::from_le_bytes(said[16..].try_into().expect("8 bytes"));
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let parts = file[offset.min(file.len())..].chunks(64 << 10);
    parts.for_each(|part| send(125, &[part]));
    let channel = FramedChannel::new(
        Box::new(Stream(stream, 0)),
        Box::new(Nowhere),
        ChannelOptions::default(),
    );
    let publisher = publisher().identity.fingerprint();
    let _ = Client::fetch(channel, None, &place.file(1), publisher, &mut NoProgress);
    // What has its name was verified.
    if target.exists() {
        let set = PublishedSet::open(&place.file(1), publisher).expect("a set");
        set.verify().expect("a verified set");
    }
}

/// A server with its set, and a client of it.
struct Served {
    place: Place,
    publisher: Identity,
    client: Identity,
    database: Database,
}

impl Served {
    fn new() -> Served {
        let [publisher, client] =
            std::array::from_fn(|_| Identity::generate().expect("randomness"));
        let place = Place::new();
        let declared = Declared {
            normalization: vec!["exact/2".into()],
            lambda: 40,
            queries: MAX_QUERIES,
            max_keys: 3,
            payload: vec!["note".into()],
            payload_bytes: 1,
        };
        let content = Content {
            keys: 3,
            hash: [7; 32],
        };
        let directory = place.0.path().join("database");
        let (file, memory) = (place.file(1), 1 << 20);
        let builder = SetBuilder::new(
            &directory, &publisher, declared, content, false, memory, &file,
        );
        let mut builder = builder.expect("a database");
        let digests: Vec<[u8; 32]> = (0..3).map(|i| [i; 32]).collect();
        builder.add(&digests, b"abc").expect("keys");
        builder.finish().expect("a set");
        let database = Database::open(&directory, &publisher).expect("a database");
        Served {
            place,
            publisher,
            client,
            database,
        }
    }
}

/// What a client says to a server: its hello after the length in a byte, then questions, each after its length in 2 bytes.
pub fn served(bytes: &[u8]) {
    thread_local! {
        // Removed with the thread.
        static SERVED: Served = Served::new();
    }
    let Some((length, rest)) = bytes.split_first() else {
        return;
    };
    let (hello, mut rest) = rest.split_at(usize::from(*length).min(rest.len()));
    let mut stream = Vec::new();
    put_frame(&mut stream, 120, hello);
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (question, after) = after.split_at(length.min(after.len()));
        put_frame(&mut stream, 122, question);
        rest = after;
    }
    SERVED.with(|served| {
        let service = Service {
            clients: vec![served.client.fingerprint()],
            set: Some(served.place.file(1)),
            quota: MAX_QUERIES,
            connections: 1,
            threads: std::num::NonZeroUsize::new(1),
            interval: Duration::from_secs(1),
            log: None,
        };
        let mut channel = FramedChannel::new(
            Box::new(Stream(stream, 0)),
            Box::new(Nowhere),
            ChannelOptions::default(),
        );
        let client = served.client.fingerprint();
        let Err(_) = served
            .database
            .answer(&served.publisher, &mut channel, client, &service);
    });
}

/// What is kept of a set, in files that only we can write.
struct Stored {
    place: Place,
    publisher: Identity,
    set: PublishedSet,
    key: [u8; 32],
    /// The file of the key.
    database: Vec<u8>,
    /// That of the count of queries.
    quotas: Vec<u8>,
}

/// What the count of queries is in.
const ROWS: redb::TableDefinition<'_, &[u8; 32], &[u8]> =
    redb::TableDefinition::new("vesica quotas 1");

impl Stored {
    fn new() -> Stored {
        let Served {
            place,
            publisher,
            database,
            ..
        } = Served::new();
        drop(database);
        let set = PublishedSet::open(&place.file(1), publisher.fingerprint()).expect("a set");
        let database = fs::read(place.0.path().join("database/key")).expect("a key");
        // One that a look-up makes goes with it unless something is kept.
        let state = place.0.path().join("state");
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).create(state).expect("a directory");
        let mut stored = Stored {
            key: *set.header().oprf_key.bytes(),
            place,
            publisher,
            set,
            database,
            quotas: Vec::new(),
        };
        stored.quotas = fs::read(stored.count("quotas")).expect("a count");
        stored
    }

    fn database(&self) -> PathBuf {
        self.place.0.path().join("database")
    }

    /// The file of the count of queries.
    fn count(&self, kind: &str) -> PathBuf {
        let digits = self.key[..8].iter().map(|byte| format!("{byte:02x}"));
        let name = format!("{kind}-{}", digits.collect::<String>());
        self.database().join(name)
    }

    /// Opens the database with its count, twice.
    fn open(&self) {
        fs::write(self.database().join("key"), &self.database).expect("a file");
        if let Ok(database) = Database::open(&self.database(), &self.publisher) {
            let answered = database.answered();
            drop(database);
            // It is written anew each time.
            let database = Database::open(&self.database(), &self.publisher).expect("a database");
            assert_eq!(database.answered(), answered);
        }
    }

    /// The count of queries: a head of 16 bytes, and of each client a byte, two with a length, and so many of its account.
    fn quotas_of(&self, content: &[u8]) {
        let Some((head, mut accounts)) = content.split_first_chunk::<16>() else {
            return;
        };
        let key = self
            .publisher
            .derive_key("vesica/1 quotas of a published set");
        let of = |what: &[u8]| *blake3::keyed_hash(&key, &[&self.key, what].concat()).as_bytes();
        let row = |name: &[u8]| *blake3::keyed_hash(&of(b"rows"), name).as_bytes();
        let sealed = |row: &[u8; 32], content: &[u8]| {
            let mut value = vec![7; 32];
            let sealed = Sealed::new(&of(b"values"), &[&[7; 32]]).write(row, content, &mut value);
            sealed.expect("memory");
            value
        };
        let mut rows = vec![(row(b"head"), &head[..])];
        while let Some(([client, low, high], rest)) = accounts.split_first_chunk::<3>() {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let (account, rest) = rest.split_at(length.min(rest.len()));
            rows.push((row(&[*client; 32]), account));
            accounts = rest;
        }
        let path = self.count("quotas");
        let _ = fs::remove_file(&path);
        let write = || -> Result<(), redb::Error> {
            let database = redb::Database::create(&path)?;
            let transaction = database.begin_write()?;
            let mut table = transaction.open_table(ROWS)?;
            for (row, content) in rows {
                table.insert(&row, &*sealed(&row, content))?;
            }
            drop(table);
            Ok(transaction.commit()?)
        };
        write().expect("a database");
        self.open();
    }

    /// The count of queries with bytes changed: three of each place, and what is there.
    fn damaged_quotas(&self, changes: &[u8]) {
        let path = self.count("quotas");
        let mut file = self.quotas.clone();
        for change in changes.chunks_exact(4) {
            let place = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
            if let Some(byte) = file.get_mut(place) {
                *byte = change[3];
            }
        }
        fs::write(path, file).expect("a file");
        self.open();
    }

    /// The content as it is in a file with this head, under a key for this purpose.
    fn sealed(&self, head: &[u8], purpose: &str, label: &[u8], content: &[u8]) -> Vec<u8> {
        let key = self.publisher.derive_key(purpose);
        let mut file = [head, &[7; 32]].concat();
        let sealed = Sealed::new(&key, &[label, &[7; 32]]).write(head, content, &mut file);
        sealed.expect("memory");
        file
    }

    /// The content of a client's state, after publisher and key.
    fn state(&self, content: &[u8]) {
        let directory = self.place.0.path().join("state");
        let publisher = self.publisher.fingerprint();
        let content = [publisher.as_bytes(), &self.key, &self.set.id(), content].concat();
        let (head, purpose) = (b"vesica look-up 4\n", "vesica/1 state of a look-up");
        let file = self.sealed(head, purpose, b"state", &content);
        fs::write(directory.join("state"), file).expect("a file");
        let interrupt = Interrupt::new();
        let open = || State::open(&directory, &self.publisher, &self.set, u64::MAX, &interrupt);
        if let Ok(mut state) = open() {
            self.set.verify_once(&mut state).expect("a set");
            let known = (state.answered(), state.pending());
            drop(state);
            let state = open().expect("what was written");
            assert_eq!((state.answered(), state.pending()), known);
        }
    }

    /// The head of a count of version 2, 16 bytes, and its records, 96 each after a byte: zero if the record is as it was written.
    fn ledger_of(&self, content: &[u8]) {
        let Some((head, records)) = content.split_first_chunk::<16>() else {
            return;
        };
        let of_identity = self
            .publisher
            .derive_key("vesica/1 ledger of a published set");
        let key: [u8; 32] = blake3::keyed_hash(&of_identity, &self.key).into();
        let magic = b"vesica ledger 2\n";
        let mut file = [&magic[..], &[7; 32]].concat();
        let mut seal = |place: u64, content: &[u8], is_whole: bool| {
            let sealed = Sealed::new(&key, &[b"ledger", &[7; 32], &place.to_le_bytes()]);
            sealed.write(magic, content, &mut file).expect("memory");
            if let (false, Some(last)) = (is_whole, file.last_mut()) {
                *last ^= 1;
            }
        };
        seal(0, head, true);
        for (place, record) in (1..).zip(records.chunks(97)) {
            seal(place, &record[1..], record[0] == 0);
        }
        let _ = fs::remove_file(self.count("quotas"));
        fs::write(self.count("ledger"), file).expect("a file");
        self.open();
    }

    /// What the file of a key says.
    fn key_of(&self, content: &[u8]) {
        let purpose = "vesica/1 database of a published set";
        let file = self.sealed(b"vesica database 4\n", purpose, b"key", content);
        fs::write(self.database().join("key"), file).expect("a file");
        let _ = Database::open(&self.database(), &self.publisher);
        let _ = Update::new(
            &self.database(),
            &self.publisher,
            &self.place.file(1),
            1 << 20,
        );
    }
}

/// What is kept of a set, once it is authentic: after a byte the content of a client's state (0), a count of queries as it was
/// in version 2 (1), a key (2) or a count (3). Or a count that was changed (4).
pub fn kept(bytes: &[u8]) {
    thread_local! {
        // Removed with the thread.
        static STORED: Stored = Stored::new();
    }
    let Some((kind, content)) = bytes.split_first() else {
        return;
    };
    STORED.with(|stored| match kind {
        0 => stored.state(content),
        1 => stored.ledger_of(content),
        3 => stored.quotas_of(content),
        4 => stored.damaged_quotas(content),
        _ => stored.key_of(content),
    });
}

/// Adds a frame to what a peer says.
fn put_frame(stream: &mut Vec<u8>, code: u8, payload: &[u8]) {
    stream.push(code);
    stream.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    stream.extend_from_slice(payload);
}

/// A stream of bytes, and where in it the reader is.
struct Stream(Vec<u8>, usize);

impl ReadHalf for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.0[self.1..];
        let count = io::Read::read(&mut rest, buf)?;
        self.1 += count;
        Ok(count)
    }
}

/// Takes everything.
struct Nowhere;

impl WriteHalf for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) {}
}

/// The files of one or two releases.
pub fn files(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (added, rest) = bytes.split_first_chunk::<8>()?;
    let (removed, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let [added, removed] = [added, removed].map(|count| u64::from_le_bytes(*count));
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (declared, rest) = rest.split_at(length);
    let payload = match declared.get(17..21) {
        Some(bytes) => u32::from_le_bytes(bytes.try_into().expect("4 bytes")),
        None => 0,
    };
    let entries = if payload == 0 { 2048 } else { 256 };
    let blocks = added
        .div_ceil(entries)
        .saturating_add(removed.div_ceil(2048));
    let index = usize::try_from(blocks)
        .unwrap_or(usize::MAX)
        .saturating_mul(ENTRY);
    let (index, blocks) = rest.split_at(index.min(rest.len()));
    if removed == 0 {
        let counts = [added, added, 0];
        let (only, _) = release(1, &[0; 32], counts, declared, index, blocks);
        return Some(vec![only]);
    }
    let one = [&[0; 16][..], &u64::from(payload).to_le_bytes(), &[0; 32]].concat();
    // No more than a publisher may declare.
    let payloads = vec![0; payload.min(4096) as usize];
    let (first, previous) = release(1, &[0; 32], [1, 1, 0], declared, &one, &payloads);
    let keys = 1u64.saturating_add(added).saturating_sub(removed);
    let counts = [keys, added, removed];
    let (second, _) = release(2, &previous, counts, declared, index, blocks);
    Some(vec![first, second])
}

/// The file of a release, and the hash of its header. The counts are keys of the set, those that come and those that leave.
fn release(
    number: u64,
    previous: &[u8; 32],
    counts: [u64; 3],
    declared: &[u8],
    index: &[u8],
    blocks: &[u8],
) -> (Vec<u8>, [u8; 32]) {
    let mut index = index.to_vec();
    let mut start = 0;
    for entry in index.as_chunks_mut::<ENTRY>().0 {
        let end = u64::from_le_bytes(entry[16..24].try_into().expect("8 bytes"));
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if let Some(block) = blocks.get(start..end) {
            entry[24..].copy_from_slice(&blake3::derive_key(
                "vesica/1 block of a published set",
                block,
            ));
        }
        start = end;
    }
    let Publisher { identity, key, .. } = publisher();
    let root = blake3::derive_key("vesica/1 index of a published set", &index);
    let header = [
        &[3],
        &identity.public_key().0[..],
        key,
        &number.to_le_bytes(),
        previous,
        &[7; 32],
        counts.map(u64::to_le_bytes).as_flattened(),
        &root,
        declared,
    ]
    .concat();
    let signature = identity.sign("vesica/1 header of a published set", &header);
    let length = (header.len() as u32).to_le_bytes();
    let file = [
        b"vesica\0S",
        &length[..],
        &header,
        &signature.expect("signed"),
        &index,
        blocks,
    ]
    .concat();
    let hash = blake3::derive_key("vesica/1 release of a published set", &header);
    (file, hash)
}
