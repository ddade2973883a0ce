//! Stores, behind calls that block. The runtime of what is asynchronous is here and nowhere else.

use std::collections::HashSet;
use std::future::Future;
use std::io::{self, Read};
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use vesica_files::catching;

use super::address::{Address, Scheme};
use super::client::{Connector, Facts, Verbatim};
use super::limits::Limits;
use crate::error::Problem;

/// Objects that a listing may have.
const MAX_LISTED: usize = 1_000_000;

/// Bytes of an object's key; no store has longer ones.
const MAX_KEY_BYTES: usize = 4 << 10;

/// Pages of a listing that may have no name, one after another.
const MAX_EMPTY_PAGES: usize = 1000;

/// Objects that are opened at once.
const OPENED_AT_ONCE: usize = 16;

/// The runtime of this process. A process that was forked has none of the threads of the first, and gets its own.
fn runtime() -> Result<Arc<Runtime>, Problem> {
    static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match &*slot {
        Some((owner, runtime)) if *owner == process => Ok(runtime.clone()),
        _ => {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("objects")
                .enable_all()
                .build()
                .map_err(|_| Problem::NoThreads)?;
            let runtime = Arc::new(runtime);
            // The threads of a runtime of another process cannot be joined.
            std::mem::forget(slot.replace((process, runtime.clone())));
            Ok(runtime)
        }
    }
}

/// Waits for a future, whose timers and connections are the runtime's. The thread may be one of another runtime, on which an
/// async function has called us: it is blocked, but not entered twice, as by [`Runtime::block_on`], which panics there.
///
/// The stores' libraries have panicked on settings and answers that no server of theirs sends.
fn wait<F: Future>(future: F) -> Result<F::Output, Problem> {
    let runtime = runtime()?;
    catching(|| {
        let _context = runtime.enter();
        // The caller may be a task with a budget, which would let nothing become ready once it is spent.
        block_on(tokio::task::unconstrained(future))
    })
    .map_err(|_| Problem::Malformed)
}

/// Polls a future on this thread until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    /// Whether to poll again.
    #[derive(Default)]
    struct Woken(Mutex<bool>, Condvar);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.1.notify_one();
        }
    }

    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let Woken(flag, changed) = &*woken;
        let flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
        let flag = changed.wait_while(flag, |woken| !*woken);
        *flag.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// What the runtime does beside the caller. Dropped, it is done no longer.
#[derive(Debug)]
struct Beside<T>(Result<JoinHandle<T>, Problem>);

impl<T: Send + 'static> Beside<T> {
    fn of(future: impl Future<Output = T> + Send + 'static) -> Beside<T> {
        Beside(runtime().map(|runtime| runtime.spawn(future)))
    }

    fn wait(mut self) -> Result<T, Problem> {
        match &mut self.0 {
            Ok(handle) => wait(handle)?.map_err(|_| Problem::Malformed),
            Err(problem) => Err(problem.clone()),
        }
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Ok(handle) = &self.0 {
            handle.abort();
        }
    }
}

/// What tells versions of an object apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    /// Its entity tag, or else when it was modified.
    tag: String,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Version {
        let tag = match &meta.e_tag {
            Some(tag) => tag.clone(),
            None => meta.last_modified.to_rfc3339(),
        };
        Version {
            size: meta.size,
            tag,
        }
    }
}

/// A bucket, or the object of an HTTPS server.
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    /// HTTPS servers have no listings.
    lister: Option<Arc<dyn PaginatedListStore>>,
    scheme: Scheme,
    facts: Arc<Facts>,
    limits: Limits,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// The beginning of an object.
pub(crate) enum Start {
    /// The object can be read from anywhere.
    Ranges(Version, Bytes),
    /// It can be read from its beginning, once.
    Stream(Streamed),
}

/// What is directly below a prefix, or all that is below it.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) keys: Vec<String>,
    /// Without the slash at the end.
    pub(crate) directories: Vec<String>,
}

impl Store {
    /// With the credentials and settings that are in the environment.
    pub(crate) fn open(
        address: &Address,
        vars: &[(String, String)],
        limits: Limits,
    ) -> Result<Store, Problem> {
        let is_broken = |(_, value): &&(String, String)| value.contains(|c: char| c.is_control());
        if let Some((name, _)) = of_stores(vars).find(is_broken) {
            let problem = format!("{name} has a line break or another control character");
            return Err(Problem::Settings(Some(problem)));
        }
        let facts = Arc::new(Facts::default());
        let url = match address.secret_url() {
            Some(url) => Some(Verbatim(url.parse().map_err(|_| Problem::Name)?)),
            None => None,
        };
        let connector = Connector {
            verbatim: url,
            facts: facts.clone(),
            limits,
        };
        let settings = |e: object_store::Error| Problem::Settings(harmless(&e.to_string(), vars));
        let name = address.host();
        // Of each variable that the builder has a setting for.
        macro_rules! with_settings {
            ($builder:expr, $prefix:literal) => {{
                let vars = vars.iter().filter(|(name, _)| name.starts_with($prefix));
                let builder = vars.fold($builder, |builder, (name, value)| {
                    match name.to_ascii_lowercase().parse() {
                        Ok(key) => builder.with_config(key, value),
                        Err(_) => builder,
                    }
                });
                builder
                    .with_http_connector(connector)
                    .with_retry(limits.retries())
            }};
        }
        let (objects, lister): (Arc<dyn ObjectStore>, Option<Arc<dyn PaginatedListStore>>) =
            match address.scheme {
                Scheme::S3 => {
                    let builder = with_settings!(AmazonS3Builder::new(), "AWS_");
                    let store = Arc::new(builder.with_bucket_name(name).build().map_err(settings)?);
                    (store.clone(), Some(store))
                }
                Scheme::GoogleCloudStorage => {
                    let builder = with_settings!(GoogleCloudStorageBuilder::new(), "GOOGLE_");
                    let store = Arc::new(builder.with_bucket_name(name).build().map_err(settings)?);
                    (store.clone(), Some(store))
                }
                Scheme::Azure => {
                    let builder = with_settings!(MicrosoftAzureBuilder::new(), "AZURE_");
                    let builder = match name.contains('@') {
                        true => builder.with_url(address.base()),
                        false => builder.with_container_name(name),
                    };
                    let store = Arc::new(builder.build().map_err(settings)?);
                    (store.clone(), Some(store))
                }
                Scheme::Http => {
                    let builder = HttpBuilder::new()
                        .with_url(address.base())
                        .with_http_connector(connector)
                        .with_retry(limits.retries());
                    (Arc::new(builder.build().map_err(settings)?), None)
                }
            };
        Ok(Store {
            objects,
            lister,
            scheme: address.scheme,
            facts,
            limits,
        })
    }

    fn key(&self, key: &str) -> Result<Key, Problem> {
        // The object of an HTTPS server is asked for by its address.
        match self.lister {
            None => Ok(Key::ROOT),
            Some(_) if key.ends_with('/') || key.is_empty() => Err(Problem::Name),
            Some(_) => Key::parse(key).map_err(|_| Problem::Name),
        }
    }

    /// What an error of the store means. Its own words may have addresses and answers in them, and are not told.
    fn problem(&self, e: &object_store::Error) -> Problem {
        use object_store::Error as E;
        let noted = self.facts.failure();
        match (e, noted) {
            (_, Some(Problem::NoCredentials)) => Problem::NoCredentials,
            (E::NotFound { .. }, Some(Problem::NoBucket)) => Problem::NoBucket,
            (E::NotFound { .. }, _) => Problem::Missing,
            (E::Precondition { .. }, _) => Problem::Changed,
            (E::InvalidPath { .. }, _) => Problem::Name,
            (_, Some(problem)) => problem,
            (_, None) => Problem::Malformed,
        }
    }

    /// The beginnings of objects, of so many bytes.
    pub(crate) fn start_all(
        &self,
        keys: &[String],
        bytes: u64,
    ) -> Result<Vec<Result<Start, Problem>>, Problem> {
        let starts = keys.iter().map(|key| self.start(key, bytes));
        wait(stream::iter(starts).buffered(OPENED_AT_ONCE).collect())
    }

    async fn start(&self, key: &str, bytes: u64) -> Result<Start, Problem> {
        let key = self.key(key)?;
        let read = self.get(&key, Some(0..bytes)).await;
        match read {
            Ok((version, _, start)) => Ok(Start::Ranges(version, start)),
            Err(_) if self.lister.is_none() && self.facts.ignores_ranges() => {
                let answer = self.objects.get_opts(&key, GetOptions::default()).await;
                let answer = answer.map_err(|e| match self.facts.failure() {
                    None => Problem::NoLength,
                    Some(_) => self.problem(&e),
                })?;
                let size = answer.meta.size;
                Ok(Start::Stream(Streamed {
                    stream: Mutex::new(answer.into_stream()),
                    held: Bytes::new(),
                    left: size,
                    until: Instant::now() + self.limits.for_bytes(size),
                    facts: self.facts.clone(),
                }))
            }
            // There is no first byte.
            Err(Problem::Refused { status: 416, .. }) => {
                let options = GetOptions {
                    head: self.lister.is_some(),
                    ..GetOptions::default()
                };
                let meta = self.objects.get_opts(&key, options).await;
                let meta = meta.map_err(|e| self.problem(&e))?.meta;
                match meta.size {
                    0 => Ok(Start::Ranges(Version::of(&meta), Bytes::new())),
                    _ => Err(Problem::Malformed),
                }
            }
            Err(problem) => Err(problem),
        }
    }

    /// An object or bytes of it, its version, and where the bytes are that came.
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
    ) -> Result<(Version, Range<u64>, Bytes), Problem> {
        let most = range
            .as_ref()
            .map_or(u64::MAX, |range| range.end - range.start);
        let read = async {
            let options = GetOptions {
                range: range.map(GetRange::Bounded),
                ..GetOptions::default()
            };
            let answer = self.objects.get_opts(key, options).await;
            let answer = answer.map_err(|e| self.problem(&e))?;
            let (version, range) = (Version::of(&answer.meta), answer.range.clone());
            let bytes = range.end.saturating_sub(range.start);
            if bytes > most {
                return Err(Problem::TooLong);
            }
            let mut whole = Vec::new();
            let mut stream = answer.into_stream();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|e| self.problem(&e))?;
                if (whole.len() + piece.len()) as u64 > bytes {
                    return Err(Problem::TooLong);
                }
                whole.extend_from_slice(&piece);
            }
            match whole.len() as u64 == bytes {
                true => Ok((version, range, whole.into())),
                false => Err(Problem::Short),
            }
        };
        let timed = tokio::time::timeout(self.limits.for_bytes(most.min(1 << 30)), read);
        timed.await.unwrap_or(Err(Problem::TimedOut))
    }

    /// Begins to read bytes of an object, of which there are as many, of this version.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        key: &str,
        range: Range<u64>,
        version: &Version,
    ) -> Fetch {
        let (store, key, version) = (self.clone(), key.to_owned(), version.clone());
        Fetch(Beside::of(async move {
            let (found, came, bytes) = store.get(&store.key(&key)?, Some(range.clone())).await?;
            match () {
                () if found != version => Err(Problem::Changed),
                () if came != range => Err(Problem::Malformed),
                () => Ok(bytes),
            }
        }))
    }

    /// What is below a prefix: directly, or all of it.
    pub(crate) fn list(&self, prefix: &str, is_direct: bool) -> Result<Listing, Problem> {
        self.listing(prefix, is_direct, None)
    }

    /// Whether anything is below a prefix.
    pub(crate) fn has(&self, prefix: &str) -> Result<bool, Problem> {
        let found = self.listing(prefix, false, Some(1))?;
        Ok(!found.keys.is_empty())
    }

    fn listing(
        &self,
        prefix: &str,
        is_direct: bool,
        first: Option<usize>,
    ) -> Result<Listing, Problem> {
        let Some(lister) = &self.lister else {
            return Ok(Listing::default());
        };
        let prefix = (!prefix.is_empty()).then_some(prefix);
        let read = async {
            let (mut listing, mut token, mut seen) = (Listing::default(), None, HashSet::new());
            let (mut listed, mut empty) = (0, 0);
            loop {
                let options = PaginatedListOptions {
                    delimiter: is_direct.then_some("/".into()),
                    max_keys: first,
                    page_token: token,
                    ..PaginatedListOptions::default()
                };
                let page = lister.list_paginated(prefix, options).await;
                let page = page.map_err(|e| self.problem(&e))?;
                let found = &page.result;
                let keys = found.objects.iter().map(|meta| &meta.location);
                let mut names = keys.chain(&found.common_prefixes);
                if names.any(|name| name.as_ref().len() > MAX_KEY_BYTES) {
                    return Err(Problem::Malformed);
                }
                let keys = page.result.objects.into_iter();
                listing.keys.extend(keys.map(|meta| meta.location.into()));
                let directories = page.result.common_prefixes.into_iter();
                listing.directories.extend(directories.map(String::from));
                let is_enough = first.is_some() && !listing.keys.is_empty();
                token = page.page_token.filter(|_| !is_enough);
                let Some(token) = &token else {
                    return Ok(listing);
                };
                // Pages may be empty, but not without end.
                let before =
                    std::mem::replace(&mut listed, listing.keys.len() + listing.directories.len());
                empty = if listed == before { empty + 1 } else { 0 };
                let is_new = seen.insert(blake3::hash(token.as_bytes()));
                if listed > MAX_LISTED || empty > MAX_EMPTY_PAGES || !is_new {
                    return Err(Problem::Listing(listed));
                }
            }
        };
        let timed = async { tokio::time::timeout(self.limits.answer * 5, read).await };
        wait(timed)?.unwrap_or(Err(Problem::TimedOut))
    }

    /// Begins an object, which appears once it is complete.
    pub(crate) fn begin(self: &Arc<Self>, key: &str) -> Result<Multipart, Problem> {
        let key = self.key(key)?;
        wait(async {
            let head = GetOptions {
                head: true,
                ..GetOptions::default()
            };
            // Azure takes parts without a word beforehand, and would say only then that it takes none. Elsewhere a place for
            // results need not be one that can be read.
            if self.scheme == Scheme::Azure
                && let Err(e) = self.objects.get_opts(&key, head).await
                && self.problem(&e) != Problem::Missing
            {
                return Err(self.problem(&e));
            }
            let begun = self
                .objects
                .put_multipart_opts(&key, PutMultipartOptions::default());
            let upload = begun.await.map_err(|e| self.problem(&e))?;
            let upload = Arc::new(Mutex::new(upload));
            let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            unfinished.retain(|upload| upload.strong_count() > 0);
            unfinished.push(Arc::downgrade(&upload));
            Ok(Multipart {
                store: self.clone(),
                upload,
            })
        })?
    }
}

/// Words of a builder, unless a setting's value is in them.
fn harmless(words: &str, vars: &[(String, String)]) -> Option<String> {
    let is_harmless =
        !of_stores(vars).any(|(_, value)| !value.is_empty() && words.contains(value.as_str()));
    is_harmless.then(|| words.to_owned())
}

/// The settings of stores among the variables of the environment.
fn of_stores(vars: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
    let prefixes = ["AWS_", "AZURE_", "GOOGLE_"];
    vars.iter()
        .filter(move |(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Bytes that are on their way. Dropped, they are no longer.
#[derive(Debug)]
pub(crate) struct Fetch(Beside<Result<Bytes, Problem>>);

impl Fetch {
    pub(crate) fn wait(self) -> Result<Bytes, Problem> {
        self.0.wait()?
    }
}

/// An object that can be read once, from its beginning.
pub(crate) struct Streamed {
    stream: Mutex<BoxStream<'static, object_store::Result<Bytes>>>,
    held: Bytes,
    /// Bytes that are to come.
    left: u64,
    until: Instant,
    facts: Arc<Facts>,
}

impl Streamed {
    /// The next bytes; none at the end.
    fn next(&mut self) -> Result<Bytes, Problem> {
        let stream = self
            .stream
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let next = async { tokio::time::timeout_at(self.until.into(), stream.next()).await };
        let piece = match wait(next)?.map_err(|_| Problem::TimedOut)? {
            Some(Ok(piece)) => piece,
            Some(Err(_)) => return Err(self.facts.failure().unwrap_or(Problem::Short)),
            None if self.left > 0 => return Err(Problem::Short),
            None => return Ok(Bytes::new()),
        };
        self.left = self
            .left
            .checked_sub(piece.len() as u64)
            .ok_or(Problem::TooLong)?;
        Ok(piece)
    }
}

impl Read for Streamed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.held.is_empty() {
            self.held = self.next().map_err(Problem::of_read)?;
            if self.held.is_empty() {
                return Ok(0);
            }
        }
        let bytes = out.len().min(self.held.len());
        self.held.copy_to_slice(&mut out[..bytes]);
        Ok(bytes)
    }
}

type BoxedUpload = Box<dyn MultipartUpload>;

/// An object that is being written in parts.
pub(crate) struct Multipart {
    store: Arc<Store>,
    upload: Arc<Mutex<BoxedUpload>>,
}

/// All that have been begun and are neither complete nor aborted.
static UNFINISHED: Mutex<Vec<Weak<Mutex<BoxedUpload>>>> = Mutex::new(Vec::new());

/// How long a program that ends waits for a store to forget an upload.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Lets stores forget the uploads that this process has begun and not finished, before it ends without running
/// destructors. One that a store is putting together at this moment is left to it.
pub fn abort_uploads() {
    let unfinished =
        std::mem::take(&mut *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner));
    for upload in unfinished.iter().filter_map(Weak::upgrade) {
        if let Ok(mut upload) = upload.try_lock() {
            let _ = wait(async { tokio::time::timeout(LAST_WORDS, upload.abort()).await });
        }
    }
}

/// A part that is on its way.
pub(crate) struct Part(Beside<object_store::Result<()>>);

impl Multipart {
    fn upload(&self) -> MutexGuard<'_, BoxedUpload> {
        self.upload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&mut self, part: Bytes) -> Part {
        let limit = self.store.limits.for_bytes(part.len() as u64) * Limits::ATTEMPTS as u32;
        let put = self.upload().put_part(part.into());
        Part(Beside::of(async move {
            let late = |e| object_store::Error::Generic {
                store: "upload",
                source: Box::new(e),
            };
            tokio::time::timeout(limit, put).await.map_err(late)?
        }))
    }

    pub(crate) fn wait(&self, part: Part) -> Result<(), Problem> {
        part.0.wait()?.map_err(|e| self.store.problem(&e))
    }

    /// Lets the object appear. All parts have been waited for.
    pub(crate) fn complete(&mut self) -> Result<(), Problem> {
        let limit = self.store.limits.answer * Limits::ATTEMPTS as u32;
        let mut upload = self.upload();
        let completed = wait(async { tokio::time::timeout(limit, upload.complete()).await })?;
        match completed {
            Ok(done) => done.map(|_| ()).map_err(|e| self.store.problem(&e)),
            Err(_) => Err(Problem::TimedOut),
        }
    }

    /// Lets the store forget the parts. Whoever gives up has something else to say than that this failed.
    pub(crate) fn abort(&mut self) {
        let (limit, mut upload) = (self.store.limits.silence, self.upload());
        let _ = wait(async { tokio::time::timeout(limit, upload.abort()).await });
    }
}
