//! The speed of this machine, as one number.

use std::time::{Duration, Instant};

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// Fixed-key AES-128 encryptions per second on one core, in batches of 256 blocks: a yardstick for comparing
/// absolute times between machines. The median of `samples` measurements, each as long as `sample`.
///
/// # Panics
/// If there are no samples.
pub fn aes_blocks_per_second(sample: Duration, samples: usize) -> u64 {
    const BATCH: usize = 256;
    let cipher = Aes128::new(&Array::from([7; 16]));
    let mut blocks = [Array::from([0; 16]); BATCH];
    let mut speeds = vec![0u64; samples];
    for speed in &mut speeds {
        let (start, mut count) = (Instant::now(), 0u64);
        while start.elapsed() < sample || count == 0 {
            for _ in 0..64 {
                cipher.encrypt_blocks(std::hint::black_box(&mut blocks));
            }
            count += 64 * BATCH as u64;
        }
        *speed = (count as f64 / start.elapsed().as_secs_f64()) as u64;
    }
    speeds.sort_unstable();
    speeds[samples / 2].max(1)
}
