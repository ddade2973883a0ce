//! Work of the publisher beside bare multiplications of points: `cargo bench -p vesica-lookup`.
//!
//! Medians of many rounds, in which all take turns, and of their ratios in each. On Linux the time of this thread on the
//! processor, so that other work on the machine counts little.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use curve25519_dalek::ristretto::CompressedRistretto;
use rand_core::SeedableRng;
use vesica_primitives::voprf::{Blinded, Element, Mode, SecretKey};

/// Elements at once, of a turn of the server and of the longest question.
const SIZES: [usize; 2] = [1 << 8, 1 << 12];
/// Elements in all rounds.
const ALL: usize = 1 << 18;

/// How long this thread has been on the processor, where the system says so.
fn on_the_processor() -> Option<Duration> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = said.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn main() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let secret = SecretKey::random(&mut rng);
    for size in SIZES {
        let inputs: Vec<[u8; 32]> = (0..size)
            .map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
        let blinded = Blinded::new(Mode::Voprf, &inputs, &mut rng);
        let question: Vec<[u8; 32]> = blinded.elements().iter().map(|e| *e.bytes()).collect();
        let decode = |bytes: &[u8; 32]| Element::decode(*bytes).expect("an element");
        let points: Vec<_> = question
            .iter()
            .map(|bytes| CompressedRistretto(*bytes).decompress().expect("a point"))
            .collect();
        let scalar = curve25519_dalek::Scalar::random(&mut rng);
        let multiply = || {
            for point in &points {
                black_box(black_box(point) * scalar);
            }
        };
        let answer = |proves: bool| {
            let elements: Vec<Element> = question.iter().map(decode).collect();
            let mut batch = secret.batch();
            black_box(batch.evaluate(&elements));
            if proves {
                black_box(batch.prove(&mut ChaCha20Rng::from_seed([2; 32])));
            }
        };
        let work: [(&str, &dyn Fn()); 4] = [
            ("multiply", &multiply),
            ("answer without a proof", &|| answer(false)),
            ("answer with its proof", &|| answer(true)),
            ("publish", &|| {
                black_box(secret.evaluate(Mode::Voprf, &inputs));
            }),
        ];
        let start = Instant::now();
        let time = || on_the_processor().unwrap_or_else(|| start.elapsed());
        let rounds: Vec<[f64; 4]> = (0..ALL / size)
            .map(|_| {
                work.map(|(_, work)| {
                    let began = time();
                    work();
                    (time() - began).as_secs_f64()
                })
            })
            .collect();
        for (index, (name, _)) in work.iter().enumerate() {
            let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
                let mut all: Vec<f64> = rounds.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let each = 1e6 * median(&|times| times[index]) / size as f64;
            let share = 100.0 * median(&|times| times[0] / times[index]);
            println!(
                "{size} elements: {name}: {each:.1} µs each, {share:.0} % of the rate of multiplications"
            );
        }
    }
}
