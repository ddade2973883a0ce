//! RT21's PSI with an OKVS in place of the polynomial, so that it is linear in n: its appendix B, for measurements.
//!
//! **Paper.** M. Rosulek, N. Trieu, *Compact and Malicious Private Set Intersection for Small Sets*, CCS 2021 (RT21),
//! figure 5 with the first idea of appendix B. The paper leaves the proof to the reader.
//!
//! **Adversary.** Semi-honest, in the random-oracle and ideal-permutation model, under CDH, as figure 5.
//! - *The sender* sees slots. Values are Π⁻¹ of encodings that look uniform, and slots that no key determines are random, so
//!   all slots look uniform whatever the items.
//! - *The receiver* gets a mask H₂(x, secret, Π(f)) for each x of the sender, f being what the slots give at x. Rows of its
//!   own items are independent, so f is one of its own values only where the rows are equal: with probability
//!   n_r·n_s·2^-127, since keys have 128 bits, and rows too ([`LEAST_ITEMS`]). Otherwise f is random, or a sum of several
//!   values, and Π(f) a point whose exponent the receiver does not know.
//!
//! A malicious receiver puts one value v into all slots: what has a row of odd parity then has v. It knows the exponent of
//! Π(v), and tests half of all possible items, however few it declares. So this is for peers that follow the protocol alone,
//! and figure 4 has no such form.
//!
//! **λ.** Three events: masks of different items collide, hashes do, the OKVS cannot be encoded.
//!
//! **Cost.** 256 bits for each slot of a random band, 1.03 slots for each of the receiver's items, where the polynomial has
//! one coefficient.

use rand_core::CryptoRng;
use vesica_encodings::Okvs;
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::compact_dh::{self, KEY};
use vesica_oprf::{Item, ItemCost, LongOutput, Oprf, Outputs, Params, PostQuantum, Spec, halves};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::curve::{EncodedKeys, PlainKey};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::permutation::IdealPermutation;
use vesica_primitives::security::Security;
use vesica_wire::{
    Channel, Error, Frames, Kind, Limit, Misbehaviour, Traffic, recv_rows, send_rows,
};

/// Frames with slots.
pub const SLOTS: Kind = Kind {
    code: 70,
    name: "slots of key-agreement messages",
};

/// The OKVS has room for as many items at least, so that its rows have 128 random bits whatever the receiver's size:
/// with few columns, items of the sender would have the row of one of the receiver's.
pub const LEAST_ITEMS: usize = 128;

/// RT21, figure 5, with an OKVS.
#[derive(Clone, Copy, Debug)]
pub struct CompactOkvs;

/// The public functions of one run.
struct Functions {
    okvs: RandomBand,
    h1: Oracle,
    h2: Oracle,
    permutation: IdealPermutation,
}

impl Functions {
    fn new(params: &Params) -> Self {
        let lambda = params.lambda_each(CompactOkvs::EVENTS);
        Functions {
            okvs: RandomBand::new(
                params.receiver_size.max(LEAST_ITEMS),
                lambda,
                &params.session,
            ),
            h1: Oracle::new("vesica/1 research compact H1", &params.session),
            h2: Oracle::new("vesica/1 research compact H2", &params.session),
            permutation: IdealPermutation::new(&params.session),
        }
    }

    /// H₁ of items: keys of the OKVS.
    fn keys(&self, items: &[Item]) -> Vec<Block> {
        parallel::map_items(items, |item| halves(&self.h1.hash(&[item]))[0])
    }

    fn masks(
        &self,
        items: &[Item],
        secrets: &[[u8; 32]],
        messages: &[[u8; 32]],
    ) -> Vec<LongOutput> {
        let mut masks = vec![[0; 32]; items.len()];
        parallel::each_item(&mut masks, |i, mask| {
            *mask = self.h2.hash(&[&items[i], &secrets[i], &messages[i]]);
        });
        masks
    }

    /// What slots give to each item, as key-agreement messages.
    fn messages(&self, slots: &[[u64; 4]], items: &[Item]) -> Vec<[u8; 32]> {
        let mut values = vec![[0; 4]; items.len()];
        self.okvs.decode(slots, &self.keys(items), &mut values);
        parallel::map_items(&values, |value| {
            let value: [u8; 32] = bytemuck::must_cast(*value);
            self.permutation.apply(&value)
        })
    }
}

impl Oprf for CompactOkvs {
    const OUTPUT_BITS: usize = 256;

    const EVENTS: u32 = compact_dh::EVENTS + 1;

    type Prepared = EncodedKeys;

    fn spec(&self) -> &'static Spec {
        static SPEC: Spec = Spec {
            name: "compact-dh-okvs",
            source: "RT21, figure 5 and appendix B",
            security: Security::SemiHonest,
            exact: None,
            cheaper: None,
            post_quantum: PostQuantum::Never,
            max_items: 1 << 24,
            max_lambda: |_, _| None,
            item_cost: ItemCost {
                bytes: 96,
                aes_blocks: 400_000,
            },
            working_bytes: |receiver_size, sender_size| {
                receiver_size
                    .saturating_add(sender_size)
                    .saturating_mul(300)
            },
        };
        &SPEC
    }

    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> EncodedKeys {
        EncodedKeys::generate(items, rng)
    }

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        let slots = Functions::new(params).okvs.size();
        traffic.exchange([Frames::rows(slots, 32), Frames::rows(1, 32)]);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        keys: EncodedKeys,
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let functions = Functions::new(params);
        let messages = keys.representatives();
        let values = parallel::map_items(messages, |message| {
            bytemuck::must_cast::<[u8; 32], [u64; 4]>(functions.permutation.invert(message))
        });
        let slots = functions
            .okvs
            .encode(&functions.keys(items), &values, &mut Prg::random(rng))
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        send_rows(channel, SLOTS, bytemuck::must_cast_slice(&slots), 32)?;
        let mut public = [0; 32];
        recv_rows(channel, KEY, 32, 1, |row| {
            public.copy_from_slice(row);
            Ok(())
        })?;
        let secrets = keys.agree(&public).map_err(|bad| Misbehaviour::BadValue {
            what: KEY.name,
            problem: bad.problem(),
        })?;
        Ok(Outputs::Long(functions.masks(items, &secrets, messages)))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (functions, key) = (Functions::new(params), PlainKey::generate(rng));
        send_rows(channel, KEY, key.public(), 32)?;
        let mut slots = Vec::with_capacity(functions.okvs.size());
        recv_rows(channel, SLOTS, 32, functions.okvs.size(), |rows| {
            let (rows, _) = rows.as_chunks::<32>();
            slots.extend(
                rows.iter()
                    .map(|row| bytemuck::must_cast::<_, [u64; 4]>(*row)),
            );
            Ok(())
        })?;
        let messages = functions.messages(&slots, items);
        let secrets = key.agree(&messages);
        Ok(Outputs::Long(functions.masks(items, &secrets, &messages)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use vesica_testing::{honest, items, misbehaviour, rng, run_both};
    use vesica_wire::{Spoil, Tamper, memory_pair};

    use super::*;
    use vesica_primitives::security::KeyAgreement;

    fn params(receiver_size: usize, sender_size: usize) -> Params {
        Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size,
            sender_size,
            key_agreement: KeyAgreement::default(),
            session: [3; 32],
        }
    }

    fn long(outputs: Outputs) -> Vec<LongOutput> {
        match outputs {
            Outputs::Long(masks) => masks,
            Outputs::Short { .. } => panic!("short masks"),
        }
    }

    fn masks(ours: &[Item], theirs: &[Item]) -> [Vec<LongOutput>; 2] {
        let params = &params(ours.len(), theirs.len());
        let keys = CompactOkvs.prepare(ours.len(), &mut rng(1));
        let (own, other) = honest(
            |channel| CompactOkvs.receive(channel, params, ours, keys, &mut rng(2)),
            |channel| CompactOkvs.send(channel, params, theirs, &mut rng(3)),
        );
        [own, other].map(long)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn masks_are_equal_for_common_items_alone(
            n_r in 0usize..300,
            n_s in 0usize..300,
            common in 0usize..200,
        ) {
            let common = common.min(n_r).min(n_s);
            let ours = items(1, n_r);
            let theirs = [&ours[..common], &items(2, n_s - common)].concat();
            let [own, other] = masks(&ours, &theirs);
            prop_assert_eq!(&own[..common], &other[..common]);
            let all: HashSet<LongOutput> = own.iter().chain(&other).copied().collect();
            prop_assert_eq!(all.len(), n_r + n_s - common);
        }
    }

    #[test]
    fn rows_have_enough_bits_for_few_items() {
        for items in [0, 1, 127, 128, 1000] {
            let okvs = Functions::new(&params(items, 5)).okvs;
            assert!(okvs.parameters().width >= 128, "{items}");
        }
    }

    /// What the module says of a receiver that does not follow the protocol.
    #[test]
    fn one_value_in_all_slots_tests_half_of_the_senders_items() {
        let (theirs, params) = (items(5, 400), params(1, 400));
        let keys = EncodedKeys::generate(1, &mut rng(4));
        let functions = Functions::new(&params);
        let message = keys.representatives()[0];
        let value: [u64; 4] = bytemuck::must_cast(functions.permutation.invert(&message));
        let (public, sent) = honest(
            |channel| {
                let slots = vec![value; functions.okvs.size()];
                send_rows(channel, SLOTS, bytemuck::must_cast_slice(&slots), 32)?;
                let mut public = [0; 32];
                recv_rows(channel, KEY, 32, 1, |row| {
                    public.copy_from_slice(row);
                    Ok(())
                })?;
                Ok::<_, Error>(public)
            },
            |channel| CompactOkvs.send(channel, &params, &theirs, &mut rng(3)),
        );
        let sent: HashSet<LongOutput> = long(sent).into_iter().collect();
        let secret = keys.agree(&public).unwrap()[0];
        let guess = |item: &&Item| {
            let mask = functions.masks(&[**item], &[secret], &[message]);
            sent.contains(&mask[0])
        };
        let found = theirs.iter().filter(guess).count();
        assert!((150..250).contains(&found), "{found}");
        assert_eq!(items(6, 400).iter().filter(guess).count(), 0);
    }

    #[test]
    fn slots_and_keys_of_another_form_are_refused() {
        let (ours, theirs, params) = (items(1, 30), items(2, 20), params(30, 20));
        let both = |[receiver, sender]: [Spoil; 2]| {
            let (near, far) = memory_pair();
            let channels = (Tamper::new(near, 0, receiver), Tamper::new(far, 0, sender));
            let keys = CompactOkvs.prepare(30, &mut rng(1));
            run_both(
                channels,
                |channel| {
                    let run = CompactOkvs.receive(channel, &params, &ours, keys, &mut rng(2));
                    run.inspect_err(|error| channel.abort(error))
                },
                |channel| {
                    let run = CompactOkvs.send(channel, &params, &theirs, &mut rng(3));
                    run.inspect_err(|error| channel.abort(error))
                },
            )
        };
        let slots = 32 * Functions::new(&params).okvs.size();
        let (_, sender) = both([Spoil::Truncate(32), Spoil::Truncate(0)]);
        let short = Misbehaviour::WrongLength {
            what: SLOTS.name,
            bytes: slots - 32,
        };
        assert_eq!(misbehaviour(sender), short);
        // A point of low order.
        let (receiver, _) = both([Spoil::Truncate(0), Spoil::Replace(vec![0; 32])]);
        assert!(
            matches!(misbehaviour(receiver), Misbehaviour::BadValue { what, .. } if what == KEY.name)
        );
    }
}
