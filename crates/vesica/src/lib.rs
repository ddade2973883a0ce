//! Private set intersection between two tables.
//!
//! Two parties each hold a table. The receiver learns which of its rows have a key that the
//! sender's table also has; the sender learns how many distinct keys the receiver has, and
//! nothing else. Everything runs over TLS between two identities that pin each other.
//!
//! One side receives, the other sends; either may listen. This is a complete program for the receiver:
//!
//! ```no_run
//! use vesica::{Destination, Endpoint, Identity, KeySpec, Party, NoProgress, Role, Source, SourceOptions};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let me = Identity::load("charity.key")?;
//!     println!("the other side needs this: {}", me.fingerprint());
//!     let peer = std::env::args().nth(1).ok_or("give the peer's fingerprint")?.parse()?;
//!
//!     let donors = Source::open("donors.csv", SourceOptions::default())?;
//!     let key = KeySpec::parse("email", &["email=email"])?;
//!     let party = Party::new(&me, peer, Endpoint::Connect("shop.example:7340".into()));
//!     let output = Destination::File("shared.csv".as_ref());
//!     let outcome = party.run(Role::Receiver, || Ok(&donors), &key, Some(output), &mut NoProgress)?;
//!     let report = outcome.finish()?;
//!     println!("{} keys in common", report.matches.unwrap_or(0));
//!     Ok(())
//! }
//! ```
//!
//! The sender's program runs as [`Role::Sender`], without an output, and may use [`Endpoint::Listen`]. Both return the
//! [`Report`] of the run; both fail with an [`Error`] that says whose fault it is and, where something helps,
//! what to do.
//!
//! A program that has its table in memory passes Arrow record batches ([`Source::from_batches`]), and gets
//! the matching rows back from [`Outcome::matched`] and [`select_rows`].
//!
//! Without a table, [`intersect`] takes byte strings, and [`intersect_digests`] hashes:
//!
//! ```no_run
//! # use vesica::{ConnectOptions, Endpoint, Identity, Intent, Role, Transport, connect, intersect};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (me, peer) = (Identity::generate()?, "vs1:".parse()?);
//! let endpoint = Endpoint::Connect("shop.example:7340".into());
//! let transport = Transport::Tls { identity: &me, peer, intent: Intent::Run(Role::Receiver) };
//! let connection = connect(&endpoint, &transport, &ConnectOptions::default())?;
//! let shared = intersect(connection, Role::Receiver, &["ann@example.org", "bob@example.org"])?;
//! println!("{shared:?} are in the shop's set too");
//! # Ok(())
//! # }
//! ```
//!
//! A run can end with a number in place of rows, such as the size of the intersection or a sum: [`Party::with`] has an example.
//! [`Connection::of_halves`] takes other streams than TLS.
//!
//! A side can also publish its table once ([`Publication`]), and serve it; others find their rows in it later, without a run
//! of both tables ([`LookUp`]), or keep it open for one small table after the other ([`OpenLookUp`]):
//!
//! ```no_run
//! use vesica::lookup::{Database, Service};
//! use vesica::session::Listener;
//! use vesica::{ConnectOptions, Destination, Identity, KeySpec, LookUp, NoProgress, Publication, Source, SourceOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (publisher, client) = (Identity::generate()?, Identity::generate()?);
//! let key = KeySpec::parse("email", &["email=email"])?;
//! let breached = Source::open("breached.csv", SourceOptions::default())?;
//! let publication = Publication::new(publisher.clone(), "secret-key");
//! publication.run(&breached, &key, "breached.vset".as_ref(), &mut NoProgress)?;
//!
//! let database = Database::open("secret-key".as_ref(), &publisher)?;
//! let service = Service::new(vec![client.fingerprint()], 10_000);
//! let listener = Listener::bind("0.0.0.0:7341")?;
//! let options = ConnectOptions { wait: std::time::Duration::MAX, ..ConnectOptions::default() };
//! database.serve(&publisher, &listener, &service, &options, &|_| {})?; // until options.interrupt is raised
//!
//! // The client, elsewhere.
//! let look_up = LookUp::new(client, publisher.fingerprint(), "shop.example:7341", "breached.vset");
//! let users = Source::open("users.csv", SourceOptions::default())?;
//! let output = Destination::File("found.csv".as_ref());
//! let found = look_up.run(&users, &key, Some(output), &mut NoProgress)?;
//! println!("{} of {} keys", found.report().matches, found.report().counts.items);
//! # Ok(())
//! # }
//! ```
//!
//! The result of a query is a table too (`tables::Query`, feature `adbc`), and rows can go to a table of a database
//! (`tables::TargetTable`). [`Party::check_table`] says what a run would see of a table.
//!
//! The names at the top are what most programs need. [`options`] reads them from text as the command does, and [`tables`],
//! [`session`], [`wire`], [`lookup`], [`files`] and `offline` are the crates below, with what else is in their fields and errors.
//!
//! All of this blocks the thread that calls it, for as long as a run takes: call it from an async function by what its
//! runtime has for that, such as tokio's `spawn_blocking`. Called directly it works, and holds up the other tasks. A
//! [guard](Interrupt::guard) in the async function ends the run if that is cancelled:
//!
//! ```no_run
//! # use vesica::{ConnectOptions, Error, Interrupt};
//! # fn run(_: ConnectOptions) -> Result<u64, Error> { Ok(0) }
//! async fn matches() -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
//!     let interrupt = Interrupt::new();
//!     let _guard = interrupt.guard();
//!     // For `Party::connect`, `LookUp::connect`, `connect` and `Database::serve`.
//!     let options = ConnectOptions { interrupt, ..ConnectOptions::default() };
//!     Ok(tokio::task::spawn_blocking(move || run(options)).await??)
//! }
//! ```
//!
//! Features that are on by default: `parquet` reads and writes Parquet, `phone` has the normalisation profile for phone
//! numbers, `unicode` those for text and e-mail addresses. Others: `adbc` has databases, `offline` prepared correlations
//! (`offline::OfflineStore`), dealers and generators of them, `tracing` an [`Observer`] that hands events to the crate of that
//! name, and `tee` checks what AMD SEV-SNP and Intel TDX say of these.
//!
//! Without optimisation the arithmetic takes 60 to 110 times as long. These two lines in the `Cargo.toml` of a program
//! optimise it in debug builds too:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 2
//! ```
//!
//! The first debug build then takes half an hour of a processor, and six minutes without them.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod account;
mod apart;
mod courier;
mod error;
mod items;
mod kept;
mod look_up;
mod memory;
mod observer;
pub mod options;
mod party;
mod peer_rows;
mod published;
mod shares;
mod spine;
mod split_job;
mod stored;
mod table;
mod withheld;
mod work_dir;

pub use account::Account;
pub use courier::{Carried, Courier, CourierStep, Over};
pub use error::{Error, JobProblem, WorkDirProblem};
pub use items::{intersect, intersect_digests};
pub use look_up::{LookUp, LookUpReport, LookedUp, OpenLookUp};
pub use memory::{Budget, Division, Storage};
#[cfg(feature = "tracing")]
pub use observer::Traced;
pub use observer::{Event, Observer, OfRun};
pub use party::{Checked, Gets, Outcome, Party, RemoteKeys, Resources, collect, no_match_hint};
pub use published::{PAYLOAD_BYTES, Publication, Published, Release, SetUpdate, Updated};
pub use split_job::{SplitJob, TaskEndpoint, TaskReport, Tasks};
pub use work_dir::prepare_work_dir;

pub use vesica_files::ErrorClass;
pub use vesica_session::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, Intent, Interrupt, Learns,
    NoProgress, ProtocolRequest, Report, Reveal, Role, Security, Terms, Transport, connect,
};
pub use vesica_tables::{Destination, KeySpec, RowSet, Rows, Source, SourceOptions, select_rows};

// What else the types above are made of.
#[cfg(feature = "offline")]
pub use vesica_offline as offline;
pub use {
    vesica_files as files, vesica_ledger as ledger, vesica_lookup as lookup,
    vesica_session as session, vesica_tables as tables, vesica_wire as wire,
};
