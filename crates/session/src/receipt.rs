//! Receipts: what each side of a run signs for its peer before anything that is derived from an item leaves it.
//!
//! A receipt is a [`Statement`], as JSON, and a signature of that by the key behind a fingerprint. It says who has agreed with
//! whom, in which session and on which contract, when by its signer's clock, and where its signer's account of runs stood:
//! the hash of the last entry, which has all entries before it under it. So whoever keeps the peer's receipts can show later
//! that the peer's account was cut, or is an older copy.
//!
//! A receipt does not say that the run came to an end, or what it found. Each side knows of its own end alone.
//!
//! Its frame has the same length whatever it says of an account, but for the length of its role.

use chrono::DateTime;
use serde::{Deserialize, Serialize};
use vesica_wire::{Channel, Error as WireError, Kind};

use crate::codec::{Reader, bad, impossible};
use crate::identity::SIGNATURE_BYTES;
use crate::terms::RECEIPTS;
use crate::{Agreement, Error, Fingerprint, Identity, PublicKey, Role, rfc3339};

/// What a receipt is signed for.
const CONTEXT: &str = "vesica/1 receipt of a run";
/// The version of a statement.
const FORMAT: u8 = 1;
/// The hash in a statement whose signer keeps no account.
const NO_ACCOUNT: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Bytes of a public key.
const PUBLIC_KEY_BYTES: usize = 32;
/// Longest statement, in bytes.
const MAX_STATEMENT: usize = 1 << 10;

const RECEIPT: Kind = Kind {
    code: 60,
    name: "receipt",
};

/// What a side of a run says to its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The version of this form: 1.
    pub receipt: u8,
    /// Who says it.
    pub by: String,
    /// To whom.
    pub to: String,
    /// The part of whoever says it.
    pub role: Role,
    /// The name that the run has in the reports of both sides.
    pub run: String,
    /// A hash of the session, which no other run has, in hexadecimal.
    pub session: String,
    /// The hash of the contract, in hexadecimal.
    pub contract: String,
    /// The hash of the last entry of the signer's account, in hexadecimal: zeros if it keeps none.
    pub ledger: String,
    /// When it was said, by the signer's clock, as RFC 3339 has it.
    pub time: String,
}

/// A statement with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The [`Statement`] as it was signed.
    pub statement: String,
    /// The signer's public key, Ed25519, in hexadecimal.
    pub key: String,
    /// The signature, in hexadecimal.
    pub signature: String,
}

impl Statement {
    /// What a side says: `head` is the hash of the last entry of its account.
    fn new(
        role: Role,
        agreement: &Agreement,
        [by, to]: [Fingerprint; 2],
        head: Option<[u8; 32]>,
        time: String,
    ) -> Statement {
        let ledger = head.map(|head| blake3::Hash::from_bytes(head).to_string());
        Statement {
            receipt: FORMAT,
            by: by.to_string(),
            to: to.to_string(),
            role,
            run: agreement.state.run_name(),
            session: agreement.public_name(),
            contract: agreement.contract.hash.clone(),
            ledger: ledger.unwrap_or_else(|| NO_ACCOUNT.to_owned()),
            time,
        }
    }

    /// The hash of the last entry of the signer's account; `None` if it keeps none.
    pub fn head(&self) -> Option<&str> {
        Some(&*self.ledger).filter(|head| *head != NO_ACCOUNT)
    }

    /// What is wrong with the form of values that the reader does not know beforehand.
    fn problem(&self) -> Option<&'static str> {
        let is_hash = |text: &str| {
            text.len() == NO_ACCOUNT.len()
                && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_time = |text: &str| {
            let form = rfc3339(std::time::UNIX_EPOCH);
            text.len() == form.len()
                && text
                    .bytes()
                    .zip(form.bytes())
                    .all(|(byte, of)| byte == of || byte.is_ascii_digit() && of.is_ascii_digit())
        };
        if self.receipt != FORMAT {
            Some("a receipt of another version")
        } else if ![&self.session, &self.contract, &self.ledger]
            .into_iter()
            .all(|text| is_hash(text))
        {
            Some("not a hash")
        } else if !is_time(&self.time) {
            Some("not a time")
        } else {
            None
        }
    }
}

impl Receipt {
    fn sign(identity: &Identity, statement: &Statement) -> Result<Receipt, Error> {
        let statement = serde_json::to_string(statement)
            .map_err(|e| Error::Usage(format!("the receipt cannot be written: {e}")))?;
        let signature = identity.sign(CONTEXT, statement.as_bytes())?;
        Ok(Receipt {
            statement,
            key: hex(&identity.public_key().0),
            signature: hex(&signature),
        })
    }

    /// Whether it is signed by the key behind the fingerprint that it names, and what it says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&self) -> Result<Statement, &'static str> {
        let key = unhex::<PUBLIC_KEY_BYTES>(&self.key).ok_or("its key is none")?;
        let signature = unhex::<SIGNATURE_BYTES>(&self.signature).ok_or("its signature is none")?;
        let key = PublicKey(key);
        if !key.has_signed(CONTEXT, self.statement.as_bytes(), &signature) {
            return Err("its signature is not one of its statement by its key");
        }
        if self.statement.len() > MAX_STATEMENT {
            return Err("its statement is too long");
        }
        let statement: Statement =
            serde_json::from_str(&self.statement).map_err(|_| "its statement is none")?;
        match statement.problem() {
            Some(problem) => Err(problem),
            None if statement.by != key.fingerprint().to_string() => {
                Err("it is signed by another key than that of whoever it names")
            }
            None => Ok(statement),
        }
    }

    /// Key, signature and statement.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PUBLIC_KEY_BYTES + SIGNATURE_BYTES + MAX_STATEMENT);
        let key = unhex::<PUBLIC_KEY_BYTES>(&self.key).unwrap_or_default();
        out.extend_from_slice(&key);
        let signature = unhex::<SIGNATURE_BYTES>(&self.signature).unwrap_or([0; SIGNATURE_BYTES]);
        out.extend_from_slice(&signature);
        out.extend_from_slice(self.statement.as_bytes());
        out
    }

    /// Reads what a peer has sent. Whether it is signed is another question ([`Receipt::verify`]).
    ///
    /// # Errors
    /// Bad message: too short or too long, or not text.
    pub fn decode(bytes: &[u8]) -> Result<Receipt, WireError> {
        let mut reader = Reader::new(RECEIPT.name, bytes);
        let key = reader.array::<PUBLIC_KEY_BYTES>()?;
        let signature = reader.array::<SIGNATURE_BYTES>()?;
        let statement = reader.rest();
        if statement.len() > MAX_STATEMENT {
            return Err(bad(RECEIPT.name, "too long"));
        }
        let statement = str::from_utf8(statement).map_err(|_| bad(RECEIPT.name, "not UTF-8"))?;
        Ok(Receipt {
            statement: statement.to_owned(),
            key: hex(&key),
            signature: hex(&signature),
        })
    }
}

/// The receipts of a run: this side's, and the peer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipts {
    /// What this side has signed.
    pub given: Receipt,
    /// What the peer has signed.
    pub taken: Receipt,
}

impl Receipts {
    /// Whether the clocks of both sides differ by more than an hour, by what they have signed.
    pub fn clocks_differ(&self) -> bool {
        let time = |receipt: &Receipt| {
            let statement = receipt.verify().ok()?;
            DateTime::parse_from_rfc3339(&statement.time).ok()
        };
        match (time(&self.given), time(&self.taken)) {
            (Some(ours), Some(theirs)) => (ours - theirs).num_minutes().abs() > 60,
            _ => true,
        }
    }
}

/// Gives the peer a receipt, and takes its own. `sides` are this side's fingerprint and the peer's.
///
/// Fails as the channel does; with `PeerMisbehaved` for a receipt that is not the peer's of this run; with
/// `ContractImpossible` where nobody has an identity to sign with.
pub(crate) fn exchange(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    (identity, sides): (&Identity, [Option<Fingerprint>; 2]),
    head: Option<[u8; 32]>,
) -> Result<Receipts, Error> {
    let [Some(local), Some(peer)] = sides else {
        return Err(no_identity().into());
    };
    channel.begin_phase("receipts");
    let now = rfc3339(std::time::SystemTime::now());
    let ours = Statement::new(role, agreement, [local, peer], head, now);
    let given = Receipt::sign(identity, &ours)?;
    channel.send(RECEIPT, given.encode())?;
    channel.flush()?;
    let most = PUBLIC_KEY_BYTES + SIGNATURE_BYTES + MAX_STATEMENT;
    let taken = Receipt::decode(&channel.recv(RECEIPT, most)?)?;
    let theirs = taken
        .verify()
        .map_err(|problem| bad(RECEIPT.name, problem))?;
    let expected = Statement {
        ledger: theirs.ledger.clone(),
        time: theirs.time.clone(),
        ..Statement::new(role.other(), agreement, [peer, local], None, String::new())
    };
    match theirs == expected {
        true => Ok(Receipts { given, taken }),
        false => Err(bad(RECEIPT.name, "not one of this run").into()),
    }
}

/// Fails where both sides have agreed on receipts and nobody here gives any.
pub(crate) fn check_none(agreement: &Agreement) -> Result<(), WireError> {
    match agreement.contract.get(&RECEIPTS) && agreement.turns.is_none() {
        true => Err(no_identity()),
        false => Ok(()),
    }
}

fn no_identity() -> WireError {
    let problem = "a side wants a receipt, and there is no identity here to sign one";
    impossible("receipts", problem.to_owned())
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use vesica_testing::{bad_value, misbehaviour, pair_within};
    use vesica_wire::{FramedChannel, Misbehaviour};

    use super::*;
    use crate::{Checkpoint, Job, agree};

    /// A side with the run that it has agreed on.
    struct Side {
        role: Role,
        identity: Identity,
        sides: [Option<Fingerprint>; 2],
        agreement: Agreement,
        channel: FramedChannel,
    }

    impl Side {
        fn exchange(&mut self, head: Option<[u8; 32]>) -> Result<Receipts, Error> {
            let (role, identity, sides) = (self.role, &self.identity, self.sides);
            exchange(
                &mut self.channel,
                role,
                &self.agreement,
                (identity, sides),
                head,
            )
        }

        /// What this side would say.
        fn statement(&self) -> Statement {
            let sides = self.sides.map(Option::unwrap);
            let time = rfc3339(std::time::UNIX_EPOCH);
            Statement::new(self.role, &self.agreement, sides, None, time)
        }
    }

    fn agreed() -> [Side; 2] {
        let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
        let (near, far) = pair_within(std::time::Duration::from_secs(10));
        let side = |role, identity: Identity, peer: Fingerprint, mut channel: FramedChannel| {
            let job = Job::new(role, vec!["email/1".into()]).with(&RECEIPTS, role == Role::Sender);
            let sides = [Some(identity.fingerprint()), Some(peer)];
            let [local, remote] = sides;
            let nothing = &Checkpoint::Nothing;
            let agreement = agree(&mut channel, &job, 5, nothing, local, remote).unwrap();
            Side {
                role,
                identity,
                sides,
                agreement,
                channel,
            }
        };
        let (own, peer) = (ours.fingerprint(), theirs.fingerprint());
        thread::scope(|scope| {
            let sender = scope.spawn(|| side(Role::Sender, theirs, own, far));
            [
                side(Role::Receiver, ours, peer, near),
                sender.join().unwrap(),
            ]
        })
    }

    /// What a side says of what its peer sends in the place of its receipt.
    fn told(side: &mut Side, peer: &mut Side, receipt: &[u8]) -> Result<Receipts, Error> {
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.channel.send(RECEIPT, receipt.to_vec()).unwrap();
                peer.channel.flush().unwrap();
            });
            side.exchange(None)
        })
    }

    #[test]
    fn both_sides_have_what_both_have_signed() {
        let [mut receiver, mut sender] = agreed();
        let (ours, theirs) = thread::scope(|scope| {
            let theirs = scope.spawn(|| sender.exchange(None).unwrap());
            (
                receiver.exchange(Some([0xab; 32])).unwrap(),
                theirs.join().unwrap(),
            )
        });
        assert_eq!((&ours.given, &ours.taken), (&theirs.taken, &theirs.given));
        let [given, taken] = [&ours.given, &ours.taken].map(|receipt| receipt.verify().unwrap());
        assert_eq!(given.head(), Some(&*"ab".repeat(32)));
        assert_eq!(taken.head(), None);
        assert_eq!((given.role, taken.role), (Role::Receiver, Role::Sender));
        assert_eq!(given.contract, receiver.agreement.contract.hash);
        assert_eq!(given.run, receiver.agreement.state.run_name());
        // A session is not told: keys of the run follow from it.
        let session = hex(&receiver.agreement.params.session);
        assert_ne!(given.session, session);
        assert!(!ours.given.statement.contains(&session));
    }

    /// Whether a side keeps account is in its receipt, and not in the length of it.
    #[test]
    fn receipts_of_all_sides_with_a_role_are_as_long() {
        let [receiver, _] = agreed();
        let sides = receiver.sides.map(Option::unwrap);
        let length = |head| {
            let now = rfc3339(std::time::SystemTime::now());
            let statement = Statement::new(receiver.role, &receiver.agreement, sides, head, now);
            Receipt::sign(&receiver.identity, &statement)
                .unwrap()
                .encode()
                .len()
        };
        assert_eq!(length(None), length(Some([7; 32])));
    }

    #[test]
    fn a_receipt_that_is_not_the_peers_of_this_run_is_refused() {
        type Change = fn(&mut Statement);
        let not_of_run = "not one of this run";
        let changes: [(Change, &'static str); 10] = [
            (|s| s.receipt = 2, "a receipt of another version"),
            (|s| s.role = Role::Receiver, not_of_run),
            (|s| s.run = "0".repeat(16), not_of_run),
            (|s| s.session = "00".repeat(32), not_of_run),
            (|s| s.contract = "00".repeat(32), not_of_run),
            (|s| s.to = s.by.clone(), not_of_run),
            (
                |s| s.by = s.to.clone(),
                "it is signed by another key than that of whoever it names",
            ),
            (|s| s.ledger = "A".repeat(64), "not a hash"),
            (|s| s.session = String::new(), "not a hash"),
            (|s| s.time = "yesterday, at ten ok".into(), "not a time"),
        ];
        for (change, problem) in changes {
            let [mut receiver, mut sender] = agreed();
            let mut statement = sender.statement();
            change(&mut statement);
            let receipt = Receipt::sign(&sender.identity, &statement).unwrap();
            let told = told(&mut receiver, &mut sender, &receipt.encode());
            let Err(Error::Run(error)) = told else {
                panic!("{statement:?}: {told:?}");
            };
            let expected = bad_value(RECEIPT.name, problem);
            assert_eq!(misbehaviour(Err::<(), _>(error)), expected, "{statement:?}");
        }
    }

    #[test]
    fn a_receipt_that_nobody_has_signed_is_refused() {
        let stranger = Identity::generate().unwrap();
        type Spoil = fn(&mut Vec<u8>);
        let spoilt: [(Spoil, &str); 5] = [
            (|bytes| bytes[0] ^= 1, "a key"),
            (|bytes| bytes[40] ^= 1, "a signature"),
            (|bytes| *bytes.last_mut().unwrap() ^= 1, "a statement"),
            (|bytes| bytes.truncate(90), "too short"),
            (|bytes| bytes.push(b' '), "more"),
        ];
        for (spoil, what) in spoilt {
            let [mut receiver, mut sender] = agreed();
            let receipt = Receipt::sign(&sender.identity, &sender.statement()).unwrap();
            let mut bytes = receipt.encode();
            spoil(&mut bytes);
            let told = told(&mut receiver, &mut sender, &bytes);
            assert!(
                matches!(told, Err(Error::Run(WireError::PeerMisbehaved(_)))),
                "{what}"
            );
        }
        // By a key of its own.
        let [mut receiver, mut sender] = agreed();
        let statement = Statement {
            by: stranger.fingerprint().to_string(),
            ..sender.statement()
        };
        let receipt = Receipt::sign(&stranger, &statement).unwrap();
        let told = told(&mut receiver, &mut sender, &receipt.encode());
        assert!(matches!(
            told,
            Err(Error::Run(WireError::PeerMisbehaved(
                Misbehaviour::BadValue { .. }
            )))
        ));
    }

    #[test]
    fn statements_are_bounded_and_have_no_other_fields() {
        let [_, sender] = agreed();
        let receipt = Receipt::sign(&sender.identity, &sender.statement()).unwrap();
        let with = |text: String| {
            let signature = sender.identity.sign(CONTEXT, text.as_bytes()).unwrap();
            let signature = hex(&signature);
            Receipt {
                statement: text,
                signature,
                ..receipt.clone()
            }
        };
        assert!(receipt.verify().is_ok());
        let more = receipt.statement.replacen('{', "{\"more\":1,", 1);
        assert_eq!(with(more).verify(), Err("its statement is none"));
        let long = receipt.statement.clone() + &" ".repeat(MAX_STATEMENT);
        assert_eq!(with(long).verify(), Err("its statement is too long"));
        let mut long = receipt.encode();
        long.resize(PUBLIC_KEY_BYTES + SIGNATURE_BYTES + MAX_STATEMENT + 1, b' ');
        assert!(Receipt::decode(&long).is_err());
        assert_eq!(Receipt::decode(&receipt.encode()).unwrap(), receipt);
    }

    #[test]
    fn whoever_has_no_identity_gives_no_receipt() {
        let [mut receiver, _] = agreed();
        assert!(matches!(
            check_none(&receiver.agreement),
            Err(WireError::ContractImpossible {
                field: "receipts",
                ..
            })
        ));
        receiver.sides = [None; 2];
        assert!(matches!(
            receiver.exchange(None),
            Err(Error::Run(WireError::ContractImpossible { .. }))
        ));
        receiver.agreement.contract.terms.set(&RECEIPTS, false);
        check_none(&receiver.agreement).unwrap();
    }
}
