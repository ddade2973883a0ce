use proptest::prelude::*;
use vesica_reference::voprf as reference;
use vesica_testing::{Script, array, bytes, digests, rng};

use super::*;
use vesica_primitives::security::KeyAgreement;

const SESSION: [u8; 32] = [9; 32];

fn misbehaviour<T>(result: Result<T, Misbehaviour>) -> (&'static str, &'static str) {
    match result {
        Err(Misbehaviour::BadValue { what, problem }) => (what, problem),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

fn decoded(row: &[u8; 32]) -> Element {
    Element::decode(*row).unwrap()
}

/// The receiver's masks of a run.
fn run(sender: &Sender, public: &[u8; 32], ours: &[Item]) -> Vec<LongOutput> {
    let (questions, blinded) = ask(&SESSION, ours, &mut rng(2));
    let answers = sender.answers(&blinded, &mut rng(3)).unwrap();
    let key = decoded(public);
    let masks = questions.iter().zip(&answers);
    let masks = masks.flat_map(|(question, answer)| question.masks(&key, answer).unwrap());
    masks.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn the_sender_matches_the_reference(
        secret in prop::collection::vec(any::<u8>(), 64),
        session: [u8; 32],
        items in prop::collection::vec(any::<Item>(), 0..4),
    ) {
        let (sender, public) = Sender::new(&mut Script(secret.clone()));
        let found = (public, sender.masks(&session, &items));
        prop_assert_eq!(found, reference::sender(&session, &secret, &items));
    }
}

#[test]
fn known_answers() {
    let text = include_str!("../../../../vectors/oprf-dh.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let strings = |name: &str| -> Vec<[u8; 32]> {
        let list = vectors[name].as_array().unwrap();
        list.iter().map(array).collect()
    };
    let (sender, public) = Sender::new(&mut Script(bytes(&vectors["secret"])));
    assert_eq!(public, array(&vectors["public"]));
    let masks = sender.masks(&array(&vectors["session"]), &strings("items"));
    assert_eq!(masks, strings("masks"));
    let answers = sender.answers(&strings("blinded"), &mut rng(1)).unwrap();
    let (rows, _) = answers[0].split_last_chunk::<PROOF_BYTES>().unwrap();
    assert_eq!(rows.as_chunks::<32>().0, strings("answers"));
    assert_eq!(answers.len(), 1);
}

/// In one batch and in several, the last of them shorter.
#[test]
fn masks_agree_on_shared_items_only() {
    let (sender, public) = Sender::new(&mut rng(1));
    for (n, m, shared) in [
        (0, 3, 0),
        (1, 1, 1),
        (1, 4, 0),
        (2, 0, 0),
        (40, 70, 15),
        (300, 7, 7),
        (BATCH as u64 + 1, 5, 3),
    ] {
        let ours = digests(0..n);
        let theirs = digests(n - shared..n - shared + m);
        let sent = sender.masks(&SESSION, &theirs);
        let own = run(&sender, &public, &ours);
        assert_eq!(own.len(), ours.len());
        for (y, mask) in ours.iter().zip(&own) {
            let place = theirs.iter().position(|x| x == y);
            assert_eq!(sent.iter().position(|m| m == mask), place, "{n} {m}");
        }
        // Another session, the same key: nothing in common.
        let other = sender.masks(&[4; 32], &theirs);
        assert!(own.iter().all(|mask| !other.contains(mask)));
    }
}

/// Under a key that it did not announce, for other elements, in another order, or with a proof of another batch.
#[test]
fn a_sender_that_answers_under_two_keys_is_found_out() {
    let items = digests(0..20);
    let (questions, blinded) = ask(&SESSION, &items, &mut rng(2));
    let [question] = &questions[..] else {
        panic!("one batch");
    };
    let (sender, public) = Sender::new(&mut rng(1));
    let (other, _) = Sender::new(&mut rng(4));
    let key = decoded(&public);
    let honest = sender.answers(&blinded, &mut rng(3)).unwrap().remove(0);
    assert!(question.masks(&key, &honest).is_ok());
    let refused = |answer: &[u8]| {
        let found = misbehaviour(question.masks(&key, answer));
        assert_eq!(found, (ANSWERS.name, "not under the public key"));
    };
    let foreign = other.answers(&blinded, &mut rng(3)).unwrap().remove(0);
    refused(&foreign);
    for place in [0, 19] {
        let mut one = honest.clone();
        one[32 * place..][..32].copy_from_slice(&foreign[32 * place..][..32]);
        refused(&one);
    }
    let mut swapped = honest.clone();
    let (rows, _) = swapped.as_chunks_mut::<32>();
    rows.swap(3, 4);
    refused(&swapped);
    let again = sender.answers(&blinded[..19], &mut rng(3)).unwrap();
    let mut stale = honest.clone();
    stale[640..].copy_from_slice(&again[0][608..]);
    refused(&stale);
    let mut unreduced = honest.clone();
    unreduced[672..].fill(0xff);
    refused(&unreduced);
    // Whoever announces the other key is believed: nothing was said before.
    let (_, public) = Sender::new(&mut rng(4));
    assert!(question.masks(&decoded(&public), &foreign).is_ok());
}

#[test]
fn what_is_no_element_is_refused_on_both_sides() {
    let text = include_str!("../../../../vectors/voprf.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let bad = vectors["bad_elements"].as_array().unwrap();
    let bad = bad
        .iter()
        .map(|bad| (array(bad), "not an element of ristretto255"));
    let (sender, public) = Sender::new(&mut rng(1));
    let (questions, blinded) = ask(&SESSION, &digests(0..3), &mut rng(2));
    let answers = sender.answers(&blinded, &mut rng(3)).unwrap();
    for (element, problem) in bad.chain([([0; 32], "the neutral element")]) {
        let mut rows = blinded.clone();
        rows[2] = element;
        let refused = sender.answers(&rows, &mut rng(3));
        assert_eq!(misbehaviour(refused), (BLINDED.name, problem));
        let mut answer = answers[0].clone();
        answer[64..96].copy_from_slice(&element);
        let refused = questions[0].masks(&decoded(&public), &answer);
        assert_eq!(misbehaviour(refused), (ANSWERS.name, problem));
        let refused = elements(KEY, &[element]);
        assert_eq!(misbehaviour(refused), (KEY.name, problem));
    }
}

/// Blinded elements are new in every run, and those of one item have nothing in common.
#[test]
fn elements_do_not_repeat() {
    let item = digests(0..1);
    let elements: Vec<_> = (0..20)
        .map(|seed| ask(&SESSION, &item, &mut rng(seed)).1[0])
        .collect();
    for (i, element) in elements.iter().enumerate() {
        assert!(!elements[..i].contains(element));
    }
}

/// λ + 1 + ⌈log₂ n_r·n_s⌉, but no fewer than leave a sender half as many pairs as items at 2^40 evaluations.
#[test]
fn masks_are_as_wide_as_they_have_to_be() {
    let bits = |log_n_r: u32, log_n_s: u32, lambda| {
        mask_bits(&Params {
            security: Security::Malicious,
            lambda,
            receiver_size: 1 << log_n_r,
            sender_size: 1 << log_n_s,
            key_agreement: KeyAgreement::default(),
            session: SESSION,
        })
    };
    assert_eq!(bits(8, 24, 40), 73);
    assert_eq!(bits(8, 24, 64), 97);
    assert_eq!(bits(28, 28, 64), 121);
    assert_eq!(bits(0, 0, 40), 80);
    assert_eq!(bits(0, 20, 40), 61);
    assert_eq!(bits(8, 8, 40), 72);
    for (n_r, n_s) in (0..=28).flat_map(|n_r| (0..=28).map(move |n_s| (n_r, n_s))) {
        let width = bits(n_r, n_s, 40);
        // log₂ of q²/2^(w+1) for q = 2^40, beside half of the items.
        assert!(80 < width + n_s + 1 && width >= 41 + n_r + n_s);
    }
}
