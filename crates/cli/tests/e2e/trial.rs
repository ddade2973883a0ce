//! Random tables of two parties, and what a run over them must find.
//!
//! A person is a number. Each party has some persons, some of them in several rows, and writes each person's key in
//! its own way: upper or lower case, white space, national or international phone numbers. Which rows match
//! is decided by the numbers alone, and not by anything of ours.
//!
//! Where a run computes with values, each row also has a decimal number, and a person the sum of those of its rows. Where
//! it shares a payload, each row has its person's text.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::thread;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tempfile::TempDir;
use vesica::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, NoProgress, Role, Security,
};
use vesica_offline::{
    Expected, HalfRequest, OfflineStore, OfflineTerms, Platform, Shown, Simulated, deal,
    fetch_half, generate,
};
use vesica_plan::buckets::{self, Split};
use vesica_psi::{Origin, Spec};
use vesica_session::{
    HalfSource, Intent, LabelExchange, LabelTerms, Listener, OptimizeRequest, Registry,
    RepeatedKeys, Transport, ValueTerms, connect,
};
use vesica_tables::{KeySpec, TextColumns, ValueColumn};

use crate::answers::{Answer, Question, decimal};
use crate::support::{Ended, Place};

/// A protocol, with one of the securities that it runs with and one of the questions that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) protocol: &'static str,
    pub(crate) security: Security,
    pub(crate) question: Question,
}

impl Variant {
    /// The matches of a protocol.
    pub(crate) fn matches(protocol: &'static str, security: Security) -> Variant {
        Variant {
            protocol,
            security,
            question: Question::Matches,
        }
    }

    /// A function of a circuit.
    pub(crate) fn function(protocol: &'static str, question: Question) -> Variant {
        Variant {
            protocol,
            security: Security::SemiHonest,
            question,
        }
    }

    /// The name in tables and messages.
    pub(crate) fn name(self) -> String {
        match self.question {
            Question::Matches if self.protocol == "vole" => {
                format!("vole, {}", self.security.name())
            }
            Question::Matches => self.protocol.to_owned(),
            question => format!("{}, {}", self.protocol, question.name()),
        }
    }
}

/// Whether `VESICA_RELIABILITY_PROTOCOLS` names this, with commas between names, or is not set.
pub(crate) fn is_asked(name: &str) -> bool {
    let asked = std::env::var("VESICA_RELIABILITY_PROTOCOLS").ok();
    asked.is_none_or(|asked| asked.split(',').any(|asked| asked == name))
}

/// Every variant of the protocols that are asked for.
pub(crate) fn variants() -> Vec<Variant> {
    let mut variants = Vec::new();
    for protocol in Registry::standard().all() {
        let spec = protocol.spec();
        if !is_asked(spec.name) {
            continue;
        }
        for question in protocol.reveals().iter().copied().flat_map(Question::of) {
            for asked in [Security::Malicious, Security::SemiHonest] {
                let variant = Variant {
                    protocol: spec.name,
                    security: spec.runs(asked),
                    question: *question,
                };
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
    }
    variants
}

/// In memory the job of a threshold is that of a size with a minimum.
pub(crate) fn variants_in_memory() -> Vec<Variant> {
    let mut variants = variants();
    variants.retain(|variant| variant.question != Question::Threshold);
    variants
}

/// Who makes what runs of the protocol take.
fn origin(protocol: &str) -> Option<Origin> {
    let offline = Registry::standard().get(protocol).unwrap().offline();
    offline.map(|offline| offline.origin())
}

/// Whether runs of the protocol take what a dealer has dealt.
pub(crate) fn is_dealt(protocol: &str) -> bool {
    origin(protocol).is_some_and(Origin::is_dealt)
}

/// Whether two generators make it, which show what they run.
fn is_generated(protocol: &str) -> bool {
    origin(protocol) == Some(Origin::Generators)
}

/// Has commands make a pair for runs of the protocol: how receiver, sender and whoever deals ended.
pub(crate) fn dealt_by_commands(place: &Place, protocol: &str, terms: &str) -> Vec<Ended> {
    match is_generated(protocol) {
        true => {
            let shown = format!(
                "--offline tee --attestation simulated --measurement {}",
                Simulated::MEASUREMENT
            );
            place.generate(&format!("{shown} {terms}")).into()
        }
        false => place.deal(&format!("--offline dealer {terms}"), "").into(),
    }
}

/// What generators have shown.
pub(crate) fn attested(protocol: &str) -> Option<String> {
    is_generated(protocol).then(|| Platform::Simulated.to_string())
}

/// Words by which a party takes the pair from its store.
pub(crate) fn storing_words(protocol: &str, role: Role) -> String {
    let shown = attested(protocol).map(|shown| format!(" --attested {shown}"));
    format!("--offline-store {role}.store{}", shown.unwrap_or_default())
}

/// The identities of receiver and sender, and their stores with a pair that was dealt.
pub(crate) struct Dealt {
    pub(crate) fingerprints: [Fingerprint; 2],
    stores: [OfflineStore; 2],
    _directory: TempDir,
}

impl Dealt {
    pub(crate) fn new(terms: &OfflineTerms) -> Dealt {
        let [receiver, sender] = [(); 2].map(|()| Identity::generate().unwrap());
        let parties = [&receiver, &sender];
        let fingerprints = parties.map(Identity::fingerprint);
        let directory = TempDir::new().unwrap();
        let stores = [0, 1].map(|party| {
            let store = directory.path().join(party.to_string());
            let store = OfflineStore::open(&store, parties[party]).unwrap();
            store.with_attested(attested(&terms.protocol))
        });
        let (options, registry) = (ConnectOptions::default(), Registry::standard());
        let expected = Expected::new(Simulated, Simulated::MEASUREMENT);
        let is_generated = is_generated(&terms.protocol);
        let shown = match is_generated {
            true => Shown::ByGenerators([&expected; 2]),
            false => Shown::Nothing,
        };
        let fetch = |party: usize, address: &Endpoint, from: Fingerprint| {
            let transport = Transport::Tls {
                identity: parties[party],
                peer: from,
                intent: match is_generated {
                    true => Intent::AskGenerator,
                    false => Intent::AskDealer,
                },
            };
            let mut connection = connect(address, &transport, &options).unwrap();
            let role = [Role::Receiver, Role::Sender][party];
            let (peer, store) = (fingerprints[1 - party], &stores[party]);
            let wanted = HalfRequest {
                role,
                terms,
                peer,
                shown,
            };
            fetch_half(&mut connection, registry, wanted, store, &mut NoProgress).unwrap();
        };
        // A dealer, or a generator each.
        let dealers = [(); 2].map(|()| Identity::generate().unwrap());
        let prints = dealers.each_ref().map(Identity::fingerprint);
        let listeners = [(); 2].map(|()| Listener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners
            .each_ref()
            .map(|l| Endpoint::Connect(l.local_addr().to_string()));
        let generate = |connections: Vec<Connection>| {
            let connections = &mut connections.try_into().unwrap();
            generate(connections, registry, u64::MAX, &Simulated).unwrap();
        };
        let [first, second] = listeners;
        thread::scope(|scope| match is_generated {
            false => {
                scope.spawn(|| fetch(0, &addresses[0], prints[0]));
                scope.spawn(|| fetch(1, &addresses[0], prints[0]));
                let connections =
                    first.accept_all(&dealers[0], &fingerprints, Intent::Deal, &options);
                let connections = &mut connections.unwrap().try_into().unwrap();
                deal(connections, registry, u64::MAX, None).unwrap();
            }
            true => {
                scope.spawn(|| fetch(0, &addresses[0], prints[0]));
                scope.spawn(|| fetch(1, &addresses[1], prints[1]));
                scope.spawn(|| {
                    let awaited = [fingerprints[0], prints[1]];
                    let accepted =
                        first.accept_all(&dealers[0], &awaited, Intent::Generate, &options);
                    generate(accepted.unwrap());
                });
                let mut connections = second
                    .accept_all(&dealers[1], &fingerprints[1..], Intent::Generate, &options)
                    .unwrap();
                let transport = Transport::Tls {
                    identity: &dealers[1],
                    peer: prints[0],
                    intent: Intent::Generate,
                };
                connections.push(connect(&addresses[0], &transport, &options).unwrap());
                generate(connections);
            }
        });
        Dealt {
            fingerprints,
            stores,
            _directory: directory,
        }
    }

    /// Where that party's run takes its half.
    pub(crate) fn source(&self, party: usize) -> Arc<dyn HalfSource> {
        Arc::new(self.stores[party].clone())
    }
}

/// What is known of the protocol of this name.
pub(crate) fn spec(name: &str) -> &'static Spec {
    let protocol = Registry::standard().get(name);
    protocol.expect("a protocol of this name").spec()
}

/// How a run over so many items, of so many bits if they are numbers, is cut into buckets.
pub(crate) fn split(
    protocol: &str,
    sizes: [u64; 2],
    bits: Option<u32>,
    lambda: u32,
    memory: u64,
) -> Option<Split> {
    let spec = spec(protocol);
    buckets::split(sizes, lambda, memory, spec.max_items, |sizes, lambda| {
        spec.working_bytes_of(sizes, bits, lambda)
    })
}

/// Prints a block of `docs/reliability.md`, which `scripts/reliability.py` puts there.
pub(crate) fn publish(name: &str, text: &str) {
    println!(
        "\n<!-- begin {name} -->\n{}\n<!-- end {name} -->",
        text.trim_end()
    );
}

/// The part of `count` runs that `VESICA_RELIABILITY_PERCENT` asks for, at least one; all if it is not set.
pub(crate) fn part(count: u64) -> u64 {
    let percent = std::env::var("VESICA_RELIABILITY_PERCENT").ok();
    let percent: u64 = percent.map_or(100, |percent| percent.parse().unwrap());
    (count * percent / 100).max(1)
}

/// Chance that can be repeated.
pub(crate) struct Dice(ChaCha20Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(ChaCha20Rng::seed_from_u64(seed))
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// What is in a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Exact,
    Text,
    Email,
    Phone,
    Hash,
    Address,
    LongAddress,
    Number,
    Price,
    Instant,
}

impl Column {
    const ALL: [Column; 10] = [
        Column::Exact,
        Column::Text,
        Column::Email,
        Column::Phone,
        Column::Hash,
        Column::Address,
        Column::LongAddress,
        Column::Number,
        Column::Price,
        Column::Instant,
    ];

    /// The value of `--normalize`, after the column's name.
    fn profile(self) -> &'static str {
        match self {
            Column::Exact => "exact",
            Column::Text => "text",
            Column::Email => "email",
            Column::Phone => "phone:GB",
            Column::Hash => "sha256-hex",
            Column::Address => "ipv4",
            Column::LongAddress => "ipv6",
            Column::Number => "integer:10",
            Column::Price => "decimal",
            Column::Instant => "timestamp:s",
        }
    }

    /// One of the ways to write what stands for `number`, which is below 1000.
    fn write(self, number: u64, dice: &mut Dice) -> String {
        let any_case = |text: String, dice: &mut Dice| match dice.below(3) {
            0 => text.to_uppercase(),
            1 => text.to_lowercase(),
            _ => text,
        };
        match self {
            // Spaces and letter case count.
            Column::Exact => match number % 4 {
                0 => format!("K{number}"),
                1 => format!(" k{number}"),
                2 => format!("\"k,{number}\""),
                _ => format!("ключ {number}\n"),
            },
            Column::Text => {
                let text = any_case(format!("Straße Ärger {number}"), dice);
                match dice.below(3) {
                    0 => text,
                    1 => format!("  {}\t", text.replace(' ', "\u{a0} ")),
                    _ => text.replace('g', "\u{ff47}"),
                }
            }
            Column::Email => {
                let text = any_case(format!("Ann.{number}@Post.Example.COM"), dice);
                dice.pick(&["{}", " {}", "{}\t", "{}."])
                    .replace("{}", &text)
            }
            // Numbers that are kept free for drama.
            Column::Phone => {
                let end = format!("{number:03}");
                dice.pick(&[
                    "+44 20 7946 0{}",
                    "020 7946 0{}",
                    "(020) 7946-0{}",
                    "+44207946 0{}",
                ])
                .replace("{}", &end)
            }
            Column::Hash => {
                let hash = blake3::hash(&number.to_le_bytes()).to_hex().to_string();
                any_case(hash, dice)
            }
            // A block of addresses that crosses a byte.
            Column::Address => {
                let low = 0x07f0 + number as u16;
                let [a, b] = low.to_be_bytes();
                match dice.below(3) {
                    0 => format!("10.0.{a}.{b}"),
                    1 => format!(" 10.0.{a}.{b} "),
                    _ => ((10 << 24) + u32::from(low)).to_string(),
                }
            }
            Column::LongAddress => {
                let text =
                    dice.pick(&["2001:db8::{}", " 2001:0db8:0:0:0::0{}", "2001:DB8:0::0:{}"]);
                any_case(text.replace("{}", &format!("{number:03x}")), dice)
            }
            Column::Number => dice
                .pick(&["{}", "00{}", " {}"])
                .replace("{}", &number.to_string()),
            // Hundredths, and their number in the first ones.
            Column::Price => {
                let (whole, hundredths) = (number / 100, number % 100);
                dice.pick(&["-{}", " -0{}", "-{}000"])
                    .replace("{}", &format!("{whole}.{hundredths:02}"))
            }
            // Minutes before and after a midnight in February.
            Column::Instant => {
                let (hour, minute) = (number / 60, number % 60);
                match dice.below(4) {
                    0 => (1_709_164_800 + 60 * number).to_string(),
                    1 => format!("2024-02-29 {hour:02}:{minute:02}"),
                    2 => format!("2024-02-29T{hour:02}:{minute:02}:00.000Z "),
                    _ if hour == 0 => format!("2024-02-28T23:{minute:02}:00-01:00"),
                    _ => format!("2024-02-29T{:02}:{minute:02}:00-0100", hour - 1),
                }
            }
        }
    }

    /// A value that never matches, if there is one: blank, or none of its kind.
    fn nothing(self, dice: &mut Dice) -> String {
        match self {
            Column::Exact => String::new(),
            Column::Text => " \u{a0}".into(),
            Column::Email => dice.pick(&["", " ", "nobody"]).into(),
            Column::Phone => dice.pick(&["", "12", "call me"]).into(),
            Column::Hash => dice.pick(&["", "abc", "00"]).into(),
            Column::Address => dice.pick(&["", "10.0.7", "10.0.7.07"]).into(),
            Column::LongAddress => dice.pick(&["", "2001:db8", "::1%lo"]).into(),
            Column::Number => dice.pick(&["", "-1", "1024", "1.0"]).into(),
            Column::Price => dice.pick(&["", "1e3", "1,000"]).into(),
            Column::Instant => dice.pick(&["", "2024-02-30", "29.02.2024"]).into(),
        }
    }
}

/// The numbers in a column of values.
#[derive(Clone, Debug)]
struct Amounts {
    /// Digits after the decimal point.
    scale: u8,
    /// A whole number, for a person.
    bound: u64,
    /// Of each row, in units of 10^-`scale`; `None` where nobody is.
    units: Vec<Option<i128>>,
}

impl Amounts {
    /// Amounts of rows with these persons, of at most `largest` units for each person.
    fn of(persons: &[Option<u64>], largest: u64, dice: &mut Dice) -> Amounts {
        let scale = dice.pick(&[0, 0, 2, 5]);
        let unit = 10u64.pow(scale.into());
        let bound = dice
            .pick(&[1, 50, 1000, largest])
            .min(largest / unit)
            .max(1);
        let most = i128::from(bound * unit);
        let mut rows_of: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (row, person) in persons.iter().enumerate() {
            if let Some(person) = person {
                rows_of.entry(*person).or_default().push(row);
            }
        }
        let mut units = vec![None; persons.len()];
        for rows in rows_of.values() {
            let any = |dice: &mut Dice| i128::from(dice.below(2 * most as u64 + 1)) - most;
            // A row may exceed the bound if others of its person make up for it.
            let mut rest = match dice.below(8) {
                0 => 0,
                1 => most,
                2 => -most,
                _ => any(dice),
            };
            for row in &rows[1..] {
                let own = 2 * any(dice);
                units[*row] = Some(own);
                rest -= own;
            }
            units[rows[0]] = Some(rest);
        }
        Amounts {
            scale,
            bound,
            units,
        }
    }

    fn column(&self, name: &str) -> ValueColumn {
        ValueColumn::new(name, self.scale, Some(&self.bound.to_string()), true).unwrap()
    }

    fn cell(&self, row: usize) -> String {
        // What nobody has is not read.
        self.units[row].map_or("n/a".into(), |units| decimal(units, self.scale))
    }
}

/// The texts in a column to share or to hand over: one for each person.
#[derive(Clone, Debug)]
struct Texts {
    /// Bytes that each takes.
    bytes: u32,
    of: BTreeMap<u64, String>,
    is_handed_over: bool,
}

/// Bytes of a text and of its length at most, for a side that takes those of the other.
const MOST_TAKEN: u32 = 300;

impl Texts {
    /// Texts of these persons, some of them empty and some as long as can be.
    fn of(persons: &[Option<u64>], bytes: u32, dice: &mut Dice) -> Texts {
        let characters = ['a', 'z', '"', ',', ' ', '\t', '\n', 'é', '漢', '🙂'];
        let text = |dice: &mut Dice| {
            let most = dice.pick(&[0, 1, bytes / 2, bytes]) as usize;
            let mut text = String::new();
            loop {
                let next = dice.pick(&characters);
                if text.len() + next.len_utf8() > most {
                    return text;
                }
                text.push(next);
            }
        };
        let persons: BTreeSet<u64> = persons.iter().copied().flatten().collect();
        Texts {
            bytes,
            of: persons
                .into_iter()
                .map(|person| (person, text(dice)))
                .collect(),
            is_handed_over: false,
        }
    }

    /// Bytes for each person, with those of the length of a text that is handed over.
    fn width(&self) -> u32 {
        self.bytes + if self.is_handed_over { 2 } else { 0 }
    }

    /// That of a person in UTF-8, with zeros after it, and before it what comes before a text that is handed over.
    fn padded(&self, person: u64) -> Vec<u8> {
        let text = self.of[&person].as_bytes();
        let length = (text.len() as u16 + 1).to_le_bytes();
        let length = if self.is_handed_over {
            &length[..]
        } else {
            &[]
        };
        let mut padded = [length, text].concat();
        padded.resize(self.width() as usize, 0);
        padded
    }
}

/// The column of texts.
pub(crate) const TEXTS: &str = "text";

/// A party's rows: who is in each, and how that is written; nobody where a row must not match.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    persons: Vec<Option<u64>>,
    keys: Vec<Vec<String>>,
    header: Vec<String>,
    /// The columns of values.
    amounts: Vec<Amounts>,
    texts: Option<Texts>,
    /// Whether this side takes the texts of the other.
    takes: bool,
}

impl Table {
    /// A table of one exact column with the keys `k0`, `k1`, … of these numbers.
    pub(crate) fn of_numbers(numbers: impl Iterator<Item = u64>) -> Table {
        let persons: Vec<Option<u64>> = numbers.map(Some).collect();
        let key = |person: &Option<u64>| vec![format!("k{}", person.unwrap())];
        Table {
            keys: persons.iter().map(key).collect(),
            persons,
            header: vec!["k0".into()],
            amounts: Vec::new(),
            texts: None,
            takes: false,
        }
    }

    /// The same for a side that takes texts of the other.
    pub(crate) fn taking(self) -> Table {
        Table {
            takes: true,
            ..self
        }
    }

    /// The same with a column of texts to hand over, of so many bytes each.
    pub(crate) fn handing_over(self, bytes: u32, dice: &mut Dice) -> Table {
        let mut table = self.with_texts(bytes, dice);
        if let Some(texts) = &mut table.texts {
            texts.is_handed_over = true;
        }
        table
    }

    /// The same with so many columns of amounts.
    pub(crate) fn with_amounts(mut self, columns: u64, largest: u64, dice: &mut Dice) -> Table {
        let column = |_| Amounts::of(&self.persons, largest, dice);
        self.amounts = (0..columns).map(column).collect();
        self
    }

    /// The same with a column of texts, of so many bytes each.
    pub(crate) fn with_texts(mut self, bytes: u32, dice: &mut Dice) -> Table {
        self.texts = Some(Texts::of(&self.persons, bytes, dice));
        self
    }

    /// What is to be done about its texts.
    pub(crate) fn labels(&self) -> LabelExchange {
        match &self.texts {
            Some(texts) if texts.is_handed_over => {
                LabelExchange::Offered(LabelTerms::texts(texts.width(), vec![TEXTS.into()]))
            }
            Some(texts) => LabelExchange::Shared { bytes: texts.bytes },
            None if self.takes => LabelExchange::Wanted {
                most_bytes: MOST_TAKEN,
                most_rows: 1,
            },
            None => LabelExchange::Nothing,
        }
    }

    /// Its texts as they are read.
    pub(crate) fn text_columns(&self, key: &KeySpec) -> Option<TextColumns> {
        let texts = self.texts.as_ref()?;
        let width = texts.width() as usize;
        let columns = match texts.is_handed_over {
            true => TextColumns::labels(key, &[TEXTS.into()], width),
            false => TextColumns::payload(key, TEXTS, width),
        };
        Some(columns.unwrap())
    }

    /// The texts of its persons that the other table lacks, in order.
    pub(crate) fn texts_beside(&self, other: &Table) -> Vec<String> {
        let others = other.distinct();
        let texts = self.texts.as_ref().expect("texts to hand over");
        let lacked = texts
            .of
            .iter()
            .filter(|(person, _)| !others.contains(person));
        let mut lacked: Vec<String> = lacked.map(|(_, text)| text.clone()).collect();
        lacked.sort_unstable();
        lacked
    }

    /// The text of a person in UTF-8, with zeros up to its width after it; nothing if there are no texts.
    pub(crate) fn text(&self, person: u64) -> Vec<u8> {
        let texts = self.texts.as_ref();
        texts.map_or(Vec::new(), |texts| texts.padded(person))
    }

    /// The options that name its texts.
    pub(crate) fn text_words(&self) -> String {
        let words = |texts: &Texts| format!("--payload {TEXTS} --payload-width {}", texts.width());
        let taking = || match self.takes {
            true => format!("--payload-width {MOST_TAKEN}"),
            false => String::new(),
        };
        self.texts.as_ref().map_or_else(taking, words)
    }

    /// The names of these columns.
    fn amount_names(&self) -> Vec<String> {
        let name = |column| match column {
            0 => "amount".to_owned(),
            _ => format!("amount-{column}"),
        };
        (0..self.amounts.len()).map(name).collect()
    }

    /// The person of a row.
    ///
    /// # Panics
    /// If the row is not the first of its person.
    pub(crate) fn person_of_first(&self, row: usize) -> u64 {
        let person = self.persons[row].expect("somebody is in the row");
        let first = self.persons.iter().position(|other| *other == Some(person));
        assert_eq!(first, Some(row));
        person
    }

    pub(crate) fn rows(&self) -> usize {
        self.persons.len()
    }

    /// Whether it has amounts.
    pub(crate) fn has_values(&self) -> bool {
        !self.amounts.is_empty()
    }

    /// The options that name its amounts.
    pub(crate) fn value_words(&self) -> String {
        let list = |of: fn(&Amounts) -> u64| {
            let texts = self.amounts.iter().map(|amounts| of(amounts).to_string());
            texts.collect::<Vec<_>>().join(",")
        };
        match self.has_values() {
            true => format!(
                "--value {} --value-scale {} --value-bound {}",
                self.amount_names().join(","),
                list(|amounts| amounts.scale.into()),
                list(|amounts| amounts.bound)
            ),
            false => String::new(),
        }
    }

    /// The columns of its amounts.
    pub(crate) fn value_columns(&self) -> Vec<ValueColumn> {
        let names = self.amount_names();
        let columns = self.amounts.iter().zip(&names);
        columns
            .map(|(amounts, name)| amounts.column(name))
            .collect()
    }

    /// What a party says of its amounts.
    pub(crate) fn value_terms(&self) -> Vec<ValueTerms> {
        let terms = |column: ValueColumn| ValueTerms {
            bound: column.bound,
            scale: column.scale,
            repeated: RepeatedKeys::Sum,
        };
        self.value_columns().into_iter().map(terms).collect()
    }

    /// Digits after the point of its amounts, for each column.
    pub(crate) fn scales(&self) -> Vec<u8> {
        self.amounts.iter().map(|amounts| amounts.scale).collect()
    }

    /// What each person has in each column, in units.
    pub(crate) fn totals(&self) -> BTreeMap<u64, Vec<i128>> {
        let mut totals = BTreeMap::new();
        for (row, person) in self.persons.iter().enumerate() {
            let Some(person) = *person else { continue };
            let total = totals
                .entry(person)
                .or_insert_with(|| vec![0; self.amounts.len()]);
            for (total, amounts) in total.iter_mut().zip(&self.amounts) {
                *total += amounts.units[row].unwrap();
            }
        }
        totals
    }

    pub(crate) fn distinct(&self) -> HashSet<u64> {
        self.persons.iter().copied().flatten().collect()
    }

    /// For each row whether the other table has its person too.
    pub(crate) fn matching(&self, other: &Table) -> Vec<bool> {
        let others = other.distinct();
        let found = |person: &Option<u64>| person.is_some_and(|person| others.contains(&person));
        self.persons.iter().map(found).collect()
    }

    /// The rows that `keep` says, as CSV; a number of the row comes first.
    pub(crate) fn csv(&self, keep: &[bool]) -> String {
        let mut header = self.header.join(",");
        for name in self.amount_names() {
            header.push_str(&format!(",{name}"));
        }
        if self.texts.is_some() {
            header.push_str(&format!(",{TEXTS}"));
        }
        let kept = (0..self.rows()).filter(|number| keep[*number]);
        let rows: String = kept.map(|number| self.row(number) + "\n").collect();
        format!("row,{header}\n{rows}")
    }

    /// The text of a row.
    fn row(&self, number: usize) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let keys = self.keys[number].iter().map(|key| quoted(key));
        let mut fields: Vec<String> = keys.collect();
        fields.extend(self.amounts.iter().map(|amounts| amounts.cell(number)));
        if let Some(texts) = &self.texts {
            // What nobody has is not read, however long it is.
            let nobodys = "x".repeat(texts.bytes as usize + 1);
            let text = self.persons[number].map_or(&nobodys, |person| &texts.of[&person]);
            fields.push(quoted(text));
        }
        format!("{number},{}", fields.join(","))
    }

    /// The id of each person and its place in the list of all, by a result with the rows of all of them; `None` for any other
    /// file.
    pub(crate) fn ids(&self, file: &str) -> Option<BTreeMap<u64, (u64, String)>> {
        let empty = self.csv(&vec![false; self.rows()]);
        let header = format!("{},spine_row,spine_id\n", empty.trim_end());
        let mut rest = file.strip_prefix(&header)?;
        let mut ids = BTreeMap::new();
        for (number, person) in self.persons.iter().enumerate() {
            let Some(person) = person else { continue };
            let added = rest.strip_prefix(&self.row(number))?.strip_prefix(',')?;
            let (added, after) = added.split_once('\n')?;
            rest = after;
            let (row, id) = added.split_once(',')?;
            let id = (row.parse().ok()?, id.to_owned());
            if *ids.entry(*person).or_insert_with(|| id.clone()) != id {
                return None;
            }
        }
        rest.is_empty().then_some(ids)
    }

    pub(crate) fn whole(&self) -> String {
        self.csv(&vec![true; self.persons.len()])
    }
}

/// One random run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) variant: Variant,
    pub(crate) lambda: u32,
    pub(crate) both: bool,
    /// How many must match; 0 if the run has no minimum.
    pub(crate) minimum: u64,
    pub(crate) optimize: OptimizeRequest,
    /// Bytes that each side allows, receiver first.
    pub(crate) memory: [Option<u64>; 2],
    /// What a dealer deals for the run, if its protocol needs one.
    pub(crate) dealt: Option<OfflineTerms>,
    columns: Vec<Column>,
    /// Of receiver and sender.
    pub(crate) tables: [Table; 2],
}

impl Trial {
    /// The run of this number: two tables of up to 300 distinct keys each. One in a hundred circuits has more of the
    /// receiver's, so that the entries of its membership test come from LPN.
    pub(crate) fn new(variant: Variant, number: u64) -> Trial {
        let Variant {
            protocol, question, ..
        } = variant;
        let mut dice = Dice::new(number);
        let dice = &mut dice;
        let is_large = question != Question::Matches && number % 100 == 99;
        let mut columns = vec![dice.pick(&Column::ALL)];
        if dice.once_in(3) {
            columns.push(dice.pick(&Column::ALL));
        }
        if is_large {
            // The others have no more than a thousand values.
            columns = vec![Column::Exact];
        }
        // Two columns share what tells persons apart, so that values of one alone often agree.
        let range = match is_large {
            true => 12_000,
            false => 1 + dice.below(999),
        };
        let size = |dice: &mut Dice| {
            let most = dice.pick(&[0, 1, 3, 20, 300, 300, 300]).min(range);
            dice.below(most + 1)
        };
        let mut sizes = [size(dice), size(dice)];
        if is_large {
            sizes[0] = 10_500 + dice.below(1500);
        }
        if question == Question::Union {
            // Without any key it would be the other table.
            sizes[0] = sizes[0].max(1);
        }
        let mut tables = sizes.map(|size| Self::table(&columns, size, range, dice));
        // So that no inner product of 300 exceeds 63 bits.
        let largest = match question {
            Question::InnerProduct | Question::SizeAndInnerProduct => 1 << 27,
            _ => 1 << 54,
        };
        for (table, may) in tables.iter_mut().zip(question.values()) {
            let has = may && (question != Question::Shares || dice.once_in(2));
            let columns = match question.most_columns() {
                _ if !has => 0,
                1 => 1,
                most => 1 + dice.below(most),
            };
            *table = table.clone().with_amounts(columns, largest, dice);
            if question == Question::Shares && dice.once_in(2) {
                let bytes = dice.pick(&[1, 8, 15, 17, 256]);
                *table = table.clone().with_texts(bytes, dice);
            }
        }
        if question == Question::Union {
            let bytes = dice.pick(&[1, 8, 15, 17, 256]);
            let [ours, theirs] = tables;
            tables = [ours.taking(), theirs.handing_over(bytes, dice)];
        }
        let [needs, may] = question.minimum();
        let minimum = match needs || may && dice.once_in(2) {
            true => {
                let count = Answer::counted(tables.each_ref());
                let near = [count.saturating_sub(1), count, count + 1, dice.below(310)];
                dice.pick(&near).max(needs.into())
            }
            false => 0,
        };
        let bits = match &columns[..] {
            [Column::Address] => Some(32),
            [Column::Number] => Some(10),
            _ => None,
        };
        let is_dealt = is_dealt(protocol);
        let padded = sizes.map(|size| match is_dealt {
            true => size.max(1) + dice.pick(&[0, 0, 1, 50]),
            false => size,
        });
        let most = spec(protocol).max_lambda_of(padded, bits);
        let lambda = dice.pick(&[40, 40, 40, 64]).min(most.unwrap_or(64));
        let dealt = is_dealt.then(|| OfflineTerms {
            protocol: protocol.to_owned(),
            lambda,
            key_bits: bits,
            receiver_size: padded[0],
            sender_size: padded[1],
            post_quantum: false,
        });
        let full = spec(protocol).working_bytes_of(sizes, bits, lambda);
        let limit = dice.pick(&[full - full / 16, full.saturating_sub(1)]);
        let split = split(protocol, sizes, bits, lambda, limit);
        // A pair and ids are for a whole run, and columns take more memory.
        let takes_more =
            question.values() != [false; 2] || matches!(question, Question::Union | Question::Ids);
        let whole = is_dealt || takes_more;
        let limited = !whole && dice.once_in(2) && split.is_some_and(|split| split.buckets > 1);
        let limit = limited.then_some(limit);
        let other = limit.filter(|_| dice.once_in(2));
        Trial {
            variant,
            lambda,
            both: question == Question::Matches && dice.once_in(3),
            minimum,
            optimize: dice.pick(&[
                OptimizeRequest::Time,
                OptimizeRequest::Traffic,
                OptimizeRequest::Auto,
            ]),
            memory: if dice.once_in(2) {
                [limit, other]
            } else {
                [other, limit]
            },
            dealt,
            columns,
            tables,
        }
    }

    fn table(columns: &[Column], size: u64, range: u64, dice: &mut Dice) -> Table {
        let mut persons: Vec<u64> = (0..range).collect();
        dice.shuffle(&mut persons);
        persons.truncate(size as usize);
        let mut rows = Vec::new();
        for person in persons {
            let copies = if dice.once_in(8) {
                1 + dice.below(4)
            } else {
                1
            };
            rows.extend((0..copies).map(|_| Some(person)));
            if dice.once_in(20) {
                rows.push(None);
            }
        }
        if rows.is_empty() {
            // A table without any row is refused.
            rows.push(None);
        }
        dice.shuffle(&mut rows);
        let mut write = |person: &Option<u64>| {
            let Some(person) = *person else {
                let values = columns.iter().map(|column| column.nothing(dice));
                return values.collect();
            };
            match columns {
                [column] => vec![column.write(person, dice)],
                _ => vec![
                    columns[0].write(person % 30, dice),
                    columns[1].write(person / 30, dice),
                ],
            }
        };
        Table {
            keys: rows.iter().map(&mut write).collect(),
            persons: rows,
            header: (0..columns.len()).map(|i| format!("k{i}")).collect(),
            amounts: Vec::new(),
            texts: None,
            takes: false,
        }
    }

    /// The value of `--key`.
    pub(crate) fn key(&self) -> String {
        self.tables[0].header.join(",")
    }

    /// The values of `--normalize`.
    pub(crate) fn profiles(&self) -> Vec<String> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(i, column)| format!("k{i}={}", column.profile()))
            .collect()
    }
}
