//! What a side asks to be saved, and how it decides where that is left open.
//!
//! **Who decides.** Two sides measure differently, so a choice is made on one side and said to the other: a side whose
//! request is [`OptimizeRequest::Auto`] decides before its hello, and says what it has decided. [`rule`] makes one choice
//! of both sides', so a side that asks for nothing goes along with a peer that decides; if both decide, traffic is saved as
//! soon as one of them finds the link slow. A dishonest peer can have either choice, as it could anyway; both are as secure.
//!
//! **By what.** Saving traffic pays where the link takes longer for the bytes than the machine for the accesses: what the
//! planner forecasts over the link ([`Machines::faster_way`]). Nobody knows the bandwidth of a link before it is filled, and
//! a probe that fills it costs more than a wrong choice, which costs a few percent. So a bandwidth is declared, or estimated
//! by the round trip: a stream of TCP with losses of a fraction p carries about 1.22·MSS/(RTT·√p) (M. Mathis, J. Semke, J.
//! Mahdavi, T. Ott, The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, 1997), which [`estimate`] takes with
//! 1460 bytes and p = 10^-4.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use vesica_plan::Machines;
use vesica_psi::Optimize;
use vesica_wire::{Error as WireError, Link};

use super::Term;

/// What a side asks a circuit protocol to save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizeRequest {
    /// [`Optimize::Time`], unless the peer asks for something else.
    #[default]
    Time,
    /// [`Optimize::Traffic`].
    Traffic,
    /// Whichever is faster over this side's link. An agreed contract does not have it; on the wire it stands for what has
    /// not been decided, and counts as [`OptimizeRequest::Time`].
    Auto,
}

impl OptimizeRequest {
    pub(super) const ALL: [OptimizeRequest; 3] = [
        OptimizeRequest::Time,
        OptimizeRequest::Traffic,
        OptimizeRequest::Auto,
    ];

    /// The name in commands, contracts and reports.
    pub fn name(self) -> &'static str {
        match self {
            OptimizeRequest::Time => Optimize::Time.name(),
            OptimizeRequest::Traffic => Optimize::Traffic.name(),
            OptimizeRequest::Auto => "auto",
        }
    }

    /// What a run saves where this is agreed on.
    pub fn choice(self) -> Optimize {
        match self {
            OptimizeRequest::Time | OptimizeRequest::Auto => Optimize::Time,
            OptimizeRequest::Traffic => Optimize::Traffic,
        }
    }

    /// The same, decided by what is known of the link: its bandwidth, or else its round trip, which is zero if it is not
    /// known either.
    pub fn over(self, link: Link) -> OptimizeRequest {
        match self {
            OptimizeRequest::Auto => {
                let bandwidth = link.bits_per_second.or_else(|| estimate(link.rtt));
                Machines::faster_way(Link::new(bandwidth, link.rtt)).into()
            }
            decided => decided,
        }
    }
}

impl From<Optimize> for OptimizeRequest {
    fn from(choice: Optimize) -> OptimizeRequest {
        match choice {
            Optimize::Traffic => OptimizeRequest::Traffic,
            _ => OptimizeRequest::Time,
        }
    }
}

/// Bits per second that a stream of TCP gets with this round trip.
fn estimate(rtt: Duration) -> Option<u64> {
    let bits = 1.22 * 1460.0 * 8.0 * 100.0;
    (!rtt.is_zero()).then(|| (bits / rtt.as_secs_f64()) as u64)
}

/// Traffic if either side asks for it.
pub(super) fn rule(
    _: &Term<OptimizeRequest>,
    ours: &OptimizeRequest,
    theirs: &OptimizeRequest,
) -> Result<OptimizeRequest, WireError> {
    Ok(ours.choice().max(theirs.choice()).into())
}

#[cfg(test)]
mod tests {
    use super::OptimizeRequest::{Auto, Time, Traffic};
    use super::*;

    fn link(bits_per_second: Option<u64>, micros: u64) -> Link {
        Link::new(bits_per_second, Duration::from_micros(micros))
    }

    #[test]
    fn a_declared_bandwidth_decides_and_otherwise_the_round_trip() {
        for (link, choice) in [
            (link(None, 0), Time),
            (link(None, 300), Time),
            (link(None, 80_000), Traffic),
            (link(Some(1_000_000_000), 80_000), Time),
            (link(Some(10_000_000), 300), Traffic),
        ] {
            assert_eq!(Auto.over(link), choice, "{link}");
            assert_eq!([Time.over(link), Traffic.over(link)], [Time, Traffic]);
        }
    }

    /// 1.22 · 1460 bytes · 100 are 1.425 Mbit.
    #[test]
    fn a_stream_carries_less_the_longer_a_round_trip_takes() {
        assert_eq!(estimate(Duration::ZERO), None);
        assert_eq!(estimate(Duration::from_millis(100)), Some(14_249_600));
        assert_eq!(estimate(Duration::from_millis(10)), Some(142_496_000));
    }

    #[test]
    fn traffic_is_saved_if_either_side_asks_for_it() {
        let term = &super::super::OPTIMIZE;
        for ours in OptimizeRequest::ALL {
            for theirs in OptimizeRequest::ALL {
                let is_asked = [ours, theirs].contains(&Traffic);
                let agreed = rule(term, &ours, &theirs).unwrap();
                assert_eq!(agreed, if is_asked { Traffic } else { Time });
            }
        }
    }
}
