//! Oblivious transfers: base transfers, and the extension after ideal ones.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_correlations::base_ot::KeyAgreement;
use vesica_correlations::choices::Choices;
use vesica_correlations::ot_extension::Security;
use vesica_correlations::{base_ot, ideal};
use vesica_wire::{Channel, Error};

use crate::record::{Recordings, received};
use crate::script::Script;

const SESSION: [u8; 32] = [5; 32];

/// Parties, by the number in the first byte; a party and its peer differ in the lowest bit.
#[derive(Clone, Copy)]
pub enum Party {
    BaseSender(KeyAgreement),
    BaseReceiver(KeyAgreement),
    Sender(Security),
    Receiver(Security),
}

impl Party {
    pub const ALL: [Party; 8] = [
        Party::BaseSender(KeyAgreement::Classical),
        Party::BaseReceiver(KeyAgreement::Classical),
        Party::Sender(Security::Malicious),
        Party::Receiver(Security::Malicious),
        Party::Sender(Security::SemiHonest),
        Party::Receiver(Security::SemiHonest),
        Party::BaseSender(KeyAgreement::Hybrid),
        Party::BaseReceiver(KeyAgreement::Hybrid),
    ];

    fn run(self, channel: &mut dyn Channel, count: usize) -> Result<(), Error> {
        let extension = |security| {
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            ideal::extension(&SESSION, security, &mut rng)
        };
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let choices = Choices::random(count, &mut rng);
        match self {
            Party::BaseSender(agreement) => {
                let sent = base_ot::send_and_bind(channel, &SESSION, agreement, count, &mut rng)?;
                assert_eq!(sent.0.len(), count);
            }
            Party::BaseReceiver(agreement) => {
                let received =
                    base_ot::receive_and_bind(channel, &SESSION, agreement, choices, &mut rng)?;
                assert_eq!(received.0.len(), count);
            }
            Party::Sender(security) => {
                let (mut sender, _) = extension(security);
                assert_eq!(sender.random(channel, count)?.len(), count);
            }
            Party::Receiver(security) => {
                let (_, mut receiver) = extension(security);
                assert_eq!(receiver.random(channel, &choices)?.len(), count);
            }
        }
        Ok(())
    }
}

/// One party of transfers whose peer is hostile. The first byte chooses the party, the second the
/// number of transfers (0 to 7), the rest is the peer's script.
pub fn transfers(bytes: &[u8]) {
    static HONEST: Recordings = Recordings::new();
    let [number, count, script @ ..] = bytes else {
        return;
    };
    let number = usize::from(*number) % Party::ALL.len();
    let count = usize::from(count & 7);
    let (party, peer) = (Party::ALL[number], Party::ALL[number ^ 1]);
    let honest = HONEST.get([number as u8, count as u8], || {
        let there = |channel: &mut dyn Channel| drop(peer.run(channel, count));
        received(|channel| drop(party.run(channel, count)), there)
    });
    let mut channel = Script::beside(script, &honest);
    let result = party.run(&mut channel, count);
    assert!(!channel.faithful() || result.is_ok());
}
