//! Prints `vectors/compact-dh.json`: answers of the slow sender, and messages that must be refused.
//!
//! `cargo run -p vesica-reference --example compact_dh_vectors > vectors/compact-dh.json`

use vesica_reference::compact_dh::{Variant, sender};
use vesica_reference::field::Element;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

fn list(strings: impl Iterator<Item = Vec<u8>>) -> String {
    let lines: Vec<String> = strings.map(|s| format!("        {}", hex(&s))).collect();
    format!("[\n{}\n      ]", lines.join(",\n"))
}

/// Public test values: BLAKE3 of a name.
fn value(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

fn main() {
    let session = value("session");
    let secret = [value("secret, low"), value("secret, high")].concat();
    let items: Vec<[u8; 32]> = (0..4).map(|i| value(&format!("item {i}"))).collect();
    let coefficients: Vec<[u8; 32]> = (0..5).map(|i| value(&format!("coefficient {i}"))).collect();
    let polynomial: Vec<Element> = coefficients
        .iter()
        .map(|c| {
            let (words, _) = c.as_chunks::<8>();
            std::array::from_fn(|i| u64::from_le_bytes(words[i]))
        })
        .collect();
    let variants = [
        (Variant::Malicious, "compact-dh"),
        (Variant::SemiHonest1, "compact-dh-sh1"),
        (Variant::SemiHonest2, "compact-dh-sh2"),
    ];
    let good: Vec<String> = variants
        .into_iter()
        .map(|(variant, name)| {
            let (public, masks) = sender(variant, &session, &secret, &polynomial, &items);
            format!(
                "    {{\n      \"protocol\": \"{name}\",\n      \"session\": {},\n      \"secret\": {},\n      \
                 \"public\": {},\n      \"polynomial\": {},\n      \"items\": {},\n      \"masks\": {}\n    }}",
                hex(&session),
                hex(&secret),
                hex(&public),
                list(coefficients.iter().map(|c| c.to_vec())),
                list(items.iter().map(|i| i.to_vec())),
                list(masks.iter().map(|m| m.to_vec())),
            )
        })
        .collect();

    let zeros = [0; 32].to_vec();
    let constants = [
        vec![value("constant").to_vec()],
        vec![value("constant").to_vec(), zeros.clone(), zeros.clone()],
        vec![zeros.clone(), zeros],
    ];
    let bad_polynomials: Vec<String> = constants
        .into_iter()
        .map(|c| {
            let polynomial = list(c.into_iter());
            format!("    {{\n      \"polynomial\": {polynomial},\n      \"problem\": \"constant\"\n    }}")
        })
        .collect();

    // The points of order 1, 2, 4 and 8 (RFC 7748 leaves them to the user); u = 2 on the twist; from p up.
    let low = "a point of low order";
    let unreduced = "not a canonical field element";
    let bad_keys = [
        (
            "0000000000000000000000000000000000000000000000000000000000000000",
            low,
        ),
        (
            "0100000000000000000000000000000000000000000000000000000000000000",
            low,
        ),
        (
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            low,
        ),
        (
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
            low,
        ),
        (
            "0200000000000000000000000000000000000000000000000000000000000000",
            "not a point of the curve",
        ),
        (
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "not a point of the curve",
        ),
        (
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            unreduced,
        ),
        (
            "0900000000000000000000000000000000000000000000000000000000000080",
            unreduced,
        ),
        (
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            unreduced,
        ),
    ];
    let bad_keys: Vec<String> = bad_keys
        .into_iter()
        .map(|(public, problem)| {
            format!("    {{ \"public\": \"{public}\", \"problem\": \"{problem}\" }}")
        })
        .collect();
    println!(
        "{{\n  \"description\": \"RT21: the sender's public key and masks (256 bits), and refused messages\",\n  \
         \"sender\": [\n{}\n  ],\n  \"bad_polynomials\": [\n{}\n  ],\n  \"bad_keys\": [\n{}\n  ]\n}}",
        good.join(",\n"),
        bad_polynomials.join(",\n"),
        bad_keys.join(",\n"),
    );
}
