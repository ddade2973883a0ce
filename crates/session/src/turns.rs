//! How a side takes part in a session by messages: one seed, and what follows from it ([`crate::courier`]).

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chacha20::ChaCha20Rng;
use rand_core::{SeedableRng, TryCryptoRng, TryRng};
use vesica_psi::{Params, Protocol, Task};
use zeroize::Zeroizing;

use crate::{Error, random};

/// How one side takes part in a session by messages. Wiped when dropped.
#[derive(Clone)]
pub struct Turns {
    /// Whether this side speaks first.
    pub(crate) is_first: bool,
    seed: Zeroizing<[u8; 32]>,
    /// A hash of the messages that were heard so far.
    heard: Arc<Mutex<[u8; 32]>>,
}

/// Does not show the seed.
impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns")
            .field("is_first", &self.is_first)
            .finish_non_exhaustive()
    }
}

impl Turns {
    /// Those of a new session.
    ///
    /// Fails with a resource error when the operating system has no randomness.
    pub fn fresh(is_first: bool) -> Result<Turns, Error> {
        let mut seed = Zeroizing::new([0; 32]);
        random::fill(seed.as_mut())?;
        Ok(Turns::kept(is_first, seed))
    }

    /// Those of a session that has begun.
    pub fn kept(is_first: bool, seed: Zeroizing<[u8; 32]>) -> Turns {
        Turns {
            is_first,
            seed,
            heard: Arc::default(),
        }
    }

    /// Whether this side speaks first.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// What the side keeps, as secret as its items.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(crate) fn derive(&self, context: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, &*self.seed))
    }

    /// This side's nonce.
    pub(crate) fn nonce(&self) -> [u8; 32] {
        *self.derive("vesica/1 nonce of a session by messages")
    }

    /// The protocol's randomness in a session, over these keys, after what was heard so far and what will be.
    pub(crate) fn rng(&self, session: &[u8; 32], digests: &[[u8; 32]]) -> Randomness<'_> {
        let heard = *self.heard();
        let context = "vesica/1 randomness of a session by messages";
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&*self.seed).update(&heard).update(session);
        hasher.update(digests.as_flattened());
        let seed = Zeroizing::new(*hasher.finalize().as_bytes());
        Randomness {
            turns: self,
            rng: ChaCha20Rng::from_seed(*seed),
            seed,
            heard,
        }
    }

    pub(crate) fn heard(&self) -> MutexGuard<'_, [u8; 32]> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a message among those that were heard.
    pub(crate) fn hear(&self, message: &[u8]) {
        let mut heard = self.heard();
        let mut hasher = blake3::Hasher::new_derive_key("vesica/1 what a side has heard");
        *heard = *hasher.update(&*heard).update(message).finalize().as_bytes();
    }
}

/// A side's randomness. What is drawn after a message follows from that message too.
pub(crate) struct Randomness<'a> {
    turns: &'a Turns,
    seed: Zeroizing<[u8; 32]>,
    /// What was heard before the last draw.
    heard: [u8; 32],
    rng: ChaCha20Rng,
}

impl Randomness<'_> {
    fn now(&mut self) -> &mut ChaCha20Rng {
        let heard = *self.turns.heard();
        if heard != self.heard {
            self.heard = heard;
            let context = "vesica/1 randomness of a session after a message";
            let mut hasher = blake3::Hasher::new_derive_key(context);
            hasher.update(&*self.seed).update(&heard);
            let seed = Zeroizing::new(*hasher.finalize().as_bytes());
            self.rng = ChaCha20Rng::from_seed(*seed);
        }
        &mut self.rng
    }
}

impl TryRng for Randomness<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.now().try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.now().try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.now().try_fill_bytes(bytes)
    }
}

impl TryCryptoRng for Randomness<'_> {}

/// Whether in this run the receiver says something, the sender answers, and that is all, but for the message that tells the
/// sender the result if it is told.
pub(crate) fn takes_two_messages(protocol: &dyn Protocol, params: &Params, task: &Task) -> bool {
    let alone = Task {
        both: false,
        ..task.clone()
    };
    let traffic = protocol.traffic(params, &alone, None, false);
    traffic.is_some_and(|traffic| traffic.delays() == 2)
}
