//! How fast frames travel over TLS on this machine's loopback.
//!
//! `cargo run --release -p vesica-session --example throughput [MIB] [FRAME_BYTES]`

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error, Identity, Intent, Listener, Transport, connect,
};
use vesica_wire::{Channel, Kind};

const DATA: Kind = Kind {
    code: 200,
    name: "data",
};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse());
    let mib = arguments.next().unwrap_or(Ok(2048));
    let frame = arguments.next().unwrap_or(Ok(1 << 20));
    let (Ok(mib), Ok(frame)) = (mib, frame) else {
        eprintln!("usage: throughput [MIB] [FRAME_BYTES]");
        return ExitCode::from(2);
    };
    match measure(mib, frame) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(mib: usize, frame: usize) -> Result<(), Error> {
    let frames = (mib << 20) / frame.max(1);
    let (near, far) = (Identity::generate()?, Identity::generate()?);
    for tls in [false, true] {
        let (mut sender, mut receiver) = pair(&near, &far, tls)?;
        let start = Instant::now();
        let outcome = thread::scope(|scope| {
            let sending = scope.spawn(move || -> Result<(), Error> {
                for _ in 0..frames {
                    sender.channel.send(DATA, vec![0x5a; frame])?;
                }
                Ok(sender.channel.flush()?)
            });
            for _ in 0..frames {
                receiver.channel.recv(DATA, frame)?;
            }
            sending.join().expect("the sending thread")
        });
        outcome?;
        let seconds = start.elapsed().as_secs_f64();
        let name = if tls { "TLS" } else { "plaintext" };
        let rate = (frames * frame) as f64 / seconds / 1e6;
        println!("{name:9} {frames} frames of {frame} bytes: {seconds:.3} s, {rate:.0} MB/s");
    }
    Ok(())
}

fn pair(near: &Identity, far: &Identity, tls: bool) -> Result<(Connection, Connection), Error> {
    let transport = |identity, peer: &Identity| {
        if tls {
            Transport::Tls {
                identity,
                peer: peer.fingerprint(),
                // It goes with itself.
                intent: Intent::Generate,
            }
        } else {
            Transport::PlaintextForBenchmarksOnly
        }
    };
    let options = ConnectOptions::default();
    let listener = Listener::bind("127.0.0.1:0")?;
    let address = Endpoint::Connect(listener.local_addr().to_string());
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&transport(near, far), &options));
        let connected = connect(&address, &transport(far, near), &options)?;
        let accepted = accepting.join().expect("the listening thread")?;
        Ok((accepted, connected))
    })
}
