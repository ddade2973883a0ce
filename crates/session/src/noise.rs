//! Noise that makes the numbers of a run differentially private.
//!
//! Each side that asks for ε adds noise of its own to its shares of every number, and of every count that is compared with a
//! minimum, once: to the sums over all buckets, before they are opened. It protects the keys and values of that side from
//! the other one, which knows its own noise. What is promised, and what is not, is in `docs/differential-privacy.md`.
//!
//! **Charges.** Every number takes a part of ε, and every count: ε is divided among them evenly, or as the side says. A size
//! under a minimum is one noisy count that is compared and then opened, and is charged once.
//!
//! **Sensitivity.** What is told of a set is its size, so neighbours are sets of one size that differ by one key with its
//! values: a size changes by 1, and a sum of values up to B in absolute value by 2·B. Of a side that pads its set to a declared
//! number, neighbours are sets that differ by one key more: 1 and B. For an inner product B is the product of both bounds. It
//! does not matter whose key it is. Of numbers by group these are sums over all groups: a size changes by 2 there, or by 1 where
//! the set is padded. A test has all of this by exhaustion over small tables.
//!
//! **Time.** Drawing noise takes a time that depends on it. A run draws on a thread of its own ([`Drawing`]), for which no
//! message waits but that of the opening; the drivers of tasks draw before they meet.
//!
//! **Once.** Noise that is drawn anew for the same shares averages out, so a run has one opening, and does not go on after a
//! failure. The total of tasks can be opened several times: its noise follows from a secret of the job, which is as old as the
//! job and older than its shares, so that no copy of the job's directory opens them with other noise. It does not follow from
//! the keys or the question: two jobs that share it would tell the exact difference of their answers.

use std::fmt;
use std::thread::{self, JoinHandle};

use chacha20::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use serde::Serialize;
use vesica_primitives::laplace::{Epsilon, Scale};
use vesica_psi::{Reveal, lambda_each};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::charges::{Charge, NOISE, NoiseRequest, NoiseTerms};
use crate::codec::{bad, impossible};
use crate::random::fresh_rng;
use crate::terms::{LAMBDA, LEARNS, MIN_SIZE, REVEAL};
use crate::value::{self, ValueTerms};
use crate::{Contract, Decimal, Role};

/// What is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charged {
    number: (Reveal, usize),
    /// Whether it is the count of the number, and not the number itself.
    is_count: bool,
}

impl Charged {
    /// Whether it counts keys, so that it is in a ring of its own size.
    fn counts(self) -> bool {
        self.is_count || self.number.0 == Reveal::Size
    }

    /// The most that it changes by between neighbours, in units of its last digit.
    fn sensitivity(
        self,
        columns: [&[ValueTerms]; 2],
        (is_padded, has_groups): (bool, bool),
    ) -> u128 {
        match self.counts() {
            // Of two keys one leaves the count of its group, and the other enters that of another one.
            true => 1 + u128::from(has_groups && !is_padded),
            false => {
                value::largest(self.number, columns, 1).saturating_mul(2 - u128::from(is_padded))
            }
        }
    }
}

/// In the place of a span that is larger: no number has room for it.
const TOO_FAR: u64 = i64::MAX as u64;

impl Contract {
    /// The noise of one side, if it adds any.
    pub fn noise_of(&self, role: Role) -> Option<&NoiseTerms> {
        match role {
            Role::Receiver => self.receiver_noise.as_ref(),
            Role::Sender => self.sender_noise.as_ref(),
        }
    }

    /// Whether some side adds noise.
    pub(crate) fn is_noisy(&self) -> bool {
        self.receiver_noise.is_some() || self.sender_noise.is_some()
    }

    /// What is charged, in the order in which numbers are shared.
    fn charged(&self) -> Vec<Charged> {
        let (reveal, values) = (self.get(&REVEAL), value::values(self.values()));
        let is_compared = self.get(&MIN_SIZE) > 0;
        let numbers = reveal.numbers(values).into_iter();
        let of = |number: (Reveal, usize)| {
            let has_count = is_compared && number.0 != Reveal::Size;
            let charged = move |is_count| Charged { number, is_count };
            [Some(false), has_count.then_some(true)]
                .into_iter()
                .flatten()
                .map(charged)
        };
        numbers.flat_map(of).collect()
    }

    /// The names of what is charged.
    fn charged_names(&self) -> Vec<String> {
        let numbers = self.numbers();
        let mut names = numbers.iter().map(|(name, _)| name);
        let mut last = String::new();
        let name = |charged: &Charged| {
            if charged.is_count {
                return format!("{last}-count");
            }
            last = names.next().cloned().unwrap_or_default();
            last.clone()
        };
        self.charged().iter().map(name).collect()
    }

    /// The scale of the noise of one side in each charge; nothing for a side without noise. `None` in the place of one that is
    /// too large.
    fn scales_of(&self, role: Role) -> Vec<Option<Scale>> {
        let Some(terms) = self.noise_of(role) else {
            return Vec::new();
        };
        let scale = |(charged, charge): (Charged, &Charge)| {
            let sensitivity = self.sensitivity(charged, terms);
            Scale::new(sensitivity, charge.epsilon)
        };
        self.charged()
            .into_iter()
            .zip(&terms.charges)
            .map(scale)
            .collect()
    }

    /// The most that all numbers of a charge change by between neighbours, together.
    fn sensitivity(&self, charged: Charged, terms: &NoiseTerms) -> u128 {
        charged.sensitivity(self.values(), (terms.is_padded, self.groups.is_some()))
    }

    /// How many numbers there are of each charge: one for each group.
    fn numbers_of_charge(&self) -> usize {
        self.groups
            .as_ref()
            .map_or(1, |groups| groups.count as usize)
    }

    /// T of each charge: how far the noise of both sides together is from 0 at most, in all charges of the run but with
    /// probability 2^-λ.
    pub(crate) fn noise_spans(&self) -> Vec<u64> {
        let charged = self.charged();
        let drawn = charged.len() * self.numbers_of_charge();
        let lambda = lambda_each(self.get(&LAMBDA), drawn.max(1) as u32);
        let mut spans = vec![0u64; charged.len()];
        for role in [Role::Receiver, Role::Sender] {
            for (span, scale) in spans.iter_mut().zip(self.scales_of(role)) {
                let own = scale.and_then(|scale| scale.span(lambda)?.try_into().ok());
                *span = span.saturating_add(own.unwrap_or(TOO_FAR)).min(TOO_FAR);
            }
        }
        spans
    }

    /// T of the numbers that are told, in order.
    pub(crate) fn spans_of_numbers(&self) -> Vec<u64> {
        let spans = self.charged().into_iter().zip(self.noise_spans());
        let told = spans.filter(|(charged, _)| !charged.is_count);
        told.map(|(_, span)| span).collect()
    }

    /// The largest T of a size or a count.
    pub(crate) fn span_of_counts(&self) -> u64 {
        let spans = self.charged().into_iter().zip(self.noise_spans());
        let counts = spans.filter(|(charged, _)| charged.counts());
        counts.map(|(_, span)| span).max().unwrap_or(0)
    }

    /// Adds the noise that the receiver and the sender ask for, each with whether it pads its set. Fails with what does not go
    /// together, and with `Resource` for noise that a number has no room for.
    pub(crate) fn add_noise(
        &mut self,
        requests: [(Option<&NoiseRequest>, bool); 2],
    ) -> Result<(), WireError> {
        if requests.iter().all(|(request, _)| request.is_none()) {
            return Ok(());
        }
        if !self.get(&REVEAL).is_value() {
            return Err(bad(NOISE, "there are no numbers to add it to"));
        }
        let names = self.charged_names();
        let [receiver, sender] = requests.map(|(request, is_padded)| {
            let terms = |request| NoiseTerms::new(request, is_padded, names.clone());
            request.map(terms).transpose()
        });
        (self.receiver_noise, self.sender_noise) = (receiver?, sender?);
        if self.get(&LEARNS).is_both() && requests.iter().any(|(request, _)| request.is_none()) {
            let problem = "both sides learn the numbers, and one adds no noise: nothing would protect it from the other";
            return Err(impossible(NOISE, problem.to_owned()));
        }
        let most = self.receiver_size.min(self.sender_size);
        let minimum = self.get(&MIN_SIZE);
        if minimum > most {
            let problem =
                format!("noise could meet a minimum of {minimum}, and sets of {most} cannot");
            return Err(impossible(NOISE, problem));
        }
        self.check_room(most)
    }

    /// Refuses noise with which a number could exceed 63 bits.
    fn check_room(&self, most: u64) -> Result<(), WireError> {
        let spans = self.noise_spans();
        for ((charged, span), name) in self
            .charged()
            .into_iter()
            .zip(spans)
            .zip(self.charged_names())
        {
            let without = match charged.counts() {
                true => most.into(),
                false => value::largest(charged.number, self.values(), most),
            };
            if without.saturating_add(span.into()) >= TOO_FAR.into() {
                let reason = format!(
                    "with the noise and the bounds that were declared, the {name} could exceed 63 bits"
                );
                return Err(WireError::limit(Limit::Values, reason));
            }
        }
        Ok(())
    }
}

/// The noise of one side in every charge, modulo 2^64. Empty on a side that adds none.
#[derive(Clone, PartialEq, Eq)]
pub struct Noise(Zeroizing<Vec<u64>>);

vesica_primitives::opaque!(Noise);

impl Noise {
    /// Draws the noise of a side, in a time that depends on it. It is for one opening of the numbers of one run, or for every
    /// opening of the very same shares: noise that is drawn anew for these averages out.
    ///
    /// # Errors
    /// `Resource`, with a probability below 2^-100.
    pub fn draw_vartime(
        contract: &Contract,
        role: Role,
        rng: &mut dyn CryptoRng,
    ) -> Result<Noise, WireError> {
        let (scales, groups) = (contract.scales_of(role), contract.numbers_of_charge());
        let mut words = Zeroizing::new(Vec::with_capacity(scales.len() * groups));
        // A number and its count are shared one after the other, for each group.
        let charged = contract.charged();
        let of_number = charged.chunk_by(|_, next| next.is_count);
        let mut rest = &scales[..];
        for count in of_number.map(<[Charged]>::len) {
            let of_number = rest.split_off(..count).unwrap_or_default();
            for scale in of_number.iter().cycle().take(count * groups) {
                let drawn = scale.and_then(|scale| scale.laplace_vartime(rng));
                let drawn =
                    drawn.ok_or_else(|| WireError::limit(Limit::Values, "noise out of range"))?;
                words.push(drawn as u64);
            }
        }
        Ok(Noise(words))
    }

    /// That of a job of tasks, by a secret that was drawn for this job alone: the same for every opening of its total, in every
    /// process and in every copy of what the job keeps. Takes a time that depends on it.
    ///
    /// # Errors
    /// As [`Noise::draw_vartime`].
    pub fn of_job_vartime(
        contract: &Contract,
        role: Role,
        secret: &[u8; 32],
    ) -> Result<Noise, WireError> {
        let seed =
            Zeroizing::new(*blake3::keyed_hash(secret, b"vesica/1 noise of a job").as_bytes());
        Noise::draw_vartime(contract, role, &mut ChaCha20Rng::from_seed(*seed))
    }

    /// Eight bytes for each number of each charge.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Reads what [`Noise::encode`] gives of the noise of a side under this contract; `None` for another length.
    pub fn decode(bytes: &[u8], contract: &Contract, role: Role) -> Option<Noise> {
        let (words, rest) = bytes.as_chunks::<8>();
        let count = contract.noise_of(role).map_or(0, |terms| {
            terms.charges.len() * contract.numbers_of_charge()
        });
        let is_whole = rest.is_empty() && words.len() == count;
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        is_whole.then(|| Noise(Zeroizing::new(words.collect())))
    }

    /// Adds it to the shares of numbers, each with that of its count if that is compared by itself.
    ///
    /// Fails if there are not as many shares.
    pub(crate) fn add_to(&self, shares: &mut [u64]) -> Result<(), WireError> {
        if !self.0.is_empty() && self.0.len() != shares.len() {
            let reason = "the protocol shares other numbers than noise is for";
            return Err(WireError::limit(Limit::Input, reason));
        }
        let pairs = shares.iter_mut().zip(&*self.0);
        pairs.for_each(|(share, noise)| *share = share.wrapping_add(*noise));
        Ok(())
    }
}

/// The noise of a run, which is being drawn on a thread of its own.
pub(crate) struct Drawing(Option<JoinHandle<Result<Noise, WireError>>>);

impl Drawing {
    /// Begins to draw, if this side adds noise.
    pub(crate) fn begin(contract: &Contract, role: Role) -> Result<Drawing, WireError> {
        if contract.noise_of(role).is_none() {
            return Ok(Drawing(None));
        }
        let (contract, mut rng) = (contract.clone(), fresh_rng()?);
        let draw = move || Noise::draw_vartime(&contract, role, &mut rng);
        let thread = thread::Builder::new()
            .name("vesica-noise".into())
            .spawn(draw);
        let thread =
            thread.map_err(|e| WireError::limit(Limit::Threads, format!("no thread: {e}")))?;
        Ok(Drawing(Some(thread)))
    }

    /// The noise, which has been there for long where a protocol has run meanwhile.
    pub(crate) fn drawn(self) -> Result<Noise, WireError> {
        let Some(thread) = self.0 else {
            return Ok(Noise(Zeroizing::default()));
        };
        let ended = || WireError::limit(Limit::Threads, "the thread that draws noise has ended");
        thread.join().unwrap_or_else(|_| Err(ended()))
    }
}

/// What noise does to the numbers of a run, as a report has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseReport {
    /// ε of the receiver, if it adds noise.
    pub receiver_epsilon: Option<Epsilon>,
    /// ε of the sender, if it adds noise.
    pub sender_epsilon: Option<Epsilon>,
    /// Every number, and every count that is compared by itself.
    pub numbers: Vec<NoisyNumber>,
}

/// The noise in one number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoisyNumber {
    /// Its name, or that of its number with `-count` after it.
    pub name: String,
    /// The receiver's noise, if it adds some.
    pub receiver: Option<NoiseScale>,
    /// The sender's noise, if it adds some.
    pub sender: Option<NoiseScale>,
    /// With a probability of 95 % at least the number is no further from the exact one.
    pub half_width: Decimal,
}

/// The noise of one side in one number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseScale {
    /// Its part of ε.
    pub epsilon: Epsilon,
    /// Δ: how much the number can change between neighbours.
    pub sensitivity: Decimal,
    /// Δ/ε, in units of the last digit: a whole number or a fraction.
    pub scale: String,
}

impl NoiseReport {
    /// That of a contract; `None` if nobody adds noise.
    pub fn of(contract: &Contract) -> Option<NoiseReport> {
        let epsilon = |role| contract.noise_of(role).map(|terms| terms.epsilon);
        let sides = [Role::Receiver, Role::Sender].map(|role| contract.scales_of(role));
        let names = contract.charged_names().into_iter();
        let charged = names.zip(contract.charged()).enumerate();
        let numbers = charged.map(|(i, (name, charged))| {
            let [receiver, sender] = sides
                .each_ref()
                .map(|scales| scales.get(i).copied().flatten());
            let digits = contract.digits_of(charged);
            NoisyNumber {
                name,
                receiver: contract.noise_scale(Role::Receiver, (i, charged), receiver),
                sender: contract.noise_scale(Role::Sender, (i, charged), sender),
                half_width: decimal(half_width([receiver, sender]), digits),
            }
        });
        contract.is_noisy().then(|| NoiseReport {
            receiver_epsilon: epsilon(Role::Receiver),
            sender_epsilon: epsilon(Role::Sender),
            numbers: numbers.collect(),
        })
    }
}

/// A line: each side's ε, and how far off each number can be.
impl fmt::Display for NoiseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [
            ("receiver", self.receiver_epsilon),
            ("sender", self.sender_epsilon),
        ];
        let epsilon = |(side, epsilon): (&str, Option<Epsilon>)| {
            Some(format!("epsilon {} of the {side}", epsilon?))
        };
        let sides: Vec<String> = sides.into_iter().filter_map(epsilon).collect();
        let width = |number: &NoisyNumber| format!("{} ±{}", number.name, number.half_width);
        let widths: Vec<String> = self.numbers.iter().map(width).collect();
        write!(f, "{}; 95 % within {}", sides.join(", "), widths.join(", "))
    }
}

impl Contract {
    /// Digits after the decimal point.
    fn digits_of(&self, charged: Charged) -> u8 {
        match charged.counts() {
            true => 0,
            false => value::scale(charged.number, self.values()),
        }
    }

    /// What a report says of the noise of a side in a charge.
    fn noise_scale(
        &self,
        role: Role,
        (i, charged): (usize, Charged),
        scale: Option<Scale>,
    ) -> Option<NoiseScale> {
        let terms = self.noise_of(role)?;
        let sensitivity = self.sensitivity(charged, terms);
        Some(NoiseScale {
            epsilon: terms.charges.get(i)?.epsilon,
            sensitivity: decimal(Some(sensitivity), self.digits_of(charged)),
            scale: scale?.to_string(),
        })
    }
}

/// Half the width of an interval of 95 % for the sum of these noises.
fn half_width(scales: [Option<Scale>; 2]) -> Option<u128> {
    match scales {
        [Some(one), Some(other)] => one
            .half_width_of_two()?
            .checked_add(other.half_width_of_two()?),
        [one, other] => one.or(other)?.half_width(),
    }
}

/// A contract leaves room for all of these.
fn decimal(units: Option<u128>, scale: u8) -> Decimal {
    let units = units.and_then(|units| i128::try_from(units).ok());
    Decimal {
        units: units.unwrap_or(i128::MAX),
        scale,
    }
}

#[cfg(test)]
mod tests;
