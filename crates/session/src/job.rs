//! What one side wants.

use std::sync::Arc;

use vesica_files::many;
use vesica_plan::buckets::MAX_BUCKET_ITEMS;
use vesica_plan::{Open, Registry};
use vesica_psi::{MAX_VALUE_COLUMNS, Protocol, Reveal, Values};
use vesica_wire::{Error as WireError, Limit, Link};

use crate::contract::purpose_problem;
use crate::halves::{HalfSource, Purpose};
use crate::terms::{
    KEY_BITS, LAMBDA, LEARNS, MAX_KEY_COLUMNS, MAX_NORMALIZATION, MIN_SIZE, NORMALIZATION,
    POST_QUANTUM, REVEAL, SECURITY, Term, TermValue, Terms, lambda_problem,
};
use crate::{
    Error, Fingerprint, GroupSizes, Grouping, LabelExchange, Learns, NoiseRequest, ProtocolRequest,
    Role, ValueTerms,
};

/// A job as one side wants it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Our part.
    pub role: Role,
    /// The protocols to choose from.
    pub registry: Registry,
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// What both sides must agree on.
    pub terms: Terms,
    /// The columns of values that this side has for its items.
    pub values: Vec<ValueTerms>,
    /// How this side divides its items into groups, if it is the receiver and wants numbers of each.
    pub groups: Option<Grouping>,
    /// What the peer may bring.
    pub peer_limits: PeerLimits,
    /// What is to be done about labels, which the sender hands over with the matches, or about strings to share.
    pub labels: LabelExchange,
    /// The noise that this side adds to numbers, which protects its keys and values.
    pub noise: Option<NoiseRequest>,
    /// The number of items that this side tells, and up to which it brings random ones: for numbers alone. `None` if it tells
    /// how many it has.
    pub pad_to: Option<u64>,
    /// Approximate maximum of the bytes of memory for the run over one bucket on this side; `None` is no
    /// limit. With more than fits, both sides run the protocol in several buckets.
    pub memory: Option<u64>,
    /// Where the correlations are that the run takes; `None` if it makes them.
    pub offline: Option<Arc<dyn HalfSource>>,
    /// What this side wants the answer for, which the peer is told: at most [`MAX_PURPOSE`](crate::MAX_PURPOSE) bytes of
    /// printable text, or nothing.
    pub purpose: String,
}

/// The most that a peer may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Items, in all attempts together, since a dishonest peer can bring others to each. What pads them in buckets counts
    /// too, since it can put items in its place; on top of [`MAX_BUCKET_ITEMS`] and more there is a sixteenth for it.
    pub items: u64,
    /// Largest bound that it may declare for its values, in units of their last digit; `None` is any. A receiver that
    /// chooses its values can make one result tell more the larger they may be.
    pub value_bound: Option<u64>,
    /// Columns of values. Sums of two can differ by the weight of single items, however small the bound.
    pub values: u8,
    /// Groups into which a receiver may divide its items. Numbers of each tell as much as so many answers, and those of a
    /// dishonest one can differ by single items.
    pub groups: u16,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits {
            items: MAX_BUCKET_ITEMS,
            value_bound: None,
            values: MAX_VALUE_COLUMNS as u8,
            groups: 1,
        }
    }
}

impl PeerLimits {
    /// Maximum number of items in all attempts, with those in the place of padding.
    pub(crate) fn in_all(&self) -> u64 {
        match self.items < MAX_BUCKET_ITEMS {
            true => self.items,
            false => self.items.saturating_add(self.items / 16),
        }
    }
}

impl Job {
    /// The usual job for a role: automatic protocol, at most 2^28 peer items, no limit of memory, and the default of each
    /// term, but for the [normalisation](NORMALIZATION) of each key column, such as `email/1`.
    pub fn new(role: Role, normalization: Vec<String>) -> Job {
        let usual = Job {
            role,
            registry: *Registry::standard(),
            protocol: ProtocolRequest::Auto,
            terms: Terms::default(),
            values: Vec::new(),
            groups: None,
            peer_limits: PeerLimits::default(),
            labels: LabelExchange::Nothing,
            noise: None,
            pad_to: None,
            memory: None,
            offline: None,
            purpose: String::new(),
        };
        usual.with(&NORMALIZATION, normalization)
    }

    /// The same with another value of a term.
    pub fn with<T: TermValue>(mut self, term: &'static Term<T>, value: T) -> Job {
        self.terms.set(term, value);
        self
    }

    /// The value of a term.
    pub fn get<T: TermValue>(&self, term: &Term<T>) -> T {
        self.terms.get(term)
    }

    /// The same, with what is left open decided by what is known of the link to the peer.
    pub fn over(&self, link: Link) -> Job {
        Job {
            terms: self.terms.clone().over(link),
            ..self.clone()
        }
    }

    /// Checks what can be checked without a peer; [`run`](crate::run()) does so as well. Call it before
    /// reading tables or connecting.
    ///
    /// Fails with [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        let usage = |problem: String| Err(Error::Usage(problem));
        let (reveal, security, lambda) =
            (self.get(&REVEAL), self.get(&SECURITY), self.get(&LAMBDA));
        let protocol = match &self.protocol {
            // Which one depends on the sizes; whether there is one, and how secure it is, does not.
            ProtocolRequest::Auto => self.registry.auto(&self.open()).first().copied(),
            ProtocolRequest::Named(name) => {
                let Some(protocol) = self.registry.get(name) else {
                    let names = self.registry.names();
                    return usage(format!(
                        "no protocol is called {name:?}; there are: {names}"
                    ));
                };
                Some(protocol)
            }
        };
        let able = protocol.filter(|p| p.can_reveal(reveal));
        let Some(able) = able else {
            return usage(format!(
                "protocol {} does not reveal {}",
                self.protocol, reveal
            ));
        };
        if let Some(problem) = purpose_problem(&self.purpose) {
            return usage(format!("the purpose has {problem}"));
        }
        if let Some(problem) = self.labels.problem(self.role) {
            return usage(problem.into());
        }
        if self.labels.string_bytes() > 0 {
            if reveal != Reveal::Shares {
                return usage(format!("a payload goes with shares, not with {reveal}"));
            }
        } else if !self.labels.is_nothing()
            && (!reveal.takes_labels() || able.labels_per_item().is_none())
        {
            return usage(format!(
                "protocol {} does not hand over columns where it reveals {}",
                self.protocol, reveal
            ));
        }
        if reveal.is_rows() && self.labels.is_nothing() {
            return usage(format!(
                "the {reveal} is of rows: the sender hands over columns, and the receiver takes them"
            ));
        }
        let spec = able.spec();
        if spec.security < security {
            return Err(Error::WeakProtocol {
                protocol: spec.name,
                reveal,
                asked: security,
                runs: spec.security,
            });
        }
        if spec.key_agreement(self.get(&POST_QUANTUM)).is_none() {
            let able = self.registry.revealing(reveal).map(|p| p.spec());
            let names = able.filter(|spec| spec.key_agreement(true).is_some());
            let names: Vec<&str> = names.map(|spec| spec.name).collect();
            return usage(format!(
                "protocol {} has no post-quantum form; there are: {}",
                spec.name,
                names.join(", ")
            ));
        }
        self.check_values()?;
        self.check_groups()?;
        self.check_noise()?;
        if let Some(problem) = lambda_problem(lambda) {
            return usage(problem);
        }
        if let Some(bits) = self.get(&KEY_BITS).filter(|bits| !(1..=64).contains(bits)) {
            return usage(format!("keys of {bits} bits; 1 to 64 are possible"));
        }
        let normalization = self.get(&NORMALIZATION);
        let columns = normalization.len();
        if columns == 0 || columns > MAX_KEY_COLUMNS {
            return usage(format!(
                "{columns} key columns; 1 to {MAX_KEY_COLUMNS} are possible"
            ));
        }
        for name in &normalization {
            let printable = name.bytes().all(|b| b.is_ascii_graphic());
            if name.is_empty() || name.len() > MAX_NORMALIZATION || !printable {
                return usage(format!("normalization {name:?} is not a name"));
            }
        }
        match self.terms.problem() {
            Some(problem) => usage(problem),
            None => Ok(()),
        }
    }

    /// Checks that the protocol takes stored correlations if there are some, and that there are if it makes none;
    /// [`run`](crate::run()) does so as well.
    ///
    /// Fails with [`Error::Usage`].
    pub fn check_offline(&self) -> Result<(), Error> {
        let usage = |problem: String| Err(Error::Usage(problem));
        let protocol = match &self.protocol {
            ProtocolRequest::Auto => None,
            ProtocolRequest::Named(name) => self.registry.get(name),
        };
        match (protocol.and_then(|p| p.offline()), &self.offline) {
            (None, Some(_)) => {
                usage("stored correlations need a protocol, by name, that takes them".into())
            }
            (Some(offline), None) if offline.origin().is_dealt() => usage(format!(
                "protocol {} takes its correlations from a store",
                self.protocol
            )),
            _ => Ok(()),
        }
    }

    /// What `auto` is asked, of sizes that are not known.
    fn open(&self) -> Open {
        Open {
            sizes: [0; 2],
            reveal: self.get(&REVEAL),
            security: self.get(&SECURITY),
            lambda: self.get(&LAMBDA),
            exact: self.get(&KEY_BITS),
            post_quantum: self.get(&POST_QUANTUM),
            has_labels: !self.labels.is_nothing() && self.labels.string_bytes() == 0,
        }
    }

    /// Bytes of memory that the smallest bucket takes at least, whatever both sides have.
    pub fn least_memory(&self) -> u64 {
        let protocols = match &self.protocol {
            ProtocolRequest::Auto => self.registry.auto(&self.open()),
            ProtocolRequest::Named(name) => self.registry.get(name).into_iter().collect(),
        };
        let (key_bits, lambda) = (self.get(&KEY_BITS), self.get(&LAMBDA));
        let bytes = |protocol: &&dyn Protocol| {
            let spec = protocol.spec();
            spec.working_bytes_of([1; 2], key_bits, lambda)
        };
        protocols.iter().map(bytes).min().unwrap_or_default()
    }

    /// What it wants stored correlations for, with so many items.
    pub(crate) fn purpose(&self, items: u64, peer: Option<Fingerprint>) -> Purpose<'_> {
        Purpose {
            role: self.role,
            registry: &self.registry,
            protocol: &self.protocol,
            lambda: self.get(&LAMBDA),
            key_bits: self.get(&KEY_BITS),
            post_quantum: self.get(&POST_QUANTUM),
            items,
            peer,
        }
    }

    /// How many columns of values the peer can have where this side has `own`.
    fn peer_columns(&self, own: u8) -> impl Iterator<Item = u8> {
        let (role, reveal) = (self.role, self.get(&REVEAL));
        (0..=MAX_VALUE_COLUMNS as u8).filter(move |peer| {
            let [receiver, sender] = match role {
                Role::Receiver => [own, *peer],
                Role::Sender => [*peer, own],
            };
            reveal.takes_values(Values { receiver, sender })
        })
    }

    /// Whether the peer learns a number under a minimum and may choose values of any size for it, or several columns, or
    /// several groups.
    pub fn leaves_weights_free(&self) -> bool {
        let peer_learns = self.role == Role::Sender || self.get(&LEARNS).is_both();
        let columns = self
            .peer_columns(self.values.len() as u8)
            .max()
            .unwrap_or(0);
        let most = self.peer_limits;
        let is_free = most.value_bound.is_none() || columns.min(most.values) > 1;
        let has_groups = self.role == Role::Sender && most.groups > 1;
        peer_learns && self.get(&MIN_SIZE) > 1 && (columns > 0 && is_free || has_groups)
    }

    /// Checks what is asked of groups.
    fn check_groups(&self) -> Result<(), Error> {
        let Some(groups) = &self.groups else {
            return Ok(());
        };
        let reveal = self.get(&REVEAL);
        let are_counted = reveal
            .each()
            .iter()
            .all(|of| matches!(of, Reveal::Size | Reveal::Sum));
        let problem = match () {
            () if self.role == Role::Sender => Some(
                "the receiver divides its keys into groups, and the sender does not".to_owned(),
            ),
            () if !are_counted => {
                Some(format!("sizes and sums are had by group, and not {reveal}"))
            }
            () if reveal.last() == Reveal::Sum && self.values.is_empty() => {
                Some("sums by group are of the receiver's values".to_owned())
            }
            () if self.get(&LEARNS).is_both() => {
                Some("numbers by group are for the receiver, and not for both sides".to_owned())
            }
            () if self.pad_to.is_some() && groups.sizes == GroupSizes::Told => {
                Some("sizes of groups that are told would tell what a padded set hides".to_owned())
            }
            () => groups.problem(self.values.len().max(1)),
        };
        problem.map_or(Ok(()), |problem| Err(Error::Usage(problem)))
    }

    /// Checks what is asked of noise, and of padding.
    fn check_noise(&self) -> Result<(), Error> {
        let reveal = self.get(&REVEAL);
        let problem = match (&self.noise, self.pad_to) {
            (None, None) => return Ok(()),
            (Some(_), _) if !reveal.is_value() => {
                format!("epsilon is for numbers, and {reveal} would tell of single keys")
            }
            (_, Some(_)) if !reveal.is_value() => {
                format!("a set is padded where numbers are revealed, and not with {reveal}")
            }
            (Some(request), _) => match request.problem() {
                Some(problem) => format!("the shares of epsilon: {problem}"),
                None => return Ok(()),
            },
            (None, Some(_)) => return Ok(()),
        };
        Err(Error::Usage(problem))
    }

    /// How many items this side says that it has.
    ///
    /// Fails if it pads its set, and has more.
    pub(crate) fn told_items(&self, items: u64) -> Result<u64, Error> {
        match self.pad_to {
            Some(padded) if padded < items => {
                let keys = many(items, "key");
                let reason = format!("this side has {keys}, and is to pad them to {padded}");
                Err(WireError::limit(Limit::Size, reason).into())
            }
            Some(padded) => Ok(padded),
            None => Ok(items),
        }
    }

    /// Checks what is asked of values.
    fn check_values(&self) -> Result<(), Error> {
        let (reveal, min_size) = (self.get(&REVEAL), self.get(&MIN_SIZE));
        let usage = |problem: String| Err(Error::Usage(problem));
        let learns = self.get(&LEARNS);
        if learns.is_both() && !reveal.can_be_told() {
            return usage(match reveal.is_ids() {
                true => "with ids both sides get their own in any case".to_owned(),
                false => format!("the sender cannot learn the {reveal} too"),
            });
        }
        if learns == Learns::Aligned && reveal != Reveal::Matches {
            return usage(format!("one order on both sides does not go with {reveal}"));
        }
        if !reveal.takes_minimum(min_size) {
            return usage(match min_size {
                0 => format!("{reveal} needs a minimum size"),
                _ => format!("a minimum size does not go with {reveal}"),
            });
        }
        if let Some(problem) = self.values.iter().find_map(|terms| terms.problem()) {
            return usage(format!("values: {problem}"));
        }
        if self.values.len() > MAX_VALUE_COLUMNS {
            return usage(format!("at most {MAX_VALUE_COLUMNS} columns of values"));
        }
        let goes = |own| self.peer_columns(own).next().is_some();
        match self.values.len() as u8 {
            own if goes(own) => Ok(()),
            0 => usage(format!("the {reveal} needs values on both sides")),
            _ if goes(1) => usage(format!(
                "the {reveal} takes one column of values on each side"
            )),
            _ => usage(format!("a run for {reveal} takes no values")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_plan::buckets::{MAX_BUCKETS, MAX_ITEMS, capacity};

    #[test]
    fn padding_is_bounded() {
        let most = |items| {
            let limits = PeerLimits {
                items,
                ..PeerLimits::default()
            };
            limits.in_all()
        };
        assert_eq!(most(MAX_BUCKET_ITEMS - 1), MAX_BUCKET_ITEMS - 1);
        assert_eq!(most(MAX_BUCKET_ITEMS), 285_212_672);
        assert_eq!([most(MAX_ITEMS), most(u64::MAX)], [2_281_701_376, u64::MAX]);
        // The largest sets have room in any number of buckets.
        for items in [MAX_BUCKET_ITEMS, MAX_ITEMS] {
            for buckets in (0..=MAX_BUCKETS.ilog2()).map(|log| 1 << log) {
                let padded = capacity(items, buckets, 128) * u64::from(buckets);
                assert!(padded <= most(items), "{items} items, {buckets} buckets");
            }
        }
    }
}
