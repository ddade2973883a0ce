//! Reports of real machines against the verifiers of their platforms: see `vectors/attestation/README.md`.

use std::time::{Duration, SystemTime};

use vesica_offline::{
    Claims, Error, Evidence, Expected, Measurement, Platform, Product, SevSnp, TcbLevel, Tdx,
    Untrusted, Verifier,
};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim().as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

mod sev_snp {
    use super::*;

    const VCEK: &[u8] = include_bytes!("../../../vectors/attestation/vcek_milan.der");
    /// 2025.
    const THEN: u64 = 1_740_000_000;

    fn evidence() -> Evidence {
        Evidence {
            platform: Platform::SevSnp,
            report: bytes(include_str!(
                "../../../vectors/attestation/report_milan.hex"
            )),
            endorsements: Vec::new(),
        }
    }

    fn verifier(least: &str) -> SevSnp {
        with_vcek(least, Some(VCEK.to_vec()))
    }

    fn with_vcek(least: &str, vcek: Option<Vec<u8>>) -> SevSnp {
        SevSnp::new(Product::Milan, least.parse().unwrap(), vcek).unwrap()
    }

    fn authenticate(evidence: &Evidence) -> Result<Claims, Untrusted> {
        verifier("0.0.0.0").authenticate(evidence, at(THEN))
    }

    #[test]
    fn a_genuine_report_is_believed() {
        let evidence = evidence();
        let claims = authenticate(&evidence).unwrap();
        // Offsets of table 23.
        assert_eq!(claims.data, evidence.report[0x50..0x90]);
        assert_eq!(claims.measurement.0, evidence.report[0x90..0xc0]);
        let expected = Expected::new(verifier("0.0.0.0"), claims.measurement);
        let now = at(THEN);
        assert_eq!(expected.check(&evidence, &claims.data, now), Ok(()));
        let others = expected.check(&evidence, &[0; 64], now);
        assert_eq!(others, Err(Untrusted::NotBound));
        let other = Expected::new(verifier("0.0.0.0"), Measurement([0; 48]));
        let refused = other.check(&evidence, &claims.data, now);
        assert!(matches!(refused, Err(Untrusted::Measurement { .. })));
    }

    /// In each byte that is signed, and in the signature.
    #[test]
    fn a_report_that_somebody_has_changed_is_not() {
        let whole = evidence();
        for at in (0..0x2a0)
            .step_by(13)
            .chain([0x30, 0x180, 0x2a0, 0x2a0 + 72])
        {
            let mut evidence = whole.clone();
            evidence.report[at] ^= 1;
            let refused = authenticate(&evidence);
            assert!(matches!(refused, Err(Untrusted::Forged(_))), "{at}");
        }
        for length in [0, 1183, 1185] {
            let mut evidence = whole.clone();
            evidence.report.resize(length, 0);
            let refused = authenticate(&evidence);
            assert!(
                matches!(refused, Err(Untrusted::Malformed(_))),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn only_amd_endorses() {
        let evidence = evidence();
        let with = |vcek: Option<Vec<u8>>| {
            let verifier = with_vcek("0.0.0.0", vcek);
            verifier.authenticate(&evidence, at(THEN))
        };
        assert_eq!(with(None), Err(Untrusted::NotEndorsed));
        assert!(matches!(
            with(Some(b"nonsense".to_vec())),
            Err(Untrusted::Malformed(_))
        ));
        // In the body, which is no longer what AMD has signed, and in the signature.
        for at in [300, VCEK.len() - 5] {
            let mut vcek = VCEK.to_vec();
            vcek[at] ^= 1;
            let refused = with(Some(vcek));
            assert!(refused.is_err(), "{at}");
        }
    }

    #[test]
    fn the_table_beside_a_report_endorses_it() {
        let table = |guid: u128, offset: u32, length: u32| {
            let mut table = vec![7; 24];
            table.extend_from_slice(&guid.to_be_bytes());
            table.extend_from_slice(&offset.to_le_bytes());
            table.extend_from_slice(&length.to_le_bytes());
            table.extend_from_slice(&[0; 24]);
            table.extend_from_slice(VCEK);
            table
        };
        let vcek = 0x63da758d_e664_4564_adc5_f4b93be8accd;
        let length = VCEK.len() as u32;
        let verifier = with_vcek("0.0.0.0", None);
        let with = |endorsements| {
            let evidence = Evidence {
                endorsements,
                ..evidence()
            };
            verifier.authenticate(&evidence, at(THEN)).map(drop)
        };
        assert_eq!(with(table(vcek, 72, length)), Ok(()));
        for endorsements in [
            table(vcek + 1, 72, length),
            table(vcek, 73, length),
            table(vcek, u32::MAX, u32::MAX),
            table(vcek, 72, length)[..40].to_vec(),
            [&[0; 24], &table(vcek, 72, length)[..]].concat(),
        ] {
            assert_eq!(with(endorsements), Err(Untrusted::NotEndorsed));
        }
    }

    #[test]
    fn old_firmware_and_certificates_are_refused() {
        let evidence = evidence();
        let least = |least: &str| verifier(least).authenticate(&evidence, at(THEN)).map(drop);
        let refused = least("255.0.0.0").unwrap_err();
        let Untrusted::OutOfDate(old) = &refused else {
            panic!("{refused}");
        };
        let own = old.split([' ', ',']).nth(1).unwrap().to_owned();
        assert_eq!(least(&own), Ok(()));
        assert!(least("0.0.0.255").is_err() && least("0.0.255.0").is_err());
        assert!(least("0.255.0.0").is_err());
        for seconds in [1_000_000_000, 3_000_000_000] {
            let refused = verifier("0.0.0.0").authenticate(&evidence, at(seconds));
            assert!(matches!(refused, Err(Untrusted::Forged(_))), "{refused:?}");
        }
    }

    /// The recorded report is of a Milan, and was asked for at privilege level 0.
    #[test]
    fn other_processors_and_privilege_levels_are_refused() {
        let with = |verifier: SevSnp| verifier.authenticate(&evidence(), at(THEN)).map(drop);
        let unexpected = |expected: &str, got: &str| {
            let [expected, got] = [expected, got].map(str::to_owned);
            Err(Untrusted::Unexpected { expected, got })
        };
        for (product, least, name) in [
            (Product::Genoa, "0.0.0.0", "a processor of genoa"),
            (Product::Turin, "0.0.0.0.0", "a processor of turin"),
        ] {
            let vcek = Some(VCEK.to_vec());
            let verifier = SevSnp::new(product, least.parse().unwrap(), vcek).unwrap();
            assert_eq!(with(verifier), unexpected(name, "a processor of milan"));
        }
        assert_eq!(with(verifier("0.0.0.0").at_vmpl(0)), Ok(()));
        for vmpl in [1, 2, 3] {
            let name = format!("privilege level {vmpl}");
            let refused = with(verifier("0.0.0.0").at_vmpl(vmpl));
            assert_eq!(refused, unexpected(&name, "privilege level 0"));
        }
    }

    #[test]
    fn versions_are_those_of_a_product() {
        let new = |product, least: &str| SevSnp::new(product, least.parse().unwrap(), None);
        for (product, right, wrong) in [
            (Product::Milan, "1.2.3.4", "1.2.3.4.5"),
            (Product::Genoa, "1.2.3.4", "1.2.3.4.5"),
            (Product::Turin, "1.2.3.4.5", "1.2.3.4"),
        ] {
            assert!(new(product, right).is_ok());
            assert!(matches!(new(product, wrong), Err(Error::Usage(_))));
        }
    }

    #[test]
    fn levels_are_read() {
        for text in ["1.2.3.4", "9.1.2.3.4"] {
            assert_eq!(text.parse::<TcbLevel>().unwrap().to_string(), text);
        }
        for text in ["", "1.2.3", "1.2.3.256", "1.2.3.4.5.6", "1.2.3.x"] {
            assert!(text.parse::<TcbLevel>().is_err(), "{text}");
        }
    }
}

mod tdx {
    use super::*;

    const QUOTE: &[u8] = include_bytes!("../../../vectors/attestation/tdx_quote");
    const COLLATERAL: &[u8] =
        include_bytes!("../../../vectors/attestation/tdx_quote_collateral.json");
    const OLD_QUOTE: &[u8] = include_bytes!("../../../vectors/attestation/tdx_quote_outdated");
    const OLD_COLLATERAL: &[u8] =
        include_bytes!("../../../vectors/attestation/tdx_quote_outdated_collateral.json");

    fn evidence(quote: &[u8]) -> Evidence {
        Evidence {
            platform: Platform::Tdx,
            report: quote.to_vec(),
            endorsements: Vec::new(),
        }
    }

    /// A second after the collateral was issued.
    fn then(collateral: &[u8]) -> SystemTime {
        let collateral: serde_json::Value = serde_json::from_slice(collateral).unwrap();
        let issued = ["tcb_info", "qe_identity"].map(|name| {
            let text = collateral[name].as_str().unwrap();
            let inner: serde_json::Value = serde_json::from_str(text).unwrap();
            let date = inner["issueDate"].as_str().unwrap();
            let date = chrono::DateTime::parse_from_rfc3339(date).unwrap();
            date.timestamp() as u64
        });
        at(issued[0].max(issued[1]) + 1)
    }

    fn authenticate(quote: &[u8]) -> Result<Claims, Untrusted> {
        let verifier = Tdx::new(COLLATERAL).unwrap();
        verifier.authenticate(&evidence(quote), then(COLLATERAL))
    }

    #[test]
    fn a_genuine_quote_is_believed() {
        let claims = authenticate(QUOTE).unwrap();
        // The body of a quote of version 4 begins at 48, and ends with registers and data.
        assert_eq!(claims.data, QUOTE[48 + 520..48 + 584]);
        let expected = Expected::new(Tdx::new(COLLATERAL).unwrap(), claims.measurement);
        let now = then(COLLATERAL);
        assert_eq!(expected.check(&evidence(QUOTE), &claims.data, now), Ok(()));
    }

    #[test]
    fn a_quote_that_somebody_has_changed_is_not() {
        // The header, the body and the signature.
        for at in (0..48 + 584 + 64).step_by(13) {
            let mut quote = QUOTE.to_vec();
            quote[at] ^= 1;
            assert!(authenticate(&quote).is_err(), "{at}");
        }
        for length in [0, 47, 600, QUOTE.len() / 2] {
            assert!(authenticate(&QUOTE[..length]).is_err());
        }
    }

    #[test]
    fn collateral_has_its_time_and_its_platform() {
        let verifier = Tdx::new(COLLATERAL).unwrap();
        for seconds in [0, 1_500_000_000, 3_000_000_000] {
            let refused = verifier.authenticate(&evidence(QUOTE), at(seconds));
            assert!(matches!(refused, Err(Untrusted::Forged(_))), "{refused:?}");
        }
        let other = Tdx::new(OLD_COLLATERAL).unwrap();
        let now = then(OLD_COLLATERAL);
        assert!(other.authenticate(&evidence(QUOTE), now).is_err());
        let old = other.authenticate(&evidence(OLD_QUOTE), now);
        assert!(matches!(old, Err(Untrusted::Forged(_))), "{old:?}");
        assert!(Tdx::new(b"{}").is_err());
    }
}
