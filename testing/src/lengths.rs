//! What whoever carries the frames of a run can see: how many there are, of which kinds, and how long they are.

use vesica_wire::Kind;

/// Code and length of each frame that a side has sent.
pub type Lengths = Vec<(u8, usize)>;

/// How far the lengths of frames that code uniform values can be apart, if all that differs is the values. Differences of
/// uniform numbers deviate by 1.2 bits each; a value takes four bytes or more.
fn scatter(bytes: usize) -> usize {
    let values = bytes as f64 / 4.0;
    // Five standard deviations of a difference of two sums, and half a byte of padding in each of some frames.
    (5.0 * 1.2 * (2.0 * values).sqrt() / 8.0) as usize + 2
}

/// What the frames of a side tell of how much matched: `runs` differ in that alone, and each comes with the number of its
/// matches. Frames of the kinds `coded` code uniform values: as many have to be there, with about as many bytes together.
pub fn told_by_lengths(runs: &[(u64, Lengths)], coded: &[Kind]) -> Vec<String> {
    let is_coded = |code: u8| coded.iter().any(|kind| kind.code == code);
    let mut told = Vec::new();
    let ((first, expected), others) = runs.split_first().expect("two runs or more");
    for (matches, lengths) in others {
        let codes = |lengths: &Lengths| lengths.iter().map(|(code, _)| *code).collect::<Vec<_>>();
        if codes(lengths) != codes(expected) {
            told.push(format!(
                "kinds {:?} with {first} matches, {:?} with {matches}",
                codes(expected),
                codes(lengths)
            ));
            continue;
        }
        for (number, (one, other)) in expected.iter().zip(lengths).enumerate() {
            if one != other && !is_coded(one.0) {
                let (code, bytes) = *one;
                told.push(format!(
                    "frame {number}, of kind {code}: {bytes} bytes with {first} matches, {} with {matches}",
                    other.1
                ));
            }
        }
        for kind in coded {
            let bytes = |lengths: &Lengths| -> usize {
                let of_kind = lengths.iter().filter(|(code, _)| *code == kind.code);
                of_kind.map(|(_, length)| length).sum()
            };
            let [one, other] = [expected, lengths].map(bytes);
            if one.abs_diff(other) > scatter(one) {
                told.push(format!(
                    "{}: {one} bytes with {first} matches, {other} with {matches}",
                    kind.name
                ));
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_numbers_and_lengths_are_told() {
        let masks = Kind {
            code: 34,
            name: "masks",
        };
        let usual = vec![(1, 5), (34, 1000), (3, 0)];
        let told = |other: &[(u8, usize)]| {
            told_by_lengths(&[(0, usual.clone()), (7, other.to_vec())], &[masks])
        };
        assert!(told(&usual).is_empty());
        assert!(told(&[(1, 5), (34, 1003), (3, 0)]).is_empty());
        for (other, words) in [
            (&[(1, 6), (34, 1000), (3, 0)][..], "of kind 1: 5 bytes"),
            (&[(1, 5), (34, 1000), (3, 1)], "of kind 3: 0 bytes"),
            (&[(1, 5), (34, 1100), (3, 0)], "masks: 1000 bytes"),
            (&[(1, 5), (34, 1000)], "kinds [1, 34, 3]"),
            (&[(1, 5), (34, 500), (34, 500), (3, 0)], "kinds [1, 34, 3]"),
            (&[(1, 5), (3, 0), (34, 1000)], "kinds [1, 34, 3]"),
        ] {
            let found = told(other);
            assert!(
                matches!(&found[..], [one] if one.contains(words)),
                "{found:?}"
            );
        }
    }
}
