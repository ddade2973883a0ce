use super::*;
use crate::gather::{Gather, Record};
use crate::repeated::Repeated;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows of these keys as runs of `run` rows, or of as few as there can be. Every seventh row has no key.
pub(crate) fn runs_of(keys: &[[u8; 32]], run: usize) -> Runs {
    let memory = if run == 0 { 0 } else { u64::MAX };
    let mut gather = Gather::new(layout(), memory, &std::env::temp_dir()).unwrap();
    for (row, digest) in keys.iter().enumerate() {
        if run > 0 && row > 0 && row % run == 0 {
            gather.spill().unwrap();
        }
        let label = label(digest);
        let record = record(digest, &label);
        gather.add((row % 7 != 6).then_some(&record)).unwrap();
    }
    gather.into_runs()
}

/// Numbers, and labels of three bytes.
pub(crate) fn layout() -> Layout {
    Layout {
        has_numbers: true,
        columns: Vec::new(),
        label: 3,
        ..Layout::default()
    }
}

fn record<'a>(digest: &[u8; 32], beside: &'a [u8]) -> Record<'a> {
    Record {
        number: number(digest),
        beside,
        ..Record::of(digest)
    }
}

/// The label of a key, for tests.
pub(crate) fn label(digest: &[u8; 32]) -> [u8; 3] {
    [digest[30], digest[31], digest[0] ^ 0x5a]
}

/// The number of a key, for tests.
pub(crate) fn number(digest: &[u8; 32]) -> u64 {
    u64::from_be_bytes(*digest.first_chunk().unwrap()).rotate_left(9)
}

/// The rows of each key.
pub(crate) fn plain(keys: &[[u8; 32]]) -> BTreeMap<[u8; 32], Vec<u32>> {
    let mut plain = BTreeMap::<_, Vec<_>>::new();
    for (row, digest) in (0..).zip(keys).filter(|(row, _)| row % 7 != 6) {
        plain.entry(*digest).or_default().push(row);
    }
    plain
}

/// Keys of rows: all different, in few rows each, hardly any different, one in all rows, and equal but for their last
/// bytes, which no partition, tag or part tells apart.
pub(crate) fn tables() -> Vec<Vec<[u8; 32]>> {
    let hash = |i: u32| *blake3::hash(&i.to_le_bytes()).as_bytes();
    let table = |of: &dyn Fn(u32) -> [u8; 32]| (0..3000).map(of).collect();
    vec![
        Vec::new(),
        vec![hash(1)],
        table(&hash),
        table(&|i| hash(i * i % 997)),
        table(&|i| hash(i % 3)),
        table(&|_| hash(7)),
        table(&|i| std::array::from_fn(|byte| if byte < 31 { 5 } else { (i * i) as u8 })),
    ]
}

/// The keys that at least as many rows have as are many among so many.
fn frequent(keys: &BTreeMap<[u8; 32], Vec<u32>>, among: u64) -> Frequent {
    let least = 20.max(among / 100 + 1);
    let rows = keys.values().filter(|rows| rows.len() as u64 >= least);
    let most = rows
        .clone()
        .max_by_key(|rows| (rows.len(), Reverse(rows[0])));
    Frequent {
        keys: rows.count() as u64,
        most: most.map(|rows| Repeated {
            rows: rows.len() as u64,
            first_row: u64::from(rows[0]) + 1,
        }),
    }
}

#[test]
fn merged_runs_are_the_sorted_keys_with_their_rows() {
    for keys in tables() {
        let expected = plain(&keys);
        for run in [0, 500, 1 << 20] {
            let runs = runs_of(&keys, run);
            // Among fewer rows, more keys are frequent.
            for among in [keys.len() as u64, 2500, 0] {
                let frequent = frequent(&expected, among);
                let (items, found, _) = runs.count(among).unwrap();
                assert_eq!((items, found), (expected.len() as u64, frequent), "{run}");
            }
            assert!(runs.keys() >= expected.len() as u64);
            for parts in [runs.parts(), runs.parts_within(200)] {
                let (mut found, mut merged) = (Vec::new(), Merged::default());
                for part in parts {
                    let merged = runs.merge(&part, &mut merged).unwrap();
                    let mut rows = vec![Vec::new(); merged.digests().len()];
                    let add = |index: usize, row| {
                        rows[index].push(row);
                        Ok(())
                    };
                    runs.rows(&part, merged, add).unwrap();
                    for same in merged.distinct() {
                        let digest = merged.digests()[index(same[0])];
                        let mut all = Vec::new();
                        for entry in same {
                            assert_eq!(merged.digests()[index(*entry)], digest);
                            assert_eq!(merged.number(index(*entry)), Some(number(&digest)));
                            assert_eq!(merged.beside(index(*entry)), label(&digest));
                            all.append(&mut rows[index(*entry)]);
                        }
                        found.push((digest, all));
                    }
                }
                let mix = runs.mix;
                assert!(found.is_sorted_by_key(|(digest, _)| (mix.tag(digest), *digest)));
                assert_eq!(found.len(), expected.len());
                let found: BTreeMap<_, _> = found.into_iter().collect();
                assert!(found == expected, "{run}");
            }
            let mut found = BTreeMap::<_, Vec<_>>::new();
            let each = |digest: &[u8; 32], row| found.entry(*digest).or_default().push(row);
            runs.each(each).unwrap();
            assert!(found == expected);
        }
    }
}

#[test]
fn a_key_with_two_labels_is_refused_in_one_run_and_in_several() {
    let keys = tables().swap_remove(3);
    for run in [64, 500, 1 << 20] {
        let mut gather = Gather::new(layout(), u64::MAX, &std::env::temp_dir()).unwrap();
        // One of the later rows of a key, in the same run or in another.
        let wrong = 2000;
        let first = keys.iter().position(|key| *key == keys[wrong]).unwrap();
        let push = |(row, digest): (usize, _)| {
            if row > 0 && row % run == 0 {
                gather.spill()?;
            }
            let mut label = label(digest);
            label[1] ^= u8::from(row == wrong);
            gather.add(Some(&record(digest, &label)))
        };
        let pushed = keys.iter().enumerate().try_for_each(push);
        let finished = pushed.and_then(|()| gather.finish().map(drop));
        let Err(Error::LabelsDiffer {
            first: other, row, ..
        }) = finished
        else {
            panic!("{finished:?}");
        };
        let rows = [other, row].map(|row| row as usize);
        // A later run may begin with the row that differs, or an earlier row of the key may be compared with.
        assert!(rows[0] == first || keys[rows[0]] == keys[wrong], "{run}");
        assert_eq!(keys[rows[1]], keys[wrong]);
        assert!(rows.contains(&wrong), "{run}: {rows:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_says_what_is_missing() {
    let layout = |has_numbers, label| Layout {
        has_numbers,
        columns: Vec::new(),
        label,
        ..Layout::default()
    };
    // Bytes of a row in a run, and in a bucket.
    for (layout, [run, bucket]) in [
        (layout(false, 0), [36, 40]),
        (layout(true, 0), [44, 48]),
        (layout(false, 9), [45, 49]),
    ] {
        let label = vec![7; layout.label];
        let rows = 300;
        let mut gather = Gather::new(layout, u64::MAX, &std::env::temp_dir()).unwrap();
        for digest in tables()[2].iter().take(rows) {
            let record = Record {
                beside: &label,
                ..Record::of(digest)
            };
            gather.add(Some(&record)).unwrap();
        }
        let spilled = on_one_thread(|| gather.spill_to(Blob::full));
        let Err(Error::NoRoom { missing, .. }) = spilled else {
            panic!("{spilled:?}");
        };
        let rows = rows as u64;
        assert_eq!(missing, bucket * rows + rows * run / 32 * 2);
    }
}

#[cfg(unix)]
pub(crate) fn on_one_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.unwrap().install(f)
}

#[cfg(unix)]
#[test]
fn what_has_been_read_a_last_time_is_not_on_the_disk() {
    let keys = tables().swap_remove(2);
    let runs = runs_of(&keys, 500);
    let held = || runs.files.iter().map(Blob::length).sum::<u64>();
    let all = held();
    let parts = runs.parts_within(200);
    let last = runs.read_last(&parts);
    let full = io::ErrorKind::StorageFull.into();
    let too_long = io::ErrorKind::FileTooLarge.into();
    let (rows, mut files) = (
        2572,
        runs.files.iter().map(Blob::written).collect::<Vec<_>>(),
    );
    files.sort_unstable();
    let longest = files[FILES - 2] + files[FILES - 1];
    // Tags make so short runs longer than all buckets.
    assert!(runs.written() > 51 * rows);
    let missing = |bytes, cause| on_one_thread(|| last.missing(bytes, cause));
    assert_eq!(missing(0, &full), longest);
    assert_eq!(missing(100, &too_long), 51 * rows - 100);
    let mut merged = Merged::default();
    for (done, part) in (1..).zip(&parts) {
        runs.merge(part, &mut merged).unwrap();
        last.done(part);
        // Files are approximately as long, and one of them is read in part.
        let most = all - all * done / parts.len() as u64;
        assert!(held() <= most + all / 16, "{done}: {} {all}", held());
    }
    assert_eq!(held(), 0);
    assert_eq!(
        missing(51 * rows, &full),
        runs.written() + longest - 51 * rows
    );
    assert_eq!(last.emptied.into_inner(), runs.written());
    let error = runs.count(0).map(drop).unwrap_err();
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
}

#[test]
fn parts_become_smaller_with_the_memory() {
    let keys: Vec<_> = tables().swap_remove(2);
    let runs = runs_of(&keys, 500);
    assert_eq!(runs.parts().len(), PARTITIONS);
    assert_eq!(runs.parts_within(u64::MAX).len(), PARTITIONS);
    let parts = runs.parts_within(MERGED_BYTES);
    assert!(parts.len() > 2 * PARTITIONS);
    let mut merged = Merged::default();
    for part in &parts {
        let keys = runs.merge(part, &mut merged).unwrap().digests().len();
        assert!(keys <= 8, "{keys}");
    }
    // Ascending, without a gap.
    for pair in parts.windows(2) {
        let follows =
            pair[0].partition == pair[1].partition && pair[0].rests.end == pair[1].rests.start;
        let begins = pair[0].partition + 1 == pair[1].partition
            && (pair[0].rests.end, pair[1].rests.start) == (1 << REST_BITS, 0);
        assert!(follows || begins, "{pair:?}");
    }
}

#[test]
fn a_key_in_all_rows_takes_a_row_number_each() {
    let keys = vec![[9; 32]; 100_000];
    let runs = runs_of(&keys, 10_000);
    let rows = keys.len() as u64 * 6 / 7;
    let [written, _] = runs.traffic();
    assert!(written < 42 * rows / 10, "{written}");
    // Nor is it in memory more often than in one row of a run.
    let mut merged = Merged::default();
    let parts = runs.parts();
    let most = parts.iter().map(|part| {
        let merged = runs.merge(part, &mut merged).unwrap();
        merged.digests().len()
    });
    assert_eq!(most.max(), Some(keys.len() / 10_000));
}

/// Keys that somebody has chosen so that their digests begin alike come into many partitions and parts.
#[test]
fn chosen_digests_are_spread() {
    for shift in [0, 20, 40] {
        let chosen = |i: u32| {
            let mut digest = [7; 32];
            let bits = (7 << 62 | u64::from(i) << shift).to_be_bytes();
            digest[..8].copy_from_slice(&bits);
            digest
        };
        let keys: Vec<_> = (0..7 << 12).map(chosen).collect();
        let runs = runs_of(&keys, 1 << 20);
        let sections = runs.runs.iter().flatten();
        // Some 24 are in each partition; of leading bits, all would be in a few.
        let most = sections.map(|section| section.keys).max().unwrap();
        assert!(most < 600, "{shift}: {most}");
    }
}
