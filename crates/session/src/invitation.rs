//! Invitations: one line of text by which one side tells the other who it is, where it can be met, in which role and on
//! which terms, until when.
//!
//! The text is `vesica-invite:` and base32 of a version (1 byte), the public key (32), the second since 1970 at which the
//! invitation expires (8, little endian), random bytes (16), the role of whoever is invited (1), the address (its length
//! in a byte, then printable ASCII), the number of terms (1), of each its code (1) and its value as a person types it
//! (as the address), in the order of the codes, and an Ed25519 signature over all of that (64).
//!
//! The signature shows that whoever holds the key has said all of this, and not who that is: an invitation is as authentic
//! as the way that it came by. What a side does with it is up to that side, which is told [everything](Invitation::terms)
//! that is in it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::codec::{Reader, put_name};
use crate::{
    Error, Fingerprint, Identity, PublicKey, Role, SIGNATURE_BYTES, Terms, base32, random,
};

/// The longest text of an invitation, in characters, white space included.
pub const MAX_INVITATION: usize = 4096;

const PREFIX: &str = "vesica-invite:";
const VERSION: u8 = 1;
/// What signatures of invitations are for.
const CONTEXT: &str = "vesica/1 invitation";
const NONCE_BYTES: usize = 16;
/// Bytes of the hash by which people and scripts know an invitation.
const HASH_BYTES: usize = 16;
/// The longest value of a term.
const MAX_VALUE: usize = 64;
/// The end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// Why a text is not an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvitationError {
    /// It does not begin with `vesica-invite:`.
    #[error("an invitation begins with \"{PREFIX}\"")]
    Prefix,
    /// It is longer than any.
    #[error("an invitation has at most {MAX_INVITATION} characters")]
    Length,
    /// It holds a character other than a to z and 2 to 7.
    #[error("an invitation holds only the letters a to z and the digits 2 to 7, not {0:?}")]
    Character(char),
    /// It is of another version.
    #[error("the invitation has version {0} of the form, and {VERSION} is known here")]
    Version(u8),
    /// The signature does not fit what is there.
    #[error("the invitation was cut or changed: its signature does not fit")]
    Signature,
    /// Whoever signed it has signed what is no invitation.
    #[error("the invitation is signed, and makes no sense: {0}")]
    Content(&'static str),
}

/// A term that an invitation can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InvitableTerm {
    /// The weakest security to accept.
    Security,
    /// Statistical security in bits.
    Lambda,
    /// What the receiver learns.
    Reveal,
    /// The fewest matches for a number.
    MinSize,
    /// The protocol.
    Protocol,
    /// The sender learns the result too; the value is `yes`.
    Both,
    /// The messages hide both sets from a later quantum computer; the value is `yes`.
    PostQuantum,
}

impl InvitableTerm {
    /// All that there are, in the order of their codes.
    pub const ALL: [InvitableTerm; 7] = [
        InvitableTerm::Security,
        InvitableTerm::Lambda,
        InvitableTerm::Reveal,
        InvitableTerm::MinSize,
        InvitableTerm::Protocol,
        InvitableTerm::Both,
        InvitableTerm::PostQuantum,
    ];

    /// Its name, with `_` between words; that of the [option](Terms::options), if that sets a term.
    pub fn name(self) -> &'static str {
        match self {
            InvitableTerm::Security => "security",
            InvitableTerm::Lambda => "lambda",
            InvitableTerm::Reveal => "reveal",
            InvitableTerm::MinSize => "min_size",
            InvitableTerm::Protocol => "protocol",
            InvitableTerm::Both => "both",
            InvitableTerm::PostQuantum => "post_quantum",
        }
    }

    fn code(self) -> u8 {
        1 + self as u8
    }

    fn of_code(code: u8) -> Option<InvitableTerm> {
        Self::ALL.into_iter().find(|term| term.code() == code)
    }

    fn takes(self, value: &str) -> bool {
        match self {
            InvitableTerm::Both | InvitableTerm::PostQuantum => value == "yes",
            // Which ones there are depends on the version of the program, and so on the side that runs.
            InvitableTerm::Protocol => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                !value.is_empty() && !value.starts_with('-') && value.bytes().all(is_plain)
            }
            _ => Terms::default().set_option(self.name(), value).is_ok(),
        }
    }
}

/// What one side hands to the other so that both come to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// All of it, signature included.
    bytes: Vec<u8>,
    inviter: PublicKey,
    invited: Role,
    address: String,
    terms: Vec<(InvitableTerm, String)>,
    expires: u64,
}

impl Invitation {
    /// Invites whoever is handed this to a run in the role `invited`, at an address where the holder of `identity` can be
    /// reached, until a time in whole seconds. Terms come in any order, each once.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address or terms that an invitation has no room for; [`Error::Run`], a resource error, when the
    /// operating system has no randomness.
    pub fn new(
        identity: &Identity,
        invited: Role,
        address: &str,
        terms: &[(InvitableTerm, String)],
        expires: SystemTime,
    ) -> Result<Invitation, Error> {
        let mut nonce = [0; NONCE_BYTES];
        random::fill(&mut nonce)?;
        Self::with_nonce(identity, invited, address, terms, expires, nonce)
    }

    fn with_nonce(
        identity: &Identity,
        invited: Role,
        address: &str,
        terms: &[(InvitableTerm, String)],
        expires: SystemTime,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Invitation, Error> {
        let since_1970 = expires.duration_since(SystemTime::UNIX_EPOCH);
        let expires = since_1970.map_or(0, |time| time.as_secs());
        let mut terms = terms.to_vec();
        terms.sort();
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&identity.public_key().0);
        bytes.extend_from_slice(&expires.to_le_bytes());
        bytes.extend_from_slice(&nonce);
        bytes.push(invited.code());
        put_name(&mut bytes, address);
        bytes.push(terms.len() as u8);
        for (term, value) in &terms {
            bytes.push(term.code());
            put_name(&mut bytes, value);
        }
        let signature = identity.sign(CONTEXT, &bytes)?;
        bytes.extend_from_slice(&signature);
        let invitation = Self::decode(bytes).map_err(|error| Error::Usage(error.to_string()))?;
        // What was too long was cut.
        match invitation.address == address && invitation.terms == terms {
            true => Ok(invitation),
            false => Err(Error::Usage("too long for an invitation".into())),
        }
    }

    /// Whether a text, such as an argument, is to be taken for an invitation and not for the name of a file with one.
    pub fn is_one(text: &str) -> bool {
        let head = text.trim_start().get(..PREFIX.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(PREFIX))
    }

    /// The fingerprint of whoever has signed it.
    pub fn inviter(&self) -> Fingerprint {
        self.inviter.fingerprint()
    }

    /// The role of whoever is invited.
    pub fn invited(&self) -> Role {
        self.invited
    }

    /// Where to connect to: printable ASCII, and nothing else is known of it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The terms that it names, with values as a person types them.
    pub fn terms(&self) -> impl Iterator<Item = (InvitableTerm, &str)> {
        self.terms
            .iter()
            .map(|(term, value)| (*term, value.as_str()))
    }

    /// From when on it is worth nothing.
    pub fn expires(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.expires)
    }

    /// A hash of all of it, in 32 hexadecimal digits.
    pub fn hash(&self) -> String {
        let hash = blake3::derive_key("vesica/1 hash of an invitation", &self.bytes);
        data_encoding::HEXLOWER.encode(&hash[..HASH_BYTES])
    }

    fn decode(bytes: Vec<u8>) -> Result<Invitation, InvitationError> {
        use InvitationError::{Content, Signature, Version};
        match bytes.first() {
            None => return Err(Signature),
            Some(&VERSION) => {}
            Some(version) => return Err(Version(*version)),
        }
        let (signed, signature) = bytes.split_last_chunk().ok_or(Signature)?;
        let key = signed.get(1..).and_then(<[u8]>::first_chunk);
        let inviter = PublicKey(*key.ok_or(Signature)?);
        let signature: &[u8; SIGNATURE_BYTES] = signature;
        if !inviter.has_signed(CONTEXT, signed, signature) {
            return Err(Signature);
        }
        let mut reader = Reader::new("invitation", &signed[1 + inviter.0.len()..]);
        let cut = |_| Content("a field is missing, or is no text");
        let expires = reader.u64().map_err(cut)?;
        reader.bytes(NONCE_BYTES).map_err(cut)?;
        let invited = Role::from_code(reader.u8().map_err(cut)?);
        let address = reader.name("address").map_err(cut)?.to_owned();
        let count = reader.u8().map_err(cut)?;
        let mut terms: Vec<(InvitableTerm, String)> = Vec::new();
        for _ in 0..count {
            let term = InvitableTerm::of_code(reader.u8().map_err(cut)?);
            let term = term.ok_or(Content("there is no such term"))?;
            let value = reader.name("value").map_err(cut)?;
            if terms.last().is_some_and(|(last, _)| *last >= term) {
                return Err(Content("its terms are in another order"));
            }
            if value.len() > MAX_VALUE || !term.takes(value) {
                return Err(Content("a term has a value that there is not"));
            }
            terms.push((term, value.to_owned()));
        }
        reader
            .end()
            .map_err(|_| Content("there is more than its fields"))?;
        if address.is_empty() || expires > LAST_SECOND {
            return Err(Content("its address or its end is out of range"));
        }
        Ok(Invitation {
            inviter,
            invited: invited.map_err(|_| Content("there is no such role"))?,
            address,
            terms,
            expires,
            bytes,
        })
    }
}

/// The text that is handed over.
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        f.write_str(&base32::encode(&self.bytes))
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    /// Reads an invitation. White space is left out, such as line ends of mail, and capitals are forgiven.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_INVITATION {
            return Err(InvitationError::Length);
        }
        if !Self::is_one(text) {
            return Err(InvitationError::Prefix);
        }
        let body: String = text.split_whitespace().collect();
        let body = &body[PREFIX.len()..];
        let bytes = base32::decode(body).map_err(InvitationError::Character)?;
        Self::decode(bytes.ok_or(InvitationError::Signature)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity() -> Identity {
        Identity::from_seed(&[7; 32]).unwrap()
    }

    fn time(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn some(terms: &[(InvitableTerm, &str)]) -> Invitation {
        let terms: Vec<_> = terms
            .iter()
            .map(|(term, value)| (*term, (*value).to_owned()))
            .collect();
        let expires = time(1_800_000_000);
        let address = "shop.example:7340";
        Invitation::with_nonce(&identity(), Role::Sender, address, &terms, expires, [3; 16])
            .unwrap()
    }

    /// What the key of [`identity`] signs in place of what is signed in an invitation.
    fn signed(change: impl FnOnce(&mut Vec<u8>)) -> Result<Invitation, InvitationError> {
        let mut bytes = some(&[]).bytes;
        bytes.truncate(bytes.len() - SIGNATURE_BYTES);
        change(&mut bytes);
        let signature = identity().sign(CONTEXT, &bytes).unwrap();
        bytes.extend_from_slice(&signature);
        format!("{PREFIX}{}", base32::encode(&bytes)).parse()
    }

    #[test]
    fn a_known_invitation() {
        let invitation = some(&[
            (InvitableTerm::Reveal, "size"),
            (InvitableTerm::Security, "semi-honest"),
        ]);
        let text = invitation.to_string();
        assert_eq!(text, KNOWN);
        assert_eq!(invitation.hash(), KNOWN_HASH);
        let read: Invitation = text.parse().unwrap();
        assert_eq!(read, invitation);
        assert_eq!(read.inviter(), identity().fingerprint());
        assert_eq!(read.invited(), Role::Sender);
        assert_eq!(read.address(), "shop.example:7340");
        assert_eq!(read.expires(), time(1_800_000_000));
        let terms: Vec<_> = read.terms().collect();
        let expected = [
            (InvitableTerm::Security, "semi-honest"),
            (InvitableTerm::Reveal, "size"),
        ];
        assert_eq!(terms, expected);
    }

    const KNOWN: &str = "vesica-invite:ahveu3dd4kofecv66vihwezoyx4zkr3wv27l464siipou2iui3jcyagsjfvqaaaaaabqgaydambqgaydambqg\
                         aydambqeeltnbxxaltfpbqw24dmmu5domzugabacc3tmvwwsllin5xgk43uamchg2l2mw4bndjj6pcrrvco6kybnhopp7yt\
                         glih66gm36ihbvunmovmhj5bqafa6fznkljogbjr5syd2etwoo6ycfel7vclzm3lx72m52liygya";
    const KNOWN_HASH: &str = "5749285e0ecfeaa4b9c10f60588b735a";

    #[test]
    fn white_space_and_capitals_are_forgiven() {
        let invitation = some(&[]);
        let text = invitation.to_string();
        let (one, other) = text.split_at(70);
        let wrapped = format!(" {one}\r\n  {other}\n");
        for text in [wrapped.clone(), wrapped.to_uppercase()] {
            assert!(Invitation::is_one(&text));
            assert_eq!(text.parse(), Ok(invitation.clone()));
            assert_eq!(
                text.parse::<Invitation>().unwrap().hash(),
                invitation.hash()
            );
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let bytes = some(&[(InvitableTerm::Both, "yes")]).bytes;
        let of = |bytes: &[u8]| format!("{PREFIX}{}", base32::encode(bytes)).parse::<Invitation>();
        assert!(of(&bytes).is_ok());
        for end in 0..bytes.len() {
            assert_eq!(of(&bytes[..end]), Err(InvitationError::Signature), "{end}");
        }
        for at in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let refused = match at {
                0..8 => InvitationError::Version(bytes[0]),
                _ => InvitationError::Signature,
            };
            assert_eq!(of(&bytes), Err(refused), "{at}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(of(&longer), Err(InvitationError::Signature));
        // Characters of the text, too.
        let text = some(&[]).to_string();
        for end in 0..text.len() {
            assert!(text[..end].parse::<Invitation>().is_err(), "{end}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_whoever_signs_it() {
        use InvitationError::Content;
        const FIELDS: usize = 1 + 32;
        const ADDRESS: usize = FIELDS + 8 + NONCE_BYTES + 1;
        assert!(signed(|_| {}).is_ok());
        let content = |change: &dyn Fn(&mut Vec<u8>)| match signed(change) {
            Err(Content(problem)) => problem,
            other => panic!("{other:?}"),
        };
        let with_terms = |terms: &'static [(u8, &'static str)]| {
            content(&|bytes| {
                bytes.pop();
                bytes.push(terms.len() as u8);
                for (code, value) in terms {
                    bytes.push(*code);
                    put_name(bytes, value);
                }
            })
        };
        for (problem, expected) in [
            (content(&|bytes| bytes[FIELDS + 7] = 1), "out of range"),
            (content(&|bytes| bytes[ADDRESS - 1] = 3), "no such role"),
            (content(&|bytes| bytes[ADDRESS + 1] = 0x1b), "no text"),
            (content(&|bytes| bytes[ADDRESS + 1] = b' '), "no text"),
            (content(&|bytes| bytes[ADDRESS + 1] = 0xc3), "no text"),
            (content(&|bytes| bytes.push(0)), "more than its fields"),
            (content(&|bytes| *bytes.last_mut().unwrap() = 1), "missing"),
            (content(&|bytes| bytes.truncate(ADDRESS)), "missing"),
            (with_terms(&[(0, "x")]), "no such term"),
            (with_terms(&[(8, "x")]), "no such term"),
            (with_terms(&[(1, "none")]), "a value that there is not"),
            (
                with_terms(&[(3, "everything")]),
                "a value that there is not",
            ),
            (with_terms(&[(5, "--output")]), "a value that there is not"),
            (with_terms(&[(5, "a/b")]), "a value that there is not"),
            (with_terms(&[(6, "no")]), "a value that there is not"),
            (with_terms(&[(6, "yes"), (6, "yes")]), "another order"),
            (with_terms(&[(3, "size"), (2, "40")]), "another order"),
        ] {
            assert!(problem.contains(expected), "{expected}: {problem}");
        }
        assert_eq!(
            signed(|bytes| bytes[0] = 2),
            Err(InvitationError::Version(2))
        );
        let of_another = signed(|bytes| bytes[1] ^= 1);
        assert_eq!(of_another, Err(InvitationError::Signature));
    }

    #[test]
    fn other_texts_are_none() {
        use InvitationError::{Character, Length, Prefix, Signature};
        let long = format!("{PREFIX}{}", "a".repeat(MAX_INVITATION));
        for (text, expected) in [
            ("", Prefix),
            ("vs1:abc", Prefix),
            ("vesica-invit", Prefix),
            ("vesica-invite:", Signature),
            ("vesica-invite:ä", Character('ä')),
            ("vesica-invite:\u{202e}", Character('\u{202e}')),
            (&long, Length),
        ] {
            assert_eq!(text.parse::<Invitation>(), Err(expected), "{text:.20}");
        }
    }

    #[test]
    fn no_room_is_said_so() {
        let of = |address: &str, terms: &[(InvitableTerm, String)]| {
            let expires = time(1);
            Invitation::new(&identity(), Role::Sender, address, terms, expires).is_err()
        };
        let both = (InvitableTerm::Both, "yes".to_owned());
        assert!(!of("h:1", std::slice::from_ref(&both)));
        assert!(of("", &[]));
        assert!(of(&"h".repeat(256), &[]));
        assert!(of("h :1", &[]));
        assert!(of("h:1", &[both.clone(), both]));
        assert!(of("h:1", &[(InvitableTerm::Lambda, "x".into())]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            address in "[!-~]{1,255}",
            receives: bool,
            expires in 0..=LAST_SECOND,
            names in proptest::array::uniform6(any::<bool>()),
        ) {
            let values = ["semi-honest", "64", "sum", "2^10", "vole", "yes"];
            let all = InvitableTerm::ALL.into_iter().zip(values).zip(names);
            let there = all.filter(|(_, is_there)| *is_there);
            let terms: Vec<_> = there.map(|((term, value), _)| (term, value.to_owned())).collect();
            let role = if receives { Role::Receiver } else { Role::Sender };
            let made = Invitation::new(&identity(), role, &address, &terms, time(expires)).unwrap();
            let read: Invitation = made.to_string().parse().unwrap();
            prop_assert_eq!(&read, &made);
            prop_assert_eq!(read.address(), &address);
            prop_assert_eq!(read.expires(), time(expires));
        }

        #[test]
        fn no_text_is_read_but_what_a_key_has_signed(body in "[a-z2-7 ]{0,400}", other in ".{0,80}") {
            let text = format!("{PREFIX}{body}");
            prop_assert!(text.parse::<Invitation>().is_err());
            prop_assert!(other.parse::<Invitation>().is_err());
        }
    }
}
