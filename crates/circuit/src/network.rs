//! A switching network for permutations of any size: what both sides know of it, and the settings that one side finds.
//!
//! **Papers.** A. Waksman, *A Permutation Network*, JACM 1968; for sizes that are no powers of two B. Beauquier, É. Darrot, *On
//! Arbitrary Size Waksman Networks and Their Vulnerability*, Parallel Processing Letters 2002.
//!
//! **Shape.** A node covers the wires from `first` on, n of them; h is ⌊n/2⌋. Nodes of no wire and of one are empty, and one of
//! two is a switch. Any other has an input layer, whose switch i exchanges wires i and h + i; then a node of the first h wires
//! and one of the others; then an output layer of the same pairs, without its last switch if n is even. There are
//! n·l − 2^l + 1 switches, where l is ⌈log₂ n⌉. Their order is depth first, and follows from n alone. Layers join two ranges of
//! neighbours, so that 64 switches are three operations on words.
//!
//! **Routing** takes a time that depends on the permutation, which is the secret of the side that has it.

use zeroize::Zeroizing;

use crate::bits::BitShares;

/// Number of switches for so many wires.
pub(crate) fn switches(wires: usize) -> usize {
    if wires < 2 {
        return 0;
    }
    let log = wires.next_power_of_two().trailing_zeros() as usize;
    wires * log + 1 - (1 << log)
}

/// Up to 64 switches of a layer: the first wire of each half of the pairs, the number of the first switch, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) switch: usize,
    pub(crate) count: usize,
}

/// Passes all switches for so many wires to `each`, in order.
pub(crate) fn walk(wires: usize, each: &mut impl FnMut(Part)) {
    node(0, wires, &mut 0, each);
}

fn node(first: usize, wires: usize, next: &mut usize, each: &mut impl FnMut(Part)) {
    if wires < 2 {
        return;
    }
    let half = wires / 2;
    layer([first, half, half], next, each);
    if wires > 2 {
        node(first, half, next, each);
        node(first + half, wires - half, next, each);
        layer([first, half, half - (1 - wires % 2)], next, each);
    }
}

/// The first `count` pairs of a node whose halves are so far apart.
fn layer([first, half, count]: [usize; 3], next: &mut usize, each: &mut impl FnMut(Part)) {
    for done in (0..count).step_by(64) {
        each(Part {
            low: first + done,
            high: first + half + done,
            switch: *next + done,
            count: (count - done).min(64),
        });
    }
    *next += count;
}

/// Nodes of fewer wires are routed by one thread.
const TASK: usize = 1 << 14;

/// Marks of an output: the next one is none, or its input goes through the first half of the wires or through the others.
const END: u32 = u32::MAX;
const FIRST: u32 = END - 1;
const SECOND: u32 = END - 2;

/// The settings of all switches by which output o gets input `inputs[o]`: 1 for pairs that are exchanged.
///
/// # Panics
/// If there are 2^31 wires or more, or `inputs` is no permutation.
pub(crate) fn route(inputs: &[u32]) -> BitShares {
    let wires = inputs.len();
    assert!(wires < 1 << 31);
    let room = || Zeroizing::new(vec![0u32; wires]);
    let (mut here, mut there, mut scratch) = (room(), room(), room());
    here.copy_from_slice(inputs);
    let mut settings = Zeroizing::new(vec![0u8; switches(wires)]);
    route_node(&mut here, &mut there, &mut scratch, &mut settings);
    BitShares::from_fn(settings.len(), |switch| settings[switch].into())
}

/// Routes a node: `inputs` are those of its outputs. All that it gets is overwritten.
fn route_node(inputs: &mut [u32], others: &mut [u32], scratch: &mut [u32], settings: &mut [u8]) {
    let wires = inputs.len();
    let half = wires / 2;
    match wires {
        0 | 1 => return,
        2 => {
            settings[0] = inputs[0] as u8;
            return;
        }
        _ => {}
    }
    let (outputs, h, is_odd) = (wires as u32, half as u32, wires % 2 == 1);
    let mate = |wire: u32| if wire < h { wire + h } else { wire - h };
    // The output of each input.
    for (output, input) in (0..).zip(inputs.iter()) {
        others[*input as usize] = output;
    }
    // Of an output whose input goes through one half, the next whose input does too: the mate of the output of the mate of its
    // input. The last input of an odd number has no mate, and is in the second half.
    for (next, input) in scratch.iter_mut().zip(inputs.iter()) {
        *next = match is_odd && *input == outputs - 1 {
            true => END,
            false => mate(others[mate(*input) as usize]),
        };
    }
    // The half of an output takes the place of what comes next, once that is read.
    let mut follow = |start: u32, half: u32| {
        let mut output = start;
        loop {
            let next = scratch[output as usize];
            if next == FIRST || next == SECOND {
                return;
            }
            scratch[output as usize] = half;
            if next == END {
                return;
            }
            // The mate of the next one has its input in the other half.
            scratch[mate(next) as usize] = FIRST ^ SECOND ^ half;
            output = next;
        }
    };
    // The last output is in the second half: of an even number its switch is left out.
    follow(outputs - 1, SECOND);
    for output in 0..h {
        follow(output, FIRST);
    }
    let (input_layer, rest) = settings.split_at_mut(half);
    for (setting, output) in input_layer.iter_mut().zip(others.iter()) {
        *setting = u8::from(scratch[*output as usize] == SECOND);
    }
    let (of_first, rest) = rest.split_at_mut(switches(half));
    let (of_second, output_layer) = rest.split_at_mut(switches(wires - half));
    for (setting, half) in output_layer.iter_mut().zip(scratch.iter()) {
        *setting = u8::from(*half == SECOND);
    }
    let (first, second) = others.split_at_mut(half);
    for (output, (input, of)) in inputs.iter().zip(scratch.iter()).enumerate() {
        let place = if output < half { output } else { output - half };
        let input = if *input < h { *input } else { *input - h };
        match *of == FIRST {
            true => first[place] = input,
            false => second[place] = input,
        }
    }
    let (first_others, second_others) = inputs.split_at_mut(half);
    let (first_scratch, second_scratch) = scratch.split_at_mut(half);
    let mut one = move || route_node(first, first_others, first_scratch, of_first);
    let mut two = move || route_node(second, second_others, second_scratch, of_second);
    match wires < TASK {
        true => {
            one();
            two();
        }
        false => {
            rayon::join(one, two);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes out at each output, of the numbers of the inputs.
    fn passed(inputs: &[u32]) -> Vec<u32> {
        let (wires, settings) = (inputs.len(), route(inputs));
        let mut passed: Vec<u32> = (0..wires as u32).collect();
        let mut last = 0;
        walk(wires, &mut |part| {
            assert_eq!(part.switch, last);
            last += part.count;
            for i in 0..part.count {
                if settings.get(part.switch + i) == 1 {
                    passed.swap(part.low + i, part.high + i);
                }
            }
        });
        assert_eq!([last, settings.len()], [switches(wires); 2]);
        passed
    }

    fn check_all(inputs: &mut Vec<u32>, fixed: usize) {
        if fixed == inputs.len() {
            assert_eq!(passed(inputs), *inputs);
        }
        for i in fixed..inputs.len() {
            inputs.swap(fixed, i);
            check_all(inputs, fixed + 1);
            inputs.swap(fixed, i);
        }
    }

    #[test]
    fn every_small_permutation_is_routed() {
        for wires in 0..7 {
            check_all(&mut (0..wires).collect(), 0);
        }
    }

    proptest! {
        #[test]
        fn permutations_are_routed(inputs in (0usize..300).prop_flat_map(|wires| {
            Just((0..wires as u32).collect::<Vec<_>>()).prop_shuffle()
        })) {
            prop_assert_eq!(passed(&inputs), inputs);
        }
    }

    #[test]
    fn sizes_around_powers_of_two_are_routed() {
        for wires in [1023u32, 1024, 1025, 4097, 40_000] {
            // Odd multiples, and far apart.
            let stride = (1..)
                .find(|stride| gcd(*stride * 7919, wires) == 1)
                .unwrap()
                * 7919;
            let inputs: Vec<u32> = (0..wires)
                .map(|i| (u64::from(i) * u64::from(stride) % u64::from(wires)) as u32)
                .collect();
            assert_eq!(passed(&inputs), inputs, "{wires}");
        }
    }

    fn gcd(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { gcd(b, a % b) }
    }

    /// Σ ⌈log₂ i⌉ over i up to n.
    #[test]
    fn switches_are_as_many_as_the_paper_says() {
        let mut sum = 0;
        for wires in 1usize..3000 {
            sum += wires.next_power_of_two().trailing_zeros() as usize;
            assert_eq!(switches(wires), sum, "{wires}");
        }
        assert_eq!(switches(1_331_692), 25_868_381);
    }
}
