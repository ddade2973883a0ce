use super::*;

use proptest::prelude::*;
use vesica_testing::{bad_value, misbehaviour, wrong_length};
use vesica_wire::{Blame, Misbehaviour};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

#[test]
fn measurements_are_read() {
    let text = "0123456789abcdef".repeat(6);
    let measurement: Measurement = text.parse().unwrap();
    assert_eq!(measurement.to_string(), text);
    assert_eq!(
        text.to_uppercase().parse::<Measurement>().unwrap(),
        measurement
    );
    for bad in [
        "",
        "0",
        &text[1..],
        &format!("{text}00"),
        &text.replace('f', "g"),
    ] {
        assert!(bad.parse::<Measurement>().is_err());
    }
}

#[test]
fn simulated_reports_are_compared() {
    let data = [5; 64];
    let evidence = Simulated.attest(&data).unwrap();
    let expected = |measurement| Expected::new(Simulated, measurement);
    let right = expected(Simulated::MEASUREMENT);
    assert_eq!(right.check(&evidence, &data, NOW), Ok(()));
    assert_eq!(
        right.check(&evidence, &[6; 64], NOW),
        Err(Untrusted::NotBound)
    );
    let other = Measurement([0; 48]);
    let wrong = expected(other).check(&evidence, &data, NOW);
    let (expected, got) = (other, Simulated::MEASUREMENT);
    assert_eq!(wrong, Err(Untrusted::Measurement { expected, got }));
    for bytes in [0, 111, 113] {
        let report = vec![0; bytes];
        let evidence = Evidence {
            report,
            ..evidence.clone()
        };
        let refused = right.check(&evidence, &data, NOW);
        assert!(matches!(refused, Err(Untrusted::Malformed(_))));
    }
}

/// Any change of dealer, party or request changes what a report is made over.
#[test]
fn reports_are_for_one_request() {
    let [one, two] = [1, 2].map(|byte| Fingerprint::from_bytes([byte; 32]));
    let data = [
        report_data(one, two, b"request"),
        report_data(two, one, b"request"),
        report_data(one, one, b"request"),
        report_data(one, two, b"requesu"),
        report_data(one, two, b"request\0"),
    ];
    for (i, a) in data.iter().enumerate() {
        assert!(
            data[..i]
                .iter()
                .all(|b| a[..32] != b[..32] && a[32..] != b[32..])
        );
    }
}

#[test]
fn evidence_is_bounded() {
    let evidence = Evidence {
        platform: Platform::SevSnp,
        report: vec![1; MAX_BLOB],
        endorsements: vec![2; MAX_BLOB],
    };
    let bytes = evidence.encode();
    assert_eq!(bytes.len(), MAX_EVIDENCE);
    assert_eq!(Evidence::decode(&bytes).unwrap(), evidence);
    let found = |bytes: &[u8]| misbehaviour(Evidence::decode(bytes));
    let what = EVIDENCE.name;
    assert!(matches!(
        found(&bytes[1..]),
        Misbehaviour::BadValue {
            problem: "unknown code",
            ..
        }
    ));
    assert_eq!(found(&bytes[..9]), wrong_length(what, 9));
    let extended = [&bytes[..], &[0]].concat();
    assert_eq!(found(&extended), wrong_length(what, MAX_EVIDENCE + 1));
    let long = (MAX_BLOB as u32 + 1).to_le_bytes();
    let long = [&[2], &long[..], &[0; 9]].concat();
    assert_eq!(found(&long), bad_value(what, "too long"));
}

proptest! {
    #[test]
    fn evidence_survives_the_wire(
        code in 1u8..=3,
        report in proptest::collection::vec(any::<u8>(), 0..300),
        endorsements in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let platform = Platform::from_code(code).unwrap();
        let evidence = Evidence { platform, report, endorsements };
        prop_assert_eq!(Evidence::decode(&evidence.encode()).unwrap(), evidence);
    }

    #[test]
    fn evidence_is_decoded_whole_or_not_at_all(bytes: Vec<u8>) {
        match Evidence::decode(&bytes) {
            Ok(evidence) => prop_assert_eq!(evidence.encode(), bytes),
            Err(error) => prop_assert_eq!(error.blame(), Blame::Peer),
        }
    }
}
