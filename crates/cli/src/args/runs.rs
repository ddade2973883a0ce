//! Options of runs: `receive`, `send`, `exchange`, and `check`, which looks at a table for one.

use clap::{Args, ValueEnum};
use vesica::options::{
    GroupColumn, LabelRoom, PayloadColumn, noise_request, parse_bandwidth, parse_duration,
    parse_protocol, payload_exchange, value_columns,
};
use vesica::tables::ValueColumn;
use vesica::{
    Account, ConnectOptions, CourierStep, Endpoint, Identity, KeySpec, Learns, Party, Role,
    SourceOptions, Terms,
};
use vesica_plan::Registry;
use vesica_session::terms::{LEARNS, REVEAL, parse_max_items, parse_padded};
use vesica_session::{
    Epsilon, InvitableTerm, Invitation, LabelExchange, MAX_GROUPS, MAX_LABEL_BYTES,
    MAX_ROWS_PER_KEY, MAX_SCALE, NoiseRequest, PeerLimits, ProtocolRequest,
};

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::table::Table;
use super::terms::{All, OfCheck, OfMessages, Selection, TermOptions};
use crate::conditions::Conditions;
use crate::failure::Failure;
use crate::identity::{Identified, Partners};
use crate::invited::{ByInvitation, Ruling, Whose, check_role, option_of, ruling};
use crate::log::{self, Level};
use crate::options::{
    AllowEmpty, DeadlineOption, LedgerOptions, MeetingPoint, ReportOption, ResourceOptions,
    ResultOptions,
};
use crate::paths::{CourierDirectory, InputPath, OutputFile, StoreDirectory, WorkDirectory};
use crate::patience::Patience;
use crate::progress::Progress;
use crate::report::Reporting;
use crate::signals::Signals;

/// What both sides agree on.
#[derive(Debug, Args)]
pub(crate) struct Agreed<S: Selection> {
    #[command(flatten)]
    terms: TermOptions<S>,
    #[arg(help_heading = "Agreed with the peer", long, value_name = "auto|NAME", default_value = "auto",
          help = format!("Protocol: auto, {}", Registry::standard().names()))]
    protocol: String,
    /// The sender learns the matches or the number too. Give it on both sides. A dishonest receiver can lie to the sender
    /// about them. Not with threshold-matches or shares
    #[arg(help_heading = "Agreed with the peer", long)]
    pub(crate) both: bool,
}

#[derive(Debug, Args)]
struct PeerItems {
    /// Most distinct keys that the peer may bring, up to 2^35; each bucket, with its padding, stays below 2^28. This bounds
    /// what the peer can learn and what it can cost. In a job of tasks it counts all attempts together, each of which may
    /// bring other keys
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = parse_max_items, default_value = "2^28")]
    max_peer_items: u64,
}

impl<S: Selection> Agreed<S> {
    pub(crate) fn terms(&self) -> Terms {
        let mut terms = self.terms.terms.clone();
        if self.both {
            terms.set(&LEARNS, Learns::Both);
        }
        terms
    }

    /// What the options say of a term that an invitation can name, unless that is left to the command.
    pub(super) fn given(&self, term: InvitableTerm) -> Option<&str> {
        match term {
            InvitableTerm::Protocol => Some(&*self.protocol).filter(|name| *name != "auto"),
            InvitableTerm::Both => self.both.then_some("yes"),
            _ => self.terms.given(term.name()),
        }
    }

    /// Those of the terms that are given.
    pub(crate) fn invitable(&self) -> Vec<(InvitableTerm, String)> {
        let given = |term| Some((term, self.given(term)?.to_owned()));
        InvitableTerm::ALL.into_iter().filter_map(given).collect()
    }

    /// The protocol.
    pub(crate) fn protocol(&self) -> Result<ProtocolRequest, Failure> {
        Ok(parse_protocol(&self.protocol, None)?)
    }

    /// Sets a term that is not given.
    fn set(&mut self, term: InvitableTerm, value: &str) -> Result<(), Failure> {
        match term {
            InvitableTerm::Protocol => value.clone_into(&mut self.protocol),
            InvitableTerm::Both => self.both = true,
            _ => self.terms.set(term.name(), value)?,
        }
        Ok(())
    }

    /// Takes the terms of an invitation, as far as the options let it.
    fn take(&mut self, invitation: &Invitation, whose: Whose) -> Result<(), Failure> {
        let mut missing = Vec::new();
        for (term, value) in invitation.terms() {
            match ruling(term, value, self.given(term), whose) {
                Ruling::Nothing => {}
                Ruling::Take => self.set(term, value)?,
                Ruling::Ask => missing.push(option_of(term, value)),
                Ruling::Refuse => {
                    let own = option_of(term, self.given(term).unwrap_or_default());
                    let theirs = option_of(term, value);
                    let line = format!("the invitation is for {theirs}, and not for {own}");
                    return Err(Failure::usage(line)
                        .hint("give what it is for, or have another invitation made"));
                }
            }
        }
        let missing = missing.join(" ");
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let line = format!("the invitation is for {missing}, which it cannot decide");
                Err(Failure::usage(line).hint(format!("if you want that, add {missing}")))
            }
        }
    }
}

/// The account of what is answered.
#[derive(Debug, Args)]
pub(crate) struct AccountOptions {
    #[command(flatten)]
    ledger: LedgerOptions,
    /// TOML file with rules that runs are held to: how many in a period, with whom, what may be revealed, how much tables have
    /// to differ. A run that they do not allow ends with code 7
    #[arg(
        help_heading = "Account",
        long,
        value_name = "FILE.toml",
        requires = "ledger"
    )]
    rules: Option<InputPath>,
    /// What this side wants the answer for, up to 200 bytes of text, which the peer is told
    #[arg(help_heading = "Account", long, value_name = "TEXT")]
    purpose: Option<String>,
}

impl AccountOptions {
    fn give(&self, party: &mut Party) {
        party.purpose = self.purpose.clone().unwrap_or_default();
        let rules = self.rules.as_deref().map(Path::to_path_buf);
        party.account = self
            .ledger
            .account()
            .map(|account| Account { rules, ..account });
    }
}

/// Columns of numbers.
#[derive(Debug, Args)]
pub(crate) struct ValueOptions {
    /// Numbers to compute with: columns to sum, at most eight, or one column to multiply, on the side that has them. Separated
    /// by commas, as in --key
    #[arg(help_heading = "Values", long, value_name = "COL[,COL…]")]
    value: Option<String>,
    /// Digits after the decimal point of the values, 0 to 18; 0 if not given. One number for all columns, or one for each
    #[arg(help_heading = "Values", long, value_name = "DIGITS[,DIGITS…]", value_delimiter = ',', requires = "value",
          value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SCALE)))]
    value_scale: Vec<u8>,
    /// Largest absolute value of a key, such as 1000 or 99.99, which the peer learns; 2^31 - 1 units of the last digit if not
    /// given. One number for all columns, or one for each
    #[arg(
        help_heading = "Values",
        long,
        value_name = "N[,N…]",
        value_delimiter = ',',
        requires = "value"
    )]
    value_bound: Vec<String>,
    /// Value of a key that several rows have
    #[arg(help_heading = "Values", long, value_enum, default_value_t = Repeated::Sum, requires = "value")]
    value_repeated: Repeated,
}

impl ValueOptions {
    /// The columns to compute with.
    fn columns(&self) -> Result<Vec<ValueColumn>, Failure> {
        let sums_repeated = self.value_repeated == Repeated::Sum;
        let (scales, bounds) = (&self.value_scale, &self.value_bound);
        let names = names_of(self.value.as_deref())?;
        Ok(value_columns(&names, scales, bounds, sums_repeated)?)
    }

    /// Whether there is more than names.
    fn computes(&self) -> bool {
        !self.value_scale.is_empty()
            || !self.value_bound.is_empty()
            || self.value_repeated == Repeated::Refuse
    }
}

/// Groups of the receiver's keys.
#[derive(Debug, Args)]
pub(crate) struct GroupOptions {
    /// Numbers of each group of the receiver's keys, which this column of its table names; printed as a CSV table. Rows without a
    /// group count nowhere. On the receiver's side, for a size or the sums of its own --value
    #[arg(help_heading = "Values", long, value_name = "COL")]
    group: Option<String>,
    /// The groups that are wanted, in this order; the others count nowhere. All that the column has if not given. Commas are as
    /// in --key
    #[arg(
        help_heading = "Values",
        long,
        value_name = "NAME[,NAME…]",
        requires = "group"
    )]
    groups: Option<String>,
    /// What the peer learns of how many keys each group has: hidden (nothing; takes traffic for each group, at most 64), told, or
    /// padded:N (that none has more than N). Names are never told
    #[arg(help_heading = "Values", long, value_name = "WHAT", requires = "group")]
    group_sizes: Option<String>,
    /// What --min-size withholds: the numbers of each group with fewer matches, or all of them if one group has fewer
    #[arg(
        help_heading = "Values",
        long,
        value_name = "each|all",
        requires = "group"
    )]
    group_minimum: Option<String>,
}

impl GroupOptions {
    /// The column that names groups.
    fn column(&self) -> Result<Option<GroupColumn>, Failure> {
        let Some(name) = &self.group else {
            return Ok(None);
        };
        let only = self
            .groups
            .as_deref()
            .map(group_names)
            .transpose()?
            .unwrap_or_default();
        let (sizes, minimum) = (self.group_sizes.as_deref(), self.group_minimum.as_deref());
        Ok(Some(GroupColumn::new(name, only, sizes, minimum)?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Repeated {
    /// The sum of the values of its rows
    Sum,
    /// A table with such a key is an error
    Refuse,
}

/// Noise in numbers.
#[derive(Debug, Args)]
pub(crate) struct NoiseOptions {
    /// Add noise to the numbers, so that they are differentially private with this parameter: above 0 and up to 100, with at
    /// most six decimals, as 0.5. It protects this side's keys and values from a peer that follows the protocol; the peer is
    /// told. A minimum is compared with noisy counts. With --both, both sides need one
    #[arg(help_heading = "Differential privacy", long, value_name = "E", value_parser = epsilon)]
    epsilon: Option<Epsilon>,
    /// How epsilon is divided among the numbers, by whole numbers, as size=1,sum=3; evenly if not given. Under a minimum a sum
    /// also has a count, as sum-count=1
    #[arg(
        help_heading = "Differential privacy",
        long,
        value_name = "NAME=SHARE[,…]",
        value_delimiter = ',',
        requires = "epsilon"
    )]
    epsilon_split: Vec<String>,
}

fn epsilon(text: &str) -> Result<Epsilon, &'static str> {
    text.parse()
}

impl NoiseOptions {
    fn request(&self) -> Result<Option<NoiseRequest>, Failure> {
        let epsilon = self.epsilon.map(|epsilon| epsilon.to_string());
        Ok(noise_request(epsilon.as_deref(), &self.epsilon_split)?)
    }
}

/// Columns that go with the keys as texts.
#[derive(Debug, Args)]
pub(crate) struct PayloadOptions {
    /// Columns that the sender hands over with the matching rows, separated by commas as in --key. With --reveal union: of its
    /// rows that the receiver lacks, the key column too if the receiver is to have it. With --reveal shares: one column of texts,
    /// of which both sides get shares, as UTF-8 bytes padded with zeros
    #[arg(help_heading = "Values", long, value_name = "COL[,COL…]")]
    payload: Option<String>,
    /// Bytes per key for these columns: their texts, and two bytes per column; 64 if not given. The peer learns this number.
    /// With --reveal shares: bytes of the text alone, which have to be given
    #[arg(help_heading = "Values", long, value_name = "BYTES", alias = "value-width",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LABEL_BYTES)))]
    payload_width: Option<u32>,
}

impl PayloadOptions {
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        names_of(self.payload.as_deref())
    }

    pub(super) fn width(&self) -> Option<u32> {
        self.payload_width
    }
}

#[derive(Debug, Args)]
struct RowsPerKey {
    /// Rows of a key that are handed over at most, each with columns of its own in as many bytes as --payload-width says; the
    /// result has a row for each pair, as a join. More rows of a key are an error. The peer learns this number, and never how
    /// many a key has unless it matches. With --take-payload the most that this side accepts. 1 if not given: all rows of a
    /// key are then alike
    #[arg(help_heading = "Values", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROWS_PER_KEY)))]
    rows_per_key: Option<u32>,
}

/// The names in a list of groups, in which a comma of a name is `\,`.
fn group_names(list: &str) -> Result<Vec<String>, Failure> {
    names_of(Some(list)).map_err(|_| {
        let line = format!("--groups {list:?} is no list of names, each of them once");
        Failure::usage(line).hint("give names with commas between them; a comma of a name is \\,")
    })
}

/// The names in a list of columns.
fn names_of(list: Option<&str>) -> Result<Vec<String>, Failure> {
    Ok(match list {
        Some(names) => KeySpec::parse::<&str>(names, &[])?.names(),
        None => Vec::new(),
    })
}

/// The columns that go with the keys of a run.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) labels: LabelExchange,
    pub(crate) payload: Option<PayloadColumn>,
    pub(crate) values: Vec<ValueColumn>,
    pub(crate) group: Option<GroupColumn>,
}

impl Columns {
    /// Those of a job of tasks, which has numbers alone.
    pub(crate) fn of_tasks(link: &Meeting) -> Result<Columns, Failure> {
        let values = link.values.columns()?;
        match values.is_empty() || !link.terms().get(&REVEAL).is_matches() {
            true => Ok(Columns {
                labels: LabelExchange::Nothing,
                payload: None,
                values,
                group: None,
            }),
            false => Err(Failure::usage(NUMBERS_WITH_MATCHES)),
        }
    }

    /// As these options say; `takes` says that a receiver wants what the sender hands over.
    fn of(
        role: Role,
        terms: &Terms,
        takes: bool,
        (payload, rows): (&PayloadOptions, &RowsPerKey),
        (values, groups): (&ValueOptions, &GroupOptions),
    ) -> Result<Columns, Failure> {
        let reveal = terms.get(&REVEAL);
        let room = LabelRoom {
            bytes: payload.width(),
            rows: rows.rows_per_key,
        };
        let hands_over = role == Role::Sender && reveal == vesica::Reveal::Matches;
        // What --payload was called.
        let former = values.value.as_deref().filter(|_| hands_over);
        let is_number = values.computes() || payload.payload.is_some() || former.is_none();
        if values.value.is_some() && reveal.is_matches() && is_number {
            return Err(Failure::usage(NUMBERS_WITH_MATCHES));
        }
        let names = match former {
            Some(names) => {
                log::say(Level::Warning, FORMER_NAME);
                names_of(Some(names))?
            }
            None => payload.names()?,
        };
        let (labels, shared) = payload_exchange(role, reveal, names, takes, room)?;
        Ok(Columns {
            labels,
            payload: shared,
            values: match former {
                Some(_) => Vec::new(),
                None => values.columns()?,
            },
            group: groups.column()?,
        })
    }

    fn give(self, party: &mut Party) {
        party.labels = self.labels;
        party.payload = self.payload;
        party.values = self.values;
        party.group = self.group;
    }
}

const FORMER_NAME: &str = "columns to hand over are called --payload; --value is for numbers to compute with, and a later \
                           release takes it for nothing else";
const NUMBERS_WITH_MATCHES: &str = "--value, --value-scale, --value-bound and --value-repeated are for numbers to compute with, \
                                    which go with a size, a sum, an inner product or shares (--reveal)";

/// Who the peer is, how to reach it, and on which terms.
#[derive(Debug, Args)]
pub(crate) struct Meeting {
    #[command(flatten)]
    point: MeetingPoint,
    #[command(flatten)]
    pub(crate) who: Partners,
    #[command(flatten)]
    agreed: Agreed<All>,
    #[command(flatten)]
    peer_items: PeerItems,
    /// Bandwidth of the link to the peer, such as 200mbps or 1.5gbps; --optimize auto uses it
    #[arg(help_heading = "Peer", long, value_name = "RATE", value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    #[command(flatten)]
    pub(crate) values: ValueOptions,
    #[command(flatten)]
    noise: NoiseOptions,
    /// Largest --value-bound that the peer may declare, in units of its last digit: 100000 allows --value-bound 1000 at
    /// --value-scale 2. The larger the values that a dishonest receiver may choose, the more one result can tell it about
    /// single keys; no limit if not given
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_peer_value_bound: Option<u64>,
    /// Most --value columns that the peer may have, 1 to 8. With two, a dishonest receiver can make its sums differ by a
    /// single key, however small --max-peer-value-bound is
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), default_value_t = 8)]
    max_peer_values: u8,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
    #[command(flatten)]
    empty: AllowEmpty,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    deadline: DeadlineOption,
    #[command(flatten)]
    account: AccountOptions,
}

impl Meeting {
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.point.endpoint()
    }

    pub(crate) fn learns_both(&self) -> bool {
        self.agreed.both
    }

    /// How this side waits and connects.
    pub(crate) fn connect(
        &self,
        progress: &Progress,
        signals: &Signals,
        conditions: Conditions,
    ) -> Result<ConnectOptions, Failure> {
        self.reach(ConnectOptions {
            deadline: self.deadline.deadline,
            bandwidth: self.bandwidth,
            ..self.patience.options(progress, signals, conditions)
        })
    }

    /// The options of a connection to the peer.
    pub(crate) fn reach(&self, options: ConnectOptions) -> Result<ConnectOptions, Failure> {
        self.point.ways.of(ConnectOptions {
            also: self.who.also(),
            ..options
        })
    }

    /// Gives the party what these options say of a run. `offline` names the source of the protocol's correlations.
    pub(crate) fn complete(
        &self,
        offline: Option<&str>,
        columns: Columns,
        party: &mut Party,
    ) -> Result<(), Failure> {
        party.protocol = parse_protocol(&self.agreed.protocol, offline)?;
        party.terms = self.terms();
        party.peer_limits = PeerLimits {
            items: self.peer_items.max_peer_items,
            value_bound: self.max_peer_value_bound,
            values: self.max_peer_values,
            ..PeerLimits::default()
        };
        columns.give(party);
        party.noise = self.noise.request()?;
        party.resources = self.resources.resources();
        party.allow_empty = self.empty.allow_empty;
        self.account.give(party);
        Ok(())
    }

    /// What is read of the table; `more` has what these options do not determine.
    pub(crate) fn source(&self, party: &Party, more: SourceOptions) -> SourceOptions {
        SourceOptions {
            allow_no_rows: self.empty.allow_empty,
            memory: party.resources.memory,
            wait: Some(self.patience.wait),
            ..more
        }
    }

    /// What both sides must agree on.
    pub(crate) fn terms(&self) -> Terms {
        self.agreed.terms()
    }
}

/// What a run has besides a job of tasks.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) invited: ByInvitation,
    #[command(flatten)]
    payload: PayloadOptions,
    #[command(flatten)]
    rows_per_key: RowsPerKey,
    #[command(flatten)]
    groups: GroupOptions,
    /// Most groups of its keys (--group) of each of which the receiver may learn numbers, 1 to 1024. As many groups are as many
    /// answers; with two, a dishonest receiver can let them differ by a single key
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_GROUPS as i64), default_value_t = 1)]
    max_peer_groups: u16,
    /// Print and report a noisy size within the range that sizes have: from 0 to that of the smaller set
    #[arg(help_heading = "Differential privacy", long)]
    clamp: bool,
    /// Bring random keys up to N, and tell the peer that number in place of this side's number of keys; more keys are an error.
    /// With --epsilon it is then hidden whether a key is there at all. For numbers alone
    #[arg(help_heading = "Differential privacy", long, value_name = "N", value_parser = parse_padded)]
    pad_to: Option<u64>,
    /// With --protocol ole: where its correlations come from, as in the names ole-NAME
    #[arg(help_heading = "Prepared correlations", long, value_name = "NAME")]
    offline: Option<String>,
    /// With --protocol ole: directory of prepared correlations (see `vesica offline`); the run uses up one pair
    #[arg(help_heading = "Prepared correlations", long, value_name = "DIR")]
    offline_store: Option<StoreDirectory>,
    /// With --offline dealer or tee: use only a pair whose dealer, or both of whose generators, were attested as this, in the
    /// form that `vesica offline ls` prints: a platform, or "PLATFORM MEASUREMENT". If not given, any pair without a
    /// simulated report
    #[arg(
        help_heading = "Prepared correlations",
        long,
        value_name = "SHOWN",
        requires = "offline_store"
    )]
    attested: Option<String>,
    /// Directory from which a run resumes after a failure: run the same command again, on both sides. A result that was found
    /// but not written is written without the peer. Created if missing, and removed once the result is written
    #[arg(long, value_name = "DIR")]
    work_dir: Option<WorkDirectory>,
    #[command(flatten)]
    pub(crate) result: ResultOptions,
    /// With --both, on both sides: write the matching rows in the same order on both sides, with a column match_number that
    /// agrees
    #[arg(
        help_heading = "Result",
        long,
        conflicts_with = "rows",
        requires = "both"
    )]
    pub(crate) align: bool,
    /// With --reveal ids: CSV file for the list of all ids, with the columns spine_row and spine_id
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    spine_file: Option<OutputFile>,
    #[command(flatten)]
    pub(crate) report: ReportOption,
}

impl RunOptions {
    pub(crate) fn reporting(&self, role: Role, link: &Meeting) -> Reporting<'_> {
        Reporting {
            role: Some(role),
            // Which of two it is, is known once it was met.
            peer: link.who.also().is_empty().then(|| link.who.peer()),
            output: self.result.output(),
            ..self.report.reporting()
        }
    }

    /// Takes the invitation to a run in this role.
    pub(super) fn take(
        &mut self,
        role: Role,
        link: &mut Meeting,
        invitation: Invitation,
        whose: Whose,
    ) -> Result<(), Failure> {
        check_role(role, invitation.invited(), whose)?;
        if self.work_dir.is_some() {
            let line = "--work-dir is for runs that resume, and an invitation is used once";
            return Err(Failure::usage(line).hint(
                "leave --work-dir away, or give --listen or --connect, and --peer, in place of --invite",
            ));
        }
        link.agreed.take(&invitation, whose)?;
        self.invited.set(role, invitation, whose);
        Ok(())
    }

    /// The columns that go with the keys.
    pub(crate) fn columns(
        &self,
        role: Role,
        link: &Meeting,
        takes: bool,
    ) -> Result<Columns, Failure> {
        let payload = (&self.payload, &self.rows_per_key);
        let numbers = (&link.values, &self.groups);
        Columns::of(role, &link.terms(), takes, payload, numbers)
    }

    /// Gives the party what these options and those of the meeting say.
    pub(crate) fn complete(
        &self,
        link: &Meeting,
        columns: Columns,
        party: &mut Party,
    ) -> Result<(), Failure> {
        link.complete(self.offline.as_deref(), columns, party)?;
        let directory = |path: &Path| path.to_path_buf();
        party.resources.work_dir = self.work_dir.as_deref().map(directory);
        party.resources.offline_store = self.offline_store.as_deref().map(directory);
        party.resources.attested.clone_from(&self.attested);
        party.peer_limits.groups = self.max_peer_groups;
        party.clamp = self.clamp;
        party.spine_file = self.spine_file.as_deref().map(directory);
        party.pad_to = self.pad_to;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Add the columns that the sender hands over (its --payload) to the matching rows, as text, with peer_ before their names
    #[arg(help_heading = "Values", long, alias = "take-values")]
    pub(crate) take_payload: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Exchange {
    /// offer begins a run, start takes an offer, answer takes a message and makes the next one, finish takes the last and
    /// writes the result. Repeat the options of the first step in each; those of the result are for finish
    #[arg(value_name = "offer|start|answer|finish", value_parser = CourierStep::from_str)]
    pub(crate) step: CourierStep,
    /// This side's role; either may offer, and three messages suffice if the sender does
    #[arg(help_heading = "Agreed with the peer", long, value_name = "receiver|sender", value_parser = role)]
    pub(crate) role: Role,
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) who: Identified,
    /// Directory for this side's encrypted state between steps; the first step creates it. A copy of it is not accepted.
    /// Remove it when the run is over
    #[arg(long, value_name = "DIR")]
    pub(crate) state: CourierDirectory,
    /// The peer's message; not for offer
    #[arg(long, value_name = "FILE")]
    pub(crate) message: Option<InputPath>,
    /// File for the message to the peer. Repeating the last step with the same message and keys writes the same message
    #[arg(long, value_name = "FILE", alias = "out")]
    pub(crate) message_out: Option<OutputFile>,
    #[command(flatten)]
    pub(crate) result: ResultOptions,
    #[command(flatten)]
    pub(crate) report: ReportOption,
    #[command(flatten)]
    pub(crate) agreed: Agreed<OfMessages>,
    #[command(flatten)]
    peer_items: PeerItems,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
    #[command(flatten)]
    empty: AllowEmpty,
    #[command(flatten)]
    account: AccountOptions,
}

impl Exchange {
    pub(crate) fn reporting(&self) -> Reporting<'_> {
        Reporting {
            role: Some(self.role),
            peer: Some(self.who.peer),
            output: self.result.output(),
            ..self.report.reporting()
        }
    }

    /// This side as the options describe it.
    pub(crate) fn party(&self, identity: &Identity) -> Result<Party, Failure> {
        let mut party = Party {
            protocol: parse_protocol(&self.agreed.protocol, None)?,
            terms: self.agreed.terms(),
            peer_limits: PeerLimits {
                items: self.peer_items.max_peer_items,
                ..PeerLimits::default()
            },
            resources: self.resources.resources(),
            allow_empty: self.empty.allow_empty,
            ..Party::new(identity, self.who.peer, Endpoint::Courier)
        };
        self.account.give(&mut party);
        Ok(party)
    }
}

fn role(text: &str) -> Result<Role, &'static str> {
    match text {
        "receiver" => Ok(Role::Receiver),
        "sender" => Ok(Role::Sender),
        _ => Err("a side is the receiver or the sender"),
    }
}

/// What a side would bring to a run, as far as it can be looked at by itself.
#[derive(Debug, Args)]
pub(crate) struct OwnSide {
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    agreed: Agreed<OfCheck>,
    #[command(flatten)]
    payload: PayloadOptions,
    #[command(flatten)]
    rows_per_key: RowsPerKey,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    groups: GroupOptions,
    /// As a receiver that takes the columns that the sender hands over
    #[arg(help_heading = "Values", long)]
    take_payload: bool,
    #[command(flatten)]
    pub(crate) empty: AllowEmpty,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
}

impl OwnSide {
    /// The side that it is of. What both sides can do is the same for either. A sender names the columns of a union, and a
    /// receiver the groups.
    pub(crate) fn role(&self) -> Role {
        let is_of_rows = self.agreed.terms().get(&REVEAL).is_rows();
        let is_receiver = self.take_payload || self.groups.group.is_some();
        match is_receiver || is_of_rows && self.payload.payload.is_none() {
            true => Role::Receiver,
            false => Role::Sender,
        }
    }

    /// A side of a run with this table, whoever its peer is.
    pub(crate) fn party(&self) -> Result<Party, Failure> {
        let (own, peer) = (Identity::generate()?, Identity::generate()?);
        let mut party = Party::new(&own, peer.fingerprint(), Endpoint::Courier);
        party.protocol = parse_protocol(&self.agreed.protocol, None)?;
        party.terms = self.agreed.terms();
        party.resources = self.resources.resources();
        party.allow_empty = self.empty.allow_empty;
        let columns = Columns::of(
            self.role(),
            &party.terms,
            self.take_payload,
            (&self.payload, &self.rows_per_key),
            (&self.values, &self.groups),
        )?;
        columns.give(&mut party);
        Ok(party)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) side: OwnSide,
    /// Write what this side's options say of a run, for the peer's --against: profiles and terms, and nothing of the table's
    /// content or size
    #[arg(help_heading = "Agreed with the peer", long, value_name = "FILE.json")]
    pub(crate) terms: Option<OutputFile>,
    /// Compare with what the peer's --terms has written: prints what would end a run, with code 6. What each side limits of
    /// the other, as --max-peer-items, is not in it
    #[arg(help_heading = "Agreed with the peer", long, value_name = "FILE.json")]
    pub(crate) against: Option<InputPath>,
    /// Show the keys of the first N rows, each value as it is and as it is compared
    #[arg(long, value_name = "N")]
    pub(crate) show: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) point: MeetingPoint,
    #[command(flatten)]
    pub(crate) who: Partners,
    /// Longest wait for the peer
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "30", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) side: OwnSide,
}
