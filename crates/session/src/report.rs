//! The report of a finished run.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use vesica_psi::{Output, Reveal, Reveals, Security};
use vesica_wire::PhaseTraffic;

use crate::terms::{LEARNS, MIN_SIZE, REVEAL};
use crate::value::by_name;
use crate::{
    Agreement, Contract, Decimal, Fingerprint, GroupNumbers, Grouping, NoiseReport, Role, State,
};

/// A finished run, as `--report` writes it. The caller fills in what only the reader of the table knows:
/// `rows`, `duplicates`, `blanks`, `invalid`, `denied` and `rows_written`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// A name that the run has on both sides and no other run has: 16 hexadecimal digits.
    pub run: String,
    /// The name of the protocol that ran.
    pub protocol: String,
    /// The adversary that the run withstood.
    pub security: Security,
    /// What the receiver learned.
    pub reveal: Reveals,
    /// Rows read from this side's table.
    pub rows: u64,
    /// Distinct items of this side, without what pads them to the number that the peer hears.
    pub items: u64,
    /// Rows whose key another row already had.
    pub duplicates: u64,
    /// Rows without a key.
    pub blanks: u64,
    /// Rows whose key is invalid under its normalisation.
    pub invalid: u64,
    /// Rows whose key this side denies.
    pub denied: u64,
    /// Rows written to the output; `None` if there is none.
    pub rows_written: Option<u64>,
    /// Distinct items of the peer.
    pub peer_items: u64,
    /// Items in common; `None` on a side that does not learn it.
    pub matches: Option<u64>,
    /// Ids of both sides' keys together; `None` if none were made.
    pub spine_rows: Option<u64>,
    /// The number that was revealed to this side; `None` if none was, or several.
    pub value: Option<Decimal>,
    /// The numbers that were revealed to this side, if there are several, with their names: `size`, `sum`, or `sum-1` and
    /// so on in the order of the columns of the side that has values. Written as an object.
    #[serde(serialize_with = "by_name")]
    pub values: Option<Vec<(String, Decimal)>>,
    /// The numbers of each group, if the receiver divides its items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupNumbers>>,
    /// Fewer matches than this count, for one of the numbers if there are several: those of value 0 do not. Nothing more is
    /// known. `None` if a value or the matches are known.
    pub below: Option<u64>,
    /// The noise in the numbers that were revealed, if there is any.
    pub noise: Option<NoiseReport>,
    /// Bytes sent to the peer, including framing but not TLS.
    pub bytes_sent: u64,
    /// Bytes received from the peer, including framing but not TLS.
    pub bytes_received: u64,
    /// Seconds from the open connection to the result; zero if an earlier run computed it.
    pub seconds: f64,
    /// When an earlier run computed the result, if this one only wrote its rows; else `None`. Written as in
    /// RFC 3339.
    #[serde(serialize_with = "optional_time")]
    pub computed: Option<SystemTime>,
    /// Traffic and time of each phase, in order.
    pub phases: Vec<PhaseTraffic>,
    /// The peer's fingerprint; `None` over plaintext.
    pub peer: Option<Fingerprint>,
    /// The agreed contract.
    pub contract: Contract,
}

/// A time as RFC 3339 writes it, in UTC and whole seconds: `2026-11-21T16:30:00Z`. What its four digits for years have no
/// room for is the first or the last that they have.
pub fn rfc3339(time: SystemTime) -> String {
    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let since_1970 = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => seconds(after),
        // Rounded down.
        Err(before) => -seconds(before.duration() + Duration::from_nanos(999_999_999)),
    };
    DateTime::<Utc>::from_timestamp(since_1970.clamp(FIRST, LAST), 0)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn optional_time<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339).serialize(to)
}

impl Report {
    /// The report of a run that ended in this state, without the table's figures.
    pub(crate) fn of(state: &State, role: Role) -> Report {
        let contract = state.contract.clone();
        let knows = role == Role::Receiver || contract.get(&LEARNS).is_both();
        let (items, peer_items) = match role {
            Role::Receiver => (contract.receiver_size, contract.sender_size),
            Role::Sender => (contract.sender_size, contract.receiver_size),
        };
        let found: u64 = state.found.iter().sum();
        let enough = found >= contract.get(&MIN_SIZE);
        let learns_matches = knows && contract.get(&REVEAL).is_matches();
        // What it lacks of the other's is the rest.
        let rest = contract.sender_size.saturating_sub(found);
        let of_rows = (knows && contract.get(&REVEAL).is_rows()).then_some(rest);
        let spine_rows = contract.get(&REVEAL).is_ids().then_some(found);
        // A key of both sides has one id.
        let of_ids = spine_rows.map(|ids| (items + peer_items).saturating_sub(ids));
        Report {
            run: state.run_name(),
            protocol: contract.protocol.clone(),
            security: contract.runs,
            reveal: contract.get(&REVEAL),
            rows: 0,
            items,
            duplicates: 0,
            blanks: 0,
            invalid: 0,
            denied: 0,
            rows_written: None,
            peer_items,
            matches: (learns_matches && enough)
                .then_some(found)
                .or(of_rows)
                .or(of_ids),
            spine_rows,
            value: None,
            values: None,
            groups: None,
            below: (learns_matches && !enough).then_some(contract.get(&MIN_SIZE)),
            noise: NoiseReport::of(&contract),
            bytes_sent: 0,
            bytes_received: 0,
            seconds: 0.0,
            computed: None,
            phases: Vec::new(),
            peer: None,
            contract,
        }
    }

    /// The report of a job of tasks whose numbers were opened: what this side has learnt of them. Bytes, seconds and the
    /// table's figures are zero.
    pub fn of_job(agreement: &Agreement, role: Role, opened: &Output) -> Report {
        let mut report = Report::of(&agreement.state, role);
        report.tell(opened, None);
        report
    }

    /// Adds what this side has learnt beside matches, of its groups if it has some.
    pub(crate) fn tell(&mut self, opened: &Output, grouping: Option<&Grouping>) {
        let all = match opened {
            Output::Groups(all) => {
                let names = self.contract.numbers();
                self.groups = grouping.map(|grouping| grouping.report(all, &names));
                let is_withheld = all.iter().any(Option::is_none);
                self.below = is_withheld.then(|| self.contract.get(&MIN_SIZE));
                return;
            }
            Output::Values(all) => all,
            Output::Below(least) => {
                self.below = Some(*least);
                return;
            }
            _ => return,
        };
        let numbers = self.contract.numbers().into_iter();
        let numbers = numbers.zip(all.iter().copied());
        let named = |((name, scale), units)| (name, Decimal { units, scale });
        let numbers: Vec<_> = numbers.map(named).collect();
        match &numbers[..] {
            [(_, value)] => self.value = Some(*value),
            _ => self.values = Some(numbers),
        }
    }

    /// Brings a noisy size into the range that sizes have: from 0 to that of the smaller set. What the peer has learnt is as it
    /// was.
    pub fn clamp(&mut self) {
        let most = self.contract.receiver_size.min(self.contract.sender_size);
        let size = Reveal::Size.name();
        let names = self.contract.numbers();
        let alone = names.first().filter(|_| names.len() == 1);
        let alone = alone.zip(self.value.as_mut());
        let alone = alone.map(|((name, _), value)| (name.as_str(), value));
        let several = self.values.iter_mut().flatten();
        let by_group = self.groups.iter_mut().flatten();
        let by_group = by_group.flat_map(|group| group.values.iter_mut().flatten());
        let several = several.chain(by_group);
        let several = several.map(|(name, value)| (name.as_str(), value));
        for (_, value) in alone
            .into_iter()
            .chain(several)
            .filter(|(name, _)| *name == size)
        {
            value.units = value.units.clamp(0, most.into());
        }
    }

    /// The report of a result that an earlier run with `peer` found but did not write.
    pub fn of_earlier(
        state: &State,
        role: Role,
        peer: Fingerprint,
        computed: SystemTime,
    ) -> Report {
        Report {
            computed: Some(computed),
            peer: Some(peer),
            ..Report::of(state, role)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_can_be_written() {
        let epoch = SystemTime::UNIX_EPOCH;
        let after = |seconds| epoch.checked_add(Duration::from_secs(seconds));
        let before = |seconds| epoch.checked_sub(Duration::from_secs(seconds));
        for (time, expected) in [
            (Some(epoch), "1970-01-01T00:00:00Z"),
            (after(1_795_000_000), "2026-11-18T11:06:40Z"),
            (after(253_402_300_800), "9999-12-31T23:59:59Z"),
            // As far as clocks go.
            (after(i64::MAX as u64), "9999-12-31T23:59:59Z"),
            (before(1), "1969-12-31T23:59:59Z"),
            (before(62_167_219_201), "0000-01-01T00:00:00Z"),
            (before(i64::MAX as u64), "0000-01-01T00:00:00Z"),
            (
                epoch.checked_sub(Duration::from_millis(1)),
                "1969-12-31T23:59:59Z",
            ),
        ] {
            assert_eq!(rfc3339(time.unwrap()), expected);
        }
    }
}
