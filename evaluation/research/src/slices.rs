//! One long polynomial in slices, sent as they are known, with one tree for all: what each of these saves.
//!
//! PRTY19, section 5.2 and figure 8: a party interpolates ℓ bits at n points, another one evaluates them at n points of its
//! own. The figure begins with one slice of all ℓ = 512 bits. Here it begins with two of 256: there is no wider field.

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_oprf::width::width;
use vesica_primitives::polynomial::{Evaluator, Field, Gf2k, Interpolator, Tower};
use vesica_wire::{Error, PhaseTraffic};

use crate::runs::{Comparison, Run};

/// λ of the width.
const LAMBDA: u32 = 40;

/// A way to interpolate and evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Slices of a fourth of ℓ, instead of as few as there are fields for.
    pub four: bool,
    /// Whether what depends on the points alone is computed once.
    pub reuse: bool,
    /// Whether a slice is sent as soon as it is known.
    pub stream: bool,
}

/// The figure's three, and one tree without streaming.
pub static WAYS: [(&str, Way); 5] = [
    ("slices of 256 bits", way(false, false, false)),
    ("four slices", way(true, false, false)),
    ("four slices, streamed", way(true, false, true)),
    ("four slices, one tree", way(true, true, false)),
    ("four slices, streamed, one tree", way(true, true, true)),
];

const fn way(four: bool, reuse: bool, stream: bool) -> Way {
    Way {
        four,
        reuse,
        stream,
    }
}

/// Points and slices of either party.
pub enum Input {
    /// Over GF(2^256).
    Wide(Slices<Tower>),
    /// Over a field of a fourth of ℓ.
    Narrow(Slices<Gf2k>),
}

/// Points of both parties and the slices at the interpolating party's.
pub struct Slices<F: Field> {
    field: F,
    points: Vec<F::Element>,
    others: Vec<F::Element>,
    slices: Vec<Vec<F::Element>>,
}

impl Input {
    /// Random points and values for 2^`log` items.
    pub fn random(log: u32, way: Way) -> Input {
        let (n, columns) = (1usize << log, width(1 << log, LAMBDA));
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        match way.four {
            false => {
                let mut wide = || {
                    let mut elements = vec![[0u64; 4]; n];
                    rng.fill_bytes(bytemuck::must_cast_slice_mut(&mut elements));
                    elements
                };
                Input::Wide(Slices {
                    field: Tower::new(log),
                    points: wide(),
                    others: wide(),
                    slices: (0..columns.div_ceil(256)).map(|_| wide()).collect(),
                })
            }
            true => {
                let bits = columns.div_ceil(4) as u32;
                let mut narrow = || {
                    let mut elements = vec![0u128; n];
                    rng.fill_bytes(bytemuck::must_cast_slice_mut(&mut elements));
                    elements.iter_mut().for_each(|e| *e >>= 128 - bits);
                    elements
                };
                Input::Narrow(Slices {
                    field: Gf2k::new(bits),
                    points: narrow(),
                    others: narrow(),
                    slices: (0..4).map(|_| narrow()).collect(),
                })
            }
        }
    }

    /// Interpolates every slice on one thread and evaluates it on another.
    pub fn run(&self, way: Way) {
        match self {
            Input::Wide(slices) => slices.run(way),
            Input::Narrow(slices) => slices.run(way),
        }
    }
}

/// A pool of one thread.
fn pool() -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    builder.build().expect("a thread")
}

impl<F: Field> Slices<F> {
    fn run(&self, way: Way) {
        let (to, from) = channel();
        let (ours, theirs) = (pool(), pool());
        let interpolating = move || {
            let interpolator =
                || Interpolator::new(&self.field, &self.points).expect("distinct points");
            let kept = way.reuse.then(interpolator);
            let mut waiting = Vec::new();
            for values in &self.slices {
                let coefficients = match &kept {
                    Some(kept) => kept.interpolate(values),
                    None => interpolator().interpolate(values),
                };
                match way.stream {
                    true => to.send(coefficients).expect("a reader"),
                    false => waiting.push(coefficients),
                }
            }
            for coefficients in waiting {
                to.send(coefficients).expect("a reader");
            }
        };
        let evaluating = || {
            let evaluator = || {
                Evaluator::new(&self.field, &self.others, self.points.len()).expect("usual points")
            };
            let kept = way.reuse.then(evaluator);
            for coefficients in from {
                black_box(match &kept {
                    Some(kept) => kept.evaluate(&coefficients),
                    None => evaluator().evaluate(&coefficients),
                });
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| theirs.install(interpolating));
            ours.install(evaluating);
        });
    }
}

/// Runs the ways that are wanted and prints their seconds; how many there were. Nothing is sent.
///
/// # Errors
/// None.
///
/// # Panics
/// If the number of items is no power of two.
pub fn compare(how: &Comparison) -> Result<usize, Error> {
    let [items, _] = how.sizes;
    assert!(items.is_power_of_two(), "a power of two");
    let subject = format!("one polynomial through {items} points, and its values at as many");
    let named = WAYS.map(|(name, way)| (name.to_owned(), way));
    how.show(&subject, items, named, |way, _| {
        let input = Input::random(items.ilog2(), *way);
        let start = Instant::now();
        input.run(*way);
        let seconds = start.elapsed().as_secs_f64();
        Ok(Run {
            seconds,
            phases: vec![PhaseTraffic {
                phase: "polynomial".to_owned(),
                bytes_sent: 0,
                bytes_received: 0,
                seconds,
            }],
            matches: 0,
        })
    })
}
