use std::time::Duration;

use proptest::prelude::*;
use vesica_psi::{Optimize, PostQuantum, Reveal};
use vesica_wire::Link;

use super::*;
use crate::fit::{Fit, Work};
use crate::{Machines, Request};

const FORMS: [Security; 3] = [
    Security::SemiHonest,
    Security::MaliciousSender,
    Security::Malicious,
];

/// The links of a row.
const LINKS: [Link; 2] = [
    Link::LAN,
    Link::new(Some(100_000_000), Duration::from_millis(20)),
];

fn request(open: &Open, link: Link) -> Request {
    Request {
        lambda: open.lambda,
        exact: open.exact,
        link,
        ..Request::new(open.sizes, open.reveal, 1)
    }
}

/// Seconds of a run on the reference machine over a link.
fn seconds(protocol: &dyn Protocol, open: &Open, link: Link) -> Option<f64> {
    let (machines, security) = (
        Machines::new(None, None),
        protocol.spec().runs(open.security),
    );
    let forecast = machines.forecast(
        protocol,
        security,
        Optimize::Time,
        &request(open, link),
        &[],
    );
    Some(forecast?.seconds.likely)
}

fn open(sizes: [u64; 2], reveal: Reveals, security: Security) -> Open {
    Open {
        sizes,
        reveal,
        security,
        lambda: 40,
        exact: None,
        post_quantum: false,
        has_labels: false,
    }
}

/// What protocols are compared by.
fn plain(protocol: &dyn Protocol) -> Reveals {
    protocol.reveals()[0].into()
}

/// All pairs of these sizes.
fn pairs(powers: &[u32]) -> impl Iterator<Item = [u64; 2]> {
    let pairs = powers
        .iter()
        .flat_map(|n| powers.iter().map(move |m| [*n, *m]));
    pairs.map(|pair| pair.map(|power| 1 << power))
}

/// The table that the forecasts of today make.
fn derived(version: u32) -> Table {
    let mut rows = Vec::new();
    for protocol in Registry::standard().all() {
        if protocol
            .offline()
            .is_some_and(|offline| offline.origin().is_dealt())
        {
            continue;
        }
        for security in protocol.spec().forms() {
            let fits = LINKS.map(|link| {
                let runs = pairs(&[2, 5, 8, 11, 14, 17, 20]).filter_map(|sizes| {
                    let open = open(sizes, plain(*protocol), security);
                    let took = seconds(*protocol, &open, link)?;
                    let [receiver_size, sender_size] = sizes;
                    let work = Work {
                        receiver_size,
                        sender_size,
                        bytes: 0,
                    };
                    Some((work, took))
                });
                Fit::of_terms(5, &runs.collect::<Vec<_>>())
            });
            // One that was never measured comes last.
            let [Some(lan), Some(wan)] = fits else {
                continue;
            };
            rows.push(Row {
                protocol: protocol.spec().name.to_owned(),
                security,
                lan: lan.picoseconds(),
                wan: wan.picoseconds(),
            });
        }
    }
    Table { version, rows }
}

fn as_json(table: &Table) -> String {
    let rows = table
        .rows
        .iter()
        .map(|row| serde_json::to_string(row).unwrap());
    let rows = rows.collect::<Vec<_>>().join(",\n    ");
    format!(
        "{{\n  \"version\": {},\n  \"rows\": [\n    {rows}\n  ]\n}}\n",
        table.version
    )
}

/// Of the table of this version.
const HASH: u64 = 18_379_228_878_320_492_768;

/// With `VESICA_RECORD_AUTO` set, makes the next version from the forecasts of today.
#[test]
fn another_table_is_another_version() {
    if std::env::var_os("VESICA_RECORD_AUTO").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/auto.json");
        std::fs::write(path, as_json(&derived(TABLE.version + 1))).unwrap();
        panic!("recorded; build again, and give HASH and the version below their new values");
    }
    let bytes = as_json(&TABLE);
    let hash = bytes.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    assert_eq!((auto_version(), hash), (2, HASH));
}

/// By the mean of both links, the choice takes at most a quarter more than any protocol that serves and was measured, or two
/// milliseconds.
#[test]
fn the_choice_is_that_of_the_forecasts() {
    for reveal in [Reveal::Matches, Reveal::Size] {
        for security in FORMS {
            for sizes in pairs(&[0, 7, 11, 13, 15, 18, 22]) {
                let open = open(sizes, reveal.into(), security);
                let order = Registry::standard().auto(&open);
                if !open.is_served_by(order[0]) {
                    continue;
                }
                let mean = |p: &&dyn Protocol| {
                    let [lan, wan] = LINKS.map(|link| seconds(*p, &open, link));
                    Some((lan? * wan?).sqrt())
                };
                let all: Vec<_> = order.iter().filter_map(mean).collect();
                let chosen = &mean(&order[0]).unwrap();
                let fastest = all.iter().copied().fold(f64::INFINITY, f64::min);
                assert!(
                    *chosen <= 1.25 * fastest + 0.002,
                    "{open:?}: {chosen} and {fastest}"
                );
            }
        }
    }
}

#[test]
fn small_sets_take_few_messages_and_large_ones_little_work() {
    let name = |sizes, reveal: Reveal, security| {
        let order = Registry::standard().auto(&open(sizes, reveal.into(), security));
        order[0].spec().name
    };
    let malicious = |n, m| name([n, m], Reveal::Matches, Security::Malicious);
    assert_eq!(malicious(0, 0), "compact-dh");
    assert_eq!(malicious(1000, 1000), "compact-dh");
    assert_eq!(malicious(100_000, 100_000), "vole");
    assert_eq!(malicious(100, 1 << 28), "vole");
    // Whatever a peer claims.
    malicious(u64::MAX, u64::MAX);
    malicious(0, u64::MAX);
    let of = |reveal| name([1 << 20; 2], reveal, Security::SemiHonest);
    assert_eq!([of(Reveal::Size), of(Reveal::Sum)], ["circuit-okvs"; 2]);
    assert_eq!(of(Reveal::Matches), "vole");
}

proptest! {
    /// Whatever is asked, the first is a protocol that does all of it if there is one, and it is as strong as asked.
    #[test]
    fn nothing_is_chosen_that_may_not_run(
        powers in [0..=34u32, 0..=34],
        less in [0..1000u64, 0..1000],
        reveal in prop::sample::select(Reveals::all().collect::<Vec<_>>()),
        security in prop::sample::select(FORMS.to_vec()),
        lambda in 40..=128u32,
        exact in prop::option::of(1..=64u32),
        has_labels: bool,
        post_quantum: bool,
    ) {
        let sizes = [0, 1].map(|side| (1u64 << powers[side]).saturating_sub(less[side]));
        let open = Open { lambda, exact, has_labels, post_quantum, ..open(sizes, reveal, security) };
        let order = Registry::standard().auto(&open);
        let able = Registry::standard().revealing(reveal);
        let serve = able.filter(|protocol| open.is_served_by(*protocol)).count();
        if serve == 0 {
            prop_assert!(order.iter().all(|protocol| protocol.can_reveal(reveal)));
            // All or none are as secure as is asked.
            let secure = order.iter().filter(|protocol| open.is_secure(**protocol)).count();
            prop_assert!(secure == 0 || secure == order.len());
            return Ok(());
        }
        prop_assert_eq!(order.len(), serve);
        for protocol in &order {
            let spec = protocol.spec();
            prop_assert!(spec.security >= security && spec.runs(security) >= security);
            prop_assert!(sizes.iter().all(|size| *size <= spec.max_items));
            prop_assert!(protocol.can_reveal(reveal));
            prop_assert!(!has_labels || protocol.labels_per_item().is_some());
            prop_assert!(!post_quantum || spec.post_quantum != PostQuantum::Never);
        }
        // No protocol that serves takes less by the table.
        let costs = order.iter().map(|p| {
            let spec = p.spec();
            TABLE.cost(spec.name, spec.runs(security), sizes).unwrap_or(u128::MAX)
        });
        prop_assert!(costs.is_sorted());
    }

    /// More items never take less time.
    #[test]
    fn costs_grow(n in 0..1u64 << 28, m in 0..1u64 << 28, more in 0..1000u64) {
        for row in &TABLE.rows {
            let of = |sizes| TABLE.cost(&row.protocol, row.security, sizes);
            prop_assert!(of([n, m]) <= of([n + more, m]) && of([n, m]) <= of([n, m + more]));
        }
    }
}

/// Every form that runs without a store has a row.
#[test]
fn the_table_knows_the_registry() {
    let found: Vec<_> = TABLE
        .rows
        .iter()
        .map(|row| (&*row.protocol, row.security))
        .collect();
    let table = derived(0);
    let expected: Vec<_> = table
        .rows
        .iter()
        .map(|row| (&*row.protocol, row.security))
        .collect();
    assert_eq!(found, expected);
}
