//! Writes the seeds: small valid inputs of every target, from which fuzzing starts.
//!
//! `make_seeds DIR` writes `DIR/TARGET/NAME`. The same version writes the same bytes, except for
//! the identity, which is left alone if it is there.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use chacha20::ChaCha20Rng;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rand_core::{Rng, SeedableRng};
use vesica_fuzz::psi::{BOTH, CIRCUITS, HASHED, LABELLED, SENDER, TOLD, WEAK};
use vesica_fuzz::script::{CHANGED, HONEST, RESIZED, REST};
use vesica_fuzz::session::said_by_courier;
use vesica_fuzz::transfers::Party;
use vesica_ledger::{Begun, Ended, Ledger};
use vesica_offline::{DealerRequest, Evidence, OfflineTerms, Platform};
use vesica_session::{
    Admission, Fingerprint, GroupMinimum, GroupTerms, Hello, Identity, Intent, Introduction,
    InvitableTerm, Invitation, Job, LabelExchange, LabelTerms, Learns, LocalFacts, NO_LIMIT,
    NoiseRequest, Opened, ProtocolRequest, Registry, Resume, Reveal, Role, Tally, TaskKeys, Terms,
    read_web_socket,
    terms::{LEARNS, REVEAL},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Seeds(PathBuf);

impl Seeds {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name), bytes)?)
    }

    /// A spreadsheet of the vectors behind the byte that frames its table.
    fn sheet(&self, name: &str) -> Result<()> {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/tables");
        let file = fs::read(format!("{vectors}/{name}"))?;
        self.put("sheets", name, &[&[6], &file[..]].concat())
    }

    /// A table behind the byte that chooses its key.
    fn table(&self, target: &str, name: &str, choice: u8, file: &[u8]) -> Result<()> {
        self.put(target, name, &[&[choice], file].concat())?;
        self.put("detect", &format!("{target}-{name}"), file)
    }
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("give the folder")?;
    let seeds = Seeds(PathBuf::from(folder));
    seeds.sheet("people.xlsx")?;
    seeds.sheet("people.ods")?;
    wire(&seeds)?;
    session(&seeds)?;
    psi(&seeds)?;
    parts(&seeds)?;
    text(&seeds)?;
    columnar(&seeds)
}

fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&[code], &length[..], payload].concat()
}

fn wire(seeds: &Seeds) -> Result<()> {
    let two = [frame(32, b"first"), frame(32, b"second")].concat();
    seeds.put("frames", "two", &[&[63, 32, 255], &two[..]].concat())?;
    seeds.put("frames", "drip", &[&[0, 32, 6], &two[..]].concat())?;
    let abort = frame(1, b"\x02the two sides disagree");
    seeds.put("frames", "abort", &[&[63, 32, 255], &abort[..]].concat())?;
    let alive = frame(2, b"");
    let between = [&alive[..], &two, &alive, &frame(32, b"third"), &alive].concat();
    seeds.put(
        "frames",
        "heartbeats",
        &[&[3, 32, 255], &between[..]].concat(),
    )?;
    let loud = [frame(2, b"hello"), two].concat();
    seeds.put(
        "frames",
        "heartbeat-with-payload",
        &[&[63, 32, 255], &loud[..]].concat(),
    )?;
    let huge = [32, 0xff, 0xff, 0xff, 0xff];
    seeds.put("frames", "huge", &[&[63, 32, 255], &huge[..]].concat())
}

/// Invitations, one as mail wraps it and in capitals, and one with all terms. Each is drawn anew, so that those that are there
/// stay.
fn invitations(seeds: &Seeds) -> Result<()> {
    if seeds.0.join("invitation/plain").exists() {
        return Ok(());
    }
    let identity = Identity::from_seed(&[7; 32])?;
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32);
    let values = ["semi-honest", "64", "size", "2^10", "vole", "yes"].map(str::to_owned);
    let all: Vec<_> = InvitableTerm::ALL.into_iter().zip(values).collect();
    let of = |terms| Invitation::new(&identity, Role::Sender, "shop.example:7340", terms, expires);
    let (plain, full) = (of(&[])?.to_string(), of(&all)?.to_string());
    let (one, other) = full.split_at(76);
    let wrapped = format!("{one}\r\n{other}\r\n").to_uppercase();
    seeds.put("invitation", "plain", plain.as_bytes())?;
    seeds.put("invitation", "terms", full.as_bytes())?;
    seeds.put("invitation", "wrapped", wrapped.as_bytes())
}

/// A ledger of a run, and the receipt of it. Both are drawn anew, so that those that are there stay.
fn accounts(seeds: &Seeds) -> Result<()> {
    if seeds.0.join("ledger/run").exists() {
        return Ok(());
    }
    let place = tempfile::tempdir()?;
    let ledger = Ledger::new(place.path().join("ledger"));
    let begun = Begun {
        session: "00".repeat(32),
        ..Begun::default()
    };
    let head = ledger.begin(begun, None)?;
    ledger.end(Ended {
        of: head.entry,
        result: vesica_ledger::Result::Done,
        unanswered: false,
        answer: None,
    })?;
    let whole = std::fs::read(ledger.path())?;
    seeds.put("ledger", "run", &whole)?;
    seeds.put("ledger", "torn", &whole[..whole.len() - 40])?;
    let rules = b"[[rule]]\nname = \"a\"\nperiod = \"7d\"\nruns = 2\nreveal = [\"size\"]\nepsilon = \"0.5\"\n";
    seeds.put("ledger", "rules", rules)?;
    seeds.put(
        "receipt",
        "unsigned",
        &[&[7; 96][..], b"{\"receipt\":1}"].concat(),
    )
}

/// A greeting for each thing that a side can have come for, and others that are none.
fn greetings(seeds: &Seeds) -> Result<()> {
    for (number, intent) in Intent::all().enumerate() {
        let greeting = intent.greeting();
        assert_eq!(Intent::decode(&greeting)?, intent);
        seeds.put("greeting", &format!("{number:02}"), &greeting)?;
        if number == 0 {
            for (name, at) in [
                ("of-another-program", 0),
                ("of-another-version", 4),
                ("unknown", 7),
            ] {
                let mut other = greeting;
                other[at] ^= 0x40;
                seeds.put("greeting", name, &other)?;
            }
        }
    }
    Ok(())
}

/// What `vesica doctor` says of its side, and others that cannot be.
fn introductions(seeds: &Seeds) -> Result<()> {
    let said = [&[0; 7], &[1, 5][..], b"0.1.0", b"{}"].concat();
    Introduction::decode(&said, 0)?;
    seeds.put("introduction", "whole", &said)?;
    seeds.put("introduction", "without-text", &said[..14])?;
    seeds.put("introduction", "short", &said[..12])
}

/// A request for a WebSocket with messages after it, and another that is none.
fn web_sockets(seeds: &Seeds) -> Result<()> {
    let request = b"GET /psi HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // A message in two pieces, a ping between them, an end.
    let messages = [
        &[0x02, 0x82, 1, 2, 3, 4, 1, 3][..],
        &[0x89, 0x81, 0, 0, 0, 0, 9],
        &[0x80, 0x81, 0, 0, 0, 0, 3],
        &[0x82, 0x80, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(read_web_socket(request, &messages)?, (true, vec![0, 1, 3]));
    seeds.put("web_socket", "whole", &[&request[..], &messages].concat())?;
    seeds.put(
        "web_socket",
        "page",
        b"GET / HTTP/1.1\r\nHost: h\r\nOrigin: http://h\r\n\r\n",
    )?;
    seeds.put(
        "web_socket",
        "close",
        &[&request[..], &[0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]].concat(),
    )
}

/// What drivers say of tasks. Each seed is one that is read.
fn tasks(seeds: &Seeds) -> Result<()> {
    let keys = TaskKeys {
        expires: 1 << 31,
        fingerprints: [1, 2]
            .map(|byte| Fingerprint::from_bytes([byte; 32]))
            .into(),
    };
    let keys = keys.encode();
    TaskKeys::decode(&keys, 2)?;
    seeds.put("tasks", "keys", &[&[0], &keys[..]].concat())?;
    // Two attempts at the first bucket, the second with a result; three at the other one, the last confirmed.
    let attempts: Vec<u8> = [0b11u16, 0b10, 0, 0b111, 0b100, 0b100]
        .into_iter()
        .flat_map(u16::to_le_bytes)
        .collect();
    Tally::decode(&attempts, 2, 3)?;
    seeds.put("tasks", "attempts", &[&[1], &attempts[..]].concat())?;
    // The third attempt at the first bucket, and the first at the other one.
    let openings = [2, 2, 0];
    Opened::decode(&openings, 2, 3)?;
    seeds.put("tasks", "openings", &[&[3], &openings[..]].concat())?;
    let [job, token] = ["ab", "cd"].map(|byte| byte.repeat(32));
    let admission =
        format!(r#"{{"job": "{job}", "token": "{token}", "buckets": 4, "attempts": 3}}"#);
    Admission::from_json(admission.as_bytes())?;
    seeds.put("tasks", "gateway", &[&[2], admission.as_bytes()].concat())
}

fn session(seeds: &Seeds) -> Result<()> {
    greetings(seeds)?;
    introductions(seeds)?;
    web_sockets(seeds)?;
    tasks(seeds)?;
    let offer = said_by_courier(Role::Sender, true, &[]).ok_or("an offer")?;
    let start = said_by_courier(Role::Receiver, false, &[&offer]).ok_or("a start")?;
    said_by_courier(Role::Sender, true, &[&start]).ok_or("an answer")?;
    seeds.put("courier", "offer", &[&[2], &offer[..]].concat())?;
    seeds.put("courier", "start", &[&[1], &start[..]].concat())?;
    let head = [
        b"vesicax2",
        &[0; 65][..],
        &[2, 0, 7, 7, 0, 0],
        &offer,
        &[0; 64],
    ]
    .concat();
    seeds.put("courier", "envelope", &[&[0], &head[..]].concat())?;
    let hello = |role, protocol| Hello {
        role,
        terms: Job::new(role, vec!["email/1".into()]).terms,
        local: LocalFacts {
            protocol,
            values: Vec::new(),
            max_peer_value_bound: NO_LIMIT,
            groups: None,
            labels: LabelExchange::Nothing,
            noise: None,
            is_padded: false,
            items: 3,
            memory: NO_LIMIT,
            resume: Resume::Nothing,
            offline: None,
            purpose: "a test".into(),
        },
    };
    let named = || ProtocolRequest::named("compact-dh");
    let mut handing_over = hello(Role::Sender, named());
    handing_over.local.labels = LabelExchange::Offered(LabelTerms {
        types: vec!["decimal(10,2)".into()],
        ..LabelTerms::texts(8, vec!["Größe".into()])
    });
    let mut sharing = hello(Role::Receiver, ProtocolRequest::named("circuit-okvs"));
    sharing.terms.set(&REVEAL, Reveal::Shares.into());
    sharing.local.labels = LabelExchange::Shared { bytes: 20 };
    let mut both = hello(Role::Sender, named());
    both.terms.set(&LEARNS, Learns::Both);
    both.local.memory = 1;
    let mut noisy = hello(Role::Sender, ProtocolRequest::named("circuit-okvs"));
    noisy.terms.set(&REVEAL, Reveal::Size.into());
    noisy.local.noise = Some(NoiseRequest {
        epsilon: "0.5".parse()?,
        split: vec![("size".into(), 1)],
    });
    noisy.local.is_padded = true;
    let mut grouped = hello(Role::Receiver, ProtocolRequest::named("circuit-okvs"));
    grouped.terms.set(&REVEAL, Reveal::Size.into());
    grouped.local.groups = Some(GroupTerms {
        count: 2,
        minimum: GroupMinimum::Each,
        sizes: Some(vec![2, 1]),
        is_padded: false,
        has_rest: false,
    });
    for (name, ours, hello) in [
        ("groups", 0, grouped),
        ("receiver", 1, hello(Role::Receiver, ProtocolRequest::Auto)),
        ("sender", 0, hello(Role::Sender, named())),
        ("columns-handed-over", 1, handing_over),
        ("payloads", 1, sharing),
        ("both-and-little-memory", 0, both),
        ("noise", 0, noisy),
    ] {
        let bytes = hello.encode();
        Hello::decode(&bytes, &Terms::default())?;
        seeds.put("hello", name, &bytes)?;
        let length = (bytes.len() as u16).to_be_bytes();
        // Then the commitment, the nonce and the empty last frame.
        let end = [&[0, 64][..], &[5; 64], &[0, 32], &[6; 32], &[0, 0]].concat();
        let script = [&[ours], &length[..], &bytes, &end].concat();
        seeds.put("agree", name, &script)?;
    }
    let peer = Fingerprint::of_public_key(b"a key");
    for (name, role, key_bits) in [
        ("numbers", Role::Receiver, Some(32)),
        ("any-keys", Role::Sender, None),
    ] {
        let request = DealerRequest {
            role,
            terms: OfflineTerms {
                protocol: "ole-dealer".into(),
                lambda: 40,
                key_bits,
                receiver_size: 1000,
                sender_size: 20,
                post_quantum: false,
            },
            peer,
            layout: "1 85 7 16381".into(),
            attestation: None,
            nonce: [8; 32],
        };
        seeds.put("request", name, &request.encode())?;
    }
    let hex = include_str!("../../vectors/attestation/report_milan.hex").trim();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    let report: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let vcek = include_bytes!("../../vectors/attestation/vcek_milan.der");
    let guid = 0x63da_758d_e664_4564_adc5_f4b9_3be8_accd_u128.to_be_bytes();
    let place = [48, vcek.len() as u32].map(u32::to_le_bytes).concat();
    let table = [&guid[..], &place, &[0; 24], vcek].concat();
    let quote = include_bytes!("../../vectors/attestation/tdx_quote").to_vec();
    for (name, platform, report, endorsements) in [
        ("simulated", Platform::Simulated, vec![7; 112], Vec::new()),
        ("sev-snp", Platform::SevSnp, report, table),
        ("tdx", Platform::Tdx, quote, Vec::new()),
    ] {
        let evidence = Evidence {
            platform,
            report,
            endorsements,
        };
        seeds.put("attestation", name, &evidence.encode())?;
    }
    let fingerprint = peer.to_string();
    seeds.put("fingerprint", "lower", fingerprint.as_bytes())?;
    let spaced = format!(" {}\n", fingerprint.to_ascii_uppercase());
    seeds.put("fingerprint", "upper", spaced.as_bytes())?;
    invitations(seeds)?;
    accounts(seeds)?;
    if !seeds.0.join("identity/fresh").exists() {
        seeds.put(
            "identity",
            "fresh",
            Identity::generate()?.to_pem().as_bytes(),
        )?;
    }
    Ok(())
}

fn psi(seeds: &Seeds) -> Result<()> {
    // Strings of 32 bytes: a point of low order, the base point, one that is not canonical, and
    // one that may be anything.
    let mut base = [0; 32];
    base[0] = 9;
    let any: [u8; 32] = std::array::from_fn(|i| 7 * i as u8 + 3);
    let fills = [
        ("zeros", [0; 32]),
        ("base", base),
        ("high", [0xee; 32]),
        ("any", any),
    ];
    for (i, protocol) in Registry::standard().all().iter().enumerate() {
        let protocol = protocol.spec().name;
        honest_psi(seeds, i as u8, protocol)?;
        // The first frame of a run from base transfers is longer than an input.
        let items = match protocol {
            "dh" | "compact-dh" | "compact-dh-sh1" | "compact-dh-sh2" => 0..3,
            _ => 0..0,
        };
        for items in items {
            for (fill, bytes) in fills {
                let name = format!("{protocol}-{items}-{fill}");
                let start = [i as u8, items << 2 | items];
                // A sender reads one frame: a polynomial or blinded items, as many as it asks for.
                // The strings differ, lest the polynomial be constant.
                let many: Vec<u8> = (0..8).flat_map(|j| bytes.map(|b| b ^ j)).collect();
                seeds.put("psi_send", &name, &[&start[..], &[REST], &many].concat())?;
                // A receiver reads a key or its blinded items, and then masks.
                let first = match protocol {
                    "dh" => usize::from(items),
                    _ => 1,
                };
                let first = bytes.repeat(first);
                let script = [&start[..], &[REST], &first, &[REST], &many].concat();
                seeds.put("psi_receive", &name, &script)?;
            }
        }
    }
    Ok(())
}

/// The most frames that a party of any target reads, or more.
const FRAMES: usize = 12;

/// Enough frames for any party of a run of circuit PSI.
const CIRCUIT_FRAMES: usize = 60;

/// Scripts for a party that reads at most `frames` frames: an honest peer, and for each frame a
/// change of it and another length, honest before and behind.
fn near_honest(frames: usize) -> Vec<(String, Vec<u8>)> {
    let mut scripts = vec![("honest".into(), vec![HONEST; frames])];
    for at in 0..frames {
        for (name, edit) in [
            ("changed", &[CHANGED, 0x55, 0, 1][..]),
            ("shorter", &[RESIZED, 0xff]),
        ] {
            let before = vec![HONEST; at];
            let behind = vec![HONEST; frames - at];
            scripts.push((format!("{name}-{at}"), [&before, edit, &behind].concat()));
        }
    }
    scripts
}

fn honest_psi(seeds: &Seeds, number: u8, protocol: &str) -> Result<()> {
    let levels: &[(&str, u8)] = match protocol {
        "vole" | "spot-low" => &[("", 0), ("-weak", WEAK)],
        _ => &[("", 0)],
    };
    for (level, flag) in levels {
        let frames = match protocol {
            "vole" | "ole-lattice" | "ole-dealer" | "ole-tee" => FRAMES,
            "ole-ot" => 2 * FRAMES,
            "kkrt" | "spot-low" | "spot-fast" | "sparse-okvs" => 4,
            "circuit-okvs" | "circuit-rb-psm1" | "circuit-rb-psm2" => CIRCUIT_FRAMES,
            _ => 3,
        };
        let tasks = match frames {
            CIRCUIT_FRAMES => CIRCUITS.len() as u8,
            _ => 1,
        };
        for task in 0..tasks {
            // Seven items and two.
            let start = [number | flag | BOTH, task << 4 | 0b1011];
            // All tasks have their first frames in common.
            let scripts = near_honest(frames).into_iter();
            let taken = if task == 0 { usize::MAX } else { 1 };
            for (name, script) in scripts.take(taken) {
                let task = if tasks > 1 {
                    format!("-{task}")
                } else {
                    String::new()
                };
                let name = format!("{protocol}{level}{task}-{name}");
                let input = [&start[..], &script].concat();
                seeds.put("psi_send", &name, &input)?;
                seeds.put("psi_receive", &name, &input)?;
            }
        }
        let labelled = Registry::standard().get(protocol);
        if tasks == 1 && labelled.is_some_and(|protocol| protocol.labels_per_item().is_some()) {
            let start = [number | flag | BOTH, LABELLED | 0b1011];
            for (name, script) in near_honest(frames + 1) {
                let name = format!("{protocol}{level}-labels-{name}");
                let input = [&start[..], &script].concat();
                seeds.put("psi_receive", &name, &input)?;
            }
        }
        for sizes in [0b0000, 0b0001, 0b0100, 0b1111, HASHED | 0b1111] {
            let name = format!("{protocol}{level}-sizes-{sizes}");
            let honest = vec![HONEST; frames.max(FRAMES)];
            let input = [&[number | flag, sizes][..], &honest].concat();
            seeds.put("psi_send", &name, &input)?;
            seeds.put("psi_receive", &name, &input)?;
        }
    }
    Ok(())
}

/// Parts of protocols by themselves.
fn parts(seeds: &Seeds) -> Result<()> {
    for width in [1, 40, 64, 65, 128, 256] {
        for (role, options) in [("receiver", 0), ("both", TOLD), ("sender", SENDER | TOLD)] {
            let start = [(width - 1) as u8, 0xf7, options];
            for (name, script) in near_honest(1) {
                let name = format!("{role}-{width}-{name}");
                seeds.put("masks", &name, &[&start[..], &script].concat())?;
            }
        }
    }
    for party in 0..Party::ALL.len() {
        for (name, script) in near_honest(4) {
            let name = format!("{party}-{name}");
            seeds.put(
                "transfers",
                &name,
                &[&[party as u8, 5][..], &script].concat(),
            )?;
        }
    }
    for role in 0..2 {
        for (name, script) in near_honest(4) {
            let name = format!("{role}-{name}");
            seeds.put("agree", &name, &[&[role][..], &script].concat())?;
        }
    }
    for left in 0..4 {
        for (name, script) in near_honest(8) {
            let name = format!("{left}-{name}");
            seeds.put("buckets", &name, &[&[left][..], &script].concat())?;
        }
    }
    let mut keys = [0; 320];
    ChaCha20Rng::from_seed([4; 32]).fill_bytes(&mut keys);
    for choice in 0..8 {
        for items in [0, 1, 20, 200] {
            let name = format!("{choice}-{items}");
            seeds.put("stores", &name, &[&[choice, items][..], &keys].concat())?;
        }
    }
    served(seeds)?;
    kept(seeds)?;
    published(seeds)
}

/// Hellos of a client that wants no files, all, the rest of the first and a release that is not there, or of another version;
/// questions with an element, with many, with the neutral one, with half of one, and that cost nothing or something unknown.
fn served(seeds: &Seeds) -> Result<()> {
    let lacking = |release: u64, offset: u64| {
        let parts = [release, offset].map(u64::to_le_bytes);
        [&[4], parts.as_flattened(), &[7; 32]].concat()
    };
    // The generator of ristretto255.
    let generator = [
        0xe2, 0xf2, 0xae, 0x0a, 0x6a, 0xbc, 0x4e, 0x71, 0xa8, 0x84, 0xa9, 0x61, 0xc5, 0x00, 0x51,
        0x5f, 0x58, 0xe3, 0x0b, 0x6a, 0xa5, 0x82, 0xdd, 0x8d, 0xb6, 0xa6, 0x59, 0x45, 0xe0, 0x8d,
        0x2d, 0x76,
    ];
    let question = |cost: u8, elements: &[u8]| [&[cost], elements].concat();
    let one = question(0, &generator);
    let many = question(0, &generator.repeat(20));
    let [one_again, many_again] = [&one, &many].map(|question| [&[1], &question[1..]].concat());
    let neutral = question(0, &[generator, [0; 32]].concat());
    let (half, empty, unknown) = (many[..49].to_vec(), vec![], question(2, &generator));
    for (name, hello, questions) in [
        ("asks", vec![4], vec![&one, &many, &many]),
        (
            "recalls",
            vec![4],
            vec![&one, &one_again, &many_again, &many],
        ),
        ("neutral", vec![4], vec![&neutral]),
        ("half", vec![4], vec![&one, &half]),
        ("empty", vec![4], vec![&empty]),
        ("unknown", vec![4], vec![&unknown]),
        ("fetches", lacking(1, 0), vec![&one]),
        ("goes-on", lacking(1, 200), vec![]),
        ("beyond", lacking(2, 0), vec![&one]),
        ("none", lacking(0, 0), vec![]),
        ("earlier", vec![3], vec![&one]),
    ] {
        let mut input = vec![hello.len() as u8];
        input.extend_from_slice(&hello);
        for question in questions {
            input.extend_from_slice(&(question.len() as u16).to_le_bytes());
            input.extend_from_slice(question);
        }
        seeds.put("served", name, &input)?;
    }
    Ok(())
}

/// What a publisher has declared.
fn declared(payload: &[u8], bytes: u32) -> Vec<u8> {
    let mut out = vec![40];
    out.extend_from_slice(&1u64.to_le_bytes());
    out.extend_from_slice(&4u64.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(b"\x01\x07exact/2");
    out.extend_from_slice(payload);
    out
}

/// What is kept of a published set: a state with a question, a checked file and an answer; a count of version 2 with a record that a crash
/// has lost; a key that nobody has; a count, and one that was changed.
fn kept(seeds: &Seeds) -> Result<()> {
    let count = |count: u64| count.to_le_bytes();
    let (none, hash) = (count(0), [1; 32]);
    let seen = [&none[..], &none, &[0; 32], &hash].concat();
    let empty = [&seen[..], &none, &none, &none].concat();
    seeds.put("kept", "state-empty", &[&[0], &empty[..]].concat())?;
    let one = count(1);
    let pending = [&seen[..], &one, &hash].concat();
    let checked = [&one[..], &hash, &[2; 64]].concat();
    let values = [&one[..], &[3; 32], &[4; 64]].concat();
    let state = [&pending[..], &checked, &values].concat();
    seeds.put("kept", "state", &[&[0], &state[..]].concat())?;
    let record = |is_lost: u8, total: u64, synchronised: u64| {
        let numbers = [0, 1, synchronised].map(u64::to_le_bytes);
        let parts = [
            &[is_lost][..],
            &[5; 32],
            &count(total),
            &hash,
            numbers.as_flattened(),
        ];
        parts.concat()
    };
    let head = [0u64, 1].map(u64::to_le_bytes);
    let records = [record(0, 256, 0), record(1, 256, 1), record(0, 512, 1)].concat();
    let ledger = [head.as_flattened(), &records].concat();
    seeds.put("kept", "ledger", &[&[1], &ledger[..]].concat())?;
    let last = [&one[..], &hash, &one].concat();
    let key = [
        &[6; 32][..],
        &last,
        &[0; 48],
        &[8; 32],
        &[0; 4],
        &declared(b"\x00", 0),
    ]
    .concat();
    seeds.put("kept", "key", &[&[2], &key[..]].concat())?;
    let account = [&count(700)[..], &[1, 0, 0, 0], &hash, &one].concat();
    let accounts = [&[5, 52, 0][..], &account, &[6, 12, 0], &count(300), &[0; 4]].concat();
    let quotas = [&one[..], &count(1000), &accounts].concat();
    seeds.put("kept", "quotas", &[&[3], &quotas[..]].concat())?;
    seeds.put("kept", "changed-quotas", &[4, 9, 0, 0, 1, 0, 16, 0, 7])
}

/// Sets of masks of 42 bits: one alone, one with a payload, and three; a second release in which one comes and one leaves.
fn published(seeds: &Seeds) -> Result<()> {
    let entry = |end: u64| [&9u128.to_le_bytes()[..], &end.to_le_bytes(), &[0; 32]].concat();
    // Differences of 5 and 7: quotients of 0 in unary, remainders of 39 bits.
    let differences = 1 | 5 << 1 | 1 << 40 | 7u128 << 41;
    for (name, keys, declared, block) in [
        ("one", 1u64, declared(b"\x00", 0), vec![]),
        ("payload", 1, declared(b"\x01\x04note", 3), vec![1, 2, 3]),
        (
            "three",
            3,
            declared(b"\x00", 0),
            differences.to_le_bytes()[..10].to_vec(),
        ),
    ] {
        let length = (declared.len() as u16).to_le_bytes();
        let index = entry(block.len() as u64);
        let counts = [keys, 0].map(u64::to_le_bytes);
        let parts = [counts.as_flattened(), &length, &declared, &index, &block];
        let set = parts.concat();
        seeds.put("published", name, &set)?;
        fetched(seeds, name, 1, &set)?;
    }
    let declared = declared(b"\x01\x04note", 3);
    let length = (declared.len() as u16).to_le_bytes();
    let counts = [1u64, 1].map(u64::to_le_bytes);
    let index = [entry(3), entry(3)].concat();
    let parts = [
        counts.as_flattened(),
        &length,
        &declared,
        &index,
        &[1, 2, 3],
    ];
    let update = parts.concat();
    seeds.put("published", "update", &update)?;
    fetched(seeds, "update", 2, &update)
}

/// The last file of a set from its beginning, from its middle, once more from its beginning, and with another length.
fn fetched(seeds: &Seeds, name: &str, release: u64, set: &[u8]) -> Result<()> {
    let files = vesica_fuzz::published::files(set).unwrap_or_default();
    let length = files.last().map_or(0, |file| file.len() as u64);
    for (way, have, offset, length) in [
        ("whole", 0, 0, length),
        ("rest", 200, 200, length),
        ("anew", 200, 0, length),
        ("cut", 0, 0, length - 1),
        ("long", 0, 0, length + 1),
    ] {
        let said = [release, length, offset].map(u64::to_le_bytes);
        let parts = [&u16::to_le_bytes(have)[..], said.as_flattened(), set];
        seeds.put("fetched", &format!("{name}-{way}"), &parts.concat())?;
    }
    Ok(())
}

fn text(seeds: &Seeds) -> Result<()> {
    let gzip = |bytes: &[u8]| -> Result<Vec<u8>> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes)?;
        Ok(gzip.finish()?)
    };
    let plain = b"k,v\na,1\nb,2\na,3\n,4\n";
    let quoted = "\u{feff}k;v\r\n\"a;\"\"b\"\r\n;2\"\r\nÅ;\"3\n4\"\r\n";
    seeds.table("csv", "plain", 0, plain)?;
    seeds.table("csv", "two-columns", 1, plain)?;
    seeds.table("csv", "quoted", 0, quoted.as_bytes())?;
    seeds.table("csv", "tabs", 2, b"k\tv\nA \t1\n\nb\t2")?;
    seeds.table(
        "csv",
        "emails",
        4,
        "k\nA@B.example\nx@bücher.example\nno\n".as_bytes(),
    )?;
    seeds.table(
        "csv",
        "phones",
        6,
        b"k\n020 7946 0000\n+44 20 7946 0000\n12\n",
    )?;
    seeds.table("csv", "gzip", 0, &gzip(plain)?)?;
    let lines = b"{\"k\":\"a\",\"v\":1}\n{\"v\":[{}],\"k\":17}\n\n{\"k\":null}\r\n{\"k\":true,\"v\":\"\\u00e9\"}";
    seeds.table("jsonl", "plain", 0, lines)?;
    seeds.table("jsonl", "two-columns", 1, lines)?;
    seeds.table("jsonl", "gzip", 0, &gzip(lines)?)?;

    let utf16: Vec<u8> = "k,v\n\u{e9},1\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (choice, name, file) in [
        (1, "no-header", &b"a,1\nNULL,2\na,3"[..]),
        (10, "escapes", b"k,v\n'a\\'b',1\n'c\n''d',2\n"),
        (6, "no-quotes", b"k,v\n5\",1\n"),
        (16, "utf-16", &utf16),
        (32, "shift-jis", b"k,v\n\x83\x65\x83\x58,1\n"),
        (48, "windows-1252", b"k;v\r\n\xe9\x80;1\r\n"),
        (
            64,
            "nested",
            b"{\"k\":{\"v\":1}}\n{\"k.v\":\"NULL\"}\n{\"k\":null}\n",
        ),
    ] {
        seeds.put("dialects", name, &[&[choice], file].concat())?;
    }

    for (choice, name, value) in [
        (0, "exact", " As it is "),
        (1, "text", "  Stra\u{df}e\u{a0}\u{200b}\u{fb01}n  E\u{301} "),
        (2, "email", "J\u{fc}rgen.M+tag@B\u{fc}cher.Example."),
        (2, "email-quoted", "\"a@b\"@example.org"),
        (3, "phone", "(020) 7946 0000 ext. 5"),
        (3, "phone-abroad", "+49 30 901820"),
        (
            3,
            "phone-rfc3966",
            "tel:020-7946-0000;phone-context=+44;ext=5",
        ),
        (5, "phone-vanity", "1-800-FLOWERS"),
        (6, "phone-mobile", "011 15-2345-6789"),
        (
            4,
            "sha256",
            "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        ),
    ] {
        seeds.put("profiles", name, &[&[choice], value.as_bytes()].concat())?;
    }
    seeds.put("keyspec", "plain", b"id")?;
    seeds.put(
        "keyspec",
        "profiles",
        b"email,tel,n\ntel=phone:gb\nemail=email\nn=sha256-hex",
    )
}

fn columnar(seeds: &Seeds) -> Result<()> {
    let keys: Vec<(&str, ArrayRef)> = vec![
        (
            "text",
            Arc::new(StringArray::from(vec![
                Some("a"),
                None,
                Some("b"),
                Some("a"),
            ])),
        ),
        (
            "integer",
            Arc::new(Int64Array::from(vec![Some(1), Some(-2), None, Some(1)])),
        ),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![&b"a"[..], b"", b"\xff", b"a"])),
        ),
        (
            "boolean",
            Arc::new(BooleanArray::from(vec![true, false, true, true])),
        ),
        ("date", Arc::new(Date32Array::from(vec![0, 19_782, -1, 0]))),
        (
            "decimal",
            Arc::new(Decimal128Array::from(vec![1250, -5, 0, 1]).with_precision_and_scale(9, 2)?),
        ),
        (
            "instant",
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1, -1, 0]).with_timezone("UTC")),
        ),
    ];
    for (name, key) in keys {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "", "z"]));
        let batch = RecordBatch::try_from_iter([("k", key), ("v", values)])?;
        parquet_files(seeds, name, &batch)?;
        arrow_files(seeds, name, &batch)?;
    }
    Ok(())
}

fn parquet_files(seeds: &Seeds, name: &str, batch: &RecordBatch) -> Result<()> {
    let write = |compression| -> Result<Vec<u8>> {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_created_by("seed".into())
            .build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))?;
        writer.write(batch)?;
        writer.close()?;
        Ok(file)
    };
    seeds.table("parquet", name, 0, &write(Compression::UNCOMPRESSED)?)?;
    if name == "text" {
        seeds.table("parquet", "snappy", 1, &write(Compression::SNAPPY)?)?;
        seeds.table(
            "parquet",
            "zstd",
            0,
            &write(Compression::ZSTD(ZstdLevel::try_new(1)?))?,
        )?;
    }
    Ok(())
}

fn arrow_files(seeds: &Seeds, name: &str, batch: &RecordBatch) -> Result<()> {
    let plain = || IpcWriteOptions::try_new(8, false, MetadataVersion::V5);
    let file = |options| -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut writer = FileWriter::try_new_with_options(&mut file, &batch.schema(), options)?;
        writer.write(batch)?;
        writer.finish()?;
        drop(writer);
        Ok(file)
    };
    seeds.table("arrow", &format!("{name}-file"), 0, &file(plain()?)?)?;
    if name == "text" {
        let lz4 = plain()?.try_with_compression(Some(CompressionType::LZ4_FRAME))?;
        seeds.table("arrow", "lz4", 0, &file(lz4)?)?;
        let mut stream = Vec::new();
        let mut writer = StreamWriter::try_new(&mut stream, &batch.schema())?;
        writer.write(batch)?;
        writer.finish()?;
        drop(writer);
        seeds.table("arrow", "stream", 1, &stream)?;
    }
    Ok(())
}
