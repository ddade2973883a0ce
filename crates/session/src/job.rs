//! What one side wants.

use vesica_plan::Registry;
use vesica_psi::{Favour, Reveal, Security};

use crate::contract::{MAX_KEY_COLUMNS, MAX_NORMALIZATION};
use crate::offline::Purpose;
use crate::{
    Error, Fingerprint, Handover, Learns, OfflineStore, ProtocolRequest, Role, ValueTerms,
};

/// Maximum number of items of a side, whatever the protocol and the number of buckets.
pub const MAX_ITEMS: u64 = 1 << 28;

/// A job as one side wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Our part.
    pub role: Role,
    /// The protocols to choose from.
    pub registry: Registry,
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// The weakest security that we accept.
    pub security: Security,
    /// Statistical security in bits, 40 to 128.
    pub lambda: u32,
    /// What the receiver learns.
    pub reveal: Reveal,
    /// Who gets the result.
    pub learns: Learns,
    /// The receiver learns the result only if at least this many items match, and otherwise only that fewer do.
    pub min_size: u64,
    /// What this side would rather save. The run saves traffic if either side would.
    pub favour: Favour,
    /// The values that this side has for its items, if it has some.
    pub values: Option<ValueTerms>,
    /// Largest bound that the peer may declare for its values, in units of their last digit; `None` is any. A receiver
    /// that chooses its values can make one result tell more the larger they may be.
    pub max_peer_value_bound: Option<u64>,
    /// What is to be done about labels, which the sender hands over with the matches.
    pub labels: Handover,
    /// Name and version of the normalisation of each key column, in order, as in `email/1`; at
    /// least one, at most 64, each at most 128 bytes of printable ASCII.
    pub normalization: Vec<String>,
    /// The bits of keys that are numbers of a declared width, 1 to 64: the last eight bytes of a key's digest are then
    /// the number, little endian, and different digests have different numbers. Some protocols compare such keys as
    /// they are.
    pub key_bits: Option<u32>,
    /// Maximum number of items that the peer may bring. What pads its items in buckets counts too, since a dishonest peer
    /// can put items in its place; on top of [`MAX_ITEMS`] there is a sixteenth for it.
    pub max_peer_items: u64,
    /// Approximate maximum of the bytes of memory for the run over one bucket on this side; `None` is no
    /// limit. With more than fits, both sides run the protocol in several buckets.
    pub memory: Option<u64>,
    /// Where the correlations are that the run takes; `None` if it makes them.
    pub offline: Option<OfflineStore>,
    /// What the dealer of stored correlations must have shown: a platform, or a platform and a measurement, in the words
    /// of [`StoredHalf::attested`](crate::StoredHalf). `None` takes whatever was not simulated.
    pub attested: Option<String>,
}

impl Job {
    /// The usual job for a role: automatic protocol, malicious security, λ = 40, matches for the
    /// receiver only, at most 2^28 peer items, no limit of memory.
    pub fn new(role: Role, normalization: Vec<String>) -> Job {
        Job {
            role,
            registry: *Registry::standard(),
            protocol: ProtocolRequest::Auto,
            security: Security::Malicious,
            lambda: 40,
            reveal: Reveal::Matches,
            learns: Learns::Receiver,
            min_size: 0,
            favour: Favour::Time,
            values: None,
            max_peer_value_bound: None,
            labels: Handover::Nothing,
            normalization,
            key_bits: None,
            max_peer_items: MAX_ITEMS,
            memory: None,
            offline: None,
            attested: None,
        }
    }

    /// Maximum number of items that the peer may bring with those in the place of padding.
    pub(crate) fn max_padded(&self) -> u64 {
        match self.max_peer_items < MAX_ITEMS {
            true => self.max_peer_items,
            false => MAX_ITEMS + MAX_ITEMS / 16,
        }
    }

    /// Checks what can be checked without a peer; [`run`](crate::run()) does so as well. Call it before
    /// reading tables or connecting.
    ///
    /// Fails with [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        let usage = |problem: String| Err(Error::Usage(problem));
        let protocol = match &self.protocol {
            // Which one depends on the sizes; whether there is one, and how secure it is, does not.
            ProtocolRequest::Auto => self.registry.auto(self.reveal, 0, 0),
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
        let able = protocol.filter(|p| p.reveals().contains(&self.reveal));
        let Some(able) = able else {
            return usage(format!(
                "protocol {} does not reveal {}",
                self.protocol, self.reveal
            ));
        };
        if let Some(problem) = self.labels.problem(self.role) {
            return usage(problem.into());
        }
        if !self.labels.is_nothing()
            && (self.reveal != Reveal::Matches || able.labels_per_item().is_none())
        {
            return usage(format!(
                "protocol {} does not hand over columns where it reveals {}",
                self.protocol, self.reveal
            ));
        }
        let spec = able.spec();
        if spec.security < self.security {
            let (name, runs) = (spec.name, spec.security.name());
            return usage(format!(
                "protocol {name} runs {runs} and needs --security {runs}"
            ));
        }
        self.check_values()?;
        if !(40..=128).contains(&self.lambda) {
            return usage(format!(
                "lambda is {} bits; 40 to 128 are possible",
                self.lambda
            ));
        }
        if let Some(bits) = self.key_bits.filter(|bits| !(1..=64).contains(bits)) {
            return usage(format!("keys of {bits} bits; 1 to 64 are possible"));
        }
        let columns = self.normalization.len();
        if columns == 0 || columns > MAX_KEY_COLUMNS {
            return usage(format!(
                "{columns} key columns; 1 to {MAX_KEY_COLUMNS} are possible"
            ));
        }
        for name in &self.normalization {
            let printable = name.bytes().all(|b| b.is_ascii_graphic());
            if name.is_empty() || name.len() > MAX_NORMALIZATION || !printable {
                return usage(format!("normalization {name:?} is not a name"));
            }
        }
        Ok(())
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
        if self.attested.is_some() && self.offline.is_none() {
            return usage("what a dealer has shown is a matter of stored correlations".into());
        }
        match (protocol.and_then(|p| p.offline()), &self.offline) {
            (None, Some(_)) => {
                usage("stored correlations need a protocol, by name, that takes them".into())
            }
            (Some(offline), None) if offline.origin().is_dealer() => usage(format!(
                "protocol {} takes its correlations from a store",
                self.protocol
            )),
            _ => Ok(()),
        }
    }

    /// What it wants stored correlations for, with so many items.
    pub(crate) fn purpose(&self, items: u64, peer: Option<Fingerprint>) -> Purpose<'_> {
        Purpose {
            role: self.role,
            registry: &self.registry,
            protocol: &self.protocol,
            lambda: self.lambda,
            key_bits: self.key_bits,
            items,
            peer,
            attested: self.attested.as_deref(),
        }
    }

    /// Checks what is asked of values.
    fn check_values(&self) -> Result<(), Error> {
        let reveal = self.reveal;
        let usage = |problem: String| Err(Error::Usage(problem));
        if reveal != Reveal::Matches && self.learns.is_both() {
            return usage(format!("the sender cannot learn the {reveal} too"));
        }
        if !reveal.takes_minimum(self.min_size) {
            return usage(match self.min_size {
                0 => format!("{reveal} needs a minimum size"),
                _ => format!("a minimum size does not go with {reveal}"),
            });
        }
        if let Some(problem) = self.values.and_then(ValueTerms::problem) {
            return usage(format!("values: {problem}"));
        }
        match (reveal, self.values) {
            (Reveal::Matches | Reveal::ThresholdMatches | Reveal::Size, Some(_)) => {
                usage(format!("values do not go with {reveal}"))
            }
            (Reveal::InnerProduct, None) => {
                usage(format!("the {reveal} needs values on both sides"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::{MAX_BUCKETS, capacity};

    #[test]
    fn padding_is_bounded() {
        let most = |max_peer_items| {
            let job = Job {
                max_peer_items,
                ..Job::new(Role::Receiver, Vec::new())
            };
            job.max_padded()
        };
        assert_eq!(most(MAX_ITEMS - 1), MAX_ITEMS - 1);
        assert_eq!([most(MAX_ITEMS), most(u64::MAX)], [285_212_672; 2]);
        // The largest set has room in any number of buckets.
        for buckets in (0..=MAX_BUCKETS.ilog2()).map(|log| 1 << log) {
            let padded = capacity(MAX_ITEMS, buckets, 128) * u64::from(buckets);
            assert!(padded <= most(MAX_ITEMS), "{buckets} buckets");
        }
    }
}
