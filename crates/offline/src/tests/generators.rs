//! Pairs of two generators, and what their hosts may try.

use vesica_wire::memory_pair;

use super::*;
use crate::attestation::EVIDENCE;
use crate::generators::{
    CIPHERTEXT, CIPHERTEXT_BYTES, Key, SHARE, Share, check, report_data, transcript,
};
use crate::{Measurement, generate};

/// The two parties of a pair and their generators, the receiver's first.
struct Four {
    parties: [Side; 2],
    generators: [Side; 2],
}

impl Four {
    fn new() -> Four {
        Four {
            parties: [(); 2].map(|()| Side::new()),
            generators: [(); 2].map(|()| Side::new()),
        }
    }

    fn parties(&self) -> [&Side; 2] {
        self.parties.each_ref()
    }

    /// Has the generators make a pair, with these attesters, for parties that want it for these terms. How the generators
    /// and the parties ended, and the bytes that passed between the generators.
    fn generate(
        &self,
        terms: [&OfflineTerms; 2],
        attesters: [&dyn Attester; 2],
        expected: [&Expected; 2],
    ) -> ([Result<OfflineTerms, Error>; 2], [Made; 2], u64) {
        let listeners = [(); 2].map(|()| Listener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners
            .each_ref()
            .map(|listener| Endpoint::Connect(listener.local_addr().to_string()));
        let [first, second] = listeners;
        let (parties, generators) = (&self.parties, &self.generators);
        let fetch = |side: usize| {
            let transport = parties[side].tls(&generators[side]);
            let mut connection = connect(&addresses[side], &transport, &options()).unwrap();
            let wanted = HalfRequest {
                role: [Role::Receiver, Role::Sender][side],
                terms: terms[side],
                peer: parties[1 - side].fingerprint(),
                shown: Shown::ByGenerators(expected),
            };
            let store = parties[side].store();
            fetch_half(&mut connection, registry(), wanted, &store, &mut NoProgress)
        };
        let generate = |side: usize, connections: Vec<Connection>| {
            let mut connections = connections.try_into().unwrap();
            let made = generate(&mut connections, registry(), MEMORY, attesters[side]);
            let phases = connections[1].channel.traffic();
            let passed = phases.iter().map(|p| p.bytes_sent + p.bytes_received);
            (made, passed.sum::<u64>())
        };
        thread::scope(|scope| {
            let ours = scope.spawn(|| fetch(0));
            let theirs = scope.spawn(|| fetch(1));
            let generating = scope.spawn(|| {
                let awaited = [parties[0].fingerprint(), generators[1].fingerprint()];
                let accepted =
                    first.accept_all(&generators[0].identity, &awaited, INTENT, &options());
                generate(0, accepted.unwrap())
            });
            let awaited = [parties[1].fingerprint()];
            let accepted = second.accept_all(&generators[1].identity, &awaited, INTENT, &options());
            let mut connections = accepted.unwrap();
            let transport = generators[1].tls(&generators[0]);
            connections.push(connect(&addresses[0], &transport, &options()).unwrap());
            let (other, _) = generate(1, connections);
            let (own, passed) = generating.join().unwrap();
            let made = [ours.join().unwrap(), theirs.join().unwrap()];
            ([own, other], made, passed)
        })
    }
}

/// The bytes between the generators do not grow with the pair.
#[test]
fn generated_halves_serve_one_run() {
    let four = Four::new();
    let small = terms("ole-tee");
    let (agreed, made, few) = four.generate([&small; 2], [&Simulated; 2], [&in_a_tee(); 2]);
    assert_eq!(agreed.map(Result::unwrap), [small.clone(), small]);
    let [ours, theirs] = made.map(Result::unwrap);
    assert_eq!(ours, theirs);
    let listed = four.parties[0].store().list().unwrap().halves.remove(0);
    let prints = four.generators.each_ref().map(Side::fingerprint);
    assert_eq!((listed.dealer, listed.generators), (None, Some(prints)));
    let shown = format!("simulated {}", Simulated::MEASUREMENT);
    assert_eq!(listed.attested, Some(shown.clone()));
    let (own, _) = runs(four.parties(), "ole-tee");
    assert_eq!(
        misfit(&own.unwrap_err()),
        Some(Misfit::Attested(Some(shown)))
    );
    let run = runs_with(four.parties(), "ole-tee", Some("simulated"));
    is_right(run, ours);
    let large = OfflineTerms {
        receiver_size: 6000,
        sender_size: 8000,
        ..terms("ole-tee")
    };
    let (agreed, made, many) = four.generate([&large; 2], [&Simulated; 2], [&in_a_tee(); 2]);
    assert!(agreed.iter().all(Result::is_ok) && made.iter().all(Result::is_ok));
    let large = four.parties[0].store().list().unwrap().halves.remove(0);
    assert!(large.bytes > 100 * many, "{} {many}", large.bytes);
    // The words for the layout have some digits more.
    assert!(many.abs_diff(few) < 40, "{few} {many}");
}

/// A pair of each party with a generator that is none finds that out, whichever side it is on.
#[test]
fn generators_that_show_something_else_are_refused() {
    let four = Four::new();
    let terms = terms("ole-tee");
    let measured = |mut evidence: Evidence| {
        evidence.report[64] ^= 1;
        evidence
    };
    let unbound = |mut evidence: Evidence| {
        evidence.report[63] ^= 1;
        evidence
    };
    let is_measurement = |why: &Untrusted| matches!(why, Untrusted::Measurement { .. });
    let is_unbound = |why: &Untrusted| *why == Untrusted::NotBound;
    let earlier = || Replaying(Simulated.attest(&[0; 64]).ok().into());
    type Lie = (Box<dyn Attester>, fn(&Untrusted) -> bool);
    let lies: [Lie; 3] = [
        (Box::new(Lying(measured)), is_measurement),
        (Box::new(Lying(unbound)), is_unbound),
        (Box::new(earlier()), is_unbound),
    ];
    for (liar, is_why) in &lies {
        for cheats in [0, 1] {
            let mut attesters: [&dyn Attester; 2] = [&Simulated; 2];
            attesters[cheats] = &**liar;
            let (agreed, made, _) = four.generate([&terms; 2], attesters, [&in_a_tee(); 2]);
            assert!(agreed.iter().all(Result::is_err));
            assert!(made.iter().all(Result::is_err));
            // One party may have heard that the other has refused.
            let found = made.iter().enumerate().any(|(side, made)| {
                let expected = match side == cheats {
                    true => Attested::OwnGenerator,
                    false => Attested::OtherGenerator,
                };
                matches!(made, Err(Error::Untrusted { who, why }) if *who == expected && is_why(why))
            });
            assert!(found, "{made:?}");
            let files = four.parties().map(Side::files);
            assert!(files.iter().all(Vec::is_empty));
        }
    }
}

/// Each report is judged by what is expected of its own machine.
#[test]
fn two_machines_may_run_different_software() {
    let (four, terms) = (Four::new(), terms("ole-tee"));
    let (right, wrong) = (in_a_tee(), Expected::new(Simulated, Measurement([9; 48])));
    for (expected, whose) in [
        ([&wrong, &right], Attested::OwnGenerator),
        ([&right, &wrong], Attested::OtherGenerator),
    ] {
        let (_, made, _) = four.generate([&terms; 2], [&Simulated; 2], expected);
        let is_of =
            |made: &Made| matches!(made, Err(Error::Untrusted { who, .. }) if *who == whose);
        assert!(made.iter().any(is_of), "{whose:?}: {made:?}");
        let other =
            |made: &Made| matches!(made, Err(Error::Untrusted { who, .. }) if *who != whose);
        assert!(!made.iter().any(other), "{made:?}");
    }
}

#[test]
fn generators_serve_parties_that_agree() {
    let four = Four::new();
    let terms = terms("ole-tee");
    let larger = OfflineTerms {
        sender_size: 81,
        ..terms.clone()
    };
    let (agreed, made, _) = four.generate([&terms, &larger], [&Simulated; 2], [&in_a_tee(); 2]);
    let named = |error: &Error| match of_session(error) {
        SessionError::Run(WireError::ContractDiffers { field, .. }) => *field == "sender's size",
        _ => false,
    };
    assert!(agreed.iter().any(|made| named(made.as_ref().unwrap_err())));
    for made in made {
        assert_eq!(made.unwrap_err().class(), ErrorClass::Contract);
    }
    let heavy = OfflineTerms {
        receiver_size: 1 << 15,
        sender_size: 1 << 15,
        ..terms
    };
    let (agreed, _, _) = four.generate([&heavy; 2], [&Simulated; 2], [&in_a_tee(); 2]);
    let limits = agreed.iter().any(|made| match made {
        Err(error) => error.class() == ErrorClass::Resource,
        Ok(_) => false,
    });
    assert!(limits, "{agreed:?}");
}

/// A generator draws a key for each pair: started again on the same share of the other, it has another seed.
#[test]
fn seeds_are_of_both_keys_and_of_one_transcript() {
    let [first, again, other] = [(); 3].map(|()| Key::random().unwrap());
    let publics = [&first, &again, &other].map(Key::public);
    let (said, changed) = ([1; 32], [2; 32]);
    let keys = |key: &Key| Key(key.0.clone());
    let secret = [3; 32];
    let agree =
        |key: &Key, theirs, transcript| keys(key).agree(theirs, &secret, transcript).unwrap();
    let (name, seed) = agree(&first, publics[2], &said);
    assert_eq!(agree(&other, publics[0], &said), (name, seed.clone()));
    for (key, transcript) in [(&again, &said), (&first, &changed)] {
        let (another, differs) = agree(key, publics[2], transcript);
        assert!(another != name && differs != seed);
    }
    let (another, differs) = keys(&first).agree(publics[2], &[4; 32], &said).unwrap();
    assert!(another != name && differs != seed);
    // All points of small order of Curve25519 and its twist, by their u-coordinates (D. J. Bernstein's list).
    let minus_one = {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (0xec, 0x7f);
        point
    };
    let [mut zero, mut one] = [[0; 32]; 2];
    (zero[0], one[0]) = (0, 1);
    let of_order_8 = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ];
    let of_order_8 = of_order_8.map(|digits| {
        std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
    });
    for point in [zero, one, minus_one, of_order_8[0], of_order_8[1]] {
        let error = keys(&first).agree(point, &secret, &said).unwrap_err();
        assert_eq!(error.blame(), Blame::Peer);
    }
}

/// Everything that a host could hand its party, or have the other one handed, in place of what two generators said.
#[test]
fn a_party_takes_one_transcript_alone() {
    let four = Four::new();
    let [own, peer] = four.parties.each_ref().map(Side::fingerprint);
    let [generator, other] = four.generators.each_ref().map(Side::fingerprint);
    let stranger = Side::new().fingerprint();
    let request = |role, peer, nonce| DealerRequest {
        role,
        terms: terms("ole-tee"),
        peer,
        layout: terms("ole-tee").layout(registry()).unwrap(),
        attestation: Some(Platform::Simulated),
        nonce: [nonce; 32],
    };
    let mine = request(Role::Receiver, peer, 1);
    let theirs = request(Role::Sender, own, 2);
    let share = |public, party, generator, request: &DealerRequest| Share {
        public: [public; 32],
        party,
        generator,
        encapsulation_key: match request.role {
            Role::Receiver => vec![5; 1184],
            Role::Sender => Vec::new(),
        },
        request: request.encode(),
    };
    let ciphertext = [6; CIPHERTEXT_BYTES];
    let honest = [
        share(4, peer, other, &theirs),
        share(3, own, generator, &mine),
    ];
    let attest = |role, [theirs, mine]: &[Share; 2]| {
        let data = report_data(role, &transcript([mine, theirs], &ciphertext));
        Simulated.attest(&data).unwrap()
    };
    let reports =
        |shares: &[Share; 2]| [Role::Sender, Role::Receiver].map(|role| attest(role, shares));
    let hand_with =
        |ciphertext: [u8; CIPHERTEXT_BYTES], shares: &[Share; 2], reports: [Evidence; 2]| {
            let (mut host, mut party) = memory_pair();
            for share in shares {
                host.send(SHARE, share.encode()).unwrap();
            }
            host.send(CIPHERTEXT, ciphertext.to_vec()).unwrap();
            for report in reports {
                host.send(EVIDENCE, report.encode()).unwrap();
            }
            host.flush().unwrap();
            check(
                &mut party,
                &mine,
                own,
                generator,
                [&in_a_tee(), &in_a_tee()],
            )
        };
    let hand = |shares: &[Share; 2], reports| hand_with(ciphertext, shares, reports);
    assert_eq!(hand(&honest, reports(&honest)).unwrap(), other);
    let error = hand_with([7; CIPHERTEXT_BYTES], &honest, reports(&honest)).unwrap_err();
    let is_unbound = matches!(
        &error,
        Error::Untrusted {
            why: Untrusted::NotBound,
            ..
        }
    );
    assert!(is_unbound, "{error:?}");

    // Reports of another transcript, or in each other's place.
    type Change<'a> = (&'a str, Box<dyn Fn(&mut [Share; 2]) + 'a>);
    let changes: [Change<'_>; 4] = [
        (
            "the other's key",
            Box::new(|shares| shares[0].public[0] ^= 1),
        ),
        ("our key", Box::new(|shares| shares[1].public[0] ^= 1)),
        (
            "our encapsulation key",
            Box::new(|shares| shares[1].encapsulation_key[0] ^= 1),
        ),
        (
            "the other's request",
            Box::new(|shares| {
                shares[0].request = request(Role::Sender, own, 9).encode();
            }),
        ),
    ];
    for (what, change) in changes {
        let mut shares = honest.clone();
        change(&mut shares);
        for (shares, attested) in [(&shares, &honest), (&honest, &shares)] {
            let error = hand(shares, reports(attested)).unwrap_err();
            let is_unbound = matches!(
                &error,
                Error::Untrusted {
                    why: Untrusted::NotBound,
                    ..
                }
            );
            assert!(is_unbound, "{what}: {error:?}");
        }
    }
    let [first, second] = reports(&honest);
    let error = hand(&honest, [second, first]).unwrap_err();
    assert!(matches!(
        error,
        Error::Untrusted {
            who: Attested::OtherGenerator,
            ..
        }
    ));
    // Genuine reports of what is not this pair.
    for (what, shares) in [
        (
            "an earlier request",
            [
                honest[0].clone(),
                share(3, own, generator, &request(Role::Receiver, peer, 8)),
            ],
        ),
        (
            "another party",
            [honest[0].clone(), share(3, stranger, generator, &mine)],
        ),
        (
            "another generator",
            [honest[0].clone(), share(3, own, stranger, &mine)],
        ),
        (
            "the same role twice",
            [
                share(4, peer, other, &request(Role::Receiver, own, 2)),
                honest[1].clone(),
            ],
        ),
        (
            "somebody else's party",
            [share(4, stranger, other, &theirs), honest[1].clone()],
        ),
        (
            "a half for somebody else",
            [
                share(4, peer, other, &request(Role::Sender, stranger, 2)),
                honest[1].clone(),
            ],
        ),
        (
            "one generator twice",
            [share(4, peer, generator, &theirs), honest[1].clone()],
        ),
    ] {
        let error = hand(&shares, reports(&shares)).unwrap_err();
        assert!(matches!(error, Error::Session(_)), "{what}: {error:?}");
    }
}

/// Of one attested dealer, which `tee` meant before there were generators.
#[test]
fn halves_of_one_dealer_are_not_those_of_two_generators() {
    let four = Four::new();
    let [receiver, sender] = four.parties();
    let terms = terms("ole-tee");
    let shown = format!("simulated {}", Simulated::MEASUREMENT);
    let old = Pair {
        dealer: Some(four.generators[0].fingerprint()),
        attested: Some(shown),
        ..pair(Role::Receiver, sender, &terms)
    };
    receiver.store().put(Name([5; 16]), &old, &[0; 40]).unwrap();
    let (own, _) = runs_with([receiver, sender], "ole-tee", Some("simulated"));
    assert_eq!(misfit(&own.unwrap_err()), Some(Misfit::OneDealer));
}
