//! Asking a server: the values of keys, of which it learns only the number.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_primitives::parallel;
use vesica_primitives::voprf::{Blinded, ELEMENT_BYTES, Element, PROOF_BYTES, verify};
use vesica_session::Progress;
use vesica_session::codec::bad;
use vesica_wire::{Channel, Error as WireError, FramedChannel, Misbehaviour, recv_exact};

use crate::header::{Header, MODE, Value};
use crate::messages::{
    ANSWER, Cost, HELLO, Lacking, MAX_QUESTION, QUESTION, WELCOME, WELCOME_BYTES, Welcome, decode,
    hello, question,
};

/// Bytes of a query and its answer, at most.
pub const QUERY_BYTES: u64 = 96;
/// What a server takes for a query, in AES blocks of one core, at most: twice or more of what was measured, and as much for
/// others' turns.
pub const QUERY_BLOCKS: u64 = 400_000;

/// Keys that a thread blinds at once.
const AT_ONCE: usize = 64;

/// A connection to the server of a published set.
pub struct Client {
    pub(crate) channel: FramedChannel,
    pub(crate) welcome: Welcome,
}

impl Client {
    /// Over a channel to the publisher of the set with this header.
    ///
    /// # Errors
    /// Contract: the server has published anew. Network and Peer: as every exchange.
    pub fn new(channel: FramedChannel, header: &Header) -> Result<Client, WireError> {
        let client = Client::meet(channel, None)?;
        client.welcome.check_key(&header.oprf_key)?;
        Ok(client)
    }

    pub(crate) fn meet(
        mut channel: FramedChannel,
        lacking: Option<&Lacking>,
    ) -> Result<Client, WireError> {
        // A server gives a client as long for a question as it does without heartbeats.
        channel.rest(true);
        channel.send(HELLO, hello(lacking))?;
        let welcome = recv_exact(&mut channel, WELCOME, WELCOME_BYTES)?;
        let welcome = Welcome::decode(&welcome)?;
        Ok(Client { channel, welcome })
    }

    /// How many queries the server would still answer.
    pub fn left(&self) -> u64 {
        self.welcome.left
    }

    /// Counts queries that were answered for the first time.
    pub(crate) fn spend(&mut self, queries: u64) {
        self.welcome.left = self.welcome.left.saturating_sub(queries);
    }

    /// The last release of the set that is served.
    pub fn release(&self) -> u64 {
        self.welcome.release
    }

    /// Bytes sent and received so far.
    pub fn bytes(&self) -> (u64, u64) {
        self.channel.totals()
    }

    /// The values of these digests, each of which is given once. The seed makes the blinds: the same digests with the same
    /// seed are the same questions, which cost nothing if the server has answered them; for others take another.
    ///
    /// # Errors
    /// Peer: an answer that is not under the published key. Resource: the quota does not suffice. Network: the connection.
    pub fn ask(
        &mut self,
        digests: &[[u8; 32]],
        seed: &[u8; 32],
        progress: &mut dyn Progress,
    ) -> Result<Vec<Value>, WireError> {
        let mut asked = Asked::default();
        self.ask_for(digests, seed, &mut asked, progress)?;
        Ok(asked.values)
    }

    /// Asks as [`Client::ask`] does, and says how far it came, whatever ends it. The values of digests that were sent and not
    /// answered are [recalled](Client::recall) by leaving out whole questions before them.
    pub(crate) fn ask_for(
        &mut self,
        digests: &[[u8; 32]],
        seed: &[u8; 32],
        so_far: &mut Asked,
        progress: &mut dyn Progress,
    ) -> Result<(), WireError> {
        let channel = &mut self.channel;
        let mut asked: Option<Question<'_>> = None;
        let mut questions = digests.chunks(MAX_QUESTION);
        // One question is being answered while the next is blinded.
        loop {
            let next = questions.next();
            let next = next.map(|digests| Question::new(digests, seed));
            if let Some(next) = &next {
                so_far.sent += next.elements.len();
                channel.send(QUESTION, question(Cost::Queries, &next.elements))?;
            }
            if let Some(asked) = asked {
                let answer = recv_exact(channel, ANSWER, asked.answer_bytes())?;
                so_far
                    .values
                    .extend(asked.finish(&self.welcome.key, &answer)?);
                progress.step(so_far.values.len() as u64, digests.len() as u64);
            } else if next.is_none() {
                return Ok(());
            }
            asked = next;
        }
    }

    /// The values of the digests of one question that was or may have been sent before, if it was paid for; that costs nothing.
    /// If it was not, the server does not answer it any more, wherever its bytes still are: whoever needs these values asks
    /// for them in other words.
    ///
    /// # Errors
    /// As [`Client::ask`], but for the quota.
    pub(crate) fn recall(
        &mut self,
        digests: &[[u8; 32]],
        seed: &[u8; 32],
    ) -> Result<Option<Vec<Value>>, WireError> {
        let asked = Question::new(digests, seed);
        let recalled = question(Cost::Nothing, &asked.elements);
        self.channel.send(QUESTION, recalled)?;
        let answer = self.channel.recv(ANSWER, asked.answer_bytes())?;
        match answer.len() {
            0 => Ok(None),
            bytes if bytes == asked.answer_bytes() => {
                asked.finish(&self.welcome.key, &answer).map(Some)
            }
            bytes => Err(Misbehaviour::WrongLength {
                what: ANSWER.name,
                bytes,
            }
            .into()),
        }
    }
}

/// How far questions have come.
#[derive(Default)]
pub(crate) struct Asked {
    /// Digests in the questions that may have left.
    pub(crate) sent: usize,
    /// Values of the first digests.
    pub(crate) values: Vec<Value>,
}

/// Digests that are asked about at once.
struct Question<'a> {
    parts: Vec<(&'a [[u8; 32]], Blinded)>,
    elements: Vec<Element>,
}

fn inputs(digests: &[[u8; 32]]) -> Vec<&[u8]> {
    digests.iter().map(|digest| &digest[..]).collect()
}

impl<'a> Question<'a> {
    fn new(digests: &'a [[u8; 32]], seed: &[u8; 32]) -> Question<'a> {
        let parts = digests.chunks(AT_ONCE).enumerate();
        let parts = parallel::map(parts, |(part, digests)| {
            let mut hasher = blake3::Hasher::new_derive_key("vesica/1 blinds of a look-up");
            hasher.update(seed);
            hasher.update(&(part as u64).to_le_bytes());
            // The same seed with other digests would have the same blinds.
            hasher.update(digests.as_flattened());
            let mut rng = ChaCha20Rng::from_seed(*hasher.finalize().as_bytes());
            (digests, Blinded::new(MODE, &inputs(digests), &mut rng))
        });
        let elements = parts.iter().flat_map(|(_, blinded)| blinded.elements());
        Question {
            elements: elements.copied().collect(),
            parts,
        }
    }

    /// Bytes of its answer.
    fn answer_bytes(&self) -> usize {
        self.elements.len() * ELEMENT_BYTES + PROOF_BYTES
    }

    /// The values, from an answer with as many elements and a proof.
    fn finish(&self, key: &Element, answer: &[u8]) -> Result<Vec<Value>, WireError> {
        let (elements, proof) = answer
            .split_last_chunk::<PROOF_BYTES>()
            .expect("the length was checked");
        let (elements, _) = elements.as_chunks();
        let decoded = parallel::map(elements.chunks(AT_ONCE), |part| decode(ANSWER.name, part));
        let decoded: Vec<Vec<Element>> = decoded.into_iter().collect::<Result<_, _>>()?;
        let evaluated = decoded.concat();
        verify(key, &self.elements, &evaluated, proof)
            .map_err(|_| bad(ANSWER.name, "not under the published key"))?;
        let parts = self.parts.iter().zip(&decoded);
        let values = parallel::map(parts, |((digests, blinded), evaluated)| {
            blinded.finalize(&inputs(digests), evaluated)
        });
        Ok(values.concat())
    }
}
