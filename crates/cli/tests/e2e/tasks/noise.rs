//! The total of tasks with noise.

use super::{split_keys, start, succeed, tasks};
use crate::support::{Ended, Place};
use crate::tasks::place_of_keys;

/// Both sides of `vesica total`.
fn total(place: &Place) -> [Ended; 2] {
    let side = |name: &str, peer: &str, endpoint: &str| {
        let words = "--progress plain --wait 60";
        start(
            place,
            &format!("total --job {name} --identity {name}.key --peer {peer} {words} {endpoint}"),
        )
    };
    let mut receiver = side(
        "receiver",
        &place.sender.to_string(),
        "--listen 127.0.0.1:0",
    );
    let endpoint = receiver.endpoint();
    let sender = side("sender", &place.receiver.to_string(), &endpoint);
    [receiver.wait(), sender.wait()]
}

/// However often both sides open it, and whatever they have forgotten of it.
#[test]
fn a_noisy_total_is_the_same_each_time() {
    let place = place_of_keys(60);
    let terms = "--reveal size --security semi-honest --both --epsilon 0.0001 --epsilon-split size=2 \
                 --ledger answers.ledger";
    succeed(split_keys(&place, ["receiver", "sender"], terms));
    succeed(tasks(&place, ("receiver", 0, 0), ("sender", 0, 0)));
    let [near, far] = total(&place);
    near.expect_success();
    far.expect_success();
    assert_eq!(near.text(), far.text());
    for _ in 0..2 {
        for name in ["receiver", "sender"] {
            std::fs::remove_file(place.path(name).join("total")).unwrap();
        }
        for ended in total(&place) {
            ended.expect_success();
            assert_eq!(ended.text(), near.text());
        }
    }
    let value: i64 = near.text().trim().parse().unwrap();
    let clamped = place.run("total --job receiver --clamp");
    assert_eq!(clamped.text(), format!("{}\n", value.clamp(0, 60)));
}

#[test]
fn a_padded_set_is_not_cut_into_tasks() {
    let place = place_of_keys(5);
    let help = place.run("split --help");
    help.expect_success();
    assert!(help.text().contains("--epsilon") && !help.text().contains("--pad-to"));
}
