//! Prints `vectors/entries.json`: a tree of entries of a subfield VOLE, over GF(8) and GF(16).
//!
//! `cargo run -p vesica-reference --example entry_vectors > vectors/entries.json`

use vesica_reference::bulk::{self, block, elements};

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("\"{digits}\"")
}

/// Public test values: the first half of BLAKE3 of a name.
fn value(name: &str, i: usize) -> u128 {
    let digest = blake3::hash(format!("{name} {i}").as_bytes());
    u128::from_le_bytes(std::array::from_fn(|i| digest.as_bytes()[i]))
}

fn main() {
    let session = *blake3::hash(b"session").as_bytes();
    let cases = [3, 4].map(|width| {
        let sender = |name: &str, i: usize| {
            let mut y = elements(width, value(name, i));
            y[0] = 0;
            block(width, &y)
        };
        let receiver = |name: &str, i: usize| value(name, i) as u8 & ((1 << width) - 1);
        let base: Vec<u128> = (0..20).map(|i| sender("base", i)).collect();
        let base_elements: Vec<u8> = (0..20).map(|i| receiver("element", i)).collect();
        let cots: Vec<u128> = (0..6).map(|i| value("cot", i) & !1).collect();
        let choices: Vec<bool> = (0..6).map(|i| value("choice", i) & 1 == 1).collect();
        let made = bulk::entries(
            &session,
            width,
            value("delta", 0) | 1,
            3,
            0,
            &[value("root", 0), value("root", 1)],
            (&base, &base_elements),
            (
                &[0, 1].map(|i| sender("entry", i)),
                &[0, 1].map(|i| receiver("noise", i)),
            ),
            (&cots, &choices),
        );
        let bytes =
            |blocks: &[u128]| -> Vec<u8> { blocks.iter().flat_map(|b| b.to_le_bytes()).collect() };
        format!(
            "{{ \"width\": {width}, \"message\": {}, \"y\": {}, \"x\": {} }}",
            hex(&bytes(&made.messages.concat())),
            hex(&bytes(&made.sender)),
            hex(&made.elements)
        )
    });
    println!(
        "{{\n  \"description\": \"Entries of a VOLE over GF(2^width): two trees of depth 3 over a base vector of 20. Values are \
         the first half of BLAKE3 of 'delta 0', with bit 0 set, 'root i', 'base i' and 'entry i', with 0 as the first \
         element and in bits that are no element's, 'cot i', with bit 0 cleared; elements the low bits of 'element i' and \
         'noise i', choices the lowest of 'choice i'\",\n  \"session\": {},\n  \"cases\": [\n    {}\n  \
         ]\n}}",
        hex(&session),
        cases.join(",\n    ")
    );
}
