//! Every recipe and function against a plain computation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use proptest::prelude::*;
use vesica_circuit::messages::{ID_LIST, ROWS};
use vesica_circuit::{CircuitPsi, MAX_PLACES, Okvs, Psm1, Psm2};
use vesica_encodings::cuckoo::Parameters;
use vesica_oprf::programmable::bins::{HASHES, ReceiverBins};
use vesica_psi::{
    Capacities, GroupMinimum, Groups, Half, Input, Item, KeyAgreement, NO_GROUP, Optimize, Output,
    Params, Prepared, Protocol, Reveal, Reveals, RowSlots, Security, SharedMatches, Shares, Spine,
    StringBytes, Task, Values, matched_items,
};
use vesica_testing::{
    Recorder, bad_value, digests, misbehaviour, rng, too_long, try_both, wrong_length,
};
use vesica_wire::{Channel, Error, Kind, Spoil, Tamper, memory_pair};
use zeroize::Zeroizing;

static RECIPES: [&dyn Protocol; 3] = [
    &CircuitPsi::new(Okvs),
    &CircuitPsi::new(Psm1),
    &CircuitPsi::new(Psm2),
];

/// The same with as many bins as items. One bin in twenty is none of any item's three, so as many items are in none.
static STASHED: [&dyn Protocol; 3] = [
    &CircuitPsi::with_table(Okvs, too_small),
    &CircuitPsi::with_table(Psm1, too_small),
    &CircuitPsi::with_table(Psm2, too_small),
];

fn too_small(items: usize, _: u32) -> Parameters {
    Parameters {
        stash: 4 + items / 10,
        ..Parameters::with_bins(items, HASHES, items.max(HASHES))
    }
}

/// How many items end up in the stash.
fn in_stash(params: &Params, items: &[Item]) -> usize {
    let bins = ReceiverBins::new(params, too_small(items.len(), 0), items).unwrap();
    bins.table.stash().len()
}

/// Everything that a run can reveal, and the values that the receiver and the sender have for an item.
const TASKS: [(&str, [u8; 2]); 18] = [
    ("size", [0, 0]),
    ("sum", [1, 0]),
    ("sum", [0, 1]),
    ("inner-product", [1, 1]),
    ("threshold-matches", [0, 0]),
    ("shares", [0, 0]),
    ("shares", [1, 0]),
    ("shares", [0, 1]),
    ("shares", [1, 1]),
    ("union", [0, 0]),
    ("ids", [0, 0]),
    ("size,sum", [1, 0]),
    ("size,sum", [0, 2]),
    ("sum", [3, 0]),
    ("sum", [0, 8]),
    ("size,sum", [8, 0]),
    ("size,inner-product", [1, 1]),
    ("shares", [2, 3]),
];

#[test]
fn tasks_are_of_everything_that_can_be_revealed() {
    for reveal in Reveals::all().filter(|reveal| *reveal != Reveal::Matches) {
        let is_there = TASKS.iter().any(|of| of.0 == reveal.to_string());
        assert!(is_there, "{reveal}");
    }
}

/// Those of which both parties can learn the result.
fn numbers() -> Vec<(&'static str, [u8; 2])> {
    let all = TASKS.into_iter();
    all.filter(|of| least(*of, 0).reveal.is_value()).collect()
}

type Secret = Zeroizing<Vec<u64>>;

/// One party's items and values.
struct Side {
    items: Vec<Item>,
    values: Vec<i64>,
}

impl Side {
    fn new(items: Range<u64>, value: impl Fn(u64) -> i64) -> Side {
        Side {
            values: items.clone().map(value).collect(),
            items: digests(items),
        }
    }

    /// So many values of each item.
    fn rows(&self, columns: u8) -> Vec<i64> {
        let row = |value: &i64| {
            let value = *value;
            (0..columns).map(move |column| in_column(value, column))
        };
        self.values.iter().flat_map(row).collect()
    }

    /// A string of so many bytes of each item.
    fn strings(&self, bytes: usize) -> Vec<u8> {
        let strings = self.items.iter().zip(&self.values);
        let strings = strings.flat_map(|(item, value)| string(item, *value, bytes));
        strings.collect()
    }

    /// The group of each item, of so many, which are of different sizes; some are in none.
    fn groups(&self, count: usize) -> Vec<u32> {
        let items = 0..self.items.len();
        let group = |item: usize| match item * item / 3 % (count + 1) {
            group if group == count => NO_GROUP,
            group => group as u32,
        };
        items.map(group).collect()
    }

    fn input<'a>(&'a self, rows: &'a [i64], columns: u8, strings: &'a [u8]) -> Input<'a> {
        let input = Input::with_values(&self.items, (columns > 0).then_some(rows));
        input.with_labels((!strings.is_empty()).then_some(strings))
    }
}

/// A string of an item with this value; zeros now and then.
fn string(item: &Item, value: i64, bytes: usize) -> impl Iterator<Item = u8> {
    let factor = if value % 4 == 0 { 0 } else { value as u8 | 1 };
    let all = item.iter().cycle().take(bytes);
    all.map(move |byte| byte.wrapping_mul(factor))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Another value of an item with this one; now and then 0 where that is not.
fn in_column(value: i64, column: u8) -> i64 {
    match i64::from(column) {
        0 => value,
        column if value % (column + 2) == 0 => 0,
        column => value.wrapping_mul(column + 1),
    }
}

fn run(protocol: &dyn Protocol, task: &Task, lambda: u32, ours: &Side, theirs: &Side) -> Output {
    let (mut a, mut b) = memory_pair();
    run_over(
        protocol,
        task,
        lambda,
        [ours, theirs],
        [1, 2],
        (&mut a, &mut b),
    )
}

fn params(lambda: u32, ours: &Side, theirs: &Side) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda,
        receiver_size: ours.items.len(),
        sender_size: theirs.items.len(),
        key_agreement: KeyAgreement::default(),
        session: [9; 32],
    }
}

/// With the seeds of both sides.
fn run_over(
    protocol: &dyn Protocol,
    task: &Task,
    lambda: u32,
    [ours, theirs]: [&Side; 2],
    [our_seed, their_seed]: [u64; 2],
    channels: (impl Channel, impl Channel),
) -> Output {
    let params = params(lambda, ours, theirs);
    let (output, sent) = try_both(
        channels,
        |channel| {
            let mut rng = rng(our_seed);
            let prepared = protocol.prepare(ours.items.len(), &mut rng);
            let rows = ours.rows(task.values.receiver);
            let strings = ours.strings(task.string_bytes.receiver);
            let input = ours.input(&rows, task.values.receiver, &strings);
            let groups = task
                .groups
                .is_some()
                .then(|| ours.groups(task.group_count()));
            let input = input.with_groups(groups.as_deref());
            let output = protocol.receive(channel, &params, task, input, prepared, &mut rng)?;
            protocol.open_whole(channel, Half::Receiver, &params, task, output, &mut rng)
        },
        |channel| {
            let rows = theirs.rows(task.values.sender);
            let strings = theirs.strings(task.string_bytes.sender.max(task.label_bytes));
            let input = theirs.input(&rows, task.values.sender, &strings);
            let (rng, nothing) = (&mut rng(their_seed), Prepared::nothing());
            let output = protocol.send(channel, &params, task, input, nothing, rng)?;
            protocol.open_whole(channel, Half::Sender, &params, task, output, rng)
        },
    );
    let output = match output.unwrap() {
        Output::Rows(slots) => rows(slots.bytes, slots.rows().map(<[u8]>::to_vec).collect()),
        output => output,
    };
    match sent.unwrap() {
        Output::Shares(theirs) => opened(output, theirs, task),
        Output::Spine(theirs_found) => joined(output, theirs_found, [ours, theirs]),
        sent => {
            let told = if task.both { &output } else { &Output::Nothing };
            assert_eq!(&sent, told);
            output
        }
    }
}

/// What both sides have found, with the places of items in the place of those of random ids: ids are equal if items are.
fn joined(output: Output, theirs: Spine, items: [&Side; 2]) -> Output {
    let Output::Spine(ours) = output else {
        panic!("{output:?}");
    };
    assert_eq!((ours.bytes, &ours.ids), (theirs.bytes, &theirs.ids));
    assert!(ours.ids.is_sorted_by(|one, next| one < next));
    assert!(ours.ids.iter().all(|id| id >> (8 * ours.bytes) == 0));
    let mut found = BTreeMap::new();
    for (side, spine) in items.iter().zip([&ours, &theirs]) {
        assert_eq!(side.items.len(), spine.rows.len());
        for (item, row) in side.items.iter().zip(&spine.rows) {
            assert_eq!(found.entry(item).or_insert(row), &row);
        }
    }
    let rows: BTreeSet<_> = found.values().collect();
    assert_eq!(
        [rows.len(), ours.ids.len()],
        [found.len(); 2],
        "an id is nobody's"
    );
    spine(items)
}

/// The places of the receiver's items among those of both sides.
fn spine([ours, theirs]: [&Side; 2]) -> Output {
    let all: BTreeSet<&Item> = ours.items.iter().chain(&theirs.items).collect();
    let all: Vec<&Item> = all.into_iter().collect();
    let row = |item: &Item| all.binary_search(&item).unwrap() as u32;
    Output::Spine(Spine {
        bytes: 0,
        ids: (0..all.len() as u128).collect(),
        rows: ours.items.iter().map(row).collect(),
    })
}

/// These rows in order, in slots of so many bytes.
fn rows(bytes: usize, mut rows: Vec<Vec<u8>>) -> Output {
    rows.sort_unstable();
    let mut slots = RowSlots::with_capacity(bytes, rows.len());
    rows.iter().for_each(|row| slots.push(row, true));
    Output::Rows(slots)
}

/// What shares add up to, in the form of the receiver's share, for all of the receiver's items in order.
fn opened(ours: Output, theirs: Shares, task: &Task) -> Output {
    let Output::Shares(ours) = ours else {
        panic!("{ours:?}");
    };
    let items = ours.items.unwrap();
    let open = |ours: &[Secret], theirs: &[Secret], columns: u8| -> Vec<Secret> {
        assert_eq!([ours.len(), theirs.len()], [usize::from(columns); 2]);
        let open = |(ours, theirs): (&Secret, &Secret)| {
            let pairs = ours.iter().zip(theirs.iter());
            Zeroizing::new(pairs.map(|(a, b)| a.wrapping_add(*b)).collect())
        };
        ours.iter().zip(theirs).map(open).collect()
    };
    let Values { receiver, sender } = task.values;
    let mut values = open(&ours.receiver_values, &theirs.receiver_values, receiver);
    values.extend(open(&ours.sender_values, &theirs.sender_values, sender));
    let bytes = task.string_bytes;
    let strings = [
        (
            &ours.receiver_strings,
            &theirs.receiver_strings,
            bytes.receiver,
        ),
        (&ours.sender_strings, &theirs.sender_strings, bytes.sender),
    ];
    let strings = strings.map(|(ours, theirs, bytes)| {
        assert_eq!([ours.len(), theirs.len()], [items.len() * bytes; 2]);
        ours.iter()
            .zip(theirs.iter())
            .map(|(a, b)| a ^ b)
            .collect::<Vec<u8>>()
    });
    let mut found = BTreeMap::new();
    for (cell, item) in items.iter().enumerate() {
        let matches = ours.matches[cell] != theirs.matches[cell];
        let values: Vec<u64> = values.iter().map(|values| values[cell]).collect();
        let each = [bytes.receiver, bytes.sender];
        let own = [0, 1].map(|side| strings[side][cell * each[side]..][..each[side]].to_vec());
        let is_zero =
            values.iter().all(|value| *value == 0) && own.iter().flatten().all(|b| *b == 0);
        match (item, matches) {
            (Some(item), true) => assert_eq!(found.insert(*item, (values, own)), None),
            _ => assert!(!matches && is_zero),
        }
    }
    let all: BTreeSet<u32> = items.into_iter().flatten().collect();
    assert!(
        all.iter().copied().eq(0..all.len() as u32),
        "an item is in no cell"
    );
    assert!(found.keys().all(|cell| all.contains(cell)));
    let column = |i: usize| Zeroizing::new(found.values().map(|(values, _)| values[i]).collect());
    let strings = [0, 1].map(|side| {
        let all = found.values().flat_map(|(_, strings)| &strings[side]);
        Zeroizing::new(all.copied().collect())
    });
    let [receiver_strings, sender_strings] = strings;
    let mut opened: Vec<Secret> = (0..values.len()).map(column).collect();
    let sender_values = opened.split_off(receiver.into());
    Output::Shares(Shares {
        items: Some(found.into_keys().map(Some).collect()),
        matches: Zeroizing::default(),
        receiver_values: opened,
        sender_values,
        receiver_strings,
        sender_strings,
    })
}

/// The rows of the sender whose items the receiver lacks.
fn lacked(bytes: usize, ours: &Side, theirs: &Side) -> Output {
    let all = theirs.items.iter().zip(&theirs.values);
    let lacked = all.filter(|(item, _)| !ours.items.contains(item));
    let row = |(item, value): (&Item, &i64)| string(item, *value, bytes).collect();
    rows(bytes, lacked.map(row).collect())
}

/// A task that divides the receiver's items into so many groups. The sender learns no sizes, or those with so much added to
/// each.
fn grouped(
    task: Task,
    ours: &Side,
    count: usize,
    more: Option<u64>,
    minimum: GroupMinimum,
) -> Task {
    let groups = ours.groups(count);
    let size = |group: usize| groups.iter().filter(|of| **of as usize == group).count() as u64;
    let capacities = more.map(|more| Capacities {
        of_groups: (0..count).map(|group| size(group) + more).collect(),
        rest: if more > 0 { ours.items.len() as u64 } else { 0 },
    });
    Task {
        groups: Some(Groups {
            count,
            capacities,
            minimum,
        }),
        ..task
    }
}

/// The numbers of each group by themselves.
fn plain_by_group(task: &Task, groups: &Groups, ours: &Side, theirs: &Side) -> Output {
    let alone = Task {
        groups: None,
        ..task.clone()
    };
    let of_item = ours.groups(groups.count);
    let numbers = |group: usize| {
        let of = |item: &usize| of_item[*item] as usize == group;
        let of: Vec<usize> = (0..of_item.len()).filter(of).collect();
        let side = Side {
            items: of.iter().map(|item| ours.items[*item]).collect(),
            values: of.iter().map(|item| ours.values[*item]).collect(),
        };
        match plain(&alone, &side, theirs) {
            Output::Values(values) => Some(values),
            _ => None,
        }
    };
    let mut all: Vec<_> = (0..groups.count).map(numbers).collect();
    if groups.minimum == GroupMinimum::All && all.iter().any(Option::is_none) {
        all.fill(None);
    }
    Output::Groups(all)
}

fn plain(task: &Task, ours: &Side, theirs: &Side) -> Output {
    if let Some(groups) = &task.groups {
        return plain_by_group(task, groups, ours, theirs);
    }
    if task.reveal == Reveal::Union {
        return lacked(task.label_bytes, ours, theirs);
    }
    if task.reveal == Reveal::Ids {
        return spine([ours, theirs]);
    }
    let theirs: HashMap<_, _> = theirs.items.iter().zip(&theirs.values).collect();
    let found: Vec<Option<i64>> = ours
        .items
        .iter()
        .map(|item| theirs.get(item).map(|value| **value))
        .collect();
    let pairs = ours.values.iter().zip(&found);
    let pairs: Vec<(i64, i64)> = pairs
        .filter_map(|(own, found)| Some((*own, (*found)?)))
        .collect();
    let Values { receiver, sender } = task.values;
    let terms = |(reveal, column): (Reveal, usize)| -> Vec<i64> {
        let column = column as u8;
        let term = |(own, their): &(i64, i64)| match reveal {
            Reveal::Sum if receiver > 0 => in_column(*own, column),
            Reveal::Sum => in_column(*their, column),
            Reveal::InnerProduct => own * their,
            _ => 1,
        };
        pairs.iter().map(term).collect()
    };
    let numbers: Vec<_> = task
        .reveal
        .numbers(task.values)
        .into_iter()
        .map(terms)
        .collect();
    let adding = |terms: &Vec<i64>| terms.iter().filter(|term| **term != 0).count();
    let least = numbers.iter().map(adding).min().unwrap_or(pairs.len());
    let enough = least as u64 >= task.min_size;
    match task.reveal.last() {
        Reveal::ThresholdMatches => {
            Output::Matches(found.iter().map(|f| f.is_some() && enough).collect())
        }
        _ if !enough => Output::Below(task.min_size),
        Reveal::Shares => {
            let cells = (0..).zip(&found).filter(|(_, found)| found.is_some());
            let of = |columns: u8, value: fn(&(i64, i64)) -> i64| -> Vec<Secret> {
                let column = |column| {
                    let values = pairs
                        .iter()
                        .map(|pair| in_column(value(pair), column) as u64);
                    Zeroizing::new(values.collect())
                };
                (0..columns).map(column).collect()
            };
            let common = ours
                .items
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_some());
            let common: Vec<&Item> = common.map(|(item, _)| item).collect();
            let strings = |bytes: usize, value: fn(&(i64, i64)) -> i64| {
                let all = common.iter().zip(&pairs);
                let all = all.flat_map(|(item, pair)| string(item, value(pair), bytes));
                Zeroizing::new(all.collect::<Vec<u8>>())
            };
            Output::Shares(Shares {
                items: Some(cells.map(|(item, _)| Some(item)).collect()),
                matches: Zeroizing::default(),
                receiver_values: of(receiver, |pair| pair.0),
                sender_values: of(sender, |pair| pair.1),
                receiver_strings: strings(task.string_bytes.receiver, |pair| pair.0),
                sender_strings: strings(task.string_bytes.sender, |pair| pair.1),
            })
        }
        _ => {
            let sum = |terms: Vec<i64>| terms.into_iter().map(i128::from).sum();
            Output::Values(numbers.into_iter().map(sum).collect())
        }
    }
}

fn check_one(protocol: &'static dyn Protocol, task: &Task, ours: &Side, theirs: &Side) {
    let (n, m) = (ours.items.len(), theirs.items.len());
    assert_eq!(
        run(protocol, task, 40, ours, theirs),
        plain(task, ours, theirs),
        "{protocol:?} {task:?} {n} {m}"
    );
}

/// A task with this minimum, or the one that it needs.
fn least((reveal, [receiver, sender]): (&str, [u8; 2]), min_size: u64) -> Task {
    let reveal: Reveals = reveal.parse().unwrap();
    Task {
        min_size: match reveal.last() {
            Reveal::Shares | Reveal::Union | Reveal::Ids => 0,
            Reveal::ThresholdMatches => min_size.max(1),
            _ => min_size,
        },
        label_bytes: if reveal.is_rows() { 9 } else { 0 },
        values: Values { receiver, sender },
        ..Task::new(reveal)
    }
}

/// Every task of one column, with one of the recipes each.
fn check(first: usize, ours: &Side, theirs: &Side) {
    check_all(&TASKS[..11], &RECIPES, first, ours, theirs);
}

fn check_all(
    tasks: &[(&str, [u8; 2])],
    recipes: &[&'static dyn Protocol; 3],
    first: usize,
    ours: &Side,
    theirs: &Side,
) {
    for (i, of) in tasks.iter().copied().enumerate() {
        let recipe = recipes[(first + i) % recipes.len()];
        check_one(recipe, &least(of, 0), ours, theirs);
    }
}

/// The values of both sides for item number i.
const VALUES: [fn(u64) -> i64; 2] = [|i| i as i64 * 1000 - 77_777, |i| 5000 - (i * i) as i64];

#[test]
fn sets_that_share_some_items() {
    let (ours, theirs) = (Side::new(0..300, VALUES[0]), Side::new(120..700, VALUES[1]));
    check_all(&TASKS, &RECIPES, 2, &ours, &theirs);
}

/// Numbers of each group, whose sizes the sender learns or not, under either minimum or none.
#[test]
fn numbers_by_group() {
    let (ours, theirs) = (Side::new(0..300, VALUES[0]), Side::new(120..700, VALUES[1]));
    let tasks = [("size", [0, 0]), ("sum", [1, 0]), ("size,sum", [2, 0])];
    let mut turn = 0;
    let mut withheld = [0; 2];
    for of in tasks {
        for count in [1, 2, 7, 40] {
            for more in [None, Some(0), Some(9)] {
                for (least, by) in [
                    (0, GroupMinimum::Each),
                    (5, GroupMinimum::Each),
                    (5, GroupMinimum::All),
                ] {
                    turn += 1;
                    let task = grouped(self::least(of, least), &ours, count, more, by);
                    let recipe = [RECIPES, STASHED][turn / 3 % 2][turn % 3];
                    check_one(recipe, &task, &ours, &theirs);
                    let Output::Groups(groups) = plain(&task, &ours, &theirs) else {
                        unreachable!("by group")
                    };
                    groups
                        .iter()
                        .for_each(|group| withheld[usize::from(group.is_none())] += 1);
                }
            }
        }
    }
    assert!(withheld.iter().all(|count| *count > 100), "{withheld:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Of sets of any sizes, also where a group or a set has nothing.
    #[test]
    fn numbers_by_group_of_small_sets(
        (sizes, first) in ((0u64..20, 0u64..20), 0u64..20),
        (count, more, minimum) in (1usize..6, prop::option::of(0u64..4), 0u64..4),
        (of, recipe, all) in (0usize..3, 0usize..3, any::<bool>()),
    ) {
        let ours = Side::new(0..sizes.0, VALUES[0]);
        let theirs = Side::new(first..first + sizes.1, VALUES[1]);
        let of = [("size", [0, 0]), ("sum", [1, 0]), ("size,sum", [2, 0])][of];
        let by = if all { GroupMinimum::All } else { GroupMinimum::Each };
        let task = grouped(least(of, minimum), &ours, count, more, by);
        check_one(RECIPES[recipe], &task, &ours, &theirs);
    }
}

/// What crosses the wire is as long for any groups of as many keys, whatever matches in them.
#[test]
fn lengths_do_not_tell_groups() {
    let (ours, theirs) = (Side::new(0..90, VALUES[0]), Side::new(0..50, VALUES[1]));
    let others = Side::new(200..250, VALUES[1]);
    for (more, minimum) in [(None, 0), (Some(0), 2), (Some(9), 2)] {
        let task = grouped(
            least(("size,sum", [1, 0]), minimum),
            &ours,
            3,
            more,
            GroupMinimum::Each,
        );
        // Another side, whose groups are of the same sizes, since they go by the place of an item.
        let mut turned = Side::new(0..90, VALUES[0]);
        turned.items.reverse();
        let lengths = |ours: &Side, theirs: &Side| {
            let (near, far) = memory_pair();
            let [mut near, mut far] = [near, far].map(Recorder::new);
            let sides = [ours, theirs];
            let found = run_over(RECIPES[0], &task, 40, sides, [1, 2], (&mut near, &mut far));
            assert_eq!(found, plain(&task, ours, theirs));
            let lengths = |received: &[(vesica_wire::Kind, Vec<u8>)]| -> Vec<usize> {
                received.iter().map(|(_, frame)| frame.len()).collect()
            };
            (found, [lengths(&near.received), lengths(&far.received)])
        };
        let all = [(&ours, &theirs), (&turned, &theirs), (&ours, &others)];
        let all = all.map(|(ours, theirs)| lengths(ours, theirs));
        assert!(all[0].0 != all[1].0 && all[0].0 != all[2].0);
        assert!(
            all.iter().all(|(_, lengths)| *lengths == all[0].1),
            "{more:?}"
        );
    }
}

/// Runs that save bytes have narrower digits.
#[test]
fn results_do_not_depend_on_what_is_saved() {
    let (ours, theirs) = (Side::new(0..300, VALUES[0]), Side::new(120..700, VALUES[1]));
    for (i, of) in TASKS.into_iter().enumerate() {
        for min_size in [0, 181] {
            let task = Task {
                optimize: Optimize::Traffic,
                ..least(of, min_size)
            };
            check_one(RECIPES[i % 3], &task, &ours, &theirs);
        }
        let task = Task {
            optimize: Optimize::Traffic,
            ..least(of, 1)
        };
        check_one(STASHED[i % 3], &task, &ours, &theirs);
    }
}

/// Strings of one side or both, alone and beside values, in tables with and without a stash.
#[test]
fn strings_of_any_width_are_shared() {
    let (ours, theirs) = (Side::new(0..80, VALUES[0]), Side::new(30..130, VALUES[1]));
    for (i, ([receiver, sender], of)) in [
        ([0, 1], [0, 0]),
        ([5, 0], [0, 0]),
        ([8, 8], [1, 1]),
        ([0, 16], [0, 1]),
        ([17, 33], [1, 0]),
        ([256, 100], [2, 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let task = Task {
            string_bytes: StringBytes { receiver, sender },
            ..least(("shares", of), 0)
        };
        for j in 0..2 {
            check_one(RECIPES[(i + j) % 3], &task, &ours, &theirs);
        }
        check_one(STASHED[(i + 2) % 3], &task, &ours, &theirs);
    }
}

/// Each recipe takes some of the tasks, and all of them every task.
#[test]
fn sets_of_no_item_or_one_and_with_all_or_none_in_common() {
    let shapes = [
        (0..0, 0..0),
        (0..0, 0..3),
        (0..3, 0..0),
        (0..1, 0..1),
        (0..1, 1..2),
        (0..200, 0..200),
        (0..200, 200..300),
    ];
    for (i, (ours, theirs)) in shapes.into_iter().enumerate() {
        let (ours, theirs) = (Side::new(ours, VALUES[0]), Side::new(theirs, VALUES[1]));
        for (j, protocol) in RECIPES.into_iter().enumerate() {
            let of = TASKS[(RECIPES.len() * i + j) % TASKS.len()];
            for optimize in [Optimize::Time, Optimize::Traffic] {
                let task = Task {
                    optimize,
                    ..least(of, 0)
                };
                check_one(protocol, &task, &ours, &theirs);
            }
        }
    }
}

#[test]
fn minimums_just_met_and_just_missed() {
    let ours = Side::new(0..50, |i| -(i as i64));
    let theirs = Side::new(40..140, |i| i as i64);
    for (i, of) in TASKS.into_iter().filter(|of| of.0 != "shares").enumerate() {
        for (j, min_size) in [1, 10, 11, u64::MAX].into_iter().enumerate() {
            let task = Task {
                both: least(of, 0).reveal.is_value() && (i + j) % 2 == 0,
                ..least(of, min_size)
            };
            check_one(RECIPES[i % 3], &task, &ours, &theirs);
        }
    }
}

/// Values of 0 add nothing, and their keys do not count towards a minimum.
#[test]
fn a_minimum_counts_matches_that_add_to_the_result() {
    let ours = Side::new(0..60, |i| i as i64 % 6);
    let theirs = Side::new(10..90, |i| i as i64 % 5);
    for (i, of) in numbers().into_iter().enumerate() {
        // Of several columns the one with the fewest counts.
        let counted = match of {
            ("size", _) => 50,
            (_, [1, 0]) => 42,
            (_, [0, 1]) => 40,
            (_, [0, _]) => 30,
            _ => 33,
        };
        for (recipes, min_size) in [(&RECIPES, counted), (&STASHED, counted + 1)] {
            let task = least(of, min_size);
            let enough = plain(&task, &ours, &theirs) != Output::Below(min_size);
            assert_eq!(enough, min_size == counted, "{of:?}");
            check_one(recipes[i % 3], &task, &ours, &theirs);
        }
    }
    // Without a minimum they are matches as others are.
    check(0, &ours, &theirs);
}

/// Two thirds of the sender's keys are the receiver's.
fn third_missing(i: u64) -> u64 {
    if i.is_multiple_of(3) { i + 10_000 } else { i }
}

/// Weights that are powers of two on fifty keys and 0 elsewhere would be fifty memberships in one sum.
#[test]
fn a_few_weighted_keys_do_not_meet_a_minimum() {
    let theirs = Side {
        items: (0..1000)
            .flat_map(|i| digests(third_missing(i)..third_missing(i) + 1))
            .collect(),
        values: (0..1000).map(|i| 1000 + 37 * i).collect(),
    };
    let fifty = Side::new(0..1000, |i| if i < 50 { 1 << i } else { 0 });
    let sum = least(("sum", [1, 0]), 100);
    assert_eq!(
        run(RECIPES[0], &sum, 40, &fifty, &theirs),
        Output::Below(100)
    );
    // Two weights would be two of the sender's values in one inner product.
    let two = Side::new(0..1000, |i| match i {
        1 => 1,
        2 => 1 << 18,
        _ => 0,
    });
    let product = least(("inner-product", [1, 1]), 100);
    assert_eq!(
        run(RECIPES[0], &product, 40, &two, &theirs),
        Output::Below(100)
    );
}

/// What the documentation says that a minimum does not prevent: weights of 1 meet it, and leave the higher bits of a sum
/// to the keys that the receiver asks about. The bound on its values does, which is in the contract.
#[test]
fn large_weights_beside_small_ones_still_carry_memberships() {
    let theirs = Side {
        items: (0..1000)
            .flat_map(|i| digests(third_missing(i)..third_missing(i) + 1))
            .collect(),
        values: vec![0; 1000],
    };
    let ours = Side::new(0..1000, |i| if i < 50 { 1 << (i + 10) } else { 1 });
    let sum = least(("sum", [1, 0]), 100);
    let Output::Values(sums) = run(RECIPES[0], &sum, 40, &ours, &theirs) else {
        panic!("withheld");
    };
    let [sum] = sums[..] else {
        panic!("{sums:?}");
    };
    for i in 0..50 {
        assert_eq!(sum >> (i + 10) & 1 == 1, third_missing(i) == i);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn results_under_a_minimum_are_those_of_plain_arithmetic(
        ours in prop::collection::vec(-2i64..3, 0..40),
        theirs in prop::collection::vec(-2i64..3, 0..40),
        apart in 0u64..20,
        of in prop::sample::select(numbers()),
        recipe in 0usize..3,
        min_size in 0u64..25,
        both: bool,
    ) {
        let ours = Side::new(0..ours.len() as u64, |i| ours[i as usize]);
        let theirs = Side::new(apart..apart + theirs.len() as u64, |i| theirs[(i - apart) as usize]);
        let task = Task { both, ..least(of, min_size) };
        check_one(RECIPES[recipe], &task, &ours, &theirs);
    }
}

/// A sender that learns the number too sees frames whose lengths do not tell whether the minimum is met.
#[test]
fn lengths_do_not_depend_on_what_is_told() {
    let ours = Side::new(0..50, VALUES[0]);
    let theirs = Side::new(40..140, VALUES[1]);
    for of in numbers().into_iter().step_by(2) {
        let lengths = |min_size| {
            let task = Task {
                both: true,
                ..least(of, min_size)
            };
            let (near, far) = memory_pair();
            let mut far = Recorder::new(far);
            let output = run_over(
                RECIPES[0],
                &task,
                40,
                [&ours, &theirs],
                [1, 2],
                (near, &mut far),
            );
            let lengths = far
                .received
                .iter()
                .map(|(kind, frame)| (*kind, frame.len()));
            (output, lengths.collect::<Vec<_>>())
        };
        let ((met, of_met), (missed, of_missed)) = (lengths(3), lengths(11));
        assert!(matches!(met, Output::Values(_)), "{met:?}");
        assert_eq!(missed, Output::Below(11));
        assert_eq!(of_met, of_missed);
    }
}

#[test]
fn values_at_the_ends_of_their_range() {
    let ours = Side::new(0..3, |i| [i64::MAX, i64::MIN, -1][i as usize]);
    let theirs = Side::new(0..3, |_| 1);
    check(0, &ours, &theirs);
    check(1, &theirs, &ours);
}

#[test]
fn unequal_sets() {
    let small = Side::new(1000..1010, |i| i as i64);
    let large = Side::new(0..2000, |i| -(i as i64));
    check(0, &small, &large);
    check(1, &large, &small);
}

/// Items of the stash match, with their values, as those in bins do.
#[test]
fn items_in_a_stash() {
    let ours = Side::new(0..100, VALUES[0]);
    let theirs = Side::new(30..150, VALUES[1]);
    let params = params(40, &ours, &theirs);
    let stashed = in_stash(&params, &ours.items);
    assert!(stashed > 3, "{stashed}");
    check_all(&TASKS, &STASHED, 0, &ours, &theirs);
    // Just met, with what is in the stash, and just missed.
    for (min_size, of) in [(70, 0), (70, 3), (71, 2), (71, 4)] {
        check_one(STASHED[of % 3], &least(TASKS[of], min_size), &ours, &theirs);
    }
}

/// Stashes without an item, tables without one, and as many places as there may be.
#[test]
fn stashes_of_all_sizes() {
    let shapes = [(0..0, 0..3), (0..1, 0..1), (0..3, 0..0), (0..40, 39..1000)];
    for (i, (ours, theirs)) in shapes.into_iter().enumerate() {
        let (ours, theirs) = (Side::new(ours, VALUES[0]), Side::new(theirs, VALUES[1]));
        for (j, protocol) in STASHED.into_iter().enumerate() {
            let of = TASKS[(STASHED.len() * i + j + 2) % TASKS.len()];
            check_one(protocol, &least(of, 0), &ours, &theirs);
        }
    }
    static MOST: CircuitPsi<Okvs> = CircuitPsi::with_table(Okvs, |items, _| Parameters {
        stash: MAX_PLACES,
        ..Parameters::with_bins(items, HASHES, items)
    });
    static USUAL: CircuitPsi<Psm1> = CircuitPsi::with_table(Psm1, |items, lambda| {
        Parameters::with_stash(items, lambda, 1)
    });
    let (ours, theirs) = (Side::new(0..800, |_| 1), Side::new(0..500, |i| i as i64));
    let sum = least(("sum", [0, 1]), 0);
    check_one(&MOST, &sum, &ours, &theirs);
    check_one(&USUAL, &sum, &ours, &theirs);
}

/// What a specification promises is computed from every part of a recipe: no part refuses it.
#[test]
fn the_most_statistical_security_of_any_size() {
    for protocol in RECIPES {
        for [receiver, sender] in [[0, 0], [20, 30], [1 << 16, 1], [1, 1 << 20], [1 << 26; 2]] {
            let most = (protocol.spec().max_lambda)(receiver, sender).unwrap();
            assert!(
                (64..=128).contains(&most),
                "{protocol:?} {receiver} {sender} {most}"
            );
        }
    }
    let ours = Side::new(0..20, |i| i as i64);
    let theirs = Side::new(10..40, |_| 3);
    let task = Task::new(Reveal::Size);
    for protocol in RECIPES {
        let most = (protocol.spec().max_lambda)(20, 30).unwrap();
        for lambda in [64, most] {
            let output = run(protocol, &task, lambda, &ours, &theirs);
            assert_eq!(output, Output::Values(vec![10]), "{protocol:?} {lambda}");
        }
        let ids = Task::new(Reveal::Ids);
        let most_of = |sizes| protocol.max_lambda(ids.reveal, sizes, None).unwrap();
        let most = most_of([20, 30]);
        assert!(most >= 80 && most_of([1 << 20; 2]) >= 64, "{most}");
        let output = run(protocol, &ids, most, &ours, &theirs);
        assert_eq!(output, spine([&ours, &theirs]), "{protocol:?} {most}");
        let traffic = |lambda| {
            let params = params(lambda, &ours, &theirs);
            protocol.traffic(&params, &ids, None, false)
        };
        assert!(traffic(most).is_some() && traffic(most + 1).is_none());
    }
}

/// Runs of each of two cases.
const RUNS: u64 = 10;

/// How often each bit of what a party received is 1. In all runs of both cases frames have the same kinds and lengths.
fn ones(views: &[Vec<(u8, Vec<u8>)>]) -> Vec<u8> {
    let mut ones = Vec::new();
    for view in views {
        let bytes = view.iter().flat_map(|(_, payload)| payload);
        let bits = bytes.flat_map(|byte| (0..8).map(move |i| byte >> i & 1));
        match ones.is_empty() {
            true => ones.extend(bits),
            false => ones
                .iter_mut()
                .zip(bits)
                .for_each(|(ones, bit)| *ones += bit),
        }
    }
    ones
}

/// Two samples of views have one distribution, bit by bit: given how often a bit is 1 in all runs, its number in the
/// runs of one case has a known mean and variance. Fails unless at least `least` bits vary.
#[track_caller]
fn same_distribution(least: f64, view: impl Fn(bool, u64) -> Vec<(u8, Vec<u8>)>) {
    let views = [false, true].map(|case| {
        let runs = 0..RUNS;
        let from = u64::from(case) * RUNS;
        runs.map(|seed| view(case, from + seed)).collect::<Vec<_>>()
    });
    let shape = |view: &Vec<(u8, Vec<u8>)>| -> Vec<(u8, usize)> {
        view.iter()
            .map(|(kind, payload)| (*kind, payload.len()))
            .collect()
    };
    let first = shape(&views[0][0]);
    assert!(views.iter().flatten().all(|view| shape(view) == first));
    let (mut sum, mut bits) = (0.0, 0.0);
    for (one, other) in ones(&views[0]).into_iter().zip(ones(&views[1])) {
        let (all, runs) = (f64::from(one + other), RUNS as f64);
        let variance = all * (2.0 * runs - all) / (4.0 * (2.0 * runs - 1.0));
        if variance > 0.0 {
            sum += (f64::from(one) - all / 2.0).powi(2) / variance;
            bits += 1.0;
        }
    }
    assert!(bits > least, "{bits}");
    // The terms have a variance of 2, or somewhat less.
    let deviation = (sum - bits) / f64::sqrt(2.0 * bits);
    assert!(deviation.abs() < 5.0, "{deviation} standard deviations");
}

/// The viewer's set and the value stay; what matches, everything else of the peer's set, and its values change. What a
/// viewer makes of the frames is not seen here: see the tests of the pipeline's module.
fn does_not_depend_on_the_peers_set(
    protocol: &dyn Protocol,
    receiver_views: bool,
    task: &Task,
    fixed: &Side,
    peer: impl Fn(bool) -> Side,
) {
    same_distribution(1e5, |case, seed| {
        let peer = peer(case);
        let (near, far) = memory_pair();
        let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
        let (sides, seeds) = match receiver_views {
            true => ([fixed, &peer], [1, 10 + seed]),
            false => ([&peer, fixed], [10 + seed, 1]),
        };
        let output = run_over(protocol, task, 40, sides, seeds, (&mut near, &mut far));
        assert_eq!(output, plain(task, sides[0], sides[1]));
        let seen = match receiver_views {
            true => near.received,
            false => far.received,
        };
        seen.into_iter()
            .map(|(kind, payload)| (kind.code, payload))
            .collect()
    });
}

/// Ten matches of 3, or one of 30 and seven of 0.
fn ten_or_one(case: bool) -> Side {
    match case {
        false => Side::new(30..70, |i| if i < 40 { 3 } else { 1000 }),
        true => Side::new(32..72, |i| match i {
            32 => 30,
            33..40 => 0,
            _ => -1_000_000,
        }),
    }
}

#[test]
fn frames_do_not_depend_on_the_peers_set() {
    let fixed = Side::new(0..40, |i| i as i64 % 2);
    let sum = least(("sum", [0, 1]), 0);
    let size = least(("size", [0, 0]), 9);
    does_not_depend_on_the_peers_set(RECIPES[0], true, &sum, &fixed, ten_or_one);
    does_not_depend_on_the_peers_set(RECIPES[2], false, &size, &fixed, ten_or_one);
}

/// The rows that the receiver lacks are the same, beside ten others that it has; or the receiver's keys are others.
#[test]
fn frames_of_a_union_do_not_depend_on_what_matches() {
    let union = least(("union", [0, 0]), 0);
    let joined = |first: Range<u64>, rest: Range<u64>| {
        let [mut first, rest] = [first, rest].map(|items| Side::new(items, |i| i as i64));
        first.items.extend(rest.items);
        first.values.extend(rest.values);
        first
    };
    let fixed = joined(0..40, 0..0);
    let sender = |case| match case {
        false => joined(0..10, 40..70),
        true => joined(30..40, 40..70),
    };
    does_not_depend_on_the_peers_set(RECIPES[0], true, &union, &fixed, sender);
    let receiver = |case| match case {
        false => joined(0..10, 40..70),
        true => joined(0..40, 0..0),
    };
    does_not_depend_on_the_peers_set(RECIPES[0], false, &union, &fixed, receiver);
}

/// As many items are in common, but they are others.
#[test]
fn frames_of_ids_do_not_depend_on_what_matches() {
    let ids = least(("ids", [0, 0]), 0);
    let fixed = Side::new(0..40, |_| 0);
    let peer = |case| match case {
        false => Side::new(30..70, |_| 0),
        true => Side {
            items: digests((0..10).chain(100..130)),
            values: vec![0; 40],
        },
    };
    does_not_depend_on_the_peers_set(RECIPES[0], true, &ids, &fixed, peer);
    does_not_depend_on_the_peers_set(RECIPES[0], false, &ids, &fixed, peer);
}

/// No frame is longer or shorter for more matches.
#[test]
fn frames_of_ids_are_as_long_whatever_matches() {
    let ids = least(("ids", [0, 0]), 0);
    for protocol in RECIPES {
        let lengths = |first: u64| {
            let (near, far) = memory_pair();
            let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
            let (ours, theirs) = (Side::new(0..50, |_| 0), Side::new(first..first + 30, |_| 0));
            let channels = (&mut near, &mut far);
            let output = run_over(protocol, &ids, 40, [&ours, &theirs], [first, 2], channels);
            let matches = 50_u64.saturating_sub(first).min(30);
            assert!(
                matches!(output, Output::Spine(spine) if spine.ids.len() as u64 == 80 - matches)
            );
            [near.received, far.received].map(|frames| {
                let lengths = frames.iter().map(|(kind, frame)| (kind.code, frame.len()));
                lengths.collect::<Vec<_>>()
            })
        };
        let none = lengths(50);
        assert!([49, 35, 0].into_iter().all(|first| lengths(first) == none));
    }
}

/// Ids are uniform and drawn anew in each run: any of their bits is 1 in half of them.
#[test]
fn ids_are_uniform_and_of_one_run() {
    let (ours, theirs) = (Side::new(0..600, |_| 0), Side::new(300..1000, |_| 0));
    let task = least(("ids", [0, 0]), 0);
    let ids = |session| {
        let params = Params {
            session: [session; 32],
            ..params(40, &ours, &theirs)
        };
        let nothing = Prepared::nothing;
        let (found, _) = try_both(
            memory_pair(),
            |channel| {
                let input = Input::new(&ours.items);
                RECIPES[0].receive(channel, &params, &task, input, nothing(), &mut rng(1))
            },
            |channel| {
                let input = Input::new(&theirs.items);
                RECIPES[0].send(channel, &params, &task, input, nothing(), &mut rng(2))
            },
        );
        let Ok(Output::Spine(spine)) = found else {
            panic!("{found:?}");
        };
        // 50 and 2·10 bits, up to whole bytes.
        assert_eq!(spine.bytes, 9);
        spine.ids
    };
    let [first, second] = [3, 4].map(ids);
    assert!(first.iter().all(|id| second.binary_search(id).is_err()));
    for bit in 0..72 {
        let ones = first.iter().filter(|id| *id >> bit & 1 == 1).count();
        // A standard deviation is 15.8.
        assert!((410..590).contains(&ones), "{bit}: {ones}");
    }
}

/// Whoever sends a list without an id of its recipient, or ids that are none, is caught.
#[test]
fn lists_that_cannot_be_are_refused() {
    let ids = least(("ids", [0, 0]), 0);
    let (one, two, none) = (
        Side::new(0..1, |_| 0),
        Side::new(0..2, |_| 0),
        Side::new(0..0, |_| 0),
    );
    // The frames that each side sends in an honest run.
    let honest = |sides: [&Side; 2]| {
        let (near, far) = memory_pair();
        let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
        run_over(RECIPES[0], &ids, 40, sides, [1, 2], (&mut near, &mut far));
        [far.received, near.received]
    };
    let run = |[ours, theirs]: [&Side; 2], near: (usize, Spoil), far: (usize, Spoil)| {
        let params = params(40, ours, theirs);
        let (a, b) = memory_pair();
        let nothing = Prepared::nothing;
        try_both(
            (Tamper::new(a, near.0, near.1), Tamper::new(b, far.0, far.1)),
            |channel| {
                let input = Input::new(&ours.items);
                RECIPES[0].receive(channel, &params, &ids, input, nothing(), &mut rng(1))
            },
            |channel| {
                let input = Input::new(&theirs.items);
                RECIPES[0].send(channel, &params, &ids, input, nothing(), &mut rng(2))
            },
        )
    };
    let never = || (usize::MAX, Spoil::Truncate(0));
    let at = |frames: &[(Kind, Vec<u8>)], kind: Kind| {
        frames.iter().position(|(of, _)| *of == kind).unwrap()
    };
    // The list has an id and a random entry, which change places.
    let frames = honest([&one, &one]);
    let list = at(&frames[0], ID_LIST);
    let marks = frames[0][list].1[0];
    let bad = |problem| bad_value(ID_LIST.name, problem);
    let (_, sender) = run(
        [&one, &one],
        (list, Spoil::Replace(vec![marks ^ 3])),
        never(),
    );
    assert_eq!(misbehaviour(sender), bad("without an id of this side"));
    let (_, sender) = run([&one, &one], (list, Spoil::Replace(vec![0])), never());
    assert_eq!(misbehaviour(sender), bad("fewer ids than a side has items"));
    // A row that is changed: one whose zeros are none is lost, and another has an id that its sender does not know.
    let frames = honest([&none, &two]);
    let rows = at(&frames[1], ROWS);
    let last = 8 * frames[1][rows].1.len() - 1;
    let (receiver, _) = run([&none, &two], never(), (rows, Spoil::FlipBit(last)));
    assert_eq!(
        misbehaviour(receiver),
        bad("fewer ids than a side has items")
    );
    let (receiver, sender) = run([&none, &two], never(), (rows, Spoil::FlipBit(0)));
    assert!(receiver.is_ok());
    assert_eq!(misbehaviour(sender), bad("without an id of this side"));
}

/// Items beyond the last that has a row are nobody's, whether the receiver has them or not.
#[test]
fn items_without_a_row_pad_a_union() {
    let (ours, theirs) = (Side::new(30..90, |_| 1), Side::new(0..80, |i| i as i64));
    let with_rows = Side::new(0..50, |i| i as i64);
    let task = least(("union", [0, 0]), 0);
    let params = params(40, &ours, &theirs);
    let labels = with_rows.strings(task.label_bytes);
    for protocol in RECIPES {
        let (received, sent) = try_both(
            memory_pair(),
            |channel| {
                let (input, nothing) = (Input::new(&ours.items), Prepared::new(()));
                protocol.receive(channel, &params, &task, input, nothing, &mut rng(1))
            },
            |channel| {
                let input = Input::new(&theirs.items).with_labels(Some(&labels));
                protocol.send(
                    channel,
                    &params,
                    &task,
                    input,
                    Prepared::nothing(),
                    &mut rng(2),
                )
            },
        );
        sent.unwrap();
        let Ok(Output::Rows(slots)) = received else {
            panic!("{received:?}");
        };
        // A slot for each item.
        assert_eq!(slots.is_row.len(), theirs.items.len());
        let found = rows(slots.bytes, slots.rows().map(<[u8]>::to_vec).collect());
        assert_eq!(found, lacked(task.label_bytes, &ours, &with_rows));
    }
}

/// Slots are in random order: neither that of the items nor one that two runs have.
#[test]
fn rows_come_in_random_order() {
    let (ours, theirs) = (Side::new(0..0, |_| 1), Side::new(0..400, |i| i as i64 | 1));
    let task = least(("union", [0, 0]), 0);
    let params = params(40, &ours, &theirs);
    let labels = theirs.strings(task.label_bytes);
    let places = |seed| {
        let (received, _) = try_both(
            memory_pair(),
            |channel| {
                let (input, nothing) = (Input::new(&ours.items), Prepared::new(()));
                RECIPES[0].receive(channel, &params, &task, input, nothing, &mut rng(1))
            },
            |channel| {
                let input = Input::new(&theirs.items).with_labels(Some(&labels));
                let nothing = Prepared::nothing();
                RECIPES[0].send(channel, &params, &task, input, nothing, &mut rng(seed))
            },
        );
        let Ok(Output::Rows(slots)) = received else {
            panic!("{received:?}");
        };
        let place = |row: &[u8]| {
            labels
                .chunks(task.label_bytes)
                .position(|label| label == row)
        };
        slots
            .rows()
            .map(|row| place(row).unwrap())
            .collect::<Vec<_>>()
    };
    let [first, second] = [2, 3].map(places);
    assert_eq!([first.len(), second.len()], [400; 2]);
    // Of 399 neighbours half ascend, with a standard deviation of 5.8; one place in 400 is the same.
    let ascents = first.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((170..230).contains(&ascents), "{ascents}");
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert!(same < 10, "{same}");
}

/// Nor on how full the stash is, and whether what is in it matches.
#[test]
fn frames_do_not_depend_on_the_stash() {
    let fixed = Side::new(0..40, |i| i as i64 % 2);
    let receiver = |used| {
        let sets = (1..).map(|first| Side::new(first..first + 40, |_| 0));
        let fits = |set: &Side| {
            let stashed = in_stash(&params(40, set, &fixed), &set.items);
            if used { stashed > 2 } else { stashed == 0 }
        };
        sets.into_iter().find(fits).unwrap()
    };
    let size = least(("size", [0, 0]), 9);
    does_not_depend_on_the_peers_set(STASHED[0], false, &size, &fixed, receiver);
}

/// What a party has kept of the parts of a run, and what the receiver has learnt of each.
#[derive(Clone)]
struct Kept {
    shares: Vec<Shares>,
    matched: Vec<Vec<bool>>,
}

impl SharedMatches for Kept {
    fn shares(&mut self, part: u32) -> Result<Zeroizing<Vec<bool>>, Error> {
        Ok(self.shares[part as usize].matches.clone())
    }

    fn opened(&mut self, part: u32, matches: &[bool]) -> Result<(), Error> {
        assert_eq!(part as usize, self.matched.len());
        let items = self.shares[part as usize].items.as_deref().unwrap();
        self.matched.push(matched_items(items, matches));
        Ok(())
    }
}

/// The items of both parties in each part, as many in all, of which so many are common.
const PARTS: [(Range<u64>, Range<u64>); 3] =
    [(0..60, 50..130), (200..260, 300..380), (400..460, 435..515)];
const IN_COMMON: u64 = 35;

fn in_parts(min_size: u64) -> Task {
    Task {
        parts: PARTS.len() as u32,
        ..least(("threshold-matches", [0, 0]), min_size)
    }
}

/// Runs all parts, and returns what both parties keep of them.
fn kept(protocol: &dyn Protocol, task: &Task) -> [Kept; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for (part, (ours, theirs)) in PARTS.into_iter().enumerate() {
        let (ours, theirs) = (Side::new(ours, |_| 0), Side::new(theirs, |_| 0));
        let params = Params {
            session: [part as u8; 32],
            ..params(40, &ours, &theirs)
        };
        let (receiver, sender) = (Input::new(&ours.items), Input::new(&theirs.items));
        let nothing = Prepared::new;
        let (near, far) = try_both(
            memory_pair(),
            |channel| protocol.receive(channel, &params, task, receiver, nothing(()), &mut rng(1)),
            |channel| protocol.send(channel, &params, task, sender, nothing(()), &mut rng(2)),
        );
        for (all, output) in all.iter_mut().zip([near, far]) {
            match output {
                Ok(Output::Shares(shares)) => all.push(shares),
                other => panic!("{other:?}"),
            }
        }
    }
    all.map(|shares| Kept {
        shares,
        matched: Vec::new(),
    })
}

/// Opens what both have kept.
fn open_parts(
    protocol: &dyn Protocol,
    task: &Task,
    [ours, theirs]: [&mut Kept; 2],
    seeds: [u64; 2],
    channels: (impl Channel, impl Channel),
) -> [Result<(), Error>; 2] {
    let (ours_of, theirs_of) = PARTS[0].clone();
    let (near, far) = (Side::new(ours_of, |_| 0), Side::new(theirs_of, |_| 0));
    let params = &params(40, &near, &far);
    let open = |channel: &mut dyn Channel, half, kept, seed| {
        let adds_up = protocol.adds_up().unwrap();
        let opened = adds_up.open_matches(channel, half, params, task, kept, &mut rng(seed));
        opened.inspect_err(|error| channel.abort(error))
    };
    let (near, far) = try_both(
        channels,
        |channel| open(channel, Half::Receiver, ours, seeds[0]),
        |channel| open(channel, Half::Sender, theirs, seeds[1]),
    );
    [near, far]
}

#[test]
fn parts_open_their_matches_if_enough_are_in_all_of_them() {
    for protocol in RECIPES.into_iter().chain(STASHED) {
        let all = kept(protocol, &in_parts(1));
        for min_size in [1, IN_COMMON, IN_COMMON + 1, u64::MAX] {
            let [mut ours, mut theirs] = all.clone();
            let both = [&mut ours, &mut theirs];
            let task = in_parts(min_size);
            let ended = open_parts(protocol, &task, both, [3, 4], memory_pair());
            ended.into_iter().for_each(Result::unwrap);
            let is_shown = min_size <= IN_COMMON;
            for (matched, (ours, theirs)) in ours.matched.iter().zip(PARTS) {
                let expected = ours.map(|item| is_shown && theirs.contains(&item));
                assert!(
                    matched.iter().copied().eq(expected),
                    "{protocol:?} {min_size}"
                );
            }
            assert_eq!(ours.matched.len(), PARTS.len());
            assert!(theirs.matched.is_empty());
        }
    }
}

/// Neither what a part leaves nor any frame depends on whether enough match, or where.
#[test]
fn frames_of_parts_do_not_depend_on_matches() {
    let lengths = |min_size| {
        let task = in_parts(min_size);
        let [mut ours, mut theirs] = kept(RECIPES[0], &task);
        let (near, far) = memory_pair();
        let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
        let both = [&mut ours, &mut theirs];
        let ended = open_parts(RECIPES[0], &task, both, [3, 4], (&mut near, &mut far));
        ended.into_iter().for_each(Result::unwrap);
        [near.received, far.received].map(|frames| {
            let lengths = frames
                .into_iter()
                .map(|(kind, frame)| (kind.code, frame.len()));
            lengths.collect::<Vec<_>>()
        })
    };
    assert_eq!(lengths(IN_COMMON), lengths(IN_COMMON + 1));
    // What the sender sees of both has one distribution.
    let task = |met| in_parts(if met { IN_COMMON } else { IN_COMMON + 1 });
    let all = kept(RECIPES[0], &task(true));
    same_distribution(1e4, |met, seed| {
        let [mut ours, mut theirs] = all.clone();
        let (near, far) = memory_pair();
        let mut far = Recorder::new(far);
        let both = [&mut ours, &mut theirs];
        let ended = open_parts(
            RECIPES[0],
            &task(met),
            both,
            [10 + seed, 1],
            (near, &mut far),
        );
        ended.into_iter().for_each(Result::unwrap);
        assert_eq!(ours.matched[0].contains(&true), met);
        let frames = far.received.into_iter();
        frames.map(|(kind, frame)| (kind.code, frame)).collect()
    });
}

/// The sender's last frame for a part, too short, too long, of another kind or with bits beyond the last.
#[test]
fn openings_that_are_no_shares_of_the_cells_are_refused() {
    const OPENED: u8 = 87;
    let task = in_parts(1);
    let all = kept(RECIPES[0], &task);
    let opened = |spoil: Option<(usize, Spoil)>| {
        let [mut ours, mut theirs] = all.clone();
        let (near, far) = memory_pair();
        let (target, spoil) = spoil.unwrap_or((usize::MAX, Spoil::Close));
        let mut far = Recorder::new(Tamper::new(far, target, spoil));
        let both = [&mut ours, &mut theirs];
        let [near, _] = open_parts(RECIPES[0], &task, both, [3, 4], (near, &mut far));
        let frames = far.sent.into_iter().enumerate();
        let openings = frames.filter(|(_, (kind, _))| kind.code == OPENED);
        let openings: Vec<_> = openings.map(|(i, (_, frame))| (i, frame.len())).collect();
        (near, openings, ours.matched.len())
    };
    let (honest, openings, parts) = opened(None);
    honest.unwrap();
    assert_eq!((openings.len(), parts), (PARTS.len(), PARTS.len()));
    for (part, (frame, bytes)) in openings.into_iter().enumerate() {
        for (spoil, expected) in [
            (Spoil::Truncate(1), wrong_length("opened shares", bytes - 1)),
            (
                Spoil::Extend(vec![0]),
                too_long("opened shares", bytes + 1, bytes),
            ),
            (
                Spoil::FlipBit(8 * bytes - 1),
                bad_value("opened shares", "bits are set beyond the last one"),
            ),
        ] {
            let (near, _, parts) = opened(Some((frame, spoil)));
            assert_eq!(misbehaviour(near), expected);
            assert_eq!(parts, part);
        }
    }
}
