//! What a party says to a dealer, and what a dealer shows it.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use vesica_offline::{
    DealerRequest, Evidence, Expected, Measurement, Product, SevSnp, Share, Simulated, TcbLevel,
    Tdx,
};
use vesica_session::Registry;

/// What a party asks a dealer or its generator for, by itself and in what a generator says to the other one. What is read
/// writes the same bytes again, and can be met or not.
pub fn request(bytes: &[u8]) {
    let share = Share::decode(bytes).ok();
    if let Some(share) = &share {
        assert_eq!(share.encode(), bytes);
    }
    for bytes in [Some(bytes), share.as_ref().map(|share| &*share.request)] {
        if let Some(Ok(request)) = bytes.map(DealerRequest::decode) {
            assert_eq!(Some(&*request.encode()), bytes);
            let _ = request.terms.check(Registry::standard());
        }
    }
}

/// Verifiers of every platform, which expect what no report shows.
static VERIFIERS: LazyLock<[Expected; 4]> = LazyLock::new(|| {
    let nothing = Measurement([0; 48]);
    let (vcek, least) = (
        include_bytes!("../../vectors/attestation/vcek_milan.der"),
        TcbLevel::default(),
    );
    let collateral = include_bytes!("../../vectors/attestation/tdx_quote_collateral.json");
    let snp = |vcek| SevSnp::new(Product::Milan, least, vcek).expect("four numbers");
    [
        Expected::new(Simulated, nothing),
        Expected::new(snp(None), nothing),
        Expected::new(snp(Some(vcek.to_vec())), nothing),
        Expected::new(Tdx::new(collateral).expect("collateral"), nothing),
    ]
});

/// What a dealer shows of its trusted execution environment. What is read writes the same bytes again.
pub fn attestation(bytes: &[u8]) {
    let Ok(evidence) = Evidence::decode(bytes) else {
        return;
    };
    assert_eq!(evidence.encode(), bytes);
    // When the collateral was valid.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_400_000);
    for verifier in VERIFIERS.iter() {
        assert!(verifier.check(&evidence, &[1; 64], now).is_err());
    }
}
