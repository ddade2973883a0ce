//! What both sides know of the groups into which the receiver divides its keys.

use serde::{Deserialize, Serialize};
use vesica_files::many;
use vesica_psi::{GroupMinimum, MAX_GROUPS, MAX_HIDDEN_GROUPS};
use vesica_wire::Error as WireError;

use crate::codec::{Reader, bad};

/// What contracts and errors call them.
pub(crate) const GROUPS: &str = "groups";

/// Why there cannot be so many groups.
pub(crate) fn count_problem(count: usize, is_hidden: bool, columns: usize) -> Option<String> {
    if !(1..=MAX_GROUPS).contains(&count) {
        return Some(format!("{count} groups; 1 to {MAX_GROUPS} are possible"));
    }
    if is_hidden && count * columns > MAX_HIDDEN_GROUPS {
        let most = MAX_HIDDEN_GROUPS / columns;
        let of = match columns {
            1 => String::new(),
            _ => format!(" of {}", many(columns as u64, "column")),
        };
        return Some(format!(
            "{count} groups{of} with hidden sizes, of which there can be {most}: have sizes told or padded, or name fewer groups"
        ));
    }
    None
}

/// What both sides know of the receiver's groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTerms {
    /// How many there are.
    pub count: u32,
    /// What a minimum withholds.
    pub minimum: GroupMinimum,
    /// The most keys of each; `None` if the sender does not learn that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<u64>>,
    /// Whether these are not how many keys each has.
    pub is_padded: bool,
    /// Whether some keys are in no group, where sizes are told or padded.
    pub has_rest: bool,
}

impl GroupTerms {
    /// A code, and what there is.
    pub(crate) fn put(groups: Option<&GroupTerms>, out: &mut Vec<u8>) {
        let Some(groups) = groups else {
            out.push(0);
            return;
        };
        let sizes = match &groups.sizes {
            None => &[],
            Some(sizes) if groups.is_padded => &sizes[..1],
            Some(sizes) => &sizes[..],
        };
        out.push(match (&groups.sizes, groups.is_padded) {
            (None, _) => 1,
            (Some(_), false) => 2,
            (Some(_), true) => 3,
        });
        out.push(match groups.minimum {
            GroupMinimum::Each => 1,
            GroupMinimum::All => 2,
        });
        out.push(groups.has_rest.into());
        out.extend_from_slice(&(groups.count as u16).to_le_bytes());
        for size in sizes {
            out.extend_from_slice(&size.to_le_bytes());
        }
    }

    /// What [`GroupTerms::put`] has written.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<GroupTerms>, WireError> {
        let code = reader.u8()?;
        if code == 0 {
            return Ok(None);
        }
        let minimum = match reader.u8()? {
            1 => GroupMinimum::Each,
            2 => GroupMinimum::All,
            _ => return Err(bad(GROUPS, "unknown code")),
        };
        let has_rest = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(bad(GROUPS, "unknown code")),
        };
        let count = usize::from(reader.u16()?);
        if !(1..=MAX_GROUPS).contains(&count) {
            return Err(bad(GROUPS, "too many, or none"));
        }
        let sizes = match code {
            1 => None,
            2 => Some(
                (0..count)
                    .map(|_| reader.u64())
                    .collect::<Result<Vec<u64>, _>>()?,
            ),
            3 => Some(vec![reader.u64()?; count]),
            _ => return Err(bad(GROUPS, "unknown code")),
        };
        let is_padded = code == 3;
        if sizes.is_none() && has_rest {
            return Err(bad(GROUPS, "more than their number"));
        }
        if sizes.iter().any(|sizes| !sizes.is_sorted_by(|a, b| a >= b)) {
            return Err(bad(GROUPS, "sizes in another order"));
        }
        Ok(Some(GroupTerms {
            count: count as u32,
            minimum,
            sizes,
            is_padded,
            has_rest,
        }))
    }

    /// The most keys of each, of a set of so many; `None` if the sender does not learn that.
    pub(crate) fn room(&self, keys: u64) -> Option<impl Iterator<Item = u64>> {
        let sizes = self.sizes.as_ref()?;
        Some(sizes.iter().map(move |size| *size.min(&keys)))
    }

    /// The keys of all groups at most, and those in none, of a set of so many; `None` if the sender does not learn that.
    pub(crate) fn wires(&self, keys: u64) -> Option<[u64; 2]> {
        let all = self.room(keys)?.fold(0u64, u64::saturating_add);
        let rest = match (self.has_rest, self.is_padded) {
            (false, _) => 0,
            (true, true) => keys,
            (true, false) => keys.saturating_sub(all),
        };
        Some([all, rest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: Option<(Vec<u64>, bool)>, has_rest: bool) -> GroupTerms {
        let is_padded = sizes.as_ref().is_some_and(|(_, is_padded)| *is_padded);
        GroupTerms {
            count: 4,
            minimum: GroupMinimum::All,
            sizes: sizes.map(|(sizes, _)| sizes),
            is_padded,
            has_rest,
        }
    }

    #[test]
    fn terms_come_back_from_the_wire_and_nonsense_does_not() {
        for sizes in [
            None,
            Some((vec![9, 2, 2, 0], false)),
            Some((vec![9; 4], true)),
        ] {
            for has_rest in [false, sizes.is_some()] {
                let terms = of(sizes.clone(), has_rest);
                let mut out = Vec::new();
                GroupTerms::put(Some(&terms), &mut out);
                let mut reader = Reader::new(GROUPS, &out);
                assert_eq!(GroupTerms::read(&mut reader).unwrap(), Some(terms));
                reader.end().unwrap();
                for length in 0..out.len() {
                    assert!(GroupTerms::read(&mut Reader::new(GROUPS, &out[..length])).is_err());
                }
                for (at, byte) in [(0, 4), (1, 0), (1, 3), (2, 2), (4, 9)] {
                    let mut other = out.clone();
                    other[at] = byte;
                    assert!(
                        GroupTerms::read(&mut Reader::new(GROUPS, &other)).is_err(),
                        "{at}"
                    );
                }
            }
        }
        // Of hidden groups nothing is said but how many there are.
        let mut out = Vec::new();
        GroupTerms::put(Some(&of(None, true)), &mut out);
        assert!(GroupTerms::read(&mut Reader::new(GROUPS, &out)).is_err());
        let mut none = Vec::new();
        GroupTerms::put(None, &mut none);
        assert_eq!(
            GroupTerms::read(&mut Reader::new(GROUPS, &none)).unwrap(),
            None
        );
        // Sizes in the order of names would tell more than sizes.
        let terms = of(Some((vec![2, 9, 2, 0], false)), false);
        let mut out = Vec::new();
        GroupTerms::put(Some(&terms), &mut out);
        assert!(GroupTerms::read(&mut Reader::new(GROUPS, &out)).is_err());
    }
}
