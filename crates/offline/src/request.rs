//! What a party asks a dealer or its generator for.

use vesica_session::codec::{Reader, bad, differ, put_name};
use vesica_session::{Fingerprint, Role};
use vesica_wire::{Error as WireError, Kind};

use crate::claims::Platform;
use crate::store::OfflineTerms;

/// What a party wants of a dealer or of its generator.
pub(crate) const REQUEST: Kind = Kind {
    code: 22,
    name: "request for a half",
};

const MAGIC: [u8; 4] = *b"vs1d";
/// Of requests and of what those who deal and parties derive from them: how many tuples there are, and modulo what.
const VERSION: u16 = 4;
/// Longest request, in bytes.
pub(crate) const MAX_REQUEST: usize = 640;

/// A party's first message to a dealer or to its generator: which half of what pair it wants, and who gets the other half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DealerRequest {
    /// The party's role in the run.
    pub role: Role,
    /// What the pair is for.
    pub terms: OfflineTerms,
    /// The other party.
    pub peer: Fingerprint,
    /// What a half of these terms means to the party, in words that a dealer compares with its own.
    pub layout: String,
    /// Whose report of a TEE it wants to see, if any.
    pub attestation: Option<Platform>,
    /// Random, for this request alone: a report of a TEE is made over it.
    pub nonce: [u8; 32],
}

impl DealerRequest {
    /// Magic and version; role, protocol, λ, bits of a key or 0, both sizes, the fingerprint, the layout, the
    /// platform or 0, the nonce. Numbers are little endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(self.role.code());
        put_name(&mut out, &self.terms.protocol);
        out.extend_from_slice(&self.terms.lambda.to_le_bytes());
        out.push(self.terms.key_bits.unwrap_or(0) as u8);
        out.extend_from_slice(&self.terms.receiver_size.to_le_bytes());
        out.extend_from_slice(&self.terms.sender_size.to_le_bytes());
        out.extend_from_slice(self.peer.as_bytes());
        put_name(&mut out, &self.layout);
        out.push(self.attestation.map_or(0, Platform::code));
        out.extend_from_slice(&self.nonce);
        out
    }

    /// What [`DealerRequest::encode`] wrote. Whether anybody can meet the terms, [`OfflineTerms::check`] says.
    ///
    /// # Errors
    /// `PeerMisbehaved` for bytes that are no request; `ContractDiffers` for a request of another version.
    pub fn decode(bytes: &[u8]) -> Result<DealerRequest, WireError> {
        let mut reader = Reader::new(REQUEST.name, bytes);
        if reader.array()? != MAGIC {
            return Err(bad(REQUEST.name, "not a request of this program"));
        }
        let version = reader.u16()?;
        if version != VERSION {
            return Err(differ("version", VERSION, version));
        }
        let request = DealerRequest {
            role: Role::from_code(reader.u8()?)?,
            terms: OfflineTerms {
                protocol: reader.name("protocol")?.to_owned(),
                lambda: reader.u32()?,
                key_bits: Some(reader.u8()?.into()).filter(|bits| *bits != 0),
                receiver_size: reader.u64()?,
                sender_size: reader.u64()?,
                // Nobody makes dealt halves with base transfers.
                post_quantum: false,
            },
            peer: Fingerprint::from_bytes(reader.array()?),
            layout: reader.text("layout")?.to_owned(),
            attestation: match reader.u8()? {
                0 => None,
                code => Some(Platform::from_code(code)?),
            },
            nonce: reader.array()?,
        };
        reader.end()?;
        Ok(request)
    }

    /// Fails with `ContractDiffers` for a report of another platform than this one, by whoever makes it.
    pub(crate) fn wants(&self, shown: Option<Platform>) -> Result<(), WireError> {
        let word = |platform: Option<Platform>| platform.map_or("none".into(), |p| p.to_string());
        match self.attestation == shown {
            true => Ok(()),
            false => Err(differ("attestation", word(shown), word(self.attestation))),
        }
    }

    /// Fails with `ContractDiffers` for the first field in which the terms of two requests differ.
    pub(crate) fn fits(&self, other: &DealerRequest) -> Result<(), WireError> {
        let (ours, theirs) = (&self.terms, &other.terms);
        let bits = |bits: Option<u32>| bits.map_or("any".to_owned(), |bits| bits.to_string());
        let number = |number: u64| number.to_string();
        let fields = [
            ("protocol", ours.protocol.clone(), theirs.protocol.clone()),
            (
                "lambda",
                number(ours.lambda.into()),
                number(theirs.lambda.into()),
            ),
            ("bits of a key", bits(ours.key_bits), bits(theirs.key_bits)),
            (
                "receiver's size",
                number(ours.receiver_size),
                number(theirs.receiver_size),
            ),
            (
                "sender's size",
                number(ours.sender_size),
                number(theirs.sender_size),
            ),
        ];
        match fields.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            Some((field, ours, theirs)) => Err(differ(field, ours, theirs)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testing::{array, bytes, fields};
    use vesica_wire::Blame;

    fn request() -> DealerRequest {
        DealerRequest {
            role: Role::Sender,
            terms: OfflineTerms {
                protocol: "ole-dealer".into(),
                lambda: 40,
                key_bits: Some(32),
                receiver_size: 1 << 20,
                sender_size: 5,
                post_quantum: false,
            },
            peer: Fingerprint::from_bytes([7; 32]),
            layout: "1 400 5 16411".into(),
            attestation: Some(Platform::Tdx),
            nonce: [9; 32],
        }
    }

    #[test]
    fn requests_are_known() {
        let text = include_str!("../../../vectors/ole.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let vectors = &vectors["request"];
        assert_eq!(vectors["version"], VERSION);
        for vector in vectors["good"].as_array().unwrap() {
            let request = DealerRequest {
                role: serde_json::from_value(vector["role"].clone()).unwrap(),
                terms: serde_json::from_value(vector["terms"].clone()).unwrap(),
                peer: Fingerprint::from_bytes(array(&vector["peer"])),
                layout: vector["layout"].as_str().unwrap().into(),
                attestation: serde_json::from_value(vector["attestation"].clone()).unwrap(),
                nonce: array(&vector["nonce"]),
            };
            assert_eq!(request.encode(), bytes(&vector["bytes"]));
            assert_eq!(DealerRequest::decode(&request.encode()).unwrap(), request);
        }
        for vector in vectors["bad"].as_array().unwrap() {
            let error = DealerRequest::decode(&bytes(&vector["bytes"])).unwrap_err();
            assert_eq!(fields(&error), vector["error"], "{}", vector["why"]);
        }
    }

    #[test]
    fn the_field_that_differs_is_named() {
        type Change = fn(&mut OfflineTerms);
        let change: [(&str, Change); 5] = [
            ("protocol", |terms| terms.protocol = "ole-ot".into()),
            ("lambda", |terms| terms.lambda += 1),
            ("bits of a key", |terms| terms.key_bits = None),
            ("receiver's size", |terms| terms.receiver_size -= 1),
            ("sender's size", |terms| terms.sender_size += 1),
        ];
        request().fits(&request()).unwrap();
        for (name, change) in change {
            let mut other = request();
            change(&mut other.terms);
            let Err(WireError::ContractDiffers { field, .. }) = request().fits(&other) else {
                panic!("{name} does not differ");
            };
            assert_eq!(field, name);
        }
    }

    proptest! {
        #[test]
        fn a_request_survives_the_wire(
            is_receiver: bool,
            protocol in "[!-~]{0,255}",
            lambda: u32,
            key_bits in proptest::option::of(1u32..=255),
            sizes: [u64; 2],
            peer: [u8; 32],
            layout in "[ -~]{0,255}",
            attestation in proptest::sample::select(vec![None, Some(Platform::SevSnp)]),
            nonce: [u8; 32],
        ) {
            let request = DealerRequest {
                role: if is_receiver { Role::Receiver } else { Role::Sender },
                terms: OfflineTerms {
                    protocol,
                    lambda,
                    key_bits,
                    receiver_size: sizes[0],
                    sender_size: sizes[1],
                    post_quantum: false,
                },
                peer: Fingerprint::from_bytes(peer),
                layout,
                attestation,
                nonce,
            };
            let encoded = request.encode();
            prop_assert!(encoded.len() <= MAX_REQUEST);
            prop_assert_eq!(DealerRequest::decode(&encoded).unwrap(), request);
        }

        #[test]
        fn a_request_is_decoded_whole_or_not_at_all(
            cut in 0usize..200,
            flips in proptest::collection::vec(0usize..512, 0..3),
            more: Vec<u8>,
        ) {
            let whole = request().encode();
            let mut bytes = [&whole[..cut.min(whole.len())], &more].concat();
            for flip in flips {
                let bit = flip % (bytes.len() * 8).max(1);
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            match DealerRequest::decode(&bytes) {
                Ok(request) => prop_assert_eq!(request.encode(), bytes),
                Err(WireError::ContractDiffers { field, .. }) => prop_assert_eq!(field, "version"),
                Err(error) => prop_assert_eq!(error.blame(), Blame::Peer),
            }
        }
    }
}
