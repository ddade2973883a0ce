//! `vesica receive` and `vesica send`

use std::path::Path;
use std::sync::OnceLock;

use serde_json::json;
use vesica::tables::{TargetTable, put_csv_line};
use vesica::{
    ConnectOptions, Destination, Gets, Intent, KeySpec, Party, Report, Role, Rows, SourceOptions,
    no_match_hint,
};
use vesica_session::terms::REVEAL;
use vesica_session::{GroupMinimum, GroupNumbers};

use crate::args::{Columns, Meeting, Opener, Receive, RunOptions, Send, Table};
use crate::conditions::Conditions;
use crate::failure::{Failure, InCommand};
use crate::invited::WithInvitation;
use crate::log::{self, Level};
use crate::progress::Progress;
use crate::report::{Record, Reporting};
use crate::signals::{self, Signals};
use crate::stdout::{check_open, print, print_line};
use crate::summary::summary;

pub(crate) fn receive(options: &Receive, conditions: Conditions) -> Result<(), Failure> {
    recorded(&Side {
        role: Role::Receiver,
        table: &options.table,
        link: &options.link,
        run: &options.run,
        takes_payload: options.take_payload,
        conditions,
    })
}

pub(crate) fn send(options: &Send, conditions: Conditions) -> Result<(), Failure> {
    recorded(&Side {
        role: Role::Sender,
        table: &options.table,
        link: &options.link,
        run: &options.run,
        takes_payload: false,
        conditions,
    })
}

/// What one side asks for.
struct Side<'a> {
    role: Role,
    table: &'a Table,
    link: &'a Meeting,
    run: &'a RunOptions,
    takes_payload: bool,
    conditions: Conditions,
}

impl Side<'_> {
    /// Which rows the result has, if that was asked for.
    fn rows(&self) -> Option<Rows> {
        let aligned = self.run.align.then_some(Rows::Aligned);
        self.run.result.rows.or(aligned)
    }
}

/// Tells the peer that this side cannot take part, if it may know of the failure, before there is a party.
pub(crate) fn tell_of(failure: &Failure, role: Role, link: &Meeting, conditions: Conditions) {
    if let Ok(identity) = link.who.load()
        && let (Some(problem), Ok(endpoint)) = (failure.problem(), link.endpoint())
        && let Ok(connect) = link.reach(ConnectOptions::default())
    {
        let party = Party {
            connect,
            plaintext_for_benchmarks_only: conditions.is_plaintext,
            ..Party::new(&identity, link.who.peer(), endpoint)
        };
        party.tell_problem(Intent::Run(role), problem);
    }
}

/// A run with its report.
fn recorded(side: &Side<'_>) -> Result<(), Failure> {
    let of = side.run.reporting(side.role, side.link);
    let output = output_file(side).unwrap_or(of.output);
    let record = Record::open(Reporting { output, ..of });
    let mut record = record.inspect_err(|failure| {
        // Nobody is met by an invitation that is not confirmed.
        if !side.run.invited.is_given() {
            tell_of(failure, side.role, side.link, side.conditions);
        }
    })?;
    let (output, report) = match run(side, &mut record) {
        Ok(done) => done,
        Err(failure) => {
            let failure = signals::cause(failure);
            record.failed(&failure);
            return Err(failure);
        }
    };
    let prints_value = !record.is_stdout() && output != Some(Path::new("-"));
    let said = record.done(&report);
    tell(&report);
    said?;
    match prints_value {
        true => print_values(&report),
        false => Ok(()),
    }
}

/// The file that the result goes to; none if it goes to a table or is a value, or nothing.
fn output_file<'a>(side: &Side<'a>) -> Result<Option<&'a Path>, Failure> {
    let Side { role, link, .. } = *side;
    let gets = Gets::of(role, &link.terms());
    let result = &side.run.result;
    let option = match (result.output(), result.is_table()) {
        (_, true) => Some("--output-table"),
        (Some(_), false) => Some("--output"),
        (None, false) => None,
    };
    match (option, gets, role) {
        (Some(option), Gets::Nothing, _) if role == Role::Receiver || link.learns_both() => {
            let reveal = link.terms().get(&REVEAL);
            let printed = match reveal.each() {
                [alone] => format!("the {alone} is printed"),
                _ => "the numbers are printed".to_owned(),
            };
            Err(Failure::usage(format!("{printed}; leave {option} away")))
        }
        (Some(option), Gets::Nothing, _) => Err(Failure::usage(format!(
            "a sender has an {option} only with --both or --reveal shares"
        ))),
        (Some("--output-table"), Gets::Shares, _) => {
            Err(Failure::usage("shares go to a file: give --output"))
        }
        (Some("--output-table"), Gets::PeerRows, _) => Err(Failure::usage(
            "the peer's rows go to a file: give --output",
        )),
        (None, Gets::Rows | Gets::Shares | Gets::PeerRows, _) => Ok(Some(Path::new("-"))),
        _ => Ok(result.output()),
    }
}

/// What the options say, but for what needs a party.
struct Wanted<'a> {
    output: Option<&'a Path>,
    target: Option<TargetTable>,
    columns: Columns,
    key: KeySpec,
}

/// Checks the options without the table.
fn check<'a>(side: &Side<'a>, record: &Record<'_>) -> Result<Wanted<'a>, Failure> {
    let Side {
        role,
        table,
        link,
        takes_payload,
        ..
    } = *side;
    let output = output_file(side)?;
    let target = table.target(&side.run.result)?;
    let columns = side.run.columns(role, link, takes_payload)?;
    if takes_payload && side.rows() == Some(Rows::Rest) {
        return Err(Failure::usage("--take-payload is for rows that match"));
    }
    let is_printed = Gets::of(role, &link.terms()) == Gets::Nothing
        && (role == Role::Receiver || link.learns_both())
        && !record.is_stdout();
    if is_printed {
        check_open()?;
    }
    let key = table.key()?;
    Ok(Wanted {
        output,
        target,
        columns,
        key,
    })
}

/// A run, and where its result went.
fn run<'a>(
    side: &Side<'a>,
    record: &mut Record<'_>,
) -> Result<(Option<&'a Path>, Report), Failure> {
    let (role, link) = (side.role, side.link);
    let signals = Signals::install()?;
    let identity = link.who.own.load()?;
    record.fingerprint = Some(identity.fingerprint());
    let invited = &side.run.invited;
    let use_once = invited.admit(&identity, link.who.peer(), side.table.reads_stdin())?;
    link.who.check(&identity)?;
    let wanted = check(side, record);
    let Wanted {
        output,
        target,
        columns,
        key,
    } = wanted.inspect_err(|failure| tell_of(failure, role, link, side.conditions))?;
    let mut progress = Progress::new(
        link.resources.progress(),
        signals.clone(),
        "reading the table",
    );
    let mut party = Party::new(&identity, link.who.peer(), link.endpoint()?);
    party.connect = link.connect(&progress, &signals, side.conditions)?;
    party.plaintext_for_benchmarks_only = side.conditions.is_plaintext;
    let opener = complete(side, columns, &key, &mut party).inspect_err(|failure| {
        if let Some(problem) = failure.problem() {
            party.tell_problem(Intent::Run(role), problem);
        }
    })?;
    let (opened, destination) = (OnceLock::new(), Destination::of(target.as_ref(), output));
    let open = || {
        let source = opener.open_into(&opened)?;
        record.readable_as(source);
        Ok(source)
    };
    let mut observer = WithInvitation::new(&mut progress, use_once.as_ref());
    let ran = party.run(role, open, &key, destination, &mut observer);
    let outcome = ran.map_err(|error| {
        let resume = party.resume_hint(&error);
        Failure::from(error).and(resume.as_ref())
    })?;
    let report = outcome.finish()?;
    progress.finish();
    Ok((output, report))
}

/// Gives the party what else the side asks for. What opens its table.
fn complete<'a>(
    side: &Side<'a>,
    columns: Columns,
    key: &KeySpec,
    party: &mut Party,
) -> Result<Opener<'a>, Failure> {
    let link = side.link;
    side.run.complete(link, columns, party)?;
    party.check(side.role, key)?;
    if let Some(option) = side.run.result.of_rows()
        && Gets::of(side.role, &party.terms) != Gets::Rows
    {
        return Err(Failure::usage(format!("{option} is for results of rows")));
    }
    let options = SourceOptions {
        passes: party.passes(side.role),
        scratch: party.resources.work_dir.clone(),
        ..SourceOptions::default()
    };
    let options = SourceOptions {
        rows: side.rows().unwrap_or_default(),
        ..side.run.result.source(options)
    };
    side.table.opener(link.source(party, options))
}

/// The summary.
pub(crate) fn tell(report: &Report) {
    let fields = serde_json::to_value(report).unwrap_or_default();
    log::event(
        "done",
        summary(report).trim_end(),
        &json!({"report": fields}),
    );
    if let Some(hint) = no_match_hint(report) {
        log::say(Level::Hint, &hint.spelled(&InCommand));
    }
}

/// Prints the number that this side has learnt, or several with their names, or that there is none because too few matches
/// count; or a table of those of each group.
pub(crate) fn print_values(report: &Report) -> Result<(), Failure> {
    if let Some(groups) = &report.groups {
        return print(&table_of_groups(groups, report));
    }
    let below = report.below.map(|least| format!("fewer than {least}"));
    let value = report.value.map(|value| value.to_string()).or(below);
    let values = report.values.iter().flatten();
    let values = values.map(|(name, value)| format!("{name}\t{value}"));
    let mut lines = value.into_iter().chain(values);
    lines.try_for_each(|line| print_line(&line))
}

/// A CSV table of the numbers of each group. Those that are withheld are `fewer than K`, or `withheld` where that may be for
/// another group.
fn table_of_groups(groups: &[GroupNumbers], report: &Report) -> Vec<u8> {
    let minimum = report.contract.groups.as_ref().map(|groups| groups.minimum);
    let withheld = match minimum {
        Some(GroupMinimum::All) => "withheld".to_owned(),
        _ => format!("fewer than {}", report.below.unwrap_or(0)),
    };
    let numbers = report.contract.numbers();
    let names = numbers.iter().map(|(name, _)| &**name);
    let mut table = Vec::new();
    let mut line = |name: &str, cells: Vec<&str>| {
        let all: Vec<_> = [name].into_iter().chain(cells).map(Some).collect();
        put_csv_line(all.into_iter(), &mut table);
    };
    line("group", names.collect());
    for GroupNumbers { group, values } in groups {
        let known = values.iter().flatten().map(|(_, value)| value.to_string());
        let known: Vec<String> = known.collect();
        let cells = match values {
            Some(_) => known.iter().map(|cell| &**cell).collect(),
            None => vec![&*withheld; numbers.len()],
        };
        line(group, cells);
    }
    table
}
