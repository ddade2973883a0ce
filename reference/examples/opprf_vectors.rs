//! Prints `vectors/opprf.json`: keys, pads, and a garbled cuckoo table.
//!
//! `cargo run -p vesica-reference --example opprf_vectors > vectors/opprf.json`

use vesica_reference::opprf::{Point, bits, bytes, hint, key, pad};

/// Bits of a string in the table: a tag of 60 and a payload of 9.
const BITS: usize = 69;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

/// Public test values.
fn value(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

fn words(bytes: &[u8; 32]) -> [u64; 2] {
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bytes[8 * i + j]));
    [word(0), word(1)]
}

fn main() {
    let session = value("session");
    let keys = [0, 1, 2].map(|function| {
        let key = hex(&key(&session, &value("item"), function));
        format!("{{ \"function\": {function}, \"key\": {key} }}")
    });
    let output = words(&value("output"));
    let pads = [(0, 0), (0, 1), (5, 2), (1 << 30, 2)].map(|(bin, index)| {
        let pad = hex(&bytes(&pad(&session, output, bin, index)));
        format!("{{ \"bin\": {bin}, \"index\": {index}, \"pad\": {pad} }}")
    });
    // The first three points fill slots 0 to 2, so the fourth is in slot 4, and slot 3 is empty.
    let slots = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 2, 4]];
    let points: Vec<Point> = (0u64..)
        .zip(slots)
        .map(|(i, slots)| Point {
            slots,
            pads: [0, 1, 2].map(|f| pad(&session, words(&value(&format!("output {i}"))), i, f)),
            target: bits(&value(&format!("target {i}")))[..BITS].to_vec(),
        })
        .collect();
    let filler: Vec<Vec<bool>> = (0..5)
        .map(|i| bits(&value(&format!("filler {i}")))[..BITS].to_vec())
        .collect();
    let table = hint(&points, &filler).expect("a placement");
    let values = [0, 1, 2, 3].map(|i| {
        let [output, target] = ["output", "target"].map(|name| format!("{name} {i}"));
        let (first, second) = (hex(&value(&output)), hex(&value(&target)));
        format!("\"{output}\": {first}, \"{target}\": {second}")
    });
    println!(
        "{{\n  \"description\": \"Keys of the item that is BLAKE3 of 'item', and pads of the output that is the first \
         half of BLAKE3 of 'output', in the session that is BLAKE3 of 'session'; the packed slots of a table of four \
         points in bins 0 to 3, the last of which may be in slots 0, 2 and 4 and the others in slots 0, 1 and 2, with \
         outputs and targets made likewise from the values of 'output 0' and so on\",\n  \"session\": {},\n  \
         \"item\": {},\n  \"keys\": [\n    {}\n  ],\n  \"output\": {},\n  \"pads\": [\n    {}\n  ],\n  \
         \"bits\": {BITS},\n  \"slots\": {},\n  \"values\": {{\n    {}\n  }}\n}}",
        hex(&session),
        hex(&value("item")),
        keys.join(",\n    "),
        hex(&value("output")[..16]),
        pads.join(",\n    "),
        hex(&bytes(&table.concat())),
        values.join(",\n    "),
    );
}
