//! Prints `vectors/oprf-dh.json`: a sender's public key, masks and answers by slow formulas.
//!
//! `cargo run -p vesica-reference --example oprf_dh_vectors > vectors/oprf-dh.json`

use num_bigint::BigUint;
use vesica_reference::curve::group_order;
use vesica_reference::voprf::{derive, encode, multiply, sender};

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

fn list(strings: &[[u8; 32]]) -> String {
    let lines: Vec<String> = strings.iter().map(|s| format!("    {}", hex(s))).collect();
    format!("[\n{}\n  ]", lines.join(",\n"))
}

/// Public test values: BLAKE3 of a name.
fn value(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

fn main() {
    let session = value("session");
    let secret = [value("secret, low"), value("secret, high")].concat();
    let items: Vec<[u8; 32]> = (0..4).map(|i| value(&format!("item {i}"))).collect();
    let (public, masks) = sender(&session, &secret, &items);
    let key = BigUint::from_bytes_le(&secret) % (group_order() / 8u8);
    let blinded =
        (0..3).map(|i| derive([value(&format!("low {i}")), value("high")].as_flattened()));
    let blinded: Vec<_> = blinded.collect();
    let answers: Vec<_> = blinded
        .iter()
        .map(|point| encode(&multiply(&key, point)))
        .collect();
    let blinded: Vec<_> = blinded.iter().map(encode).collect();
    println!(
        "{{\n  \"description\": \"2HashDH with the suite of RFC 9497: the sender's public key, masks (256 bits) and answers\",\n  \
         \"session\": {},\n  \"secret\": {},\n  \"public\": {},\n  \"items\": {},\n  \"masks\": {},\n  \
         \"blinded\": {},\n  \"answers\": {}\n}}",
        hex(&session),
        hex(&secret),
        hex(&public),
        list(&items),
        list(&masks),
        list(&blinded),
        list(&answers),
    );
}
