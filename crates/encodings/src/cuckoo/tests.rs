use super::*;
use proptest::prelude::*;
use vesica_primitives::block::Prg;

fn keys(seed: Block, count: usize) -> Vec<Block> {
    let mut keys = vec![0; count];
    Prg::new(seed).fill(&mut keys);
    keys
}

/// Every item is in one bin, one of its own, under the right number.
fn check(functions: &Functions, keys: &[Block], table: &Table) {
    let bins = functions.bins(keys);
    let mut seen = vec![false; keys.len()];
    assert_eq!(table.len(), functions.parameters().bins);
    for (bin, entry) in table.bins().enumerate() {
        assert_eq!(entry, table.bin(bin));
        if let Some(entry) = entry {
            assert!(entry.function() < functions.parameters().hashes);
            assert_eq!(bins[entry.item()][entry.function()] as usize, bin);
            assert!(!std::mem::replace(&mut seen[entry.item()], true));
        }
    }
    for item in table.stash() {
        assert!(!std::mem::replace(&mut seen[*item as usize], true));
    }
    assert!(seen.iter().all(|seen| *seen));
    assert!(table.stash().len() <= functions.parameters().stash);
}

#[test]
fn tables_hold_every_item() {
    for hashes in 2..=4 {
        for count in [0, 1, 2, 3, 4, 5, 100, 1000, 5000] {
            let parameters = Parameters::new(count, hashes, 40);
            let functions = Functions::new(parameters, &[9; 32]);
            let keys = keys(5, count);
            let table = Table::new(&functions, &keys).unwrap();
            check(&functions, &keys, &table);
            assert!(!table.is_empty());
            // Fewer keys than the table was made for.
            let fewer = &keys[..count / 2];
            check(&functions, fewer, &Table::new(&functions, fewer).unwrap());
        }
    }
}

#[test]
fn bins_of_an_item_differ_and_are_uniform() {
    for hashes in 2..=4usize {
        let functions = Functions::new(Parameters::with_bins(0, hashes, 7), &[1; 32]);
        let keys = keys(6, 20_000);
        let bins = functions.bins(&keys);
        // Ordered pairs of the first and the last function.
        let mut counts = [[0usize; 7]; 7];
        for bins in &bins {
            for j in 0..hashes {
                assert!(bins[j] < 7 && !bins[..j].contains(&bins[j]));
            }
            assert!(bins[hashes..].iter().all(|bin| *bin == 0));
            counts[bins[0] as usize][bins[hashes - 1] as usize] += 1;
        }
        for (a, counts) in counts.iter().enumerate() {
            for (b, count) in counts.iter().enumerate() {
                let fits = if a == b { 0..1 } else { 380..580 };
                assert!(fits.contains(count), "{hashes} {a} {b} {count}");
            }
        }
        let other = Functions::new(Parameters::with_bins(0, hashes, 7), &[2; 32]);
        assert_ne!(bins, other.bins(&keys));
    }
}

#[test]
fn keys_that_repeat_too_often_have_no_places() {
    for hashes in 2..=4 {
        let functions = Functions::new(Parameters::new(50, hashes, 40), &[9; 32]);
        let mut keys = keys(7, 50);
        let repeated = keys[0];
        keys[10..9 + hashes].fill(repeated);
        check(&functions, &keys, &Table::new(&functions, &keys).unwrap());
        keys[9 + hashes] = repeated;
        assert_eq!(Table::new(&functions, &keys), Err(EncodingFailed));
    }
}

/// How many items can be placed, by augmenting paths.
fn most_placed(hashes: usize, count: usize, bins: &[[u32; MAX_HASHES]]) -> usize {
    fn free(
        item: usize,
        hashes: usize,
        bins: &[[u32; MAX_HASHES]],
        owner: &mut [Option<usize>],
        seen: &mut [bool],
    ) -> bool {
        bins[item][..hashes].iter().any(|bin| {
            let bin = *bin as usize;
            if std::mem::replace(&mut seen[bin], true) {
                return false;
            }
            if owner[bin].is_none_or(|other| free(other, hashes, bins, owner, seen)) {
                owner[bin] = Some(item);
                return true;
            }
            false
        })
    }
    let mut owner = vec![None; count];
    (0..bins.len())
        .filter(|item| free(*item, hashes, bins, &mut owner, &mut vec![false; count]))
        .count()
}

proptest! {
    /// Bins that are nearly full, and bins of an item that agree.
    #[test]
    fn fails_only_without_places(
        hashes in 2usize..=4,
        count in 4u32..12,
        seeds in prop::collection::vec(any::<[u8; 4]>(), 0..12),
    ) {
        let bins: Vec<[u32; MAX_HASHES]> =
            seeds.iter().map(|s| s.map(|b| u32::from(b) % count)).collect();
        let expected = most_placed(hashes, count as usize, &bins) == bins.len();
        let parameters = Parameters::with_bins(bins.len(), hashes, count as usize);
        let found = Table::place(parameters, &bins);
        prop_assert_eq!(found.is_ok(), expected);
        if let Ok(table) = found {
            let places: Vec<Entry> = table.bins().flatten().collect();
            prop_assert_eq!(places.len(), bins.len());
            for (bin, entry) in table.bins().enumerate() {
                if let Some(entry) = entry {
                    prop_assert_eq!(bins[entry.item()][entry.function()] as usize, bin);
                }
            }
        }
    }
}

proptest! {
    /// More items than bins, or nearly as many: as few as possible are in the stash.
    #[test]
    fn a_stash_takes_what_no_bin_can_take(
        hashes in 2usize..=4,
        count in 4usize..40,
        items in 0usize..50,
        seed in any::<u64>(),
    ) {
        let parameters = Parameters::with_bins(items, hashes, count);
        let keys = keys(seed.into(), items);
        let functions = |stash| Functions::new(Parameters { stash, ..parameters }, &[2; 32]);
        let bins = functions(0).bins(&keys);
        let without = items - most_placed(hashes, count, &bins);
        for stash in [without, without + 3] {
            let table = Table::new(&functions(stash), &keys).unwrap();
            check(&functions(stash), &keys, &table);
            prop_assert_eq!(table.stash().len(), without);
        }
        if without > 0 {
            prop_assert_eq!(Table::new(&functions(without - 1), &keys), Err(EncodingFailed));
        }
    }
}

fn failures(parameters: Parameters, runs: u64) -> u64 {
    let functions = Functions::new(parameters, &[4; 32]);
    (0..runs)
        .filter(|run| {
            let keys = keys(Block::from(*run) + 1, parameters.items);
            Table::new(&functions, &keys).is_err()
        })
        .count() as u64
}

/// At λ = 4 one table in sixteen may fail.
#[test]
fn tables_fail_as_rarely_as_they_should() {
    for (items, hashes) in [
        (4, 3),
        (6, 3),
        (12, 4),
        (30, 2),
        (40, 3),
        (1000, 3),
        (1000, 4),
    ] {
        let runs = if items < 100 { 4000 } else { 400 };
        let failures = failures(Parameters::new(items, hashes, 4), runs);
        assert!(
            failures * 16 < runs,
            "{items} {hashes}: {failures} of {runs}"
        );
    }
    // Three bins for four items fail always, and five in all but 0.6 of the cases of one crowd.
    assert_eq!(failures(Parameters::with_bins(4, 3, 3), 100), 100);
    let found = failures(Parameters::with_bins(4, 3, 4), 4000);
    // All four have the same three of four bins: 4·(1/4)^4.
    assert!((30..100).contains(&found), "{found}");
}

#[test]
#[ignore = "a million tables"]
fn tables_fail_as_rarely_as_they_should_at_ten_bits() {
    for (items, hashes) in [
        (5, 3),
        (8, 3),
        (20, 3),
        (60, 3),
        (200, 3),
        (50, 4),
        (60, 2),
        (1000, 3),
    ] {
        let runs = if items < 500 { 200_000 } else { 20_000 };
        let failures = failures(Parameters::new(items, hashes, 10), runs);
        println!("{items} items, {hashes} functions: {failures} of {runs}");
        assert!(
            failures * 1024 < runs,
            "{items} {hashes}: {failures} of {runs}"
        );
    }
}

/// Room for a quarter more than there are, as in every table of three functions; and hardly any room.
#[test]
fn large_tables_are_filled() {
    for bins in [1_331_692, 1_180_000] {
        let parameters = Parameters::with_bins(1 << 20, 3, bins);
        let functions = Functions::new(parameters, &[4; 32]);
        let keys = keys(8, 1 << 20);
        let start = std::time::Instant::now();
        let table = Table::new(&functions, &keys).unwrap();
        println!("{bins} bins: {:?}", start.elapsed());
        check(&functions, &keys, &table);
    }
}
