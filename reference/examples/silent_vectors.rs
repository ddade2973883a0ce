//! Prints `vectors/silent.json`: constants and encodings of the code, and leaves of trees.
//!
//! `cargo run -p vesica-reference --example silent_vectors > vectors/silent.json`

use vesica_reference::silent::{Constants, constant, encode, tree};

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

/// Public test values: the first half of BLAKE3 of a name.
fn value(name: &str) -> u128 {
    let digest = blake3::hash(name.as_bytes());
    u128::from_le_bytes(std::array::from_fn(|i| digest.as_bytes()[i]))
}

fn main() {
    let list = |lines: Vec<String>| format!("[\n    {}\n  ]", lines.join(",\n    "));
    let constants = [0, 1, 2, 1023, 1024, 1_118_207].map(|row: usize| {
        let of = |constants| hex(&constant(constants, row).to_le_bytes());
        let [word, byte] = [Constants::Words, Constants::Bytes].map(of);
        format!("{{ \"row\": {row}, \"constant\": {word}, \"byte\": {byte} }}")
    });
    let rows = |half: &str| -> Vec<Vec<u128>> {
        (0..1100)
            .map(|i| vec![value(&format!("{half} {i}"))])
            .collect()
    };
    let (parity, systematic) = (rows("parity"), rows("systematic"));
    let encodings = [
        ("bits", Constants::None),
        ("bytes", Constants::Bytes),
        ("words", Constants::Words),
    ];
    let encodings = encodings.map(|(coefficients, constants)| {
        let bytes: Vec<u8> = encode(&parity, &systematic, constants)
            .concat()
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        format!(
            "{{ \"coefficients\": \"{coefficients}\", \"blake3\": {} }}",
            hex(blake3::hash(&bytes).as_bytes())
        )
    });
    let session = *blake3::hash(b"session").as_bytes();
    let trees = [0, 5, 1 << 40].map(|number: u64| {
        let leaves = tree(&session, number, value("root"), 3);
        let leaves: Vec<String> = leaves.iter().map(|l| hex(&l.to_le_bytes())).collect();
        format!(
            "{{ \"number\": {number}, \"leaves\": [{}] }}",
            leaves.join(", ")
        )
    });
    println!(
        "{{\n  \"description\": \"Constants of the expand-convolute code, words of GF(2^64) and bytes of GF(2^8) in it; BLAKE3 of encodings of 1100 rows, row i of a \
         half being the first half of BLAKE3 of 'parity i' or 'systematic i'; leaves of trees of depth 3 whose root is \
         the first half of BLAKE3 of 'root'\",\n  \"constants\": {},\n  \"encodings\": {},\n  \"session\": {},\n  \
         \"trees\": {}\n}}",
        list(constants.to_vec()),
        list(encodings.to_vec()),
        hex(&session),
        list(trees.to_vec()),
    );
}
