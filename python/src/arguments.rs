//! What is wrong with arguments before anything is done with them, whichever function has them.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use vesica::Intent;
use vesica::files::{Advice, DirectoryKind, holds_key};
use vesica::options::add_database;
use vesica::tables::{PathKind, Paths};

use crate::errors::{Failure, InPython};
use crate::identity::{Identity, KeyPair};
use crate::link::Link;
use crate::run::{party_that_fails, role_of, told};

/// The arguments of a function, by their names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Arguments {
    /// Whatever is text.
    texts: Vec<(String, OsString)>,
    /// Paths, with what is at them, and whether they are written.
    paths: Vec<(String, String, bool, PathBuf)>,
    database: Option<String>,
    database_file: Option<PathBuf>,
    driver: Option<String>,
    /// Whether a result goes to the database.
    to_database: bool,
}

impl Arguments {
    fn check(&self, identity: Option<&KeyPair>) -> Result<(), Failure> {
        let holds = |(_, text): &&(String, OsString)| holds_key(text.as_encoded_bytes());
        if let Some((name, _)) = self.texts.iter().find(holds) {
            let line = format!("`{name}` has a private key in it, which is not shown");
            let advice = Advice::from("give the path of the key's file, or an Identity");
            return Err(Failure::usage(line).and(Some(&advice)));
        }
        let mut paths = Paths::default();
        for (name, kind, is_written, path) in &self.paths {
            let kind = match kind.as_str() {
                "table" => PathKind::Table,
                "set" => PathKind::Set,
                "work directory" => PathKind::Directory(DirectoryKind::WorkDir),
                "courier directory" => PathKind::Directory(DirectoryKind::Courier),
                "job directory" => PathKind::Directory(DirectoryKind::Job),
                "staging directory" => PathKind::Directory(DirectoryKind::Jobs),
                "database directory" => PathKind::Directory(DirectoryKind::Database),
                "state directory" => PathKind::Directory(DirectoryKind::LookUp),
                "store directory" => PathKind::Directory(DirectoryKind::Store),
                _ => PathKind::File,
            };
            let name = format!("`{name}`");
            match is_written {
                true => paths.writes(name, kind, path),
                false => paths.reads(name, kind, path),
            }
        }
        let (uri, driver) = (self.database.as_deref(), self.driver.as_deref());
        let file = self.database_file.as_deref();
        add_database(&mut paths, &InPython, uri, file, driver, self.to_database);
        paths.reads_credentials();
        for file in identity.map(KeyPair::files).unwrap_or_default() {
            paths.reads("the identity file", PathKind::File, &file);
        }
        Ok(paths.check()?)
    }
}

/// Refuses private keys, of which nothing is shown, paths of several lines, and what would be written in the place of
/// anything else. The peer of a run hears that this side cannot take part.
#[pyfunction]
pub(crate) fn check_arguments(
    py: Python<'_>,
    arguments: Arguments,
    identity: Option<&Identity>,
    link: Option<&Link>,
    role: Option<&str>,
) -> PyResult<()> {
    let own = identity.map(|identity| &*identity.0);
    let own = own.or(link.map(|link| &*link.identity));
    let checked = arguments.check(own);
    match (link, role) {
        (Some(link), Some(role)) => {
            let intent = Intent::Run(role_of(role)?);
            told(py, intent, || party_that_fails(link), checked)
        }
        _ => Ok(checked?),
    }
}
