//! Plain PSI from an OPRF: each side has F of its items, and the masks are compared.

use rand_core::CryptoRng;
use vesica_oprf::{Item, Oprf, Outputs, Params, Spec};
use vesica_wire::{Channel, End, Error, Traffic};

use super::Exchange;
use super::labels::{self, Opening, Sealing};
use super::order::reordered;
use crate::{Input, Output, Prepared, Protocol, Reveal, Security, Task};

/// The protocol made of an OPRF and the mask exchange.
pub struct MaskExchange<O>(pub O);

/// Bits of a mask.
///
/// Where the sender may be malicious: [`Oprf::mask_bits`]. Semi-honest: so many that some pair of masks of different
/// items collides with probability at most the masks' share of 2^-λ (RT21, section A.1).
pub fn width<O: Oprf>(params: &Params) -> usize {
    let bits = match params.security {
        Security::MaliciousSender | Security::Malicious => O::mask_bits(params),
        Security::SemiHonest => params.collision_bits(O::mask_share(params), O::OUTPUTS_PER_ITEM),
    };
    bits as usize
}

impl<O: Oprf> MaskExchange<O> {
    fn exchange(params: &Params, task: &Task) -> Exchange {
        assert!(
            task.reveal == Reveal::Matches && task.min_size == 0,
            "{task:?}"
        );
        Exchange {
            width: width::<O>(params),
            sender_size: params.sender_size,
            masks_per_item: O::OUTPUTS_PER_ITEM,
            receiver_size: params.receiver_size,
            both: task.both,
        }
    }
}

/// Translates flags of masks into flags of items: `numbers[i]` is the index of the item of mask `i`. The time
/// does not depend on the flags.
pub(super) fn renumbered(matched: &[bool], numbers: &[u32]) -> Vec<bool> {
    reordered(matched, |i| numbers[i])
}

impl Exchange {
    /// The receiver's exchange: returns for each of its items whether it matched.
    fn own_matches(
        &self,
        channel: &mut dyn Channel,
        session: &[u8; 32],
        items: &[Item],
        own: &Outputs,
        labels: Option<&mut Opening<'_>>,
    ) -> Result<Vec<bool>, Error> {
        match (own, self.masks_per_item) {
            (Outputs::Long(values), 1) => self.receive_bytes_labelled(channel, values, labels),
            (Outputs::Short { values, numbers }, 1) => {
                let matched = self.receive_labelled(channel, values, labels)?;
                Ok(renumbered(&matched, numbers))
            }
            (Outputs::Short { values, numbers }, _) => {
                self.receive_several(channel, session, items, values, numbers, labels)
            }
            (Outputs::Long(_), _) => panic!("several long outputs per item"),
        }
    }

    /// The sender's exchange: returns for each of its items whether it matched, if it is told.
    fn told_matches(
        &self,
        channel: &mut dyn Channel,
        session: &[u8; 32],
        items: &[Item],
        own: Outputs,
        labels: Option<&Sealing<'_>>,
    ) -> Result<Option<Vec<bool>>, Error> {
        match (own, self.masks_per_item) {
            (Outputs::Long(values), 1) => self.send_bytes_labelled(channel, &values, labels),
            (Outputs::Short { values, numbers }, 1) => {
                let matches = self.send_labelled(channel, &values, labels)?;
                Ok(matches.map(|matches| renumbered(&matches, &numbers)))
            }
            (Outputs::Short { values, numbers }, _) => {
                drop(numbers);
                self.send_several(channel, session, items, values, labels)
            }
            (Outputs::Long(_), _) => panic!("several long outputs per item"),
        }
    }
}

impl<O: Oprf> Protocol for MaskExchange<O> {
    fn spec(&self) -> &'static Spec {
        self.0.spec()
    }

    fn reveals(&self) -> &'static [Reveal] {
        &[Reveal::Matches]
    }

    fn labels_per_item(&self) -> Option<u64> {
        Some(O::OUTPUTS_PER_ITEM as u64)
    }

    fn traffic(&self, params: &Params, task: &Task, _: Option<u32>, _: bool) -> Option<Traffic> {
        let mut traffic = Traffic::default();
        self.0.traffic(params, &mut traffic);
        let exchange = Self::exchange(params, task);
        let masks = exchange.frames();
        traffic.flow(End::Sender, masks + exchange.labels(task.label_bytes));
        traffic.flow(End::Receiver, exchange.told());
        Some(traffic)
    }

    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Prepared {
        Prepared::new(self.0.prepare(items, rng))
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        assert_eq!(input.items.len(), params.receiver_size);
        let exchange = Self::exchange(params, task);
        let own = self
            .0
            .receive(channel, params, input.items, prepared.take(), rng)?;
        channel.begin_phase("masks");
        let (session, items) = (&params.session, input.items);
        if task.label_bytes == 0 {
            let matched = exchange.own_matches(channel, session, items, &own, None)?;
            channel.flush()?;
            return Ok(Output::Matches(matched));
        }
        let masks = labels::masks(session, items, &own);
        let mut labels = Opening::new(session, items, &own, task.label_bytes);
        let matched = exchange.own_matches(channel, session, items, &masks, Some(&mut labels))?;
        channel.flush()?;
        let labels = labels.of(&matched);
        let bytes = task.label_bytes;
        Ok(Output::Labelled {
            matched,
            labels,
            bytes,
        })
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        _: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        assert_eq!(input.items.len(), params.sender_size);
        let exchange = Self::exchange(params, task);
        let own = self.0.send(channel, params, input.items, rng)?;
        channel.begin_phase("masks");
        let (session, items) = (&params.session, input.items);
        let matches = match (input.labels, task.label_bytes) {
            (None, 0) => exchange.told_matches(channel, session, items, own, None)?,
            (Some(labels), bytes) => {
                let masks = labels::masks(session, items, &own);
                let labels = Sealing::new(session, items, &own, labels, bytes);
                exchange.told_matches(channel, session, items, masks, Some(&labels))?
            }
            (None, _) => panic!("a task with labels, and none"),
        };
        channel.flush()?;
        Ok(matches.map_or(Output::Nothing, Output::Matches))
    }
}
