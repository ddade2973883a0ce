//! What a trusted execution environment has to show before a half is taken: options of `vesica offline make`.

#[cfg(feature = "tee")]
use std::path::Path;

use clap::{Args, ValueEnum};
use vesica::offline::{Expected, Measurement, Platform, Simulated};
use vesica_psi::Origin;

#[cfg(feature = "tee")]
use crate::failure::DATA;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::paths::InputPath;

/// The trusted execution environment (TEE) of a dealer or a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attestation {
    /// A virtual machine under AMD SEV-SNP
    SevSnp,
    /// A virtual machine under Intel TDX
    Tdx,
    /// None: for tests, and protects nothing
    Simulated,
}

impl Attestation {
    pub(super) fn platform(self) -> Platform {
        match self {
            Attestation::SevSnp => Platform::SevSnp,
            Attestation::Tdx => Platform::Tdx,
            Attestation::Simulated => Platform::Simulated,
        }
    }

    pub(super) fn is_of_hardware(self) -> bool {
        self != Attestation::Simulated
    }

    /// Says loudly that a simulation is one.
    pub(super) fn warn(self) {
        if self == Attestation::Simulated {
            let warning = format!(
                "SIMULATED ATTESTATION. Anybody can make such a report: it says nothing about what runs, and \
                 protects nothing. Its measurement is {}",
                Simulated::MEASUREMENT
            );
            log::say(Level::Warning, &warning);
        }
    }
}

/// A generation of AMD's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Processor {
    /// EPYC 7003
    Milan,
    /// EPYC 9004 and 8004
    Genoa,
    /// EPYC 9005
    Turin,
}

/// What the dealer, or the party's generator, has to show.
#[derive(Debug, Args)]
pub(super) struct Shown {
    /// With --offline dealer or tee: what the dealer, or this side's generator, runs in
    #[arg(long, value_enum)]
    attestation: Option<Attestation>,
    /// Digest of what the dealer or this side's generator was started with, 96 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "attestation")]
    measurement: Option<Measurement>,
    /// With --attestation sev-snp: the generation of the processor
    #[arg(long, value_enum, value_name = "PRODUCT", requires = "attestation")]
    product: Option<Processor>,
    /// With --attestation sev-snp: the least versions of the product's firmware, as 4.0.24.219: bootloader, TEE, SNP and
    /// microcode, with FMC before them for turin
    #[arg(long, value_name = "VERSIONS", requires = "attestation")]
    tcb: Option<String>,
    /// With --attestation sev-snp: the privilege level that asks for the report, 0 if not given; another one means that you
    /// trust what runs below it, such as a paravisor of the cloud
    #[arg(long, value_name = "LEVEL", requires = "attestation", value_parser = clap::value_parser!(u32).range(0..=3))]
    vmpl: Option<u32>,
    /// Certificate of the processor's key (sev-snp; if the report comes without) or collateral of the platform (tdx)
    #[arg(long, value_name = "FILE", requires = "attestation")]
    endorsements: Option<InputPath>,
}

/// What the other side's generator has to show; without --peer-attestation all that this side's has to.
#[derive(Debug, Args)]
pub(super) struct PeerShown {
    /// With --offline tee: what the other side's generator runs in, if it is another machine than --attestation and the
    /// options that go with it describe
    #[arg(long, value_enum, requires = "attestation")]
    peer_attestation: Option<Attestation>,
    /// As --measurement
    #[arg(long, value_name = "HEX", requires = "peer_attestation")]
    peer_measurement: Option<Measurement>,
    /// As --product
    #[arg(
        long,
        value_enum,
        value_name = "PRODUCT",
        requires = "peer_attestation"
    )]
    peer_product: Option<Processor>,
    /// As --tcb
    #[arg(long, value_name = "VERSIONS", requires = "peer_attestation")]
    peer_tcb: Option<String>,
    /// As --vmpl
    #[arg(long, value_name = "LEVEL", requires = "peer_attestation", value_parser = clap::value_parser!(u32).range(0..=3))]
    peer_vmpl: Option<u32>,
    /// As --endorsements
    #[arg(long, value_name = "FILE", requires = "peer_attestation")]
    peer_endorsements: Option<InputPath>,
}

impl PeerShown {
    /// As options of the peer's own; `None` if they are those of this side.
    fn given(&self) -> Option<Shown> {
        self.peer_attestation.map(|attestation| Shown {
            attestation: Some(attestation),
            measurement: self.peer_measurement,
            product: self.peer_product,
            tcb: self.peer_tcb.clone(),
            vmpl: self.peer_vmpl,
            endorsements: self.peer_endorsements.clone(),
        })
    }
}

/// What is expected of whoever makes the halves.
pub(super) enum Expectations {
    /// Nothing is shown.
    Nothing,
    /// Of the dealer.
    Dealer(Expected),
    /// Of the generators of this side and of the other.
    Generators([Expected; 2]),
}

impl Expectations {
    /// What the options of a command say about halves of this origin.
    pub(super) fn new(
        origin: Origin,
        own: &Shown,
        peer: &PeerShown,
    ) -> Result<Expectations, Failure> {
        let peer = peer.given();
        match (origin, own.expected()?) {
            (Origin::Generators, Some(expected)) => {
                let other = peer.as_ref().unwrap_or(own).expected()?;
                let other = other.ok_or_else(|| Failure::usage(GENERATORS_SHOW))?;
                Ok(Expectations::Generators([expected, other]))
            }
            (Origin::Generators, None) => Err(Failure::usage(GENERATORS_SHOW)),
            _ if peer.is_some() => {
                Err(Failure::usage("--peer-attestation goes with --offline tee"))
            }
            (Origin::Dealer, Some(expected)) => Ok(Expectations::Dealer(expected)),
            (_, None) => Ok(Expectations::Nothing),
            (_, Some(_)) => Err(Failure::usage(
                "--attestation goes with --offline dealer or tee",
            )),
        }
    }

    pub(super) fn shown(&self) -> vesica::offline::Shown<'_> {
        match self {
            Expectations::Nothing => vesica::offline::Shown::Nothing,
            Expectations::Dealer(expected) => vesica::offline::Shown::ByDealer(expected),
            Expectations::Generators([own, other]) => {
                vesica::offline::Shown::ByGenerators([own, other])
            }
        }
    }
}

const GENERATORS_SHOW: &str = "--offline tee needs --attestation";

/// Longest file of endorsements, in bytes.
#[cfg(feature = "tee")]
const MAX_ENDORSEMENTS: u64 = 1 << 20;

impl Shown {
    /// What is expected, if something is.
    fn expected(&self) -> Result<Option<Expected>, Failure> {
        let Some(attestation) = self.attestation else {
            return Ok(None);
        };
        let needed = || Failure::usage("--attestation needs --measurement");
        let measurement = self.measurement.ok_or_else(needed)?;
        let is_snp = attestation == Attestation::SevSnp;
        if self.tcb.is_some() != is_snp {
            return Err(Failure::usage("--tcb goes with --attestation sev-snp"));
        }
        if !is_snp && (self.product.is_some() || self.vmpl.is_some()) {
            return Err(Failure::usage(
                "--product and --vmpl go with --attestation sev-snp",
            ));
        }
        if is_snp && self.product.is_none() {
            return Err(Failure::usage("--attestation sev-snp needs --product"));
        }
        if self.endorsements.is_some() && attestation == Attestation::Simulated {
            return Err(Failure::usage("--endorsements are for real reports"));
        }
        attestation.warn();
        let expected = match attestation {
            Attestation::Simulated => Expected::new(Simulated, measurement),
            _ => self.in_hardware(attestation, measurement)?,
        };
        Ok(Some(expected))
    }

    #[cfg(feature = "tee")]
    fn in_hardware(
        &self,
        attestation: Attestation,
        measurement: Measurement,
    ) -> Result<Expected, Failure> {
        let endorsements = self.endorsements.as_deref().map(read).transpose()?;
        let collateral = || Failure::usage("--attestation tdx needs --endorsements");
        Ok(match attestation {
            Attestation::Tdx => {
                let collateral = endorsements.ok_or_else(collateral)?;
                Expected::new(vesica::offline::Tdx::new(&collateral)?, measurement)
            }
            _ => {
                let product = match self.product {
                    None | Some(Processor::Milan) => vesica::offline::Product::Milan,
                    Some(Processor::Genoa) => vesica::offline::Product::Genoa,
                    Some(Processor::Turin) => vesica::offline::Product::Turin,
                };
                let least = self.tcb.as_deref().unwrap_or_default().parse()?;
                let verifier = vesica::offline::SevSnp::new(product, least, endorsements)?;
                let vmpl = self.vmpl.unwrap_or_default();
                Expected::new(verifier.at_vmpl(vmpl), measurement)
            }
        })
    }

    #[cfg(not(feature = "tee"))]
    fn in_hardware(&self, _: Attestation, _: Measurement) -> Result<Expected, Failure> {
        Err(Failure::usage(
            "this program was built without what checks reports of hardware (feature tee)",
        ))
    }
}

/// Reads a file of endorsements.
#[cfg(feature = "tee")]
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = vesica_files::read_regular(path, MAX_ENDORSEMENTS);
    read.map_err(|e| Failure::new(DATA, format!("{}: {e}", path.display())))
}
