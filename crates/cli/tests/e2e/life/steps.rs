//! What a party or its user can do in a life.

use super::*;

/// One step. Sides are 0 for the receiver and 1 for the sender.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Both run to the end.
    Run,
    /// Both run, and some are stopped.
    Stop(Stop),
    /// Both run, and a second process tries to use the work directory of one meanwhile.
    Twice { side: usize },
    /// Both run, and the disk is full where one of them would write its rows.
    Full { side: usize },
    /// The table changes.
    Change {
        side: usize,
        change: Change,
        seed: usize,
    },
    /// An option changes, on one side or on both.
    Set { whose: Whose, option: Setting },
    /// The sender takes all options of the receiver.
    Agree,
    /// A copy is put aside.
    Save { whose: Whose, what: What },
    /// The copy is put back, instead of what is there or, where it can be, beside it.
    Restore {
        whose: Whose,
        what: What,
        beside: bool,
    },
    /// `offline make` on both sides, which use what they made from now on.
    Make { dealt: bool },
    /// `offline adopt`
    Adopt { whose: Whose },
    /// `offline ls`
    List { side: usize },
    /// Another identity takes this side's place; the peer is told or not.
    Replace { side: usize, told: bool },
    /// The outputs are removed.
    RemoveOutputs,
    /// The work directory is removed.
    RemoveWork { side: usize },
}

/// Whom to stop, how, and when: after so many lines on standard error, and so many milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) whose: Whose,
    pub(super) kill: bool,
    pub(super) lines: usize,
    pub(super) milliseconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Receiver,
    Sender,
    Both,
}

impl Whose {
    pub(super) fn sides(self) -> &'static [usize] {
        match self {
            Whose::Receiver => &[0],
            Whose::Sender => &[1],
            Whose::Both => &[0, 1],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Add,
    Remove,
    /// The same bytes, written later.
    Touch,
    /// Another key; size and time of the file stay.
    OtherKey,
    /// The same keys in other rows; size and time of the file stay.
    OtherRows,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    Protocol(usize),
    Lambda(bool),
    Both(bool),
    Minimum(bool),
    Buckets(bool),
    Threads(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Work,
    Store,
    /// Identity, table, work directory, store and output.
    Home,
}

impl Step {
    /// The row of the table.
    pub(super) fn row(self) -> (usize, String) {
        let (number, name) = match self {
            Step::Run => (0, "run"),
            Step::Stop(Stop { kill: true, .. }) => (1, "run, killed"),
            Step::Stop(Stop { kill: false, .. }) => (2, "run, Ctrl-C"),
            Step::Twice { .. } => (3, "two runs in one work directory"),
            Step::Full { .. } => (4, "run, full disk for the rows"),
            Step::Change { .. } => (5, "change a table"),
            Step::Set { .. } | Step::Agree => (6, "change an option"),
            Step::Save { .. } => (7, "save"),
            Step::Restore { .. } => (8, "restore"),
            Step::Make { .. } => (9, "`offline make`"),
            Step::Adopt { .. } => (10, "`offline adopt`"),
            Step::List { .. } => (11, "`offline ls`"),
            Step::Replace { .. } => (12, "another identity"),
            Step::RemoveOutputs => (13, "remove the outputs"),
            Step::RemoveWork { .. } => (14, "remove a work directory"),
        };
        (number, name.to_owned())
    }
}

/// What came of a step: the columns of the table.
pub(super) const OUTCOMES: [&str; 6] = [
    "right",
    "right, resumed",
    "right, without the peer",
    "error",
    "broken off",
    "done",
];

pub(super) fn step() -> impl Strategy<Value = Step> {
    let side = || 0..2_usize;
    let whose = || {
        prop_oneof![
            Just(Whose::Receiver),
            Just(Whose::Sender),
            Just(Whose::Both)
        ]
    };
    // Most of what one side can do alone both do.
    let mostly_both = || prop_oneof![1 => whose(), 4 => Just(Whose::Both)];
    let change = prop_oneof![
        Just(Change::Add),
        Just(Change::Remove),
        Just(Change::Touch),
        Just(Change::OtherKey),
        Just(Change::OtherRows)
    ];
    let setting = prop_oneof![
        4 => (0..VARIANTS.len()).prop_map(Setting::Protocol),
        1 => any::<bool>().prop_map(Setting::Lambda),
        2 => any::<bool>().prop_map(Setting::Both),
        1 => any::<bool>().prop_map(Setting::Minimum),
        2 => any::<bool>().prop_map(Setting::Buckets),
        1 => (1..3_u32).prop_map(Setting::Threads),
    ];
    let what = || {
        prop_oneof![
            1 => Just(What::Work),
            2 => Just(What::Store),
            1 => Just(What::Home)
        ]
    };
    let stop = (whose(), 0..4_u32, 0..40_usize, 0..8_u64);
    prop_oneof![
        16 => Just(Step::Run),
        14 => stop.prop_map(|(whose, how, lines, milliseconds)| Step::Stop(Stop {
            whose,
            kill: how > 0,
            lines,
            milliseconds,
        })),
        2 => side().prop_map(|side| Step::Twice { side }),
        3 => side().prop_map(|side| Step::Full { side }),
        4 => (side(), change, 0..1000_usize)
            .prop_map(|(side, change, seed)| Step::Change { side, change, seed }),
        5 => (mostly_both(), setting).prop_map(|(whose, option)| Step::Set { whose, option }),
        2 => Just(Step::Agree),
        5 => (mostly_both(), what()).prop_map(|(whose, what)| Step::Save { whose, what }),
        8 => (mostly_both(), what(), any::<bool>())
            .prop_map(|(whose, what, beside)| Step::Restore { whose, what, beside }),
        5 => any::<bool>().prop_map(|dealt| Step::Make { dealt }),
        3 => mostly_both().prop_map(|whose| Step::Adopt { whose }),
        2 => side().prop_map(|side| Step::List { side }),
        2 => (side(), 0..4_u32).prop_map(|(side, told)| Step::Replace { side, told: told > 0 }),
        1 => Just(Step::RemoveOutputs),
        2 => side().prop_map(|side| Step::RemoveWork { side }),
    ]
}
