//! `vesica ledger`: what the account of answers says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use vesica::Fingerprint;
use vesica::ledger::{Begun, Book, Ended, Entry, Ledger as File, Refused};
use vesica_files::{WholeFile, many, read_regular, state_directory};
use vesica_session::{Contract, Receipt, Receipts, VERSION};
use vesica_wire::is_hidden;

use crate::failure::{DATA, Failure, RESOURCE};
use crate::log::{self, Level};
use crate::paths::{InputPath, OutputFile};
use crate::stdout::{print, print_line};

/// Most bytes of a file of receipts.
const MAX_RECEIPTS: u64 = 1 << 28;

#[derive(Debug, Args)]
pub(crate) struct Ledger {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Prints what was answered: a line for each run that has begun
    List(List),
    /// Checks every line, contract and receipt, and that the file is the last that was written here
    ///
    /// A file that was cut at its end, or is an older copy, is found if it was written by this user on this machine, or if a peer
    /// hands over the receipts that it has: --receipts. Give all ledgers of a side together, since its peer has receipts of all.
    Verify(Verify),
    /// Says that a ledger that comes from another machine is the last version of it: later ones are compared with it
    Adopt(Named),
    /// Writes runs with their contracts, receipts and ends, for an auditor or a spreadsheet
    Export(Export),
}

/// A ledger.
#[derive(Debug, Args)]
struct Named {
    /// The ledger, as runs with --ledger have written it
    #[arg(value_name = "LEDGER")]
    file: InputPath,
}

/// Some of its runs.
#[derive(Debug, Args)]
struct Chosen {
    #[command(flatten)]
    of: Named,
    /// Only runs with this peer
    #[arg(long, value_name = "vs1:…")]
    peer: Option<Fingerprint>,
    /// Only runs of this name, which the reports of both sides have
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    chosen: Chosen,
    /// Print a JSON array instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Verify {
    /// The ledgers, as runs with --ledger have written them
    #[arg(value_name = "LEDGER", required = true)]
    files: Vec<InputPath>,
    /// File of receipts that a peer has of this side, as its `vesica ledger export --receipts` writes them: each that is by an
    /// identity of these ledgers has to be of one of their entries
    #[arg(long, value_name = "FILE")]
    receipts: Vec<InputPath>,
    /// Another identity that this side has had
    #[arg(long, value_name = "vs1:…", requires = "receipts")]
    identity: Vec<Fingerprint>,
}

#[derive(Debug, Args)]
struct Export {
    #[command(flatten)]
    chosen: Chosen,
    /// Only what both sides have signed, one JSON object for each run: for the peer, or for whoever judges
    #[arg(long, conflicts_with = "csv")]
    receipts: bool,
    /// Write CSV instead of JSON Lines, without contracts and receipts
    #[arg(long)]
    csv: bool,
    /// File to write; standard output if not given
    #[arg(long, value_name = "FILE")]
    output: Option<OutputFile>,
}

pub(crate) fn run(options: &Ledger) -> Result<(), Failure> {
    match &options.action {
        Action::List(list) => list.run(),
        Action::Verify(verify) => verify.run(),
        Action::Adopt(named) => named.adopt(),
        Action::Export(export) => export.run(),
    }
}

/// A run, with what is known of its end.
struct Run<'a> {
    entry: &'a Entry,
    begun: &'a Begun,
    receipts: Option<&'a Receipts>,
    ended: Option<(&'a Entry, &'a Ended)>,
}

/// The ledger in a file; what is kept outside of it is compared if there is a place for that.
fn ledger(path: &Path) -> File {
    let file = File::new(path);
    match state_directory("ledgers") {
        Ok(state) => file.with_state(state),
        Err(_) => file,
    }
}

impl Named {
    fn read(&self) -> Result<Book, Failure> {
        Ok(ledger(&self.file).read().map_err(vesica::Error::from)?)
    }

    fn adopt(&self) -> Result<(), Failure> {
        Ok(ledger(&self.file).adopt().map_err(vesica::Error::from)?)
    }
}

impl Chosen {
    /// Something of each run, and of each that rules did not allow, which has no name; in the order of their entries.
    fn each<T>(
        &self,
        book: &Book,
        of_run: impl Fn(&Run<'_>) -> T,
        of_refused: impl Fn(&Entry, &Refused) -> T,
    ) -> Vec<T> {
        let peer = self.peer.map(|peer| peer.to_string());
        let refused = book.refused().filter(|(_, refused)| {
            self.run.is_none() && peer.as_ref().is_none_or(|peer| refused.peer == *peer)
        });
        let runs = self.runs(book).map(|run| (run.entry.entry, of_run(&run)));
        let refused = refused.map(|(entry, refused)| (entry.entry, of_refused(entry, refused)));
        let mut all: Vec<(u64, T)> = runs.chain(refused).collect();
        all.sort_by_key(|(entry, _)| *entry);
        all.into_iter().map(|(_, each)| each).collect()
    }

    fn runs<'a>(&'a self, book: &'a Book) -> impl Iterator<Item = Run<'a>> {
        let peer = self.peer.map(|peer| peer.to_string());
        let is_chosen = move |begun: &Begun| {
            peer.as_ref().is_none_or(|peer| begun.peer == *peer)
                && self.run.as_ref().is_none_or(|run| begun.run == *run)
        };
        let runs = book.runs().filter(move |(_, begun)| is_chosen(begun));
        runs.map(|(entry, begun)| Run {
            entry,
            begun,
            receipts: book.receipts(entry.entry).map(|taken| &taken.receipts),
            ended: book.ended(entry.entry),
        })
    }
}

/// A line of a list.
fn refused_line(entry: &Entry, refused: &Refused) -> String {
    let rule = match &refused.rule {
        Some(rule) => format!("by the rule \"{}\"", rule.escape_debug()),
        None => "by no rule that is for it".to_owned(),
    };
    format!(
        "{}  {}  {} refused {rule}, {}, {}, with {}",
        entry.entry,
        entry.time,
        refused.command,
        refused.reveals,
        refused.table.escape_debug(),
        refused.peer
    )
}

fn refused_json(entry: &Entry, refused: &Refused) -> Value {
    json!({"entry": entry.entry, "time": entry.time, "hash": entry.hash, "refused": refused})
}

impl Run<'_> {
    fn result(&self) -> String {
        match self.ended {
            Some((_, ended)) => match serde_json::to_value(ended.result) {
                Ok(Value::String(name)) if ended.unanswered => format!("{name}, unanswered"),
                Ok(Value::String(name)) => name,
                _ => String::new(),
            },
            None if self.begun.command == "serve" => "answered".to_owned(),
            None => "unknown".to_owned(),
        }
    }

    /// A line of a list.
    fn line(&self) -> String {
        let Begun {
            command,
            reveals,
            told,
            table,
            items,
            peer_items,
            peer,
            ..
        } = self.begun;
        let told = match told == "both" {
            true => " to both",
            false => "",
        };
        let quoted = |name: &str, text: &str| match text.is_empty() {
            true => String::new(),
            false => format!(", {name} \"{}\"", text.escape_debug()),
        };
        let purposes = [
            quoted("for", &self.begun.purpose),
            quoted("the peer's for", &self.begun.peer_purpose),
        ]
        .concat();
        let receipts = match self.receipts {
            Some(_) => "receipts",
            None => "no receipts",
        };
        let epsilon = match &self.begun.epsilon {
            Some(epsilon) => format!(", epsilon {epsilon}"),
            None => String::new(),
        };
        format!(
            "{}  {}  {command} {}, {reveals}{told}, {} of {items} and {peer_items} keys{epsilon}, with {peer}, {receipts}, {}{purposes}",
            self.entry.entry,
            self.entry.time,
            self.begun.run,
            table.escape_debug(),
            self.result(),
        )
    }

    /// All that is known of it.
    fn json(&self) -> Value {
        json!({
            "entry": self.entry.entry,
            "time": self.entry.time,
            "hash": self.entry.hash,
            "begun": self.begun,
            "receipts": self.receipts,
            "ended": self.ended.map(|(entry, ended)| json!({
                "entry": entry.entry,
                "time": entry.time,
                "result": ended.result,
                "unanswered": ended.unanswered,
                "answer": ended.answer,
            })),
        })
    }

    /// What both sides have signed; nothing if they did not.
    fn signed(&self) -> Option<Value> {
        let receipts = self.receipts?;
        Some(json!({
            "run": self.begun.run,
            "contract": self.begun.contract,
            "given": receipts.given,
            "taken": receipts.taken,
        }))
    }

    fn record(&self) -> [String; 19] {
        let Begun {
            run,
            command,
            role,
            identity,
            peer,
            reveals,
            told,
            table,
            rows,
            items,
            peer_items,
            purpose,
            peer_purpose,
            epsilon,
            user,
            host,
            ..
        } = self.begun;
        let ended = self.ended.map_or("", |(entry, _)| &entry.time);
        [
            self.entry.entry.to_string(),
            self.entry.time.clone(),
            ended.to_owned(),
            self.result(),
            run.clone(),
            command.clone(),
            role.map_or_else(String::new, |role| role.to_string()),
            identity.clone(),
            peer.clone(),
            reveals.clone(),
            told.clone(),
            table.clone(),
            rows.to_string(),
            items.to_string(),
            peer_items.to_string(),
            purpose.clone(),
            peer_purpose.clone(),
            epsilon.map_or_else(String::new, |epsilon| epsilon.to_string()),
            format!("{user}@{host}"),
        ]
    }
}

/// A text that no spreadsheet takes for a formula.
fn as_text(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    }
}

/// The columns of [`Run::record`].
const COLUMNS: [&str; 19] = [
    "entry",
    "begun",
    "ended",
    "result",
    "run",
    "command",
    "role",
    "identity",
    "peer",
    "reveals",
    "told",
    "table",
    "rows",
    "items",
    "peer_items",
    "purpose",
    "peer_purpose",
    "epsilon",
    "by",
];

impl List {
    fn run(&self) -> Result<(), Failure> {
        let book = self.chosen.of.read()?;
        if self.json {
            let all = self.chosen.each(&book, |run| run.json(), refused_json);
            return print_line(&Value::from(all).to_string());
        }
        let shown = |line: String| -> String {
            let shown = line.chars().map(|c| if is_hidden(c) { ' ' } else { c });
            shown.chain(['\n']).collect()
        };
        let lines = self.chosen.each(&book, |run| run.line(), refused_line);
        let lines: String = lines.into_iter().map(shown).collect();
        print(lines.as_bytes())
    }
}

impl Verify {
    fn run(&self) -> Result<(), Failure> {
        let mut books = Vec::new();
        for file in &self.files {
            books.push(verified(file)?);
        }
        let mut own: BTreeSet<String> = self.identity.iter().map(ToString::to_string).collect();
        for (_, begun) in books.iter().flat_map(Book::runs) {
            own.insert(begun.identity.clone());
        }
        for file in &self.receipts {
            check_receipts(&books, &own, file)?;
        }
        for (file, book) in self.files.iter().zip(&books) {
            let name = match self.files.len() {
                1 => String::new(),
                _ => format!("{}: ", file.display()),
            };
            print_line(&format!(
                "{name}{}, {}, the last with hash {}",
                many(book.entries().len() as u64, "entry"),
                many(book.runs().count() as u64, "run"),
                book.head(),
            ))?;
        }
        Ok(())
    }
}

/// A ledger whose every line, contract and receipt is as it was written.
fn verified(file: &InputPath) -> Result<Book, Failure> {
    let ledger = ledger(file);
    let book = ledger.read().map_err(vesica::Error::from)?;
    let warn = |text: String| log::say(Level::Warning, &format!("{}: {text}", file.display()));
    if !ledger.is_known().map_err(vesica::Error::from)? {
        warn("nothing here says which entry is the last: an older copy is not noticed".into());
    }
    let unknown = book.check().map_err(|(entry, what)| {
        Failure::new(
            DATA,
            format!("the ledger {}: entry {entry} {what}", file.display()),
        )
    })?;
    for entry in unknown {
        warn(format!(
            "the contract of entry {entry} has terms of a program, or is of another version: its hash is not computed again"
        ));
    }
    for line in book.torn() {
        warn(format!(
            "line {line} is a part of an entry: it was not written whole, and nothing was answered by it, or it was cut since"
        ));
    }
    let is_open = |(entry, begun): &(&Entry, &Begun)| {
        begun.command != "serve" && book.ended(entry.entry).is_none()
    };
    if let open @ 1.. = book.runs().filter(is_open).count() {
        let runs = many(open as u64, "run");
        warn(format!(
            "how {runs} ended is not known here: each may have been answered"
        ));
    }
    Ok(book)
}

/// Checks that all that a side has given a receipt for is in its ledgers.
fn check_receipts(books: &[Book], own: &BTreeSet<String>, file: &InputPath) -> Result<(), Failure> {
    let wrong = |line: usize, what: &str| {
        Failure::new(DATA, format!("{}: line {line} {what}", file.display()))
    };
    let bytes = read_regular(file, MAX_RECEIPTS)
        .map_err(|e| Failure::new(DATA, format!("{}: {e}", file.display())))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(1, "is no text"))?;
    let (mut held, mut others) = (0, BTreeMap::<String, u64>::new());
    for (number, line) in (1..).zip(text.lines()) {
        let value: Value =
            serde_json::from_str(line).map_err(|_| wrong(number, "is no receipt"))?;
        // What the peer has taken is what this side has given.
        let receipt: Receipt = serde_json::from_value(value["taken"].clone())
            .map_err(|_| wrong(number, "has no receipt"))?;
        let statement = receipt
            .verify()
            .map_err(|what| wrong(number, &format!("has a receipt that is not valid: {what}")))?;
        let contract: Option<Contract> = serde_json::from_value(value["contract"].clone()).ok();
        let is_known = value["contract"]["version"] == VERSION;
        let is_whole = contract.is_some_and(|contract| contract.is_whole());
        let is_of_contract = value["contract"]["hash"] == *statement.contract;
        if value["run"] != *statement.run || !is_of_contract || is_known && !is_whole {
            return Err(wrong(number, "has a receipt of another run or contract"));
        }
        let given: Option<Receipt> = serde_json::from_value(value["given"].clone()).ok();
        let given = given.and_then(|given| given.verify().ok());
        if given.is_none_or(|given| given.session != statement.session) {
            return Err(wrong(
                number,
                "has no valid receipt of the peer for this run",
            ));
        }
        if !own.contains(&statement.by) {
            *others.entry(statement.by).or_default() += 1;
            continue;
        }
        let by = format!("a receipt that {} gave at {}", statement.by, statement.time);
        if statement.head().is_none() {
            return Err(wrong(number, &format!("has {by} without a ledger")));
        }
        let is_held = |book: &Book| book.holds(&receipt).is_ok_and(|entry| entry.is_some());
        if !books.iter().any(is_held) {
            let what = "for a run that is in none of these ledgers: one was cut, is an older copy, or is not given";
            return Err(wrong(number, &format!("has {by} {what}")));
        }
        held += 1;
    }
    for (by, count) in others {
        let line = format!(
            "{}: {} by {by}, who has no entry in these ledgers; if that was this side, give --identity {by}",
            file.display(),
            many(count, "receipt")
        );
        log::say(Level::Warning, &line);
    }
    match held {
        0 => Err(Failure::new(
            DATA,
            format!(
                "{}: no receipt is by an identity of these ledgers",
                file.display()
            ),
        )),
        held => {
            let line = format!(
                "{}: {} of entries of these ledgers",
                file.display(),
                many(held, "receipt")
            );
            log::say(Level::Info, &line);
            Ok(())
        }
    }
}

impl Export {
    fn run(&self) -> Result<(), Failure> {
        let book = self.chosen.of.read()?;
        let lines = |values: Vec<Value>| -> Vec<u8> {
            let lines = values.iter().map(|value| format!("{value}\n"));
            lines.flat_map(String::into_bytes).collect()
        };
        let runs = self.chosen.runs(&book);
        let out = match (self.csv, self.receipts) {
            (true, _) => self.csv(&book)?,
            (false, true) => lines(runs.filter_map(|run| run.signed()).collect()),
            (false, false) => lines(self.chosen.each(&book, |run| run.json(), refused_json)),
        };
        let Some(path) = &self.output else {
            return print(&out);
        };
        let written = WholeFile::create(path).and_then(|mut file| {
            file.write_all(&out)?;
            file.commit()
        });
        written.map_err(|e| Failure::new(RESOURCE, format!("{}: {e}", path.display())))
    }

    fn csv(&self, book: &Book) -> Result<Vec<u8>, Failure> {
        let failed = |e: csv::Error| Failure::new(RESOURCE, format!("CSV: {e}"));
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(COLUMNS).map_err(failed)?;
        for run in self.chosen.runs(book) {
            csv.write_record(run.record().map(as_text))
                .map_err(failed)?;
        }
        let written = csv.into_inner();
        written.map_err(|e| failed(e.into_error().into()))
    }
}
