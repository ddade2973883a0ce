//! Rules over what is answered, from a file.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::DateTime;
use glob::Pattern;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use vesica_files::{many, read_regular};
use vesica_primitives::laplace::Epsilon;
use vesica_session::{Fingerprint, Reveals, Role};

use crate::entry::hash;
use crate::{Begun, Book, Error, Refusal};

/// Most bytes of a file of rules.
const MAX_RULES: u64 = 1 << 20;

/// Rules over what is answered. Every rule whose peers and tables are those of a run has to allow it, and there has to be one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    #[serde(default)]
    rule: Vec<Rule>,
    /// The SHA-256 of the file, in hexadecimal.
    #[serde(skip)]
    sha256: String,
}

/// A rule. What it does not name it does not limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Rule {
    name: String,
    /// For whom it is; for everybody if it does not say.
    #[serde(default, deserialize_with = "peers")]
    peer: Option<Vec<Fingerprint>>,
    /// For which tables it is, by their names; for all if it does not say.
    #[serde(default, deserialize_with = "pattern")]
    table: Option<Pattern>,
    /// How far back it looks.
    #[serde(default, deserialize_with = "period")]
    period: Option<Duration>,
    /// The most runs in a period with one peer.
    runs: Option<u64>,
    /// The most runs in a period with all its peers together.
    runs_of_all: Option<u64>,
    /// What may be revealed.
    #[serde(default, deserialize_with = "reveals")]
    reveal: Option<Vec<Reveals>>,
    /// The fewest keys of this side and of the peer.
    least_items: Option<u64>,
    least_peer_items: Option<u64>,
    /// The smallest minimum under which numbers are revealed.
    least_min_size: Option<u64>,
    /// The most groups of which numbers are revealed.
    most_groups: Option<u64>,
    /// What noise may cost in a period, for a table and all peers.
    epsilon: Option<Epsilon>,
    /// The fewest keys that a table and any other of the period may differ by, if they do.
    least_change: Option<u64>,
}

/// What a side asks for, as far as rules go by it.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// With whom.
    pub peer: Fingerprint,
    /// What the table is called.
    pub table: &'a str,
    /// The profiles of the columns of its keys, in order.
    pub profiles: &'a [String],
    /// What is to be revealed.
    pub reveals: Reveals,
    /// Distinct keys of this side.
    pub items: u64,
    /// Those of the peer, once they are known.
    pub peer_items: Option<u64>,
    /// The minimum under which numbers are revealed; 0 if there is none.
    pub min_size: u64,
    /// Of how many groups numbers are revealed; 1 where there are none.
    pub groups: u64,
    /// What this side's noise costs; none if it adds none.
    pub epsilon: Option<Epsilon>,
    /// Whether that is for one key more, since this side pads its set.
    pub is_padded: bool,
}

impl Asked<'_> {
    /// Whether the keys are made as those of an entry.
    pub(crate) fn has_keys_of(&self, begun: &Begun) -> bool {
        let theirs = begun.key.iter().map(|column| &column.profile);
        self.profiles.iter().eq(theirs)
    }
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// [`Error::Rules`]: it cannot be read, or has something else.
    pub fn load(path: &Path) -> Result<Rules, Error> {
        let wrong = |problem: String| Error::Rules {
            path: path.to_owned(),
            problem,
        };
        let bytes = read_regular(path, MAX_RULES).map_err(|e| wrong(e.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text".into()))?;
        Rules::parse(&text).map_err(wrong)
    }

    /// Reads rules.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(text: &str) -> Result<Rules, String> {
        let mut rules: Rules =
            toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        rules.sha256 = hash(text.as_bytes());
        if rules.rule.is_empty() {
            return Err("there is no [[rule]]".into());
        }
        let mut names = BTreeSet::new();
        for rule in &rules.rule {
            let name = &rule.name;
            if name.is_empty() || name.contains(char::is_control) {
                return Err(format!("a rule has the name {name:?}"));
            }
            if !names.insert(name) {
                return Err(format!("two rules have the name {name:?}"));
            }
            let counts = rule.runs.is_some()
                || rule.runs_of_all.is_some()
                || rule.epsilon.is_some()
                || rule.least_change.is_some();
            if counts && rule.period.is_none() {
                return Err(format!(
                    "the rule {name:?} counts over a period, and has none; add one, as period = \"30d\""
                ));
            }
        }
        Ok(rules)
    }

    /// The SHA-256 of the text, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Whether a table is compared with earlier ones, whoever the peer is.
    pub fn compare(&self, table: &str) -> bool {
        self.comparing(table).next().is_some()
    }

    fn comparing(&self, table: &str) -> impl Iterator<Item = &Rule> {
        let compares = move |rule: &&Rule| rule.least_change.is_some() && rule.is_for_table(table);
        self.rule.iter().filter(compares)
    }

    /// How long the keys of a table are kept for such comparisons; `None` if there are none.
    pub(crate) fn kept_for(&self, peer: Fingerprint, table: &str) -> Option<Duration> {
        let rules = self.comparing(table).filter(|rule| rule.is_for_peer(peer));
        rules.filter_map(|rule| rule.period).max()
    }

    /// The names of the rules that such a run is held to, which it keeps at this time. `change` is the fewest keys that the table
    /// and one of these entries differ by, none if no entry's table has other keys.
    ///
    /// # Errors
    /// The first rule that it does not keep, or that there is none.
    pub(crate) fn check(
        &self,
        asked: &Asked<'_>,
        book: &Book,
        now: SystemTime,
        change: impl Fn(&[u64]) -> Result<Option<u64>, Error>,
    ) -> Result<Vec<String>, Error> {
        let rules: Vec<&Rule> = self.rule.iter().filter(|rule| rule.is_for(asked)).collect();
        if rules.is_empty() {
            let why = format!(
                "no rule is for a run with {} over the table {:?}",
                asked.peer, asked.table
            );
            return Err(Refusal { rule: None, why }.into());
        }
        // All rules that compare tables do so before any rule refuses: the time of a refusal does not tell by which.
        let compared = rules.iter().filter_map(|rule| {
            let least = rule.least_change?;
            let entries: Vec<u64> = rule
                .runs(book, now)
                .filter(|(_, begun)| rule.compares_with(begun, now))
                .map(|(entry, _)| entry)
                .collect();
            Some((rule, least, change(&entries)))
        });
        let compared: Vec<_> = compared.collect();
        for rule in &rules {
            let refused = |why| Refusal {
                rule: Some(rule.name.clone()),
                why,
            };
            rule.check_terms(asked).map_err(refused)?;
            rule.check_counts(asked, book, now).map_err(refused)?;
        }
        for (rule, least, change) in compared {
            let change = change.map_err(|error| match error {
                Error::Refused(refusal) => Error::Refused(Refusal {
                    rule: Some(rule.name.clone()),
                    ..refusal
                }),
                error => error,
            })?;
            if let Some(change) = change
                && change < least
            {
                let why = format!(
                    "the table differs by {} from one that was answered about, and {least} are the fewest",
                    many(change, "key")
                );
                let rule = Some(rule.name.clone());
                return Err(Refusal { rule, why }.into());
            }
        }
        Ok(rules.iter().map(|rule| rule.name.clone()).collect())
    }
}

impl Rule {
    fn is_for_peer(&self, peer: Fingerprint) -> bool {
        self.peer.as_ref().is_none_or(|peers| peers.contains(&peer))
    }

    /// A pattern is for the whole name of a table, or for what follows its last `/`.
    fn is_for_table(&self, table: &str) -> bool {
        let last = table.rsplit(['/', '\\']).next().unwrap_or(table);
        self.table
            .as_ref()
            .is_none_or(|pattern| [table, last].iter().any(|name| pattern.matches(name)))
    }

    fn is_for(&self, asked: &Asked<'_>) -> bool {
        self.is_for_peer(asked.peer) && self.is_for_table(asked.table)
    }

    /// Whether the table of an entry has to be there for comparisons: not if it was answered about before there was such a
    /// rule, or is kept no longer.
    fn compares_with(&self, begun: &Begun, now: SystemTime) -> bool {
        match &begun.keys {
            Some(kept) => time(&kept.until).is_none_or(|until| until >= now),
            None => begun.rules.contains(&self.name),
        }
    }

    fn check_terms(&self, asked: &Asked<'_>) -> Result<(), String> {
        if let Some(reveals) = &self.reveal
            && !reveals.contains(&asked.reveals)
        {
            return Err(format!("it does not let {} be revealed", asked.reveals));
        }
        let too_few = |least: Option<u64>, has: u64| least.filter(|least| has < *least);
        if let Some(least) = too_few(self.least_items, asked.items) {
            let items = many(asked.items, "key");
            return Err(format!("the table has {items}, and {least} are the fewest"));
        }
        if let Some(least) = too_few(self.least_peer_items, asked.peer_items.unwrap_or(u64::MAX)) {
            let items = many(asked.peer_items.unwrap_or(0), "key");
            return Err(format!("the peer has {items}, and {least} are the fewest"));
        }
        if let Some(least) = too_few(self.least_min_size, asked.min_size)
            && (asked.reveals.is_value() || asked.reveals.is_ids())
        {
            // Ids tell how many keys match, and have no minimum.
            return Err(format!("numbers need a minimum of {least} matches or more"));
        }
        if let Some(most) = self.most_groups.filter(|most| asked.groups > *most) {
            let groups = many(asked.groups, "group");
            return Err(format!("numbers are of {groups}, and {most} are the most"));
        }
        Ok(())
    }

    fn check_counts(&self, asked: &Asked<'_>, book: &Book, now: SystemTime) -> Result<(), String> {
        let peer = asked.peer.to_string();
        let mut all = self.runs(book, now).map(|(_, begun)| begun);
        if let Some(most) = self.runs_of_all {
            within(all.by_ref().count() as u64, most, "runs of all its peers")?;
        }
        let of_peer = self.runs(book, now).filter(|(_, begun)| begun.peer == peer);
        if let Some(most) = self.runs {
            within(of_peer.count() as u64, most, "runs with this peer")?;
        }
        let Some(most) = self.epsilon else {
            return Ok(());
        };
        let Some(epsilon) = asked.epsilon else {
            return Err("it allows answers with noise alone".into());
        };
        // Of all peers: those whom the rule is not for may tell each other.
        let costs = self
            .of_period(book, now)
            .filter(|(_, begun)| self.is_for_table(&begun.table));
        let spent = costs
            .filter_map(|(_, begun)| Some(cost(begun.epsilon?, is_padded(begun))))
            .fold(0, u64::saturating_add);
        let cost = cost(epsilon, asked.is_padded);
        match spent.saturating_add(cost) <= most.millionths().into() {
            true => Ok(()),
            false => Err(format!(
                "an epsilon of {} is spent in its period, and {} would be more than {most}",
                decimal(spent),
                decimal(cost),
            )),
        }
    }

    /// What has begun in the rule's period. An entry from the future is in it: a clock was set back.
    fn of_period<'b>(
        &self,
        book: &'b Book,
        now: SystemTime,
    ) -> impl Iterator<Item = (u64, &'b Begun)> {
        let since = self.period.and_then(|period| now.checked_sub(period));
        book.runs()
            .filter(move |(entry, _)| {
                let time = time(&entry.time);
                since.is_none_or(|since| time.is_none_or(|time| time > since))
            })
            .map(|(entry, begun)| (entry.entry, begun))
    }

    /// What has begun in the rule's period with its peers and tables.
    fn runs<'b>(&self, book: &'b Book, now: SystemTime) -> impl Iterator<Item = (u64, &'b Begun)> {
        self.of_period(book, now).filter(|(_, begun)| {
            let peer = begun.peer.parse().ok();
            peer.is_some_and(|peer| self.is_for_peer(peer)) && self.is_for_table(&begun.table)
        })
    }
}

fn within(count: u64, most: u64, what: &str) -> Result<(), String> {
    match count < most {
        true => Ok(()),
        false => Err(format!("{count} of {most} {what} in its period are used")),
    }
}

/// What a run is charged, in millionths. Replacing a key, which every other run is charged for, is two steps where a run is
/// private for one key more.
fn cost(epsilon: Epsilon, is_padded: bool) -> u64 {
    u64::from(epsilon.millionths()) * (1 + u64::from(is_padded))
}

/// Millionths as a decimal, to be shown.
fn decimal(millionths: u64) -> f64 {
    millionths as f64 / 1e6
}

/// Whether this side has padded its set in a run.
fn is_padded(begun: &Begun) -> bool {
    let noise = match begun.role {
        Some(Role::Receiver) => "receiver_noise",
        _ => "sender_noise",
    };
    begun.contract[noise]["is_padded"] == true
}

/// A time as entries have it.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.into())
}

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match Texts::deserialize(from)? {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        })
    }
}

fn peers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Fingerprint>>, D::Error> {
    let peers = Texts::read(from)?.into_iter().map(|text| {
        let peer: Result<Fingerprint, _> = text.parse();
        peer.map_err(|e| de::Error::custom(format!("{text:?}: {e}")))
    });
    peers.collect::<Result<_, _>>().map(Some)
}

fn reveals<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Reveals>>, D::Error> {
    let reveals = Texts::read(from)?.into_iter().map(|text| {
        let reveal: Option<Reveals> = text.parse().ok();
        reveal.ok_or_else(|| {
            de::Error::custom(format!("nothing that is revealed is called {text:?}"))
        })
    });
    reveals.collect::<Result<_, _>>().map(Some)
}

fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pattern>, D::Error> {
    let text = String::deserialize(from)?;
    let pattern = Pattern::new(&text);
    pattern
        .map(Some)
        .map_err(|e| de::Error::custom(format!("{text:?}: {e}")))
}

fn period<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let units = [("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
    let of_unit = |(unit, seconds): &(&str, u64)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds).filter(|seconds| *seconds > 0)
    };
    let seconds = units.iter().find_map(of_unit).ok_or_else(|| {
        de::Error::custom(format!("{text:?} is no period; write one as 12h, 7d or 4w"))
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}
