//! Runs under fixed seeds, and what they send.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_wire::{ChannelOptions, FramedChannel, HEADER_BYTES, WriteHalf, memory_halves};

use crate::Lengths;

/// A frame that says only that its side is alive has this code.
const HEARTBEAT: u8 = 2;

thread_local! {
    static RNG: RefCell<Option<ChaCha20Rng>> = const { RefCell::new(None) };
}

/// What [`seeded_fill`] gives on this thread, while `run` runs, comes from a seed of this name.
pub fn with_seed<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let seed = blake3::hash(name.as_bytes()).into();
    let set = |rng| RNG.with(|of_thread| *of_thread.borrow_mut() = rng);
    set(Some(ChaCha20Rng::from_seed(seed)));
    let result = run();
    set(None);
    result
}

/// Fills `bytes`, if this thread has a seed. A crate whose unit tests record runs asks here before the operating system.
pub fn seeded_fill(bytes: &mut [u8]) -> bool {
    RNG.with(|rng| match &mut *rng.borrow_mut() {
        Some(rng) => {
            rng.fill_bytes(bytes);
            true
        }
        None => false,
    })
}

/// What one side has sent.
#[derive(Clone, Debug, Default)]
pub struct Sent(Arc<Mutex<Vec<u8>>>);

struct Copying<W>(W, Sent);

impl<W: WriteHalf> WriteHalf for Copying<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1
            .0
            .lock()
            .unwrap()
            .extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn close(&mut self) {
        self.0.close();
    }
}

impl Sent {
    /// Calls `act` with code and payload of each frame; heartbeats left out.
    fn each(&self, mut act: impl FnMut(u8, &[u8])) {
        let bytes = self.0.lock().unwrap();
        let mut rest = &bytes[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [code, length @ ..] = *header;
            let (payload, after) = after.split_at(u32::from_le_bytes(length) as usize);
            rest = after;
            if code != HEARTBEAT {
                act(code, payload);
            }
        }
        assert!(rest.is_empty());
    }

    /// Code, length and the beginning of a hash of each frame, with a blank before it; heartbeats left out.
    ///
    /// # Panics
    /// When a frame is not complete.
    pub fn frames(&self) -> String {
        let mut out = String::new();
        self.each(|code, payload| {
            let hash = blake3::hash(payload).to_hex();
            let _ = write!(out, " {code}:{}:{}", payload.len(), &hash[..8]);
        });
        out
    }

    /// Code and length of each frame; heartbeats left out.
    ///
    /// # Panics
    /// When a frame is not complete.
    pub fn lengths(&self) -> Lengths {
        let mut out = Lengths::new();
        self.each(|code, payload| out.push((code, payload.len())));
        out
    }
}

/// Two connected channels, each with what is sent over it. They have no heartbeats, which count as bytes in reports and come
/// when the machine is slow.
pub fn recorded_pair() -> [(FramedChannel, Sent); 2] {
    let (near, far) = memory_halves();
    [near, far].map(|(reads, writes)| {
        let sent = Sent::default();
        let writes = Copying(writes, sent.clone());
        let options = ChannelOptions {
            timeout: Duration::from_secs(7200),
            heartbeat: Duration::from_secs(3600),
            ..ChannelOptions::default()
        };
        let channel = FramedChannel::new(Box::new(reads), Box::new(writes), options);
        (channel, sent)
    })
}
