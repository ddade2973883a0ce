//! What LTSXQ26's circuit PSI over its own masks gives away: the sender's secret s, its items that the receiver can guess,
//! and with them which items of the receiver's match. A circuit has to hide all of these.
//!
//! The receiver follows figure 17 and keeps what it saw. No mask is sent, but in each bin all targets of the sender's are
//! one string r_i, and what the OKVS holds at a key is r_i under that key's mask. So in a bin where an item of the
//! receiver's matches, the receiver has r_i, and tests the other candidates of the bin against it: 2^w trials, where w is
//! the number of ones in Δ ([`attack`](crate::attack)). Whether its item matches it need not know: if not, no trial hits.
//! A hit reveals w bits of s, and so on, until s is known. Then two items of a bin that lead to one string are both the
//! sender's.

use std::collections::{HashMap, HashSet};

use rand_core::CryptoRng;
use vesica_encodings::cuckoo;
use vesica_oprf::programmable::bins::{self, HASHES, ReceiverBins, SenderBins};
use vesica_oprf::programmable::{Key, OKVS, Opprf, Points, Queries, Shape, Split, Target, slots};
use vesica_oprf::sparse::BitFunction;
use vesica_oprf::{Item, Output, Params};
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error};

use crate::attack::{Found, Run, Test, View, search};
use crate::narrow_circuit::{NarrowBatch, WholeOkvsHint, filled, of_bins, point};
use crate::okvs_message::ArrangedOkvs;
use crate::paper_width::Figure;

/// What both parties know of a run of figure 17.
#[derive(Clone, Debug)]
pub struct Circuit {
    params: Params,
    table: cuckoo::Parameters,
    shape: Shape,
}

impl Circuit {
    /// Each event has all of 2^-λ, as in the paper, and r_i has λ + ⌈log₂ m⌉ bits.
    pub fn new(params: &Params) -> Self {
        let lambda = params.lambda;
        let table = bins::table(params.receiver_size, lambda);
        let tag_bits = lambda + table.bins.next_power_of_two().ilog2();
        Circuit {
            params: params.clone(),
            table,
            shape: Shape {
                params: Params {
                    sender_size: HASHES * params.sender_size,
                    ..params.clone()
                },
                bins: table.bins,
                payload_bits: 0,
                split: Split {
                    oprf: lambda,
                    hint: lambda,
                    tag_bits,
                },
            },
        }
    }

    /// Bits of r_i.
    pub fn tag_bits(&self) -> u32 {
        self.shape.split.tag_bits
    }

    /// The parameters of figure 14 in this run.
    fn of_masks(&self) -> Params {
        let session = &self.params.session;
        let params = Params {
            lambda: self.shape.split.oprf,
            session: Oracle::new("vesica/1 opprf oprf", session).hash(&[]),
            ..self.shape.params.clone()
        };
        of_bins(&params, self.shape.bins)
    }

    /// The points of any number of items.
    fn bins_of(&self, items: &[Item]) -> SenderBins {
        let params = Params {
            sender_size: items.len(),
            ..self.params.clone()
        };
        SenderBins::new(&params, self.table, items)
    }

    /// The sender, up to the circuit.
    ///
    /// # Errors
    /// The channel's, and those of encodings.
    pub fn send<K: ArrangedOkvs, F: BitFunction>(
        &self,
        channel: &mut dyn Channel,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let opprf = Opprf::<NarrowBatch<K, F>, WholeOkvsHint<K>>::default();
        let tags = opprf.random_tags(&self.shape, rng);
        let target = |bin: usize, _: usize, _: usize| Target {
            tag: tags[bin],
            payload: 0,
        };
        let points = self.bins_of(items).points;
        opprf.send(channel, &self.shape, &points, &target, rng)
    }

    /// A receiver that follows the protocol up to the circuit and keeps what it saw.
    ///
    /// # Errors
    /// Those of an honest receiver.
    pub fn follow<K: ArrangedOkvs, F: BitFunction>(
        &self,
        channel: &mut dyn Channel,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<CircuitView<K, F>, Error> {
        let own = ReceiverBins::new(&self.params, self.table, items)?;
        let (params, run) = (self.of_masks(), Run::Paper(Figure::SemiHonest));
        let keys = filled(&own.queries, rng);
        let masks = View::follow(channel, &params, run, &keys, rng)?;
        let size = WholeOkvsHint::<K>::okvs(&self.shape).size();
        Ok(CircuitView {
            circuit: self.clone(),
            masks,
            hint: slots::recv(channel, OKVS, size, self.tag_bits())?,
            own,
        })
    }
}

/// What a receiver has seen.
pub struct CircuitView<K, F> {
    circuit: Circuit,
    masks: View<K, 2, F>,
    hint: Vec<[u64; 1]>,
    own: ReceiverBins,
}

/// What [`CircuitView::recover`] has found.
pub struct CircuitFound {
    /// What the search for s has found; its items are numbers of points.
    pub search: Found,
    /// The numbers of the candidates that the sender holds, ascending.
    pub items: Vec<u32>,
    /// The numbers of the receiver's own items that match, ascending.
    pub matches: Vec<u32>,
}

/// A string of a bin, found or guessed.
struct Strings<'a> {
    pads: Oracle,
    unused: u32,
    bins: &'a [usize],
    /// What the hint holds at each point.
    hidden: Vec<[u64; 1]>,
    /// The receiver's string of each bin that has one.
    own: &'a HashMap<usize, u64>,
}

impl Strings<'_> {
    /// What these outputs, all of one point, lead to.
    fn of(&self, number: u32, outputs: &[Output]) -> Vec<u64> {
        let number = number as usize;
        let bin = self.bins[number] as u64;
        let inputs: Vec<[u8; 32]> = outputs
            .iter()
            .map(|[a, b]| bytemuck::must_cast([*a, *b, bin, 0]))
            .collect();
        let mut pads = vec![[0; 32]; outputs.len()];
        self.pads.hash_many(&inputs, &mut pads);
        let [hidden] = self.hidden[number];
        let first = |pad: &[u8; 32]| bytemuck::must_cast::<_, [u64; 4]>(*pad)[0];
        let strings = pads.iter().map(|pad| first(pad) ^ hidden);
        strings
            .map(|string| string << self.unused >> self.unused)
            .collect()
    }
}

impl Test for Strings<'_> {
    fn first(&self, number: u32, outputs: &[Output]) -> Option<usize> {
        let own = self.own.get(&self.bins[number as usize])?;
        self.of(number, outputs)
            .iter()
            .position(|string| string == own)
    }
}

impl<K: ArrangedOkvs, F: BitFunction> CircuitView<K, F> {
    /// Bits of s.
    pub fn columns(&self) -> usize {
        self.masks.columns()
    }

    fn strings<'a>(
        &self,
        keys: &[Key],
        bins: &'a [usize],
        own: &'a HashMap<usize, u64>,
    ) -> Strings<'a> {
        let shape = &self.circuit.shape;
        let points: Vec<Block> = keys.iter().map(point).collect();
        let mut hidden = vec![[0]; points.len()];
        WholeOkvsHint::<K>::okvs(shape).decode(&self.hint, &points, &mut hidden);
        Strings {
            pads: Oracle::new("vesica/1 opprf pad", &shape.params.session),
            unused: u64::BITS - self.circuit.tag_bits(),
            bins,
            hidden,
            own,
        }
    }

    /// The receiver's string of each bin with an item: r_i if it matches.
    fn own_strings(&self) -> HashMap<usize, u64> {
        let queries: &Queries = &self.own.queries;
        let bins: Vec<usize> = queries.at().iter().map(|bin| *bin as usize).collect();
        let nothing = HashMap::new();
        let strings = self.strings(queries.keys(), &bins, &nothing);
        let (rows, _) = self.masks.rows(queries.keys());
        let outputs = self.masks.outputs(&rows, |i| &queries.keys()[i]);
        let all = (0..).zip(&outputs).zip(&bins);
        all.map(|((number, output), bin)| (*bin, strings.of(number, &[*output])[0]))
            .collect()
    }

    /// Recovers s, which candidates the sender holds, and which of the receiver's `items` match. Gives up before a point
    /// for which more than 2^`most` trials would be needed.
    pub fn recover(&self, items: &[Item], candidates: &[Item], most: u32) -> CircuitFound {
        let SenderBins { table, points } = self.circuit.bins_of(candidates);
        let keys = points.keys();
        let bins: Vec<usize> = (0..points.len())
            .map(|point| points.bin_of(point))
            .collect();
        let own = self.own_strings();
        let strings = self.strings(keys, &bins, &own);
        let asked = |number: &u32| self.is_asked(&points, *number as usize);
        let testable = |number: &u32| own.contains_key(&bins[*number as usize]) && !asked(number);
        let numbers = (0..points.len() as u32).filter(testable);
        let search = search(&self.masks, &strings, keys, numbers.collect(), most);

        // With s, each point leads to a string.
        let (mut rows, delta) = self.masks.rows(keys);
        for (row, delta) in rows.iter_mut().zip(&delta) {
            for (j, word) in row.iter_mut().enumerate() {
                *word ^= delta[j] & search.s[j];
            }
        }
        let outputs = self.masks.outputs(&rows, |i| &keys[i]);
        let mut holders: HashMap<(usize, u64), Vec<u32>> = HashMap::new();
        for (number, output) in (0..).zip(&outputs) {
            let point = number as usize;
            let is_open = (0..delta[point].len()).any(|j| delta[point][j] & !search.known[j] != 0);
            if !is_open && !asked(&number) {
                let string = strings.of(number, &[*output])[0];
                let item = table.entries()[point].item() as u32;
                holders.entry((bins[point], string)).or_default().push(item);
            }
        }
        let (mut held, mut matches) = (Vec::new(), Vec::new());
        for ((bin, string), items) in &holders {
            let is_own = own.get(bin) == Some(string);
            if items.len() + usize::from(is_own) > 1 {
                held.extend(items);
            }
            if is_own {
                matches.extend(self.own.table.bin(*bin).map(|entry| entry.item() as u32));
            }
        }
        let found: HashSet<&Item> = held.iter().map(|i| &candidates[*i as usize]).collect();
        let others = (0..).zip(items).filter(|(_, item)| found.contains(item));
        matches.extend(others.map(|(number, _)| number));
        for list in [&mut held, &mut matches] {
            list.sort_unstable();
            list.dedup();
        }
        CircuitFound {
            search,
            items: held,
            matches,
        }
    }

    /// Whether a point is what the receiver has asked for in its bin: its string is the receiver's in any case.
    fn is_asked(&self, points: &Points, number: usize) -> bool {
        let queries = &self.own.queries;
        let place = queries.at().binary_search(&(points.bin_of(number) as u32));
        place.is_ok_and(|place| queries.keys()[place] == points.keys()[number])
    }
}
