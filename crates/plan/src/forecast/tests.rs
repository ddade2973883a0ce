use std::time::Duration;

use super::*;
use crate::buckets::{MAX_ITEMS, capacity};
use crate::{Calibration, Sample};

fn request(n: u64, m: u64) -> Request {
    Request::new([n, m], Reveal::Matches.into(), 1)
}

fn forecasts(machines: &Machines, request: &Request) -> Vec<Forecast> {
    machines.forecasts(Registry::standard(), request, &Prices::built_in())
}

fn of<'a>(all: &'a [Forecast], name: &str) -> &'a Forecast {
    all.iter().find(|f| f.protocol == name).unwrap()
}

/// Every protocol and result that there is has a forecast, with an interval around it and a price in each setting.
#[test]
fn whatever_can_be_revealed_has_forecasts() {
    let machines = Machines::new(None, None);
    for reveal in Reveals::all() {
        let request = Request::new([3000, 2000], reveal, 1);
        let all = forecasts(&machines, &request);
        for protocol in Registry::standard().revealing(reveal) {
            let name = protocol.spec().name;
            assert!(all.iter().any(|f| f.protocol == name), "{name}: {reveal}");
        }
        assert_eq!(
            all.iter().filter(|forecast| forecast.is_auto).count(),
            1,
            "{reveal}"
        );
        for forecast in &all {
            let Interval { likely, low, high } = forecast.seconds;
            assert!(
                0.0 < low && low < likely && likely < high && high < 1000.0,
                "{forecast:?}"
            );
            assert!(forecast.usd.values().all(|usd| *usd > 0.0), "{forecast:?}");
            let parts = forecast.online_seconds + forecast.offline_seconds;
            assert!((parts - likely).abs() < 1e-9);
            assert!(forecast.bytes.total() > 1000 && forecast.memory_bytes > 1000);
            let Memory { receiver, sender } = forecast.peak_memory_bytes;
            assert!(receiver.min(sender) > Some(1 << 20), "{forecast:?}");
        }
        assert!(all.is_sorted_by(|a, b| a.seconds.likely <= b.seconds.likely));
    }
}

#[test]
fn what_does_not_serve_is_left_out() {
    let machines = Machines::new(None, None);
    let asked = |security, lambda, n| Request {
        security: Some(security),
        lambda,
        ..request(n, n)
    };
    let malicious = forecasts(&machines, &asked(Security::Malicious, 40, 1000));
    let names: Vec<_> = malicious.iter().map(|f| (f.protocol, f.security)).collect();
    assert!(
        names.contains(&("vole", Security::Malicious)) && names.len() == 3,
        "{names:?}"
    );
    let of_senders = forecasts(&machines, &asked(Security::MaliciousSender, 40, 1000));
    let names: Vec<_> = of_senders
        .iter()
        .map(|f| (f.protocol, f.security))
        .collect();
    assert!(
        names.contains(&("spot-low", Security::MaliciousSender)) && names.len() == 4,
        "{names:?}"
    );
    let large = forecasts(&machines, &asked(Security::SemiHonest, 40, 1 << 27));
    assert!(
        large
            .iter()
            .all(|f| ["vole", "dh", "oprf-dh"].contains(&f.protocol) && f.buckets == 1),
        "{large:?}"
    );
    assert!(!large.is_empty());
    let mut wrong = request(10, 10);
    wrong.reveal = Reveal::Sum.into();
    assert!(forecasts(&machines, &wrong).is_empty());
}

/// Buckets have a bit more than their share of the items, take more bits each, and run one after the other.
#[test]
fn larger_sets_run_in_buckets() {
    let machines = Machines::new(None, None);
    let at = |n: u64| of(&forecasts(&machines, &request(n, 1000)), "vole").clone();
    let (one, many) = (at(1 << 28), at(1 << 31));
    assert_eq!((one.buckets, many.buckets), (1, 16));
    let times = many.bytes.total() as f64 / one.bytes.total() as f64;
    assert!((8.0..10.0).contains(&times), "{times}");
    assert!(many.memory_bytes < 2 * one.memory_bytes);
    assert_eq!(many.delays % 16, 0);
    let largest = forecasts(&machines, &request(MAX_ITEMS, MAX_ITEMS));
    assert!(largest.iter().any(|f| f.is_auto));
    // No run takes more.
    for reveal in [Reveal::Matches, Reveal::Size] {
        let larger = Request {
            reveal: reveal.into(),
            ..request(MAX_ITEMS + 1, 1000)
        };
        assert!(forecasts(&machines, &larger).is_empty(), "{reveal:?}");
    }
    let (buckets, each) = request(1 << 30, 1000).in_buckets(1 << 28).unwrap();
    let capacity = |items| capacity(items, 8, 42);
    assert_eq!((buckets, each.lambda), (8, 44));
    assert_eq!(each.sizes, [capacity(1 << 30), capacity(1000)]);
    assert!(request(1 << 27, 10).in_buckets(1 << 26).is_none());
}

/// A link adds what its bytes and its delays take, and a window limits a long one.
#[test]
fn links_take_time() {
    let machines = Machines::new(None, None);
    let over = |bits_per_second, rtt| {
        let rtt = Duration::from_millis(rtt);
        let all = forecasts(
            &machines,
            &Request {
                link: Link::new(bits_per_second, rtt),
                ..request(1 << 16, 1 << 16)
            },
        );
        of(&all, "vole").clone()
    };
    let (lan, far) = (over(None, 0), over(None, 80));
    let delay = far.seconds.likely - lan.seconds.likely;
    let expected = lan.delays as f64 * 0.04;
    // What the window lets through takes no longer than the work.
    assert!(
        (expected..expected + 0.1).contains(&delay),
        "{delay} {expected}"
    );
    let slow = over(Some(1_000_000), 0);
    let transfer = slow.bytes.total() as f64 * 8e-6;
    assert!((transfer..transfer + lan.seconds.likely).contains(&slow.seconds.likely));
    let limited = Request {
        link: Link::new(Some(10_000_000_000), Duration::from_secs(1)),
        ..request(1, 1)
    };
    assert!((limited.transfer(WINDOW) - 0.5).abs() < 1e-9);
}

/// A question to a large set takes less of a slow link and more work elsewhere.
#[test]
fn slow_links_favour_multiplications() {
    let machines = Machines::new(None, None);
    let fastest = |bits_per_second| {
        let all = forecasts(
            &machines,
            &Request {
                link: Link::new(bits_per_second, Duration::from_millis(80)),
                security: Some(Security::Malicious),
                ..request(1 << 8, 1 << 24)
            },
        );
        all[0].protocol
    };
    assert_eq!(fastest(Some(1_000_000)), "oprf-dh");
    assert_eq!(fastest(Some(100_000_000)), "vole");
}

/// What a dealer hands out crosses the link, and so does what generators say to each other.
#[test]
fn dealing_takes_delays() {
    let machines = Machines::new(None, None);
    for (name, delays) in [("ole-dealer", 4.0), ("ole-tee", 4.0)] {
        let [near, far] = [0, 80].map(|rtt| {
            let link = Link::new(None, Duration::from_millis(rtt));
            let exact = Some(32);
            let request = request(1 << 10, 1 << 10);
            let all = forecasts(
                &machines,
                &Request {
                    link,
                    exact,
                    ..request
                },
            );
            of(&all, name).offline_seconds
        });
        let more = far - near - delays * 0.04;
        assert!((-1e-9..0.01).contains(&more), "{name}: {near} {far}");
    }
}

/// A calibration changes what it is about, and narrows the intervals.
#[test]
fn calibrated_machines_are_known_better() {
    let reference = Machines::reference();
    let slower = |sample: &Sample| {
        let mut slower = sample.clone();
        slower.seconds.online *= 3.0;
        slower.seconds.offline *= 3.0;
        slower
    };
    let of_vole = |sample: &&Sample| sample.protocol == "vole" && sample.network == "lan";
    let samples = reference
        .samples
        .iter()
        .filter(of_vole)
        .map(slower)
        .collect();
    let local = Calibration::new("slow".into(), 1, 0, samples);
    let known = forecasts(
        &Machines::new(Some(local), None),
        &request(1 << 16, 1 << 16),
    );
    let unknown = forecasts(&Machines::new(None, None), &request(1 << 16, 1 << 16));
    let width = |f: &Forecast| f.seconds.high / f.seconds.likely;
    for (name, basis) in [("vole", Basis::ThisRun), ("kkrt", Basis::ThisMachine)] {
        let (here, there) = (of(&known, name), of(&unknown, name));
        assert_eq!((here.basis, there.basis), (basis, Basis::Reference));
        let factor = here.seconds.likely / there.seconds.likely;
        assert!((2.5..3.6).contains(&factor), "{name} {factor}");
        assert!(width(here) < width(there));
    }
    let half = Machines::new(None, Some(reference.yardstick_aes_blocks_per_second / 2));
    let half = forecasts(&half, &request(1 << 16, 1 << 16));
    let factor = of(&half, "kkrt").seconds.likely / of(&unknown, "kkrt").seconds.likely;
    assert!((1.99..2.01).contains(&factor), "{factor}");
}

/// What was measured on the reference machine is within the intervals that are said of that machine.
#[test]
fn forecasts_are_near_what_was_measured() {
    let reference = Machines::reference();
    let machines = Machines::new(Some(reference.clone()), None);
    let mut wide = Vec::new();
    for sample in &reference.samples {
        let sizes = [sample.receiver_size, sample.sender_size];
        let request = Request {
            exact: sample.items,
            link: Link::from_name(&sample.network).unwrap(),
            ..Request::new(sizes, sample.reveal, 1)
        };
        let protocol = Registry::standard().get(&sample.protocol).unwrap();
        let forecast = machines.forecast(protocol, sample.security, sample.optimize, &request, &[]);
        let forecast = forecast.unwrap();
        let Interval { low, high, .. } = forecast.seconds;
        if !(low..=high).contains(&sample.total_seconds()) {
            wide.push((sample, low, high));
        }
    }
    // Two standard deviations leave some out.
    assert!(wide.len() * 12 <= reference.samples.len(), "{wide:#?}");
}

/// Circuits save time or traffic, and are asked about either or both; other protocols have one way.
#[test]
fn circuits_are_compared_both_ways() {
    let machines = Machines::new(None, None);
    let asked = |reveal: Reveal, optimize| {
        let request = Request {
            optimize,
            ..Request::new([1 << 18; 2], reveal.into(), 1)
        };
        forecasts(&machines, &request)
    };
    let of = |optimize| asked(Reveal::Size, optimize);
    let both = of(None);
    for protocol in Registry::standard().revealing(Reveal::Size) {
        let name = protocol.spec().name;
        let way = |optimize| {
            let mut found = both
                .iter()
                .filter(|f| f.protocol == name && f.optimize == optimize);
            found.next().unwrap()
        };
        let (time, traffic) = (way(Optimize::Time), way(Optimize::Traffic));
        assert!(traffic.bytes.total() < time.bytes.total(), "{name}");
    }
    for optimize in [Optimize::Time, Optimize::Traffic] {
        let one = of(Some(optimize));
        assert!(one.len() * 2 == both.len() && one.iter().all(|f| f.optimize == optimize));
        assert_eq!(one.iter().filter(|f| f.is_auto).count(), 1);
        let plain = asked(Reveal::Matches, Some(optimize));
        assert!(plain.iter().all(|f| f.optimize == Optimize::Time));
    }
}

/// Peaks are near those that were measured.
#[test]
fn memory_is_near_what_was_measured() {
    let machines = Machines::new(None, None);
    let reference = Machines::reference();
    let mut wide = 0;
    for sample in &reference.samples {
        let request = Request {
            exact: sample.items,
            ..Request::new([sample.receiver_size, sample.sender_size], sample.reveal, 1)
        };
        let protocol = Registry::standard().get(&sample.protocol).unwrap();
        let forecast = machines.forecast(protocol, sample.security, sample.optimize, &request, &[]);
        let (said, found) = (
            forecast.unwrap().peak_memory_bytes,
            sample.peak_memory_bytes,
        );
        for (said, found) in [(said.receiver, found.receiver), (said.sender, found.sender)] {
            let ratio = said.unwrap() as f64 / found.unwrap() as f64;
            wide += usize::from(!(0.8..1.25).contains(&ratio));
        }
    }
    assert!(wide * 20 <= 2 * reference.samples.len(), "{wide}");
}

/// Once for each way: a link that is faster never asks for less traffic than a slower one.
#[test]
fn circuits_save_traffic_over_slow_links() {
    let rates = [1, 10, 30, 100, 300, 1000, 10_000];
    let ways =
        rates.map(|rate| Machines::faster_way(Link::new(Some(rate * 1_000_000), Duration::ZERO)));
    assert!(ways.is_sorted_by(|slow, fast| slow >= fast), "{ways:?}");
    assert_eq!([ways[1], ways[5]], [Optimize::Traffic, Optimize::Time]);
    assert_eq!(Machines::faster_way(Link::LAN), Optimize::Time);
}
