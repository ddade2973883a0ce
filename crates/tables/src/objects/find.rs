//! The objects that addresses stand for: themselves, those of a directory, those that fit a pattern.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::Pattern;

use super::address::{Address, Scheme};
use super::limits::Limits;
use super::object::Object;
use super::store::{Start, Store, Streamed};
use crate::error::Problem;
use crate::error::{Error, ErrorKind, Result};
use crate::names::{FITTING, is_no_data, names_column, names_no_data};

/// Bytes of the beginning of an object, by which its format is told.
const START_BYTES: u64 = 64 << 10;

/// Bytes of the beginnings of all objects of a table.
const MAX_STARTS: u64 = 64 << 20;

/// What an address stands for.
#[derive(Debug)]
pub(crate) struct Found {
    /// As a path, by which tables of several files are ordered.
    pub(crate) path: PathBuf,
    /// The directory below which names of directories say columns.
    pub(crate) root: PathBuf,
    /// Whether it is in a directory below one that was named.
    pub(crate) is_below: bool,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Object(Arc<Object>),
    /// Of a server that gives no part of an object but all of it.
    Stream(Streamed),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::Object(object) => object.fmt(f),
            Content::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Finds objects, with the stores that they are in.
pub(crate) struct Finder {
    vars: Vec<(String, String)>,
    limits: Limits,
    stores: HashMap<String, Arc<Store>>,
}

/// Variables of this process's environment that are text.
pub(crate) fn environment() -> Vec<(String, String)> {
    let vars = std::env::vars_os();
    vars.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

impl Default for Finder {
    fn default() -> Self {
        Finder::new(environment(), Limits::USUAL)
    }
}

impl Finder {
    pub(crate) fn new(vars: Vec<(String, String)>, limits: Limits) -> Finder {
        Finder {
            vars,
            limits,
            stores: HashMap::new(),
        }
    }

    fn store(&mut self, address: &Address) -> Result<Arc<Store>> {
        let open = || Store::open(address, &self.vars, self.limits).map(Arc::new);
        let opened = match address.scheme {
            Scheme::Http => open(),
            _ => match self.stores.get(address.base()) {
                Some(store) => Ok(store.clone()),
                None => open(),
            },
        };
        let store = opened.map_err(Problem::of_input)?;
        self.stores.insert(address.base().to_owned(), store.clone());
        Ok(store)
    }

    /// The objects of an address.
    pub(crate) fn find(&mut self, address: &Address, found: &mut Vec<Found>) -> Result<()> {
        let store = self.store(address)?;
        let search = Search { address, store };
        let keys = search.keys()?;
        let is_of_store = address.scheme != Scheme::Http;
        if let (true, Some(keys)) = (is_of_store, &keys) {
            search.refuse_lakes(&keys.keys)?;
        }
        match keys {
            Some(keys) => search.open(&keys, found),
            None => {
                let key = address.key().to_owned();
                let Err(error) = search.open(&Keys::one(&key), found) else {
                    return match is_of_store {
                        true => search.refuse_lakes(&[address.key().to_owned()]),
                        false => Ok(()),
                    };
                };
                // It may be a directory, of which stores know nothing.
                let is_missing = matches!(error.kind(), ErrorKind::MissingFile);
                let prefix = format!("{}/", address.key());
                match is_missing && is_of_store && search.store.has(&prefix).unwrap_or(false) {
                    true => {
                        let keys = search.directory(&prefix)?;
                        search.refuse_lakes(&keys.keys)?;
                        search.open(&keys, found)
                    }
                    false => Err(error),
                }
            }
        }
    }
}

/// Keys of objects.
#[derive(Default)]
struct Keys {
    keys: Vec<String>,
    /// The key of the directory below which names of directories say columns.
    root: String,
    /// Those in directories below one that was named.
    below: BTreeSet<String>,
}

impl Keys {
    fn one(key: &str) -> Keys {
        Keys {
            keys: vec![key.to_owned()],
            root: key.to_owned(),
            below: BTreeSet::new(),
        }
    }
}

/// One address, and the store that it is in.
struct Search<'a> {
    address: &'a Address,
    store: Arc<Store>,
}

impl Search<'_> {
    /// The keys of a directory or a pattern; `None` if it is neither by its name.
    fn keys(&self) -> Result<Option<Keys>> {
        let key = self.address.key();
        match () {
            () if self.address.scheme == Scheme::Http => Ok(None),
            () if key.contains(['*', '?', '[']) => self.fitting(key).map(Some),
            () if key.is_empty() || key.ends_with('/') => self.directory(key).map(Some),
            () => Ok(None),
        }
    }

    /// The objects that fit a pattern, and those of the directories that do.
    fn fitting(&self, pattern: &str) -> Result<Keys> {
        let wanted = pattern.trim_end_matches('/');
        let parsed =
            Pattern::new(wanted).map_err(|e| Error::usage(format!("is no pattern: {}", e.msg)))?;
        let literal = wanted.find(['*', '?', '[']).unwrap_or(wanted.len());
        let prefix = &wanted[..wanted[..literal].rfind('/').map_or(0, |slash| slash + 1)];
        let is_direct = !wanted[literal..].contains('/');
        let fits = |name: &str| parsed.matches_with(name, FITTING);
        let may_be = |name: &str| names_no_data(wanted) || !is_no_data(Path::new(name));
        let listing = self
            .store
            .list(prefix, is_direct)
            .map_err(Problem::of_input)?;
        if listing.keys.iter().any(|key| key == pattern) {
            return Ok(Keys::one(pattern));
        }
        let (mut keys, mut below) = (Vec::new(), BTreeSet::new());
        let mut directories: BTreeSet<String> = listing.directories.into_iter().collect();
        for key in listing.keys {
            let above = || Path::new(&key).ancestors().skip(1).filter_map(Path::to_str);
            directories.extend(above().filter(|above| !above.is_empty()).map(str::to_owned));
            if fits(&key) && may_be(&key) && pattern == wanted {
                keys.push(key);
            }
        }
        for directory in directories.iter().filter(|name| fits(name) && may_be(name)) {
            let of_directory = self.directory(&format!("{directory}/"))?;
            keys.extend(of_directory.keys);
            below.extend(of_directory.below);
        }
        keys.sort_unstable();
        keys.dedup();
        match keys.is_empty() {
            true => Err(Error::new(ErrorKind::NoFiles)),
            false => Ok(Keys {
                keys,
                root: prefix.to_owned(),
                below,
            }),
        }
    }

    /// The objects of a directory, and of those in it that say columns. Others in it are refused, as they are on a disk.
    fn directory(&self, prefix: &str) -> Result<Keys> {
        let listing = self.store.list(prefix, true).map_err(Problem::of_input)?;
        let is_data = |key: &String| key.starts_with(prefix) && !is_no_data(Path::new(key));
        let mut keys: Vec<_> = listing.keys.into_iter().filter(is_data).collect();
        let mut below = BTreeSet::new();
        if listing.directories.iter().any(is_data) {
            below = self.below(prefix)?;
            keys.extend(below.iter().cloned());
        }
        match keys.is_empty() {
            true => Err(Error::new(ErrorKind::NoFiles)),
            false => Ok(Keys {
                keys,
                root: prefix.to_owned(),
                below,
            }),
        }
    }

    /// The objects in directories of a directory, which all have to say columns.
    fn below(&self, prefix: &str) -> Result<BTreeSet<String>> {
        let listing = self.store.list(prefix, false).map_err(Problem::of_input)?;
        let mut below = BTreeSet::new();
        for key in listing.keys {
            let Some((directories, _)) = key
                .strip_prefix(prefix)
                .and_then(|key| key.rsplit_once('/'))
            else {
                continue;
            };
            let mut names = directories.split('/');
            if is_no_data(Path::new(&key)) || names.clone().any(|name| is_no_data(Path::new(name)))
            {
                continue;
            }
            if let Some(other) = names.find(|name| !names_column(name)) {
                let name = other.to_owned();
                return Err(Error::new(ErrorKind::Subdirectory { name }));
            }
            below.insert(key);
        }
        Ok(below)
    }

    /// Refuses objects of tables whose log says which of them count. Whoever may not list the bucket may read its objects
    /// all the same.
    fn refuse_lakes(&self, keys: &[String]) -> Result<()> {
        let parents: BTreeSet<&str> = keys
            .iter()
            .flat_map(|key| Path::new(key).ancestors().skip(1))
            .filter_map(Path::to_str)
            .collect();
        for parent in parents {
            let at = |name: &str| match parent {
                "" => format!("{name}/"),
                parent => format!("{parent}/{name}/"),
            };
            let has = |name: &str| self.store.has(&at(name)).unwrap_or(false);
            let is_iceberg = || {
                let listed = self.store.list(&at("metadata"), true);
                let mut keys = listed.into_iter().flat_map(|listing| listing.keys);
                keys.any(|key| key.ends_with(".metadata.json"))
            };
            let lake = match () {
                () if has("_delta_log") => "a Delta table",
                () if has(".hoodie") => "a Hudi table",
                () if is_iceberg() => "an Iceberg table",
                () => continue,
            };
            return Err(Error::of_a_lake(lake));
        }
        Ok(())
    }

    /// Opens objects.
    fn open(&self, wanted: &Keys, found: &mut Vec<Found>) -> Result<()> {
        let (keys, root) = (
            &wanted.keys,
            format!("{}{}", self.address.base(), wanted.root),
        );
        let bytes = (MAX_STARTS / keys.len().max(1) as u64).clamp(1 << 10, START_BYTES);
        let starts = self.store.start_all(keys, bytes);
        let starts = starts.map_err(|problem| problem.of_input())?;
        for (key, start) in keys.iter().zip(starts) {
            let shown = format!("{}{key}", self.address.base());
            let start = start.map_err(|problem| problem.of_input().in_path(&shown))?;
            let content = match start {
                Start::Stream(stream) => Content::Stream(stream),
                Start::Ranges(version, start) => {
                    if self.address.scheme == Scheme::Http && is_web_page(&start) {
                        return Err(Problem::WebPage.of_input().in_path(&shown));
                    }
                    let store = self.store.clone();
                    let object = Object::new(shown.clone(), store, key, version, start);
                    Content::Object(Arc::new(object))
                }
            };
            found.push(Found {
                path: shown.into(),
                root: (&root).into(),
                is_below: wanted.below.contains(key),
                content,
            });
        }
        Ok(())
    }
}

/// Whether a server sent a page for people, such as one that asks for a password.
fn is_web_page(start: &[u8]) -> bool {
    let start = start
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(start)
        .trim_ascii_start();
    let begins =
        |with: &[u8]| start.len() >= with.len() && start[..with.len()].eq_ignore_ascii_case(with);
    begins(b"<!doctype html") || begins(b"<html")
}
