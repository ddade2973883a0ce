//! The sender's half, and its part of the setup and the check.

use super::*;

/// The sender's half.
pub struct Sender<N> {
    shape: Shape,
    trees: Trees,
    delta: Zeroizing<Block>,
    roots: Zeroizing<Vec<Block>>,
    noise: PhantomData<N>,
}

impl<N: Noise> Sender<N> {
    /// Runs the setup for `length` entries; the peer calls [`Receiver::setup`].
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a receiver that fails a check.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        agreement: KeyAgreement,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::begin(channel, session, security, agreement, length, rng)?.finish(channel)
    }

    /// The setup without the check; [`UncheckedSender::finish`] does the check.
    ///
    /// # Errors
    /// As [`Sender::setup`].
    pub fn begin(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        agreement: KeyAgreement,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<UncheckedSender<N>, Error> {
        let shape = Shape::new(length, N::BITS);
        let sessions = Sessions::new(session, &shape, N::BITS);
        let mut bytes = Zeroizing::new([0; 16]);
        rng.fill_bytes(bytes.as_mut());
        let delta = Zeroizing::new(Block::from_le_bytes(*bytes) | Block::from(N::BINARY));
        let bits = base_bits::<N>(&shape, security);
        // Base OTs, for the extension and for the base VOLE.
        let pieces = Pieces::of(&shape);
        let s = Zeroizing::new(pieces.choices(*delta));
        let chosen = Choices::from_blocks(Zeroizing::new(vec![*s]), COLUMNS);
        let session = sessions.part("base transfers");
        let (keys, bound) = base_ot::receive_and_bind(channel, &session, agreement, chosen, rng)?;
        let sessions = sessions.bound_to(&bound);
        let mut transcript = Transcript::new(&sessions);
        let mut for_extension = Zeroizing::new([0; COLUMNS]);
        let mut for_vole = Zeroizing::new([0; COLUMNS]);
        for (i, key) in keys.iter().enumerate() {
            [for_extension[i], for_vole[i]] = *two_seeds(*key);
        }
        let mut extension =
            ot_extension::Sender::new(&sessions.part("extension"), security, *s, &for_extension);
        // Base VOLE.
        let message = receive_base::<N>(channel, pieces, &bits, &mut transcript)?;
        let b = base_vole::sender(
            &sessions.part("base VOLE"),
            pieces,
            *delta,
            &for_vole,
            base_vole::Entries {
                bits: &bits,
                element: N::element,
            },
            &message,
        );
        drop(message);
        // Trees.
        let trees = Trees::new(&sessions.part("trees"), shape.depth);
        let depth = trees.depth();
        let pads = extension.random(channel, shape.all_trees() * depth)?;
        let matrices = *extension.matrices();
        let mut roots = Zeroizing::new(vec![0; shape.all_trees()]);
        rng.fill_bytes(bytemuck::must_cast_slice_mut::<Block, u8>(&mut roots));
        let sender = Sender {
            shape,
            trees,
            delta,
            roots,
            noise: PhantomData,
        };
        let row = 2 * depth + 1;
        let mut rows = vec![0; shape.all_trees() * row];
        parallel::each_with(
            rows.chunks_exact_mut(row).enumerate(),
            || Zeroizing::new(vec![0; sender.trees.leaves()]),
            |leaves, (i, row)| {
                let mut sums = Zeroizing::new(vec![[0; 2]; depth]);
                sender
                    .trees
                    .expand(i, sender.roots[i], leaves, Some(&mut sums));
                let pads = &pads[i * depth..][..depth];
                for (level, (sums, pads)) in sums.iter().zip(pads).enumerate() {
                    row[2 * level] = sums[0] ^ pads[0];
                    row[2 * level + 1] = sums[1] ^ pads[1];
                }
                let leaf_sum = leaves.iter().fold(0, |sum, leaf| sum ^ (leaf & N::LEAF));
                let at_point = if N::BINARY { *sender.delta } else { b[i] };
                row[2 * depth] = leaf_sum ^ at_point;
            },
        );
        let bytes = bytemuck::must_cast_slice::<Block, u8>(&rows);
        transcript.add(bytes);
        send_rows(channel, TREES, bytes, 16 * row)?;
        let hidden_by = security.is_malicious().then(|| b[b.len() - 1]);
        Ok(UncheckedSender {
            sender,
            sessions,
            transcript,
            matrices,
            hidden_by,
        })
    }

    /// Compares one random linear combination with the receiver.
    pub(super) fn check(
        &self,
        channel: &mut dyn Channel,
        sessions: &Sessions,
        transcript: &Transcript,
        hidden_by: Block,
    ) -> Result<(), Error> {
        let shape = &self.shape;
        let seeds = transcript.challenges(shape.chunks);
        let mut sums = Zeroizing::new(vec![0; seeds.len()]);
        let chunks = seeds.iter().zip(sums.iter_mut()).enumerate();
        parallel::each(chunks, |(chunk, (seed, sum))| {
            let mut factors = Prg::new(*seed);
            let mut chi = vec![0; self.trees.leaves()];
            let mut leaves = vec![0; self.trees.leaves()];
            for tree in 0..shape.trees {
                factors.fill(&mut chi);
                self.leaves(chunk, tree, &mut leaves);
                *sum ^= inner_product128(Backend::Best, &chi, &leaves);
            }
        });
        let own = sums.iter().fold(hidden_by, |own, sum| own ^ sum);
        let mut combination = [0; 48];
        recv_rows(channel, COMBINATION, 48, 1, |row| {
            combination.copy_from_slice(row);
            Ok(())
        })?;
        let x = blocks_of(&combination, 0);
        let value = own ^ multiply128(Backend::Best, *self.delta, x);
        // A receiver that has guessed bits of Δ sees by this value whether it was right.
        channel.at_stake(true);
        send_rows(channel, CHECK, &value.to_le_bytes(), 16)?;
        let mut opening = [0; 48];
        recv_rows(channel, OPENING, 48, 1, |row| {
            opening.copy_from_slice(row);
            Ok(())
        })?;
        let committed = commitment(sessions, &opening);
        if committed[..] != combination[16..] {
            return Err(Misbehaviour::BadValue {
                what: OPENING.name,
                problem: "not what was committed to",
            }
            .into());
        }
        if blocks_of(&opening, 0) != value {
            return Err(Misbehaviour::BadValue {
                what: OPENING.name,
                problem: "the correlation is inconsistent",
            }
            .into());
        }
        channel.at_stake(false);
        Ok(())
    }

    /// How the correlation is cut into chunks.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Δ.
    pub fn delta(&self) -> Block {
        *self.delta
    }

    fn leaves(&self, chunk: usize, tree: usize, leaves: &mut [Block]) {
        let tree = chunk * self.shape.trees + tree;
        self.trees.expand(tree, self.roots[tree], leaves, None);
        if N::BINARY {
            leaves.iter_mut().for_each(|leaf| *leaf &= N::LEAF);
        }
    }

    /// Entries b of chunks, the first with the number `first`. A chunk can be expanded any number of times, but must be used
    /// only once.
    ///
    /// # Panics
    /// If `b` does not have the length of whole chunks.
    pub fn expand(&self, first: usize, b: &mut [Block]) {
        encode_blocks::<N>(&self.shape, first, b, |chunk, tree, leaves| {
            self.leaves(chunk, tree, leaves)
        });
    }
}

/// A sender whose receiver has not yet passed the check of a malicious run.
pub struct UncheckedSender<N> {
    sender: Sender<N>,
    sessions: Sessions,
    transcript: Transcript,
    /// A digest of the receiver's matrices of the extension.
    pub(super) matrices: [u8; 32],
    /// The entry that hides the linear combination, if there is a check.
    hidden_by: Option<Block>,
}

impl<N: Noise> UncheckedSender<N> {
    /// The check, if the run is malicious.
    ///
    /// # Errors
    /// As [`Sender::setup`].
    pub fn finish(mut self, channel: &mut dyn Channel) -> Result<Sender<N>, Error> {
        if let Some(hidden_by) = self.hidden_by {
            self.transcript.add(&self.matrices);
            let (sessions, transcript) = (&self.sessions, &self.transcript);
            self.sender
                .check(channel, sessions, transcript, hidden_by)?;
        }
        Ok(self.sender)
    }
}

impl<F: Field> vole::UncheckedSender for UncheckedSender<F> {
    fn shape(&self) -> &Shape {
        &self.sender.shape
    }

    fn session(&self) -> [u8; 32] {
        self.sessions.part("after")
    }

    fn expand(&self, first: usize, b: &mut [Block]) {
        self.sender.expand(first, b);
    }

    fn finish(self, channel: &mut dyn Channel) -> Result<Block, Error> {
        Ok(UncheckedSender::finish(self, channel)?.delta())
    }
}

/// Receives the receiver's message of the base VOLE.
fn receive_base<N: Noise>(
    channel: &mut dyn Channel,
    pieces: Pieces,
    bits: &[Block],
    transcript: &mut Transcript,
) -> Result<Message, Error> {
    let mut message = Message {
        sums: Vec::with_capacity(COLUMNS),
        corrections: Vec::with_capacity(bits.len() * pieces.corrections()),
    };
    recv_rows(channel, BASE_SUMS, 32, COLUMNS, |rows| {
        transcript.add(rows);
        let (blocks, _) = rows.as_chunks::<16>();
        let (pairs, _) = blocks.as_chunks::<2>();
        let sums = pairs.iter().map(|pair| pair.map(Block::from_le_bytes));
        message.sums.extend(sums);
        Ok(())
    })?;
    for (bytes, count) in base_parts::<N>(bits.len()) {
        if count == 0 {
            continue;
        }
        let row = pieces.corrections() * bytes;
        recv_rows(channel, BASE_CORRECTIONS, row, count, |rows| {
            transcript.add(rows);
            let blocks = rows.chunks_exact(bytes).map(|bytes| {
                let mut wide = [0; 16];
                wide[..bytes.len()].copy_from_slice(bytes);
                Block::from_le_bytes(wide)
            });
            message.corrections.extend(blocks);
            Ok(())
        })?;
    }
    Ok(message)
}
