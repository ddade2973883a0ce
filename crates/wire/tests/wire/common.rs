//! Channels whose time the test owns.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vesica_wire::{
    ChannelOptions, Clock, FramedChannel, Kind, ManualClock, ReadHalf, WriteHalf, memory_halves,
    tcp_halves,
};

pub(crate) const DATA: Kind = Kind {
    code: 40,
    name: "data",
};

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) type Halves = (Box<dyn ReadHalf>, Box<dyn WriteHalf>);

pub(crate) fn memory() -> [Halves; 2] {
    let (near, far) = memory_halves();
    [
        (Box::new(near.0), Box::new(near.1)),
        (Box::new(far.0), Box::new(far.1)),
    ]
}

pub(crate) fn tcp() -> [Halves; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    [near, far].map(|stream| -> Halves {
        let (reader, writer) = tcp_halves(stream).unwrap();
        (Box::new(reader), Box::new(writer))
    })
}

/// What a channel has asked of its reading half, and got.
#[derive(Clone, Default)]
pub(crate) struct Reads(Arc<Counts>);

#[derive(Default)]
struct Counts {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Reads {
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::SeqCst)
    }
}

struct Counted(Box<dyn ReadHalf>, Reads);

impl ReadHalf for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1.0.calls.fetch_add(1, Ordering::SeqCst);
        let count = self.0.read(buf)?;
        self.1.0.bytes.fetch_add(count, Ordering::SeqCst);
        Ok(count)
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        self.0.finish(goes_on);
    }
}

/// A channel that goes by `clock`, and what it reads.
pub(crate) fn channel(
    (reader, writer): Halves,
    clock: &ManualClock,
    options: ChannelOptions,
) -> (FramedChannel, Reads) {
    let reads = Reads::default();
    let options = ChannelOptions {
        clock: Clock::from(clock),
        ..options
    };
    let reader = Box::new(Counted(reader, reads.clone()));
    (FramedChannel::new(reader, writer, options), reads)
}

/// Waits until this is so, which takes as long as the machine is busy.
#[track_caller]
pub(crate) fn until(what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(100);
    while !what() {
        assert!(Instant::now() < end, "it never came");
        thread::sleep(millis(1));
    }
}
