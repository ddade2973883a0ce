//! How many keys are in each group.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::layout::{Labels, Layout};

/// For each group the label of its keys, without the zeros at its end, and how many they are. Empty if labels do not say groups.
#[derive(Default)]
pub(crate) struct KeysOfGroups {
    found: BTreeMap<Vec<u8>, u64>,
    /// The most groups, and bytes of a label.
    of: Option<(usize, usize)>,
}

impl KeysOfGroups {
    /// None yet.
    pub(crate) fn new(layout: &Layout) -> KeysOfGroups {
        let of = match layout.labels {
            Labels::Group(most) => Some((most, layout.label)),
            Labels::Same | Labels::Slots(_) => None,
        };
        KeysOfGroups {
            found: BTreeMap::new(),
            of,
        }
    }

    /// Adds what goes with a key.
    pub(crate) fn add(&mut self, beside: &[u8]) -> Result<()> {
        let Some((_, bytes)) = self.of else {
            return Ok(());
        };
        let label = &beside[..bytes];
        let end = label
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        match self.found.get_mut(&label[..end]) {
            _ if end == 0 => Ok(()),
            Some(keys) => {
                *keys += 1;
                Ok(())
            }
            None => self.put(label[..end].to_vec(), 1),
        }
    }

    /// The same with those of other keys.
    pub(crate) fn and(mut self, others: KeysOfGroups) -> Result<KeysOfGroups> {
        for (label, keys) in others.found {
            self.put(label, keys)?;
        }
        Ok(self)
    }

    fn put(&mut self, label: Vec<u8>, keys: u64) -> Result<()> {
        *self.found.entry(label).or_default() += keys;
        match self.of {
            Some((limit, _)) if self.found.len() > limit => Err(Error::TooManyGroups { limit }),
            _ => Ok(()),
        }
    }

    /// Each label, in order, and how many keys have it.
    pub(crate) fn found(&self) -> &BTreeMap<Vec<u8>, u64> {
        &self.found
    }
}
