//! `vesica demo`: the main job on sample data, with two processes of this program.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use tempfile::TempDir;
use vesica::{Fingerprint, Identity};

use crate::failure::{Failure, NETWORK, RESOURCE};
use crate::signals::Signals;
use crate::stdout::print_line;

const DONORS: &str = include_str!("../data/donors.csv");
const CUSTOMERS: &str = include_str!("../data/customers.csv");
/// How many rows of the result to show.
const SHOWN: usize = 10;

pub(crate) fn run() -> Result<(), Failure> {
    // The identities are secrets in a directory that must not stay, whatever happens.
    let signals = Signals::install()?;
    signals.stop_in_order();
    let directory = private_directory()?;
    let outcome = scene(directory.path(), &signals);
    directory
        .close()
        .map_err(|e| Failure::new(RESOURCE, format!("the demo's files cannot be removed: {e}")))?;
    match outcome {
        Err(_) if signals.interrupt().is_raised() => Err(Failure::new(NETWORK, "interrupted")),
        other => other,
    }
}

fn private_directory() -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("vesica-demo-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o700));
    }
    builder
        .tempdir()
        .map_err(|e| Failure::new(RESOURCE, format!("no temporary directory to be had: {e}")))
}

fn scene(directory: &Path, signals: &Signals) -> Result<(), Failure> {
    print_line(
        "A charity has 200 gifts, a shop has 295 customers. The charity wants to know which of its",
    )?;
    print_line(
        "donors shop there; neither wants to show the other its list. Both run one command, here as",
    )?;
    print_line("two processes on this machine, over TLS, each with the other's fingerprint.\n")?;
    write(directory, "donors.csv", DONORS)?;
    write(directory, "customers.csv", CUSTOMERS)?;
    let charity = identity(directory, "charity.key")?;
    let shop = identity(directory, "shop.key")?;

    let mut sender = Party::start(
        "shop",
        directory,
        &format!(
            "send --input customers.csv --key contact --normalize contact=email \
             --listen 127.0.0.1:0 --identity shop.key --peer {charity}"
        ),
    )?;
    let address = sender.address()?;
    let receiver = Party::start(
        "charity",
        directory,
        &format!(
            "receive --input donors.csv --key email --normalize email=email \
             --connect {address} --identity charity.key --peer {shop} --output shared.csv"
        ),
    )?;
    let received = receiver.finish()?;
    // A charity that failed may never have met the shop, which would go on waiting; it is ended then.
    received.check()?;
    let sent = sender.finish()?;
    if signals.interrupt().is_raised() {
        return Err(Failure::new(NETWORK, "interrupted"));
    }
    sent.check()?;

    let path = directory.join("shared.csv");
    let result = fs::read_to_string(&path)
        .map_err(|e| Failure::new(RESOURCE, format!("the result cannot be read: {e}")))?;
    let lines: Vec<&str> = result.lines().collect();
    print_line("\nThe charity's shared.csv:\n")?;
    for line in lines.iter().take(1 + SHOWN) {
        print_line(&format!("  {line}"))?;
    }
    let matches = lines.len().saturating_sub(1);
    if matches > SHOWN {
        print_line(&format!("  … and {} more", matches - SHOWN))?;
    }
    if result != plain_intersection()? {
        return Err(Failure::new(
            RESOURCE,
            "the result differs from a plain intersection of the two tables",
        ));
    }
    print_line(&format!(
        "\n{matches} of the charity's 200 rows match; a plain intersection of the two tables gives the same.\n"
    ))?;
    count_alone(directory, signals, (charity, shop), result.as_str())
}

/// The size of the intersection, and the sum of the orders of those customers, without the rows.
fn count_alone(
    directory: &Path,
    signals: &Signals,
    (charity, shop): (Fingerprint, Fingerprint),
    result: &str,
) -> Result<(), Failure> {
    print_line(
        "If only a number is wanted, nobody learns the rows: how many donors shop there, and how",
    )?;
    print_line("often they have ordered.\n")?;
    let (donors, orders) = plain_numbers(result)?;
    for (reveal, value, expected) in [("size", "", donors), ("sum", " --value orders", orders)] {
        let mut sender = Party::start(
            "shop",
            directory,
            &format!(
                "send --input customers.csv --key contact --normalize contact=email{value} \
                 --reveal {reveal} --security semi-honest \
                 --listen 127.0.0.1:0 --identity shop.key --peer {charity}"
            ),
        )?;
        let address = sender.address()?;
        let receiver = Party::start(
            "charity",
            directory,
            &format!(
                "receive --input donors.csv --key email --normalize email=email \
                 --reveal {reveal} --security semi-honest \
                 --connect {address} --identity charity.key --peer {shop}"
            ),
        )?;
        let received = receiver.finish()?;
        received.succeeded()?;
        sender.finish()?.succeeded()?;
        if signals.interrupt().is_raised() {
            return Err(Failure::new(NETWORK, "interrupted"));
        }
        print_line(&format!("  {}", received.printed.trim_end()))?;
        if received.printed.trim_end() != expected.to_string() {
            let line = format!("the {reveal} differs from that of the plain intersection");
            return Err(Failure::new(RESOURCE, line));
        }
        print_line("")?;
    }
    Ok(())
}

/// How many customers are donors, and their orders, in the clear.
fn plain_numbers(result: &str) -> Result<(u64, u64), Failure> {
    let donors: HashSet<String> = csv::Reader::from_reader(result.as_bytes())
        .records()
        .map(|row| row.map(|row| address(&row, 1)))
        .collect::<Result<_, _>>()
        .map_err(broken)?;
    let mut orders = 0;
    for row in csv::Reader::from_reader(CUSTOMERS.as_bytes()).records() {
        let row = row.map_err(broken)?;
        if donors.contains(&address(&row, 2)) {
            orders += address(&row, 4).parse::<u64>().unwrap_or(0);
        }
    }
    Ok((donors.len() as u64, orders))
}

fn broken(e: csv::Error) -> Failure {
    Failure::new(RESOURCE, format!("the sample data are broken: {e}"))
}

/// An address of a row, trimmed and in lower case.
fn address(row: &csv::StringRecord, column: usize) -> String {
    row.get(column).unwrap_or_default().trim().to_lowercase()
}

/// What should come out: the donors whose address a customer has.
fn plain_intersection() -> Result<String, Failure> {
    let customers: HashSet<String> = csv::Reader::from_reader(CUSTOMERS.as_bytes())
        .records()
        .map(|row| row.map(|row| address(&row, 2)))
        .collect::<Result<_, _>>()
        .map_err(broken)?;
    let mut donors = csv::Reader::from_reader(DONORS.as_bytes());
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(donors.headers().map_err(broken)?)
        .map_err(broken)?;
    for row in donors.records() {
        let row = row.map_err(broken)?;
        let email = address(&row, 1);
        if !email.is_empty() && customers.contains(&email) {
            out.write_record(&row).map_err(broken)?;
        }
    }
    let bytes = out
        .into_inner()
        .map_err(|e| Failure::new(RESOURCE, format!("no room for the result: {e}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn identity(directory: &Path, name: &str) -> Result<Fingerprint, Failure> {
    let identity = Identity::generate()?;
    identity.save(&directory.join(name))?;
    Ok(identity.fingerprint())
}

fn write(directory: &Path, name: &str, content: &str) -> Result<(), Failure> {
    fs::write(directory.join(name), content)
        .map_err(|e| Failure::new(RESOURCE, format!("{name}: cannot be written: {e}")))
}

/// One of the two processes. Dropping it ends the process.
struct Party {
    name: &'static str,
    process: Child,
    errors: Option<BufReader<std::process::ChildStderr>>,
    /// What has been read of its standard error.
    said: String,
    out: Option<std::process::ChildStdout>,
}

/// A process that has ended.
struct Finished {
    name: &'static str,
    status: ExitStatus,
    said: String,
    /// Its standard output.
    printed: String,
}

impl Party {
    fn start(name: &'static str, directory: &Path, arguments: &str) -> Result<Party, Failure> {
        let short: Vec<&str> = arguments.split_whitespace().collect();
        print_line(&format!("{name}$ vesica {}\n", short.join(" ")))?;
        let process = std::env::current_exe().and_then(|me| {
            let mut command = Command::new(me);
            // Options from the environment are not the demo's.
            for (name, _) in std::env::vars_os() {
                if name.as_encoded_bytes().starts_with(b"VESICA_") {
                    command.env_remove(name);
                }
            }
            command
                .args(&short)
                .args(["--progress", "plain"])
                .current_dir(directory)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        });
        let mut process = process
            .map_err(|e| Failure::new(RESOURCE, format!("the {name} cannot be started: {e}")))?;
        let errors = process.stderr.take().map(BufReader::new);
        let out = process.stdout.take();
        Ok(Party {
            name,
            process,
            errors,
            out,
            said: String::new(),
        })
    }

    /// Waits until it listens; returns the address.
    fn address(&mut self) -> Result<String, Failure> {
        if let Some(errors) = &mut self.errors {
            for line in errors.lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("listening on ") {
                    return Ok(address.to_owned());
                }
                self.said.push_str(&line);
                self.said.push('\n');
            }
        }
        Err(Failure::new(
            NETWORK,
            format!("the {} does not listen: {}", self.name, self.said),
        ))
    }

    /// Waits for its end.
    fn finish(mut self) -> Result<Finished, Failure> {
        let reading: Option<JoinHandle<String>> = self.errors.take().map(|mut errors| {
            std::thread::spawn(move || {
                let mut rest = String::new();
                // What is not text is not ours; the exit code still tells.
                let _ = errors.read_to_string(&mut rest);
                rest
            })
        });
        let mut printed = String::new();
        if let Some(mut out) = self.out.take() {
            // As above.
            let _ = out.read_to_string(&mut printed);
        }
        let status = self
            .process
            .wait()
            .map_err(|e| Failure::new(RESOURCE, format!("the {} is lost: {e}", self.name)))?;
        if let Some(rest) = reading.and_then(|thread| thread.join().ok()) {
            self.said.push_str(&rest);
        }
        Ok(Finished {
            name: self.name,
            status,
            said: std::mem::take(&mut self.said),
            printed,
        })
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // A process that has ended by itself is past being ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Finished {
    /// Fails if it failed.
    fn succeeded(&self) -> Result<(), Failure> {
        if !self.status.success() {
            let code = self.status.code().and_then(|c| u8::try_from(c).ok());
            let said = self.said.lines().find_map(|l| l.strip_prefix("vesica: "));
            return Err(Failure::new(
                code.unwrap_or(NETWORK),
                format!("the {} failed: {}", self.name, said.unwrap_or(&self.said)),
            ));
        }
        Ok(())
    }

    /// Shows what it said; fails if it failed.
    fn check(&self) -> Result<(), Failure> {
        self.succeeded()?;
        print_line(&format!("the {} says:", self.name))?;
        for line in self.said.lines() {
            print_line(&format!("  {line}"))?;
        }
        Ok(())
    }
}
