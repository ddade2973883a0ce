//! `vesica demo`: the main job on sample data, with two processes of this program.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use vesica::{Fingerprint, Identity};

use crate::failure::{Failure, INTERRUPTED, NETWORK, RESOURCE};
use crate::process::{Finished, Process, private_directory};
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
    let directory = private_directory("vesica-demo-")?;
    let outcome = scene(directory.path(), &signals);
    directory
        .close()
        .map_err(|e| Failure::new(RESOURCE, format!("the demo's files cannot be removed: {e}")))?;
    match outcome {
        Err(_) if signals.interrupt().is_raised() => Err(Failure::new(INTERRUPTED, "interrupted")),
        other => other,
    }
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

    let mut sender = start(
        "shop",
        directory,
        &format!(
            "send --input customers.csv --key contact --normalize contact=email \
             --listen 127.0.0.1:0 --identity shop.key --peer {charity}"
        ),
    )?;
    let address = listening(&mut sender)?;
    let receiver = start(
        "charity",
        directory,
        &format!(
            "receive --input donors.csv --key email --normalize email=email \
             --connect {address} --identity charity.key --peer {shop} --output shared.csv"
        ),
    )?;
    let received = receiver.finish(signals.interrupt())?;
    // A charity that failed may never have met the shop, which would go on waiting; it is ended then.
    show("charity", &received)?;
    let sent = sender.finish(signals.interrupt())?;
    show("shop", &sent)?;

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
        let mut sender = start(
            "shop",
            directory,
            &format!(
                "send --input customers.csv --key contact --normalize contact=email{value} \
                 --reveal {reveal} --security semi-honest \
                 --listen 127.0.0.1:0 --identity shop.key --peer {charity}"
            ),
        )?;
        let address = listening(&mut sender)?;
        let receiver = start(
            "charity",
            directory,
            &format!(
                "receive --input donors.csv --key email --normalize email=email \
                 --reveal {reveal} --security semi-honest \
                 --connect {address} --identity charity.key --peer {shop}"
            ),
        )?;
        let received = receiver.finish(signals.interrupt())?;
        received.check()?;
        sender.finish(signals.interrupt())?.check()?;
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

/// Starts one of the two processes, and shows its command.
fn start(name: &'static str, directory: &Path, arguments: &str) -> Result<Process, Failure> {
    let short: Vec<&str> = arguments.split_whitespace().collect();
    print_line(&format!("{name}$ vesica {}\n", short.join(" ")))?;
    let more = ["--progress", "plain"];
    let arguments: Vec<String> = short.into_iter().chain(more).map(str::to_owned).collect();
    Process::start(name, directory, &arguments, &[])
}

/// Where a process listens; fails if it does not.
fn listening(process: &mut Process) -> Result<String, Failure> {
    let address = process.address(|line| line.strip_prefix("listening on ").map(str::to_owned));
    address.ok_or_else(|| Failure::new(NETWORK, process.problem("does not listen")))
}

/// Shows what a process said; fails if it failed.
fn show(name: &str, finished: &Finished) -> Result<(), Failure> {
    finished.check()?;
    print_line(&format!("the {name} says:"))?;
    for line in finished.said.lines() {
        print_line(&format!("  {line}"))?;
    }
    Ok(())
}
