//! Measures whether the sender can tell the size of the intersection by its clock.
//!
//! The receiver's next message after the sender's masks is the confirmation, or the first frame of
//! the next bucket. The program runs receiver and sender over TLS on the loopback interface, in turns
//! with none, half and all of the keys in common, and takes the time that the sender waits for that
//! message, summed over the buckets. If nothing leaks, the three samples are of one distribution; the
//! Kruskal–Wallis test says how likely they are then.
//!
//! ```text
//! cargo run --release -p vesica --example match_timing -- [keys] [runs] [copies of each row]
//! ```

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use vesica::{
    Endpoint, Identity, KeySpec, Observer, Party, Progress, ProtocolRequest, Report, Resources,
    Source, SourceOptions, receive_table, send_table,
};

/// A share of the keys that both sides have, in words and in halves.
const SHARES: [(&str, u64); 3] = [("none", 0), ("half", 1), ("all", 2)];

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("a number"));
    let keys: u64 = numbers.next().unwrap_or(1 << 16);
    let runs: usize = numbers.next().unwrap_or(200) as usize;
    let copies: u64 = numbers.next().unwrap_or(1);
    // What `vole` takes for a quarter of the keys, about.
    let several = 2 * 60 * keys;
    for (name, memory) in [("one bucket", None), ("several buckets", Some(several))] {
        let mut samples = [const { Vec::new() }; 3];
        let mut buckets = 0;
        for _ in 0..runs {
            for (sample, (_, halves)) in samples.iter_mut().zip(SHARES) {
                let (waited, report) = run(keys, copies, halves, memory);
                assert_eq!(report.matches, Some(keys * halves / 2));
                buckets = report.contract.buckets;
                sample.push(waited.as_secs_f64() * 1e3);
            }
        }
        println!("{name} ({buckets}), {keys} keys, {copies} rows per key, {runs} runs each");
        for (sample, (share, _)) in samples.iter().zip(SHARES) {
            let mut sorted = sample.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
            println!(
                "  {share:>4} in common: the sender waits {:.3} ms (median; quartiles {:.3} and {:.3})",
                at(50),
                at(25),
                at(75)
            );
        }
        println!("  p = {:.4}", kruskal_wallis(&samples));
    }
}

/// A run; how long the sender waited, and the receiver's report.
fn run(keys: u64, copies: u64, halves: u64, memory: Option<u64>) -> (Duration, Report) {
    let ids = [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
    let [receiver, sender] = &ids;
    let (address, listening) = channel();
    let ours = table(0, keys, copies);
    let theirs = table(keys - keys * halves / 2, keys, copies);
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("matches.csv");
    let party = |identity, peer: &Identity, endpoint| Party {
        terms: vesica::Terms {
            protocol: ProtocolRequest::Named("vole".to_owned()),
            ..Default::default()
        },
        resources: Resources {
            memory,
            threads: std::num::NonZeroUsize::new(1),
            ..vesica::Resources::default()
        },
        ..Party::new(identity, peer.fingerprint(), endpoint)
    };
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut clock = Clock::new(address);
            let listen = Endpoint::Listen("127.0.0.1:0".into());
            send_table(
                &party(sender, receiver, listen),
                &theirs,
                &key(),
                &mut clock,
            )
            .expect("the sender's run");
            clock.waited
        });
        let connect = Endpoint::Connect(listening.recv().expect("an address").to_string());
        let report = receive_table(
            &party(receiver, sender, connect),
            &ours,
            &key(),
            &output,
            &mut vesica::NoProgress,
        );
        (
            sending.join().expect("no panic"),
            report.expect("the receiver's run"),
        )
    })
}

fn key() -> KeySpec {
    KeySpec::parse("key", &[] as &[&str]).expect("a column")
}

/// So many keys from `first` on, each in `copies` rows.
fn table(first: u64, keys: u64, copies: u64) -> Source {
    let mut text = "key\n".to_owned();
    for _ in 0..copies {
        for i in first..first + keys {
            text.push_str(&format!("customer {i}\n"));
        }
    }
    Source::from_bytes("table.csv", text.into(), SourceOptions::default()).expect("a table")
}

/// Takes the time from the last frame with masks to the first frame after it.
struct Clock {
    address: Sender<SocketAddr>,
    masks: bool,
    last: Instant,
    received: u64,
    waited: Duration,
}

impl Clock {
    fn new(address: Sender<SocketAddr>) -> Clock {
        Clock {
            address,
            masks: false,
            last: Instant::now(),
            received: 0,
            waited: Duration::ZERO,
        }
    }
}

impl Observer for Clock {
    fn listening(&mut self, address: SocketAddr) {
        self.address.send(address).expect("somebody who connects");
    }
}

impl Progress for Clock {
    fn phase(&mut self, name: &'static str) {
        self.masks |= name == "masks";
    }

    fn bytes(&mut self, _: u64, received: u64) {
        let now = Instant::now();
        if self.masks && received > self.received {
            self.waited += now - self.last;
            self.masks = false;
        }
        (self.last, self.received) = (now, received);
    }
}

/// The probability of samples as different as these, or more so, if they are of one distribution.
/// For three samples the statistic is χ² with two degrees of freedom, whose tail is exp(−H/2).
fn kruskal_wallis(samples: &[Vec<f64>; 3]) -> f64 {
    let mut all: Vec<(f64, usize)> = Vec::new();
    for (group, sample) in samples.iter().enumerate() {
        all.extend(sample.iter().map(|value| (*value, group)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = [0.0; 3];
    for (rank, (_, group)) in all.iter().enumerate() {
        ranks[*group] += rank as f64 + 1.0;
    }
    let n = all.len() as f64;
    let sum: f64 = ranks
        .iter()
        .zip(samples)
        .map(|(rank, sample)| rank * rank / sample.len() as f64)
        .sum();
    let h = 12.0 / (n * (n + 1.0)) * sum - 3.0 * (n + 1.0);
    (-h / 2.0).exp()
}
