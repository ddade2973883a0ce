//! Prints `vectors/base-ot.json`: keys of the slow sender, and keys that the receiver must refuse.
//!
//! `cargo run -p vesica-reference --example base_ot_vectors > vectors/base-ot.json`

use vesica_reference::base_ot::{evaluate, sender};

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

fn list(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("    {line}")).collect();
    format!("[\n{}\n  ]", lines.join(",\n"))
}

/// Public test values: BLAKE3 of a name.
fn value(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

fn main() {
    let session = value("session");
    let secret = [value("secret, low"), value("secret, high")].concat();
    let mut functions: Vec<[[u8; 32]; 2]> = (0..3)
        .map(|i| [0, 1].map(|b| value(&format!("function {i}, part {b}"))))
        .collect();
    // A repeated function, then two that a receiver made so that one value is a string of its choice:
    // zeros, which decode to a point of low order, and ones, which are not reduced.
    functions.push(functions[0]);
    for (i, wanted) in [(4, 0), (5, 0xff)] {
        let random = [[0; 32], value("random part")];
        let masked = evaluate(&session, i, &random, 0);
        functions.push([masked.map(|m| m ^ wanted), random[1]]);
    }
    let (public, keys) = sender(&session, &secret, &functions);

    // The points of order 1, 2, 4 and 8; u = 2 on the twist; from p up.
    let low = "a point of low order";
    let unreduced = "not a canonical field element";
    let bad = [
        ("00".repeat(32), low),
        (format!("01{}", "00".repeat(31)), low),
        (
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800".into(),
            low,
        ),
        (
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157".into(),
            low,
        ),
        (format!("02{}", "00".repeat(31)), "not a point of the curve"),
        (format!("ed{}7f", "ff".repeat(30)), unreduced),
        (format!("09{}80", "00".repeat(30)), unreduced),
        ("ff".repeat(32), unreduced),
    ];
    let pair = |a: &[u8], b: &[u8]| format!("[{}, {}]", hex(a), hex(b));
    println!(
        "{{\n  \"description\": \"Base transfers: the sender's public key and keys, and refused public keys\",\n  \
         \"session\": {},\n  \"secret\": {},\n  \"public\": {},\n  \"functions\": {},\n  \"keys\": {},\n  \
         \"bad_keys\": {}\n}}",
        hex(&session),
        hex(&secret),
        hex(&public),
        list(functions.iter().map(|[a, b]| pair(a, b))),
        list(keys.iter().map(|[a, b]| pair(a, b))),
        list(bad.iter().map(|(public, problem)| {
            format!("{{ \"public\": \"{public}\", \"problem\": \"{problem}\" }}")
        })),
    );
}
