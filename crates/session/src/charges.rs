//! What a side asks for where it adds noise to numbers, and how its ε is divided among them.

use serde::{Deserialize, Serialize};
use vesica_primitives::laplace::Epsilon;
use vesica_psi::MAX_VALUE_COLUMNS;
use vesica_wire::Error as WireError;

use crate::codec::{Reader, bad, impossible, put_name};

/// Maximum number of charges of a run: a size, and sums with a count each.
pub(crate) const MAX_CHARGES: usize = 1 + 2 * MAX_VALUE_COLUMNS;
/// Longest name of a charge, in bytes.
pub(crate) const MAX_CHARGE_NAME: usize = 32;

/// The noise that a side asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseRequest {
    /// What all numbers of the run take together.
    pub epsilon: Epsilon,
    /// How it is divided: the name of each number, and its share of all shares that are named. Counts that are compared with a
    /// minimum have the name of their number with `-count` after it. Evenly if nothing is named.
    pub split: Vec<(String, u32)>,
}

impl NoiseRequest {
    /// The problem with this request, whatever is revealed.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let is_name = |name: &str| {
            (1..=MAX_CHARGE_NAME).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let mut named = self.split.iter().enumerate();
        if self.split.len() > MAX_CHARGES {
            Some("more shares than there can be numbers")
        } else if named.any(|(i, (name, _))| self.split[..i].iter().any(|(other, _)| name == other))
        {
            Some("a number is named twice")
        } else if self
            .split
            .iter()
            .any(|(name, share)| !is_name(name) || *share == 0)
        {
            Some("a share is the name of a number, and a whole number above 0")
        } else {
            None
        }
    }

    /// A code, and what there is: ε in millionths, and each share.
    pub(crate) fn put(request: Option<&NoiseRequest>, is_padded: bool, out: &mut Vec<u8>) {
        let Some(NoiseRequest { epsilon, split }) = request else {
            out.push(0);
            return;
        };
        out.push(1 + u8::from(is_padded));
        out.extend_from_slice(&epsilon.millionths().to_le_bytes());
        out.push(split.len() as u8);
        for (name, share) in split {
            put_name(out, name);
            out.extend_from_slice(&share.to_le_bytes());
        }
    }

    /// What [`NoiseRequest::put`] has written.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<(Option<NoiseRequest>, bool), WireError> {
        let is_padded = match reader.u8()? {
            0 => return Ok((None, false)),
            1 => false,
            2 => true,
            _ => return Err(bad(NOISE, "unknown code")),
        };
        let epsilon = Epsilon::from_millionths(reader.u32()?);
        let epsilon = epsilon.ok_or_else(|| bad(NOISE, "out of range"))?;
        let count = reader.u8()?;
        if usize::from(count) > MAX_CHARGES {
            return Err(bad(NOISE, "too many shares"));
        }
        let share = |_| Ok((reader.name(NOISE)?.to_owned(), reader.u32()?));
        let split = (0..count).map(share).collect::<Result<_, WireError>>()?;
        let request = NoiseRequest { epsilon, split };
        match request.problem() {
            Some(problem) => Err(bad(NOISE, problem)),
            None => Ok((Some(request), is_padded)),
        }
    }
}

/// What messages and errors call it.
pub(crate) const NOISE: &str = "noise";

/// The noise of one side that both have agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseTerms {
    /// What all numbers of the run take together.
    pub epsilon: Epsilon,
    /// What each takes, in the order of the numbers, each followed by its count if that is compared by itself.
    pub charges: Vec<Charge>,
    /// Whether the side pads its set to the declared size, so that neighbours have one key more.
    pub is_padded: bool,
}

/// A part of ε.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The number, or the count, that it is for.
    pub name: String,
    /// The part.
    pub epsilon: Epsilon,
}

impl NoiseTerms {
    /// Divides what a side asks for among what is charged, which has these names.
    pub(crate) fn new(
        request: &NoiseRequest,
        is_padded: bool,
        names: Vec<String>,
    ) -> Result<NoiseTerms, WireError> {
        let NoiseRequest { epsilon, split } = request;
        let weight = |name: &String| {
            let share = split.iter().find(|(named, _)| named == name);
            share.map_or(u32::from(split.is_empty()), |(_, share)| *share)
        };
        let weights: Vec<u32> = names.iter().map(weight).collect();
        if !split.is_empty() && (split.len() != names.len() || weights.contains(&0)) {
            let problem = format!(
                "epsilon is to be divided among {}, and each needs a share",
                names.join(", ")
            );
            return Err(impossible(NOISE, problem));
        }
        let parts = epsilon.split(&weights).ok_or_else(|| {
            let problem = format!(
                "an epsilon of {epsilon} is too small to be divided among {}",
                names.join(", ")
            );
            impossible(NOISE, problem)
        })?;
        let charges = names.into_iter().zip(parts);
        Ok(NoiseTerms {
            epsilon: *epsilon,
            charges: charges
                .map(|(name, epsilon)| Charge { name, epsilon })
                .collect(),
            is_padded,
        })
    }

    /// Appends what the contract's digest covers.
    pub(crate) fn put(terms: Option<&NoiseTerms>, out: &mut Vec<u8>) {
        let Some(terms) = terms else {
            out.push(0);
            return;
        };
        out.push(1 + u8::from(terms.is_padded));
        out.extend_from_slice(&terms.epsilon.millionths().to_le_bytes());
        out.push(terms.charges.len() as u8);
        for Charge { name, epsilon } in &terms.charges {
            put_name(out, name);
            out.extend_from_slice(&epsilon.millionths().to_le_bytes());
        }
    }
}
