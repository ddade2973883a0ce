//! Prints `vectors/ot-extension.json`: what one tile comes to in the slow version.
//!
//! `cargo run -p vesica-reference --example ot_extension_vectors > vectors/ot-extension.json`

use vesica_reference::ot_extension::{random_key, tile};

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
    let session = *blake3::hash(b"session").as_bytes();
    let s = value("s");
    let pairs = std::array::from_fn(|j| [0, 1].map(|b| value(&format!("seed {b} of column {j}"))));
    let choices: Vec<u128> = (0..3).map(|i| value(&format!("choices {i}"))).collect();
    let tile = tile(&session, s, &pairs, &choices);
    let list = |lines: Vec<String>| format!("[\n    {}\n  ]", lines.join(",\n    "));
    let keys = [0, 1, 127, 128, 255].map(|row: usize| {
        let (q, t) = (tile.sender[row], tile.receiver[row]);
        let [zero, one, got] = [q, q ^ s, t].map(|v| random_key(&session, row as u64, v));
        format!(
            "{{ \"row\": {row}, \"sender\": [{}, {}], \"receiver\": {} }}",
            hex(&zero.to_le_bytes()),
            hex(&one.to_le_bytes()),
            hex(&got.to_le_bytes()),
        )
    });
    println!(
        "{{\n  \"description\": \"One tile of an extension with its check; seed b of column j is the first half of \
         BLAKE3 of 'seed b of column j'; the last block of choices belongs to the unused rows\",\n  \
         \"session\": {},\n  \"s\": {},\n  \"choices\": {},\n  \"blake3_of_matrix\": {},\n  \
         \"blake3_of_check\": {},\n  \"keys\": {}\n}}",
        hex(&session),
        hex(&s.to_le_bytes()),
        list(choices.iter().map(|c| hex(&c.to_le_bytes())).collect()),
        hex(blake3::hash(&tile.matrix).as_bytes()),
        hex(blake3::hash(&tile.check).as_bytes()),
        list(keys.to_vec()),
    );
}
