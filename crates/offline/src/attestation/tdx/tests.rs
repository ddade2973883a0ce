//! Whole quotes, signed by a key of ours in the place of all that sign a real one.

use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair,
};
use sha2::Sha256;

use super::*;

const QUOTE: &[u8] = include_bytes!("../../../../../vectors/attestation/tdx_quote");
const COLLATERAL: &[u8] =
    include_bytes!("../../../../../vectors/attestation/tdx_quote_collateral.json");

/// Noon of the day after which the collateral was issued.
const THEN: Duration = Duration::from_secs(1_750_420_800);

/// Where the parts of a quote of version 4 are: the domain's report after the header, then signature and key; the report of
/// the quoting enclave with the hash of that key and of 32 bytes, and its signature; and the certificates.
const HEADER: usize = 48;
const REPORT: usize = 584;
const SIGNATURE: usize = HEADER + REPORT + 4;
const KEY: usize = SIGNATURE + 64;
const ENCLAVE: usize = KEY + 64 + 6;
const ENCLAVE_SIGNATURE: usize = ENCLAVE + 384;
const HASHED: usize = ENCLAVE_SIGNATURE + 64 + 2;
const CERTIFICATES: usize = HASHED + 32 + 6;

/// Attributes in a domain's report.
const ATTRIBUTES: usize = 120;
/// Those of a usual domain: no exceptions for pages that the host takes away.
const USUAL: u64 = 1 << 28;

/// In certificates, before the 64 bytes of a public key.
const BEFORE_KEY: [u8; 4] = [0x03, 0x42, 0x00, 0x04];

/// The key that signs everything.
struct Signer(Vec<u8>);

impl Signer {
    fn new() -> Signer {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
        Signer(key.as_ref().to_vec())
    }

    fn pair(&self, algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(algorithm, &self.0, &SystemRandom::new()).unwrap()
    }

    /// The public key without the byte before it.
    fn public(&self) -> Vec<u8> {
        let pair = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING);
        pair.public_key().as_ref()[1..].to_vec()
    }

    /// 64 bytes.
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let pair = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let signature = pair.sign(&SystemRandom::new(), message).unwrap();
        signature.as_ref().to_vec()
    }

    /// A certificate with this key in the place of its own, or a list of revoked ones, signed anew.
    fn issue(&self, der: &[u8]) -> Vec<u8> {
        let (content, _) = element(der);
        let (_, length) = element(content);
        let mut signed = content[..length].to_vec();
        let key = signed.windows(4).position(|bytes| bytes == BEFORE_KEY);
        if let Some(key) = key {
            signed[key + 4..key + 68].copy_from_slice(&self.public());
        }
        let (_, algorithm) = element(&content[length..]);
        let pair = self.pair(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let signature = pair.sign(&SystemRandom::new(), &signed).unwrap();
        let bits = [&[0], signature.as_ref()].concat();
        let algorithm = &content[length..length + algorithm];
        let parts = [&signed[..], algorithm, &encoded(0x03, &bits)];
        encoded(0x30, &parts.concat())
    }

    /// The same of a chain in PEM.
    fn issue_chain(&self, pem: &str) -> String {
        const END: &str = "-----END CERTIFICATE-----";
        let each = pem.split_inclusive(END).filter(|text| text.contains(END));
        let issued = each.map(|text| {
            let (_, der) = pem_rfc7468::decode_vec(text.trim().as_bytes()).unwrap();
            let der = self.issue(&der);
            pem_rfc7468::encode_string("CERTIFICATE", pem_rfc7468::LineEnding::LF, &der).unwrap()
        });
        issued.collect()
    }

    /// A quote that is like the real one but for what `change` does to the header and the domain's report, and this signer's
    /// root.
    fn quote(&self, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut signed = QUOTE[..HEADER + REPORT].to_vec();
        change(&mut signed);
        let mut enclave = QUOTE[ENCLAVE..ENCLAVE_SIGNATURE].to_vec();
        let hashed = [&self.public()[..], &QUOTE[HASHED..HASHED + 32]].concat();
        enclave[320..352].copy_from_slice(&Sha256::digest(hashed));
        let mut quote = signed.clone();
        for part in [
            &QUOTE[HEADER + REPORT..SIGNATURE],
            &self.sign(&signed),
            &self.public(),
            &QUOTE[KEY + 64..ENCLAVE],
            &enclave,
            &self.sign(&enclave),
            &QUOTE[ENCLAVE_SIGNATURE + 64..],
        ] {
            quote.extend_from_slice(part);
        }
        quote
    }

    /// The real collateral, of which this key has signed everything.
    fn collateral(&self) -> QuoteCollateralV3 {
        let real: QuoteCollateralV3 = serde_json::from_slice(COLLATERAL).unwrap();
        let certificates = &QUOTE[CERTIFICATES..];
        let end = certificates.iter().position(|byte| *byte == 0);
        let certificates = &certificates[..end.unwrap_or(certificates.len())];
        let certificates = str::from_utf8(certificates).unwrap();
        QuoteCollateralV3 {
            pck_crl_issuer_chain: self.issue_chain(&real.pck_crl_issuer_chain),
            root_ca_crl: self.issue(&real.root_ca_crl),
            pck_crl: self.issue(&real.pck_crl),
            tcb_info_issuer_chain: self.issue_chain(&real.tcb_info_issuer_chain),
            tcb_info_signature: self.sign(real.tcb_info.as_bytes()),
            tcb_info: real.tcb_info,
            qe_identity_issuer_chain: self.issue_chain(&real.qe_identity_issuer_chain),
            qe_identity_signature: self.sign(real.qe_identity.as_bytes()),
            qe_identity: real.qe_identity,
            pck_certificate_chain: Some(self.issue_chain(certificates)),
        }
    }

    /// The library, with this key as the root.
    fn library(&self) -> QuoteVerifier {
        let chain = self.collateral().tcb_info_issuer_chain;
        let root = chain.rfind("-----BEGIN").unwrap();
        let (_, root) = pem_rfc7468::decode_vec(&chain.as_bytes()[root..]).unwrap();
        QuoteVerifier::new(root)
    }

    fn claims(&self, library: &QuoteVerifier, quote: Vec<u8>) -> Result<Claims, Untrusted> {
        let evidence = Evidence {
            platform: Platform::Tdx,
            report: quote,
            endorsements: Vec::new(),
        };
        let collateral = self.collateral();
        Tdx { collateral }.claims(library, &evidence, UNIX_EPOCH + THEN)
    }
}

/// The contents of the first element, and how many bytes all of it takes.
fn element(der: &[u8]) -> (&[u8], usize) {
    let long = usize::from(der[1]).saturating_sub(0x80);
    let mut length = usize::from(der[1] & 0x7f);
    if der[1] > 0x80 {
        length = der[2..2 + long]
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    }
    let end = 2 + long + length;
    (&der[2 + long..end], end)
}

fn encoded(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let [.., high, low] = length.to_be_bytes();
    let header = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [header, content.to_vec()].concat()
}

fn set_attributes(signed: &mut [u8], attributes: u64) {
    signed[HEADER + ATTRIBUTES..][..8].copy_from_slice(&attributes.to_le_bytes());
}

/// Makes it one of version 5, which has the hash of a service domain.
fn with_service(signed: &mut Vec<u8>, hash: u8) {
    signed[0] = 5;
    let report = signed.split_off(HEADER);
    let length = REPORT as u32 + 64;
    signed.extend_from_slice(&3u16.to_le_bytes());
    signed.extend_from_slice(&length.to_le_bytes());
    signed.extend_from_slice(&report);
    signed.extend_from_slice(&report[..16]);
    signed.extend_from_slice(&[hash; 48]);
}

#[test]
fn a_quote_of_a_usual_domain_is_believed() {
    let signer = Signer::new();
    let library = signer.library();
    let claims = signer.claims(&library, signer.quote(|_| ())).unwrap();
    assert_eq!(claims.data, QUOTE[HEADER + 520..HEADER + REPORT]);
    let usual = signer.quote(|signed| set_attributes(signed, USUAL));
    assert_eq!(signer.claims(&library, usual).unwrap().data, claims.data);
    let alone = signer.quote(|signed| with_service(signed, 0));
    assert_eq!(signer.claims(&library, alone).unwrap().data, claims.data);
    // Nobody else's root signs for it.
    let other = Signer::new().library();
    let refused = signer.claims(&other, signer.quote(|_| ()));
    assert!(matches!(refused, Err(Untrusted::Forged(_))), "{refused:?}");
}

#[test]
fn whole_quotes_of_domains_that_can_be_debugged_or_moved_are_refused() {
    let signer = Signer::new();
    let library = signer.library();
    for bit in [0, 4, 5, 6, 29] {
        let quote = signer.quote(|signed| set_attributes(signed, USUAL | 1 << bit));
        assert!(signer.claims(&library, quote).is_err(), "bit {bit}");
    }
    let served = signer.quote(|signed| with_service(signed, 1));
    assert!(signer.claims(&library, served).is_err());
    // Where the library looks away, we do not.
    let lenient = signer.library().allow_debug(true).allow_service_td(true);
    for (bit, why) in [
        (0, "its attributes allow debugging or profiling"),
        (5, "its attributes allow debugging or profiling"),
    ] {
        let quote = signer.quote(|signed| set_attributes(signed, USUAL | 1 << bit));
        let refused = signer.claims(&lenient, quote);
        assert_eq!(refused, Err(Untrusted::Open(why)), "bit {bit}");
    }
    let served = signer.quote(|signed| with_service(signed, 1));
    let refused = signer.claims(&lenient, served);
    assert_eq!(
        refused,
        Err(Untrusted::Open("a service domain is bound to it"))
    );
}

/// Our own check, which the library leaves nothing to find.
#[test]
fn domains_that_can_be_debugged_or_moved_are_refused() {
    assert_eq!(check_attributes(USUAL.to_le_bytes()), Ok(()));
    for (bit, why) in [
        (0, "its attributes allow debugging or profiling"),
        (29, "its attributes allow migration"),
    ] {
        let attributes = USUAL | 1 << bit;
        let refused = check_attributes(attributes.to_le_bytes());
        assert_eq!(refused, Err(Untrusted::Open(why)), "bit {bit}");
    }
}
