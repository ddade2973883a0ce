//! Reports of AMD SEV-SNP (AMD, *SEV Secure Nested Paging Firmware ABI Specification*, document 56860, tables 10, 23 and
//! 119).
//!
//! A report is signed by a key of the chip and of its firmware's versions, the VCEK, whose certificate AMD's ASK has
//! signed, and that one's the ARK (*VCEK Certificate and KDS Interface Specification*, document 57230). AMD's certificates
//! are in `amd/`, as its service hands them out; the VCEK's comes with the report or is given. It names chip and versions
//! in extensions, which have to be those of the report: the key of older firmware is no key of newer firmware.
//!
//! **Privilege levels.** A guest has four (VMPL), of which 0 may read and write all of its memory. A report says which one
//! asked for it (offset 0x30). Software at the other levels, or whatever it lets ask in its name, is not what was measured
//! at the start, so that only level 0 is taken, unless the user trusts what runs below another one (a paravisor).

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::signature::{
    ECDSA_P384_SHA384_FIXED, RSA_PSS_2048_8192_SHA384, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, DecodePem, Encode};

use super::{Claims, Evidence, Measurement, Platform, Untrusted, Verifier};
use crate::Error;

/// A generation of processors, by AMD's name for its certificates: Siena and Bergamo have those of Genoa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// EPYC 7003.
    Milan,
    /// EPYC 9004, 8004.
    Genoa,
    /// EPYC 9005.
    Turin,
}

impl Product {
    const ALL: [Product; 3] = [Product::Milan, Product::Genoa, Product::Turin];

    /// AMD's two certificates, ASK first, from `https://kdsintf.amd.com/vcek/v1/NAME/cert_chain`.
    fn authorities(self) -> Option<[Certificate; 2]> {
        let chain = match self {
            Product::Milan => include_str!("amd/milan.pem"),
            Product::Genoa => include_str!("amd/genoa.pem"),
            Product::Turin => include_str!("amd/turin.pem"),
        };
        let chain = Certificate::load_pem_chain(chain.as_bytes()).ok()?;
        chain.try_into().ok()
    }

    /// Whether AMD has signed the certificate of a VCEK as that of such a processor.
    fn certifies(self, vcek: &Certificate) -> bool {
        self.authorities().is_some_and(|[ask, ark]| {
            has_certified(&ark, &ark) && has_certified(&ark, &ask) && has_certified(&ask, vcek)
        })
    }

    /// Whether its versions begin with that of FMC.
    fn has_fmc(self) -> bool {
        self == Product::Turin
    }
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Product::Milan => "milan",
            Product::Genoa => "genoa",
            Product::Turin => "turin",
        })
    }
}

/// GUID of a VCEK in the table of certificates that a host puts beside a report (AMD, document 56421, section 4.1.8.1):
/// 63da758d-e664-4564-adc5-f4b93be8accd.
const VCEK: [u8; 16] = 0x63da_758d_e664_4564_adc5_f4b9_3be8_accd_u128.to_be_bytes();

/// Bytes of an entry of that table: a GUID, and where the certificate is.
const ENTRY: usize = 24;

/// Extensions of a VCEK: versions of FMC, bootloader, TEE, SNP and microcode, and the chip.
const FMC: &str = "1.3.6.1.4.1.3704.1.3.9";
const BOOTLOADER: &str = "1.3.6.1.4.1.3704.1.3.1";
const TEE: &str = "1.3.6.1.4.1.3704.1.3.2";
const SNP: &str = "1.3.6.1.4.1.3704.1.3.3";
const MICROCODE: &str = "1.3.6.1.4.1.3704.1.3.8";
const CHIP: &str = "1.3.6.1.4.1.3704.1.4";

/// What is signed of a report: all but the signature.
const SIGNED: usize = 0x2a0;
/// Bytes of a report.
const REPORT: usize = 0x4a0;
/// Bytes of a coordinate of a signature, little endian, of which those of P-384 fill 48.
const COORDINATE: usize = 72;

/// The privilege level that asked for the report.
const VMPL: usize = 0x30;
/// The firmware whose VCEK signs, and the one that started the guest.
const REPORTED: usize = 0x180;
const LAUNCHED: usize = 0x1f0;

/// ECDSA on P-384 with SHA-384.
const ECDSA_P384: u32 = 1;
/// A guest's policy allows a migration agent, or debugging.
const MIGRATION: u64 = 1 << 18;
const DEBUGGING: u64 = 1 << 19;
/// The bits of a report that say which key signs it: 0 is the VCEK.
const SIGNING_KEY: u32 = 0b11100;

/// Versions of a processor's firmware, each of which counts up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcbLevel {
    /// Firmware that processors before Turin do not have.
    pub fmc: Option<u8>,
    /// The bootloader of the security processor.
    pub bootloader: u8,
    /// Its operating system.
    pub tee: u8,
    /// Its SNP firmware.
    pub snp: u8,
    /// Microcode.
    pub microcode: u8,
}

/// Bootloader, TEE, SNP and microcode, with FMC before them if there is one, and points between.
impl std::fmt::Display for TcbLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(fmc) = self.fmc {
            write!(f, "{fmc}.")?;
        }
        let [bootloader, tee, snp, microcode] = self.common();
        write!(f, "{bootloader}.{tee}.{snp}.{microcode}")
    }
}

impl FromStr for TcbLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<TcbLevel, Error> {
        let numbers: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
        let (fmc, rest) = match numbers.as_deref() {
            Ok(rest @ [_, _, _, _]) => (None, rest),
            Ok([fmc, rest @ ..]) if rest.len() == 4 => (Some(*fmc), rest),
            _ => {
                let wrong = "firmware versions are four numbers, or five, as 4.0.24.219";
                return Err(Error::Usage(wrong.into()));
            }
        };
        Ok(TcbLevel {
            fmc,
            bootloader: rest[0],
            tee: rest[1],
            snp: rest[2],
            microcode: rest[3],
        })
    }
}

impl TcbLevel {
    fn common(&self) -> [u8; 4] {
        [self.bootloader, self.tee, self.snp, self.microcode]
    }

    /// Whether no version is older than that of another level of the same product.
    fn reaches(&self, other: &TcbLevel) -> bool {
        let newer = |(ours, theirs): (u8, u8)| ours >= theirs;
        self.fmc >= other.fmc && self.common().into_iter().zip(other.common()).all(newer)
    }
}

/// Checks reports of SEV-SNP.
#[derive(Clone, Debug)]
pub struct SevSnp {
    product: Product,
    least: TcbLevel,
    vmpl: u32,
    vcek: Option<Vec<u8>>,
}

impl SevSnp {
    /// Takes reports of such a processor whose firmware is at least that, asked for at privilege level 0, and signed by the
    /// key in the certificate `vcek`, PEM or DER, or if none is given in one that comes with the report.
    ///
    /// Fails with [`Error::Usage`] for versions of another product.
    pub fn new(product: Product, least: TcbLevel, vcek: Option<Vec<u8>>) -> Result<SevSnp, Error> {
        if least.fmc.is_some() != product.has_fmc() {
            let numbers = if product.has_fmc() { "five" } else { "four" };
            let problem = format!("firmware versions of {product} are {numbers} numbers");
            return Err(Error::Usage(problem));
        }
        Ok(SevSnp {
            product,
            least,
            vmpl: 0,
            vcek,
        })
    }

    /// Takes reports that were asked for at this privilege level only.
    pub fn at_vmpl(self, vmpl: u32) -> SevSnp {
        SevSnp { vmpl, ..self }
    }

    fn certificate(&self, evidence: &Evidence) -> Result<Certificate, Untrusted> {
        let given = self.vcek.as_deref();
        let bytes = given.or_else(|| find_vcek(&evidence.endorsements));
        let bytes = bytes.ok_or(Untrusted::NotEndorsed)?;
        let certificate = match bytes.starts_with(b"-----BEGIN") {
            true => Certificate::from_pem(bytes),
            false => Certificate::from_der(bytes),
        };
        certificate.map_err(|e| Untrusted::Malformed(format!("the VCEK's certificate: {e}")))
    }
}

/// The VCEK in a table of certificates.
fn find_vcek(table: &[u8]) -> Option<&[u8]> {
    let entries = table.chunks_exact(ENTRY);
    let entry = entries
        .take_while(|entry| entry[..16] != [0; 16])
        .find(|entry| entry[..16] == VCEK)?;
    let number = |at: usize| {
        let bytes: [u8; 4] = entry[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    };
    table.get(number(16)..)?.get(..number(20))
}

/// A report's fields.
struct Report<'a>(&'a [u8; REPORT]);

impl Report<'_> {
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.0[at + i])
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.field(at))
    }

    fn policy(&self) -> u64 {
        u64::from_le_bytes(self.field(0x08))
    }

    /// Versions; on products with FMC the others are elsewhere.
    fn level(&self, at: usize, product: Product) -> TcbLevel {
        let versions: [u8; 8] = self.field(at);
        match product.has_fmc() {
            true => TcbLevel {
                fmc: Some(versions[0]),
                bootloader: versions[1],
                tee: versions[2],
                snp: versions[3],
                microcode: versions[7],
            },
            false => TcbLevel {
                fmc: None,
                bootloader: versions[0],
                tee: versions[1],
                snp: versions[6],
                microcode: versions[7],
            },
        }
    }

    /// The signature: both coordinates in 48 bytes, big endian. `None` if one is too large.
    fn signature(&self) -> Option<[u8; 96]> {
        let mut out = [0; 96];
        let coordinates = self.0[SIGNED..].chunks_exact(COORDINATE);
        for (out, coordinate) in out.chunks_exact_mut(48).zip(coordinates) {
            let (low, high) = coordinate.split_at(48);
            high.iter().all(|byte| *byte == 0).then_some(())?;
            out.iter_mut()
                .zip(low.iter().rev())
                .for_each(|(out, byte)| *out = *byte);
        }
        Some(out)
    }
}

/// Whether the key in a certificate has signed a message.
fn has_signed(
    signer: &Certificate,
    algorithm: &'static dyn VerificationAlgorithm,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let key = signer.tbs_certificate().subject_public_key_info();
    let key = UnparsedPublicKey::new(algorithm, key.subject_public_key.raw_bytes());
    key.verify(message, signature).is_ok()
}

/// Whether the key in a certificate, which is one of AMD's, has signed another certificate.
fn has_certified(signer: &Certificate, signed: &Certificate) -> bool {
    // DER has one encoding only: this is what was read.
    let Ok(message) = signed.tbs_certificate().to_der() else {
        return false;
    };
    let signature = signed.signature().raw_bytes();
    has_signed(signer, &RSA_PSS_2048_8192_SHA384, &message, signature)
}

/// The value of an extension.
fn extension<'a>(vcek: &'a Certificate, oid: &str) -> Option<&'a [u8]> {
    let oid = ObjectIdentifier::new(oid).ok()?;
    let mut found = vcek
        .tbs_certificate()
        .extensions()?
        .iter()
        .filter(|found| found.extn_id == oid);
    let value = found.next()?.extn_value.as_bytes();
    found.next().is_none().then_some(value)
}

/// The versions that a VCEK is for.
fn level(vcek: &Certificate) -> Option<TcbLevel> {
    let number = |oid: &str| u8::from_der(extension(vcek, oid)?).ok();
    Some(TcbLevel {
        fmc: number(FMC),
        bootloader: number(BOOTLOADER)?,
        tee: number(TEE)?,
        snp: number(SNP)?,
        microcode: number(MICROCODE)?,
    })
}

/// Whether a VCEK is that of a report's chip. A host may hide which one it is.
fn is_of_chip(vcek: &Certificate, chip: &[u8; 64]) -> bool {
    let Some(named) = extension(vcek, CHIP) else {
        return false;
    };
    // Turin's identifiers are shorter than the field.
    let (start, rest) = chip.split_at(named.len().min(chip.len()));
    *chip == [0; 64] || (named == start && rest.iter().all(|byte| *byte == 0))
}

impl Verifier for SevSnp {
    fn platform(&self) -> Platform {
        Platform::SevSnp
    }

    fn authenticate(&self, evidence: &Evidence, now: SystemTime) -> Result<Claims, Untrusted> {
        let report = evidence.report.as_slice().try_into();
        let report =
            Report(report.map_err(|_| Untrusted::Malformed("no report of SEV-SNP".into()))?);
        let vcek = self.certificate(evidence)?;
        let forged = |problem: &str| Err(Untrusted::Forged(problem.into()));
        let unexpected =
            |expected: String, got: String| Err(Untrusted::Unexpected { expected, got });
        match Product::ALL
            .into_iter()
            .find(|product| product.certifies(&vcek))
        {
            None => return forged("AMD has not signed the VCEK's certificate"),
            Some(got) if got != self.product => {
                let processor = |product| format!("a processor of {product}");
                return unexpected(processor(self.product), processor(got));
            }
            Some(_) => {}
        }
        let signature = report.signature().unwrap_or([0; 96]);
        if !has_signed(
            &vcek,
            &ECDSA_P384_SHA384_FIXED,
            &report.0[..SIGNED],
            &signature,
        ) {
            return forged("the VCEK has not signed the report");
        }
        if (report.number(0x34), report.number(0x48) & SIGNING_KEY) != (ECDSA_P384, 0) {
            return forged("not signed as a VCEK signs");
        }
        let validity = vcek.tbs_certificate().validity();
        let valid = validity.not_before.to_unix_duration()..=validity.not_after.to_unix_duration();
        if !valid.contains(&now.duration_since(UNIX_EPOCH).unwrap_or_default()) {
            return forged("the VCEK's certificate is not valid now");
        }
        let reported = report.level(REPORTED, self.product);
        if level(&vcek) != Some(reported) || !is_of_chip(&vcek, &report.field(0x1a0)) {
            return forged("the VCEK is that of another chip, or of other firmware");
        }
        if report.policy() & DEBUGGING != 0 {
            return Err(Untrusted::Open("its policy allows debugging"));
        }
        if report.policy() & MIGRATION != 0 {
            return Err(Untrusted::Open("its policy allows migration"));
        }
        let vmpl = report.number(VMPL);
        if vmpl != self.vmpl {
            let level = |vmpl| format!("privilege level {vmpl}");
            return unexpected(level(self.vmpl), level(vmpl));
        }
        // Firmware may be renewed under a guest that older firmware has started, and could have started wrongly.
        for level in [reported, report.level(LAUNCHED, self.product)] {
            if !level.reaches(&self.least) {
                let old = format!("firmware {level}, and {} was asked for", self.least);
                return Err(Untrusted::OutOfDate(old));
            }
        }
        Ok(Claims {
            data: report.field(0x50),
            measurement: Measurement(report.field(0x90)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of AMD's certificates that this module goes by.
    #[test]
    fn roots_sign_themselves_and_the_keys_below() {
        let mut roots = Vec::new();
        for product in Product::ALL {
            let [ask, ark] = product.authorities().unwrap();
            assert!(has_certified(&ark, &ark) && has_certified(&ark, &ask));
            assert!(!has_certified(&ask, &ark) && !product.certifies(&ark));
            let others = Product::ALL.into_iter().filter(|other| *other != product);
            assert!(others.into_iter().all(|other| !other.certifies(&ask)));
            roots.push(ark.tbs_certificate().subject().to_string());
        }
        for (root, name) in roots.iter().zip(["ARK-Milan", "ARK-Genoa", "ARK-Turin"]) {
            assert!(root.contains(name), "{root}");
        }
    }
}
