//! Oblivious transfers: base transfers, and the extension after ideal ones.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
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
    BaseSender,
    BaseReceiver,
    Sender(Security),
    Receiver(Security),
}

impl Party {
    pub const ALL: [Party; 6] = [
        Party::BaseSender,
        Party::BaseReceiver,
        Party::Sender(Security::Malicious),
        Party::Receiver(Security::Malicious),
        Party::Sender(Security::SemiHonest),
        Party::Receiver(Security::SemiHonest),
    ];

    fn run(self, channel: &mut dyn Channel, count: usize) -> Result<(), Error> {
        let extension = |security| {
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            ideal::extension(&SESSION, security, &mut rng)
        };
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let choices = Choices::random(count, &mut rng);
        match self {
            Party::BaseSender => {
                let keys = base_ot::send(channel, &SESSION, count, &mut rng)?;
                assert_eq!(keys.len(), count);
            }
            Party::BaseReceiver => {
                let keys = base_ot::receive(channel, &SESSION, choices, &mut rng)?;
                assert_eq!(keys.len(), count);
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
