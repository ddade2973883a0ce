//! What a peer says before the protocol, and what a person or a file says about identities.

use std::sync::LazyLock;

use vesica_ledger::{Book, Rules};
use vesica_psi::Output;
use vesica_session::{
    Admission, Assignment, Checkpoint, Envelope, Fingerprint, Hello, Identity, Intent,
    Introduction, InvitableTerm, Invitation, Job, KeyBlock, KeySet, MemorySet, NoProgress, Opened,
    PeerLimits, Problem, ProtocolRequest, Receipt, Role, State, Tally, TaskKeys, Terms, Turn,
    Turns, agree as agree_on, confirm_done, hash_of_said, read_web_socket, run_set_over, take_turn,
};
use vesica_testing::digests;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::record::received;
use crate::script::Script;

/// A peer's first message: a hello, or that it cannot take part. What is read writes the same bytes again.
pub fn hello(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes, &Terms::default()) {
        assert_eq!(hello.encode(), bytes);
    }
    if let Ok(Some(problem)) = Problem::decode(bytes) {
        assert_eq!(problem.encode(), bytes);
    }
}

/// What each side of a connection says first. What is read writes the same bytes again.
pub fn greeting(bytes: &[u8]) {
    let Ok(greeting) = bytes.try_into() else {
        return;
    };
    if let Ok(intent) = Intent::decode(greeting) {
        assert_eq!(intent.greeting(), *greeting);
    }
}

/// What a peer says of itself to whoever examines the connection.
pub fn introduction(bytes: &[u8]) {
    if let Ok(introduction) = Introduction::decode(bytes, 1 << 31) {
        assert!(introduction.version.len() + introduction.text.len() + 9 == bytes.len());
    }
}

/// A request for a WebSocket up to an empty line, and messages after it.
pub fn web_socket(bytes: &[u8]) {
    let end = bytes.windows(4).position(|of| of == b"\r\n\r\n");
    let (request, messages) = bytes.split_at(end.map_or(0, |at| at + 4));
    if let Ok((_, read)) = read_web_socket(request, messages) {
        assert!(read.len() < messages.len().max(1));
    }
}

/// The handshake and the confirmation, with 3 items; whether they came to their end.
fn handshake(channel: &mut dyn Channel, role: Role) -> bool {
    let mut job = Job::new(role, vec!["email/1".into()]);
    job.peer_limits.items = 1000;
    match agree_on(channel, &job, 3, &Checkpoint::Nothing, None, None) {
        Ok(agreement) => {
            assert!(agreement.peer_items <= 1000);
            confirm_done(channel, role).is_ok()
        }
        Err(_) => false,
    }
}

/// What an honest peer says to a receiver and to a sender.
static HANDSHAKES: LazyLock<[Vec<Vec<u8>>; 2]> = LazyLock::new(|| {
    [Role::Receiver, Role::Sender].map(|role| {
        received(
            |channel| assert!(handshake(channel, role)),
            |channel| assert!(handshake(channel, role.other())),
        )
    })
});

/// The whole handshake. The first byte chooses our role, the rest is the peer's script.
pub fn agree(bytes: &[u8]) {
    let Some((role, script)) = bytes.split_first() else {
        return;
    };
    let (role, honest) = if role & 1 == 0 {
        (Role::Receiver, &HANDSHAKES[0])
    } else {
        (Role::Sender, &HANDSHAKES[1])
    };
    let mut channel = Script::beside(script, honest);
    let done = handshake(&mut channel, role);
    // Its commitment and nonce fit whatever ours are.
    assert!(!channel.faithful() || done);
}

/// What one side of a run by courier says after it has heard these messages.
pub fn said_by_courier(role: Role, is_first: bool, heard: &[&[u8]]) -> Option<Vec<u8>> {
    let turns = Turns::kept(is_first, Zeroizing::new([u8::from(is_first); 32]));
    let job = Job {
        protocol: ProtocolRequest::named("compact-dh"),
        ..Job::new(role, vec!["email/1".into()])
    };
    let keys = digests(0..3);
    let mut set = MemorySet::new(&keys).expect("three keys");
    let sides = [u8::from(is_first), u8::from(!is_first)].map(|b| Fingerprint::from_bytes([b; 32]));
    // What it has said before: a message for each that it has heard, but for the last of one that has not begun.
    let before = heard.len().checked_sub(usize::from(!is_first))?;
    let said: Option<Vec<[u8; 32]>> = (0..before)
        .map(|number| {
            let then = &heard[..number + usize::from(!is_first)];
            said_by_courier(role, is_first, then).map(|said| hash_of_said(&said))
        })
        .collect();
    let heard = heard.iter().map(|heard| Zeroizing::new(heard.to_vec()));
    let turn = take_turn(
        &turns,
        sides,
        (heard.collect(), &said?),
        &job,
        &mut set,
        &mut |_| Ok(()),
        &mut NoProgress,
    );
    match turn {
        Ok(Turn::Said(said)) => Some(said),
        Ok(Turn::Over { said, .. }) => said,
        Err(_) => None,
    }
}

/// A message that a courier brings: as it arrives, or what a sender that has offered or a receiver that has not hears.
pub fn courier(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else {
        return;
    };
    match choice % 3 {
        0 => {
            let [peer, local] = [1, 0].map(|b| Fingerprint::from_bytes([b; 32]));
            assert!(
                Envelope::read(message, peer, local).is_err(),
                "nobody has this fingerprint"
            );
        }
        1 => drop(said_by_courier(Role::Sender, true, &[message])),
        _ => drop(said_by_courier(Role::Receiver, false, &[message])),
    }
}

/// What the peer's driver says of its tasks, of which there are two, of three attempts at each of two buckets, and of what
/// it has opened of them, or the file for a gateway. What is read writes the same again.
pub fn tasks(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, message)) => {
            if let Ok(keys) = TaskKeys::decode(message, 2) {
                assert_eq!(keys.encode(), message);
            }
        }
        Some((1, message)) => {
            if let Ok(tally) = Tally::decode(message, 2, 3) {
                assert_eq!(tally.encode(), message);
            }
        }
        Some((3, message)) => {
            if let Ok(opened) = Opened::decode(message, 2, 3) {
                assert_eq!(opened.encode(2), message);
            }
        }
        Some((_, text)) => {
            if let Ok(admission) = Admission::from_json(text) {
                assert!(
                    Admission::from_json(&admission.to_json())
                        .is_ok_and(|again| again == admission)
                );
            }
        }
        None => {}
    }
}

/// A fingerprint as a person types it. What is read is written in its canonical form.
pub fn fingerprint(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(fingerprint) = text.parse::<Fingerprint>() {
        let canonical = fingerprint.to_string();
        assert_eq!(canonical, text.trim().to_ascii_lowercase());
        assert_eq!(canonical.parse(), Ok(fingerprint));
    }
}

/// A peer's receipt. What is signed says what can be said again, by the key that it names.
pub fn receipt(bytes: &[u8]) {
    if let Ok(receipt) = Receipt::decode(bytes)
        && let Ok(statement) = receipt.verify()
    {
        assert!(statement.by.starts_with("vs1:"));
        assert!(statement.head().is_none_or(|head| head.len() == 64));
    }
}

/// A ledger, of which every line is one that this program writes, and rules.
pub fn ledger(bytes: &[u8]) {
    if let Ok(book) = Book::parse(bytes) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
        assert!(book.entries().len() + book.torn().len() <= lines);
        let _ = book.check();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Rules::parse(text);
    }
}

/// An invitation as mail or a person hands it over. What is read is written in its canonical form.
pub fn invitation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(invitation) = text.parse::<Invitation>() {
        let canonical = invitation.to_string();
        let typed: String = text.split_whitespace().collect();
        assert_eq!(canonical, typed.to_ascii_lowercase());
        assert!(
            invitation
                .address()
                .bytes()
                .all(|byte| byte.is_ascii_graphic())
        );
        assert!(invitation.terms().count() <= InvitableTerm::ALL.len());
        assert_eq!(canonical.parse(), Ok(invitation));
    }
}

/// An identity file.
pub fn identity(bytes: &[u8]) {
    if let Ok(identity) = Identity::from_pem(bytes) {
        let again = Identity::from_pem(identity.to_pem().as_bytes());
        assert!(again.is_ok_and(|again| again.fingerprint() == identity.fingerprint()));
    }
}

/// A set that remembers how far a run came.
struct Resumable {
    digests: Vec<[u8; 32]>,
    buckets: Vec<Vec<[u8; 32]>>,
    checkpoint: Checkpoint,
    states: Vec<State>,
}

impl Resumable {
    fn new(items: u16, checkpoint: Checkpoint) -> Resumable {
        let digest = |i: u16| {
            let mut digest = [8; 32];
            digest[..2].copy_from_slice(&i.to_le_bytes());
            digest
        };
        Resumable {
            digests: (0..items).map(digest).collect(),
            buckets: Vec::new(),
            checkpoint,
            states: Vec::new(),
        }
    }

    /// Runs the job in two buckets; whether it came to its end.
    fn run(&mut self, channel: &mut dyn Channel, role: Role) -> bool {
        let job = Job {
            protocol: ProtocolRequest::named("compact-dh"),
            peer_limits: PeerLimits {
                items: 1000,
                ..PeerLimits::default()
            },
            // Too little for the sender's items at once.
            memory: Some(70_000),
            ..Job::new(role, vec!["email/1".into()])
        };
        run_set_over(channel, None, None, &job, self, &mut NoProgress).is_ok()
    }
}

impl KeySet for Resumable {
    fn items(&self) -> u64 {
        self.digests.len() as u64
    }

    fn checkpoint(&self) -> Checkpoint {
        self.checkpoint.clone()
    }

    fn assign(&mut self, assignment: &Assignment, _: &State) -> Result<(), Error> {
        self.buckets = vec![Vec::new(); assignment.buckets() as usize];
        for digest in &self.digests {
            self.buckets[assignment.bucket(digest) as usize].push(*digest);
        }
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, Error> {
        Ok(self.buckets[bucket as usize].as_slice().into())
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), Error> {
        let count = match output {
            Output::Matches(matched) => matched.iter().filter(|matched| **matched).count(),
            _ => 0,
        };
        assert_eq!(state.found.last(), Some(&(count as u64)));
        assert!(state.found.len() <= self.buckets.len());
        self.states.push(state.clone());
        Ok(())
    }
}

/// Items of the receiver and of the sender in the `buckets` target.
const ITEMS: (u16, u16) = (2, 600);

/// What honest parties did: how far the receiver was after the first bucket, what the sender sent
/// from the start, and what it sent when both went on from there.
static RUNS: LazyLock<(State, [Vec<Vec<u8>>; 2])> = LazyLock::new(|| {
    let run = |own: &mut Resumable, theirs: &mut Resumable| {
        received(
            |channel| assert!(own.run(channel, Role::Receiver)),
            |channel| assert!(theirs.run(channel, Role::Sender)),
        )
    };
    let (mut own, mut theirs) = (
        Resumable::new(ITEMS.0, Checkpoint::Nothing),
        Resumable::new(ITEMS.1, Checkpoint::Nothing),
    );
    let first = run(&mut own, &mut theirs);
    let [state, theirs] = [&own, &theirs].map(|kept| kept.states[0].clone());
    let second = run(
        &mut Resumable::new(ITEMS.0, Checkpoint::State(Box::new(state.clone()))),
        &mut Resumable::new(ITEMS.1, Checkpoint::State(Box::new(theirs))),
    );
    (state, [first, second])
});

/// A run in two buckets, from the hello to the end, that may go on after an earlier one, against a
/// hostile sender. The first byte says what is checkpoint of the earlier run: nothing, something of another
/// set, or one or both buckets; the rest is the peer's script.
pub fn buckets(bytes: &[u8]) {
    let Some((checkpoint, script)) = bytes.split_first() else {
        return;
    };
    let (state, honest) = &*RUNS;
    let (kept, honest) = match checkpoint & 3 {
        0 => (Checkpoint::Nothing, &honest[0]),
        1 => (Checkpoint::OfAnotherSet, &honest[1]),
        more => {
            let found = vec![0; usize::from(more) - 1];
            let state = State {
                found,
                ..state.clone()
            };
            (Checkpoint::State(Box::new(state)), &honest[1])
        }
    };
    let mut set = Resumable::new(ITEMS.0, kept);
    let mut channel = Script::beside(script, honest);
    let done = set.run(&mut channel, Role::Receiver);
    // Nonces are fresh, so that nothing matches, but nothing is wrong with what was recorded; unless
    // our hello, which the session binds, is another one than then.
    assert!(!channel.faithful() || done || checkpoint & 1 == 1);
    assert!(!done || set.states.last().is_some_and(|s| s.found.len() == 2));
}
