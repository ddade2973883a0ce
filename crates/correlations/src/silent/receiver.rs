//! The receiver's half, and its part of the setup and the check.

use super::*;

/// What the receiver knows of one tree.
struct Punctured {
    /// The position of the noise.
    point: usize,
    /// One sum per level: of the nodes on the side off the path to the point.
    sums: Vec<Block>,
    /// y, the noise at the point.
    noise: Block,
    /// The leaf at the point, with all others added.
    leaf: Block,
}

impl Drop for Punctured {
    fn drop(&mut self) {
        self.point.zeroize();
        self.sums.zeroize();
        self.noise.zeroize();
        self.leaf.zeroize();
    }
}

/// A receiver that waits for the sender's trees.
pub struct WaitingReceiver<N> {
    shape: Shape,
    trees: Trees,
    sessions: Sessions,
    transcript: Transcript,
    /// A digest of the matrices of the extension.
    matrices: [u8; 32],
    base: base_vole::Receiver,
    /// The entries that hide the linear combination, if there is a check.
    hidden_by: Option<(Block, Block)>,
    points: Zeroizing<Vec<usize>>,
    pads: Zeroizing<Vec<Block>>,
    noise: PhantomData<N>,
}

impl<N: Noise> WaitingReceiver<N> {
    /// Takes the trees, and checks them in a malicious run.
    ///
    /// # Errors
    /// As [`Receiver::setup`].
    pub fn finish(
        self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<Receiver<N>, Error> {
        let WaitingReceiver {
            shape,
            trees,
            sessions,
            mut transcript,
            matrices,
            base,
            hidden_by,
            points,
            pads,
            noise: _,
        } = self;
        let depth = trees.depth();
        let row = 2 * depth + 1;
        let mut punctured = Vec::with_capacity(shape.all_trees());
        recv_rows(channel, TREES, 16 * row, shape.all_trees(), |rows| {
            transcript.add(rows);
            for bytes in rows.chunks_exact(16 * row) {
                let i = punctured.len();
                let (blocks, _) = bytes.as_chunks::<16>();
                let block = |at: usize| Block::from_le_bytes(blocks[at]);
                let sums = (0..depth).map(|level| {
                    let right = 0u128.wrapping_sub((!points[i] >> (depth - level - 1) & 1) as u128);
                    let (left_sum, right_sum) = (block(2 * level), block(2 * level + 1));
                    left_sum ^ (right & (left_sum ^ right_sum)) ^ pads[i * depth + level]
                });
                let (noise, own) = if N::BINARY {
                    (1, 0)
                } else {
                    (base.y[i], base.c[i])
                };
                punctured.push(Punctured {
                    point: points[i],
                    sums: sums.collect(),
                    noise,
                    leaf: block(2 * depth) ^ own,
                });
            }
            Ok(())
        })?;
        let receiver = Receiver {
            shape,
            trees,
            punctured,
            noise: PhantomData,
        };
        if let Some(hidden_by) = hidden_by {
            transcript.add(&matrices);
            receiver.check(channel, &sessions, &transcript, hidden_by, rng)?;
        }
        Ok(receiver)
    }
}

/// The receiver's half.
pub struct Receiver<N> {
    shape: Shape,
    trees: Trees,
    punctured: Vec<Punctured>,
    noise: PhantomData<N>,
}

impl<N: Noise> Receiver<N> {
    /// Runs the setup for `length` entries; the peer calls [`Sender::setup`].
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a sender that fails a check.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        agreement: KeyAgreement,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::begin(channel, session, security, agreement, length, rng)?.finish(channel, rng)
    }

    /// The setup up to the point where the sender has work to do, so that the receiver can work meanwhile;
    /// [`WaitingReceiver::finish`] continues it.
    ///
    /// # Errors
    /// As [`Receiver::setup`].
    pub fn begin(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        agreement: KeyAgreement,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<WaitingReceiver<N>, Error> {
        let shape = Shape::new(length, N::BITS);
        let sessions = Sessions::new(session, &shape, N::BITS);
        let bits = base_bits::<N>(&shape, security);
        let (keys, bound) = base_ot::send_and_bind(
            channel,
            &sessions.part("base transfers"),
            agreement,
            COLUMNS,
            rng,
        )?;
        let sessions = sessions.bound_to(&bound);
        let mut transcript = Transcript::new(&sessions);
        let mut for_extension = Zeroizing::new([[0; 2]; COLUMNS]);
        let mut for_vole = Zeroizing::new([[0; 2]; COLUMNS]);
        for (i, pair) in keys.iter().enumerate() {
            let [zero, one] = pair.map(two_seeds);
            for_extension[i] = [zero[0], one[0]];
            for_vole[i] = [zero[1], one[1]];
        }
        let part = sessions.part("extension");
        let mut extension = ot_extension::Receiver::new(&part, security, &for_extension, rng);
        let (part, pieces) = (sessions.part("base VOLE"), Pieces::of(&shape));
        let of = base_vole::Entries {
            bits: &bits,
            element: N::element,
        };
        let (base, message) = base_vole::receiver(&part, pieces, &for_vole, of, rng);
        send_base::<N>(channel, pieces, &message, &mut transcript)?;
        let trees = Trees::new(&sessions.part("trees"), shape.depth);
        let depth = trees.depth();
        let points = points(&shape, rng);
        let chosen = choices(&points, depth);
        let pads = extension.random(channel, &chosen)?;
        Ok(WaitingReceiver {
            shape,
            trees,
            sessions,
            transcript,
            matrices: *extension.matrices(),
            hidden_by: security
                .is_malicious()
                .then(|| (base.y[bits.len() - 1], base.c[bits.len() - 1])),
            base,
            points,
            pads,
            noise: PhantomData,
        })
    }

    /// Compares one random linear combination with the sender.
    fn check(
        &self,
        channel: &mut dyn Channel,
        sessions: &Sessions,
        transcript: &Transcript,
        hidden_by: (Block, Block),
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let shape = &self.shape;
        let seeds = transcript.challenges(shape.chunks);
        let mut sums = Zeroizing::new(vec![(0, 0); seeds.len()]);
        let chunks = seeds.iter().zip(sums.iter_mut()).enumerate();
        parallel::each(chunks, |(chunk, (seed, sums))| {
            let mut factors = Prg::new(*seed);
            let mut chi = vec![0; self.trees.leaves()];
            let mut leaves = vec![0; self.trees.leaves()];
            for tree in 0..shape.trees {
                factors.fill(&mut chi);
                let tree = self.leaves(chunk, tree, &mut leaves);
                let factor = chi
                    .iter()
                    .enumerate()
                    .fold(0, |found, (i, chi)| found | (mask(i, tree.point) & chi));
                sums.0 ^= multiply128(Backend::Best, factor, tree.noise);
                sums.1 ^= inner_product128(Backend::Best, &chi, &leaves);
            }
        });
        let add = |a: (Block, Block), b: &(Block, Block)| (a.0 ^ b.0, a.1 ^ b.1);
        let (x, value) = sums.iter().fold(hidden_by, add);
        let mut opening = [0; 48];
        opening[..16].copy_from_slice(&value.to_le_bytes());
        rng.fill_bytes(&mut opening[16..]);
        let mut combination = [0; 48];
        combination[..16].copy_from_slice(&x.to_le_bytes());
        combination[16..].copy_from_slice(&commitment(sessions, &opening));
        send_rows(channel, COMBINATION, &combination, 48)?;
        recv_rows(channel, CHECK, 16, 1, |row| {
            if *row != value.to_le_bytes() {
                return Err(Misbehaviour::BadValue {
                    what: CHECK.name,
                    problem: "the correlation is inconsistent",
                }
                .into());
            }
            Ok(())
        })?;
        send_rows(channel, OPENING, &opening, 48)
    }

    /// How the correlation is cut into chunks.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// c before the code: all leaves of a tree, the one at the point with Δ·y added.
    fn leaves(&self, chunk: usize, tree: usize, leaves: &mut [Block]) -> &Punctured {
        let number = chunk * self.shape.trees + tree;
        let tree = &self.punctured[number];
        self.trees
            .expand_punctured(number, tree.point, &tree.sums, leaves);
        if N::BINARY {
            leaves.iter_mut().for_each(|leaf| *leaf &= N::LEAF);
        }
        let missing = leaves.iter().fold(tree.leaf, |sum, leaf| sum ^ leaf);
        for (i, leaf) in leaves.iter_mut().enumerate() {
            *leaf ^= mask(i, tree.point) & missing;
        }
        tree
    }
}

impl<F: Field> vole::WaitingReceiver<F> for WaitingReceiver<F> {
    type Receiver = Receiver<F>;

    fn session(&self) -> [u8; 32] {
        self.sessions.part("after")
    }

    fn finish(
        self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<Receiver<F>, Error> {
        WaitingReceiver::finish(self, channel, rng)
    }
}

impl<F: Field> vole::Receiver<F> for Receiver<F> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn expand(&self, first: usize, a: &mut [F], c: &mut [Block]) {
        Receiver::<F>::expand(self, first, a, c);
    }
}

impl<F: Field> Receiver<F> {
    /// Entries a and c of chunks, the first with the number `first`. A chunk can be expanded any number of times, but must
    /// be used only once.
    ///
    /// # Panics
    /// If `a` and `c` do not have the length of whole chunks.
    pub fn expand(&self, first: usize, a: &mut [F], c: &mut [Block]) {
        let shape = &self.shape;
        let chunks = shape.chunks_of(first, a.len());
        assert_eq!(c.len(), a.len());
        // A row holds an entry of e and of c', so that the code fetches both at once.
        let fill = |chunk: usize, tree: usize, leaves: &mut [Block], rows: &mut [[u64; 4]]| {
            let tree = self.leaves(chunk, tree, leaves);
            for (i, (row, leaf)) in rows.iter_mut().zip(leaves.iter()).enumerate() {
                let noise = mask(i, tree.point) & tree.noise;
                *row = bytemuck::must_cast::<[Block; 2], [u64; 4]>([noise, *leaf]);
            }
        };
        let parities = parities::<F, 4>(shape, chunks, fill);
        let each = shape.chunk.max(1);
        let chunks = a.chunks_mut(each).zip(c.chunks_mut(each)).zip(parities);
        for (chunk, ((a, c), parity)) in (first..).zip(chunks) {
            let blocks = a.chunks_mut(shape.block).zip(c.chunks_mut(shape.block));
            parallel::each_with(
                blocks.enumerate(),
                || (leaves(shape), Zeroizing::new(vec![[0u64; 4]; shape.block])),
                |(leaves, rows), (tree, (a, c))| {
                    let rows = &mut rows[..a.len()];
                    fill(chunk, tree, leaves, rows);
                    add_expanded(&parity, tree * shape.block, rows);
                    for ((a, c), row) in a.iter_mut().zip(c.iter_mut()).zip(rows) {
                        let [noise, leaf] = bytemuck::must_cast::<[u64; 4], [Block; 2]>(*row);
                        *a = F::of_element(noise);
                        *c = leaf;
                    }
                },
            );
        }
    }
}

impl Receiver<Bit> {
    /// Entries c of chunks, the first with the number `first`; the lowest bit of each is a. A chunk can be expanded any
    /// number of times, but must be used only once.
    ///
    /// # Panics
    /// If `c` does not have the length of whole chunks.
    pub fn expand(&self, first: usize, c: &mut [Block]) {
        encode_blocks::<Bit>(&self.shape, first, c, |chunk, tree, leaves| {
            self.leaves(chunk, tree, leaves);
        });
    }
}

/// Sends the receiver's message of the base VOLE.
fn send_base<N: Noise>(
    channel: &mut dyn Channel,
    pieces: Pieces,
    message: &Message,
    transcript: &mut Transcript,
) -> Result<(), Error> {
    let sums = bytemuck::must_cast_slice::<[Block; 2], u8>(&message.sums);
    transcript.add(sums);
    send_rows(channel, BASE_SUMS, sums, 32)?;
    let mut left = &message.corrections[..];
    let each = pieces.corrections();
    for (bytes, count) in base_parts::<N>(left.len() / each) {
        let (entries, others) = left.split_at(count * each);
        left = others;
        if count == 0 {
            continue;
        }
        let mut rows = Vec::with_capacity(entries.len() * bytes);
        for correction in entries {
            rows.extend_from_slice(&correction.to_le_bytes()[..bytes]);
        }
        transcript.add(&rows);
        send_rows(channel, BASE_CORRECTIONS, &rows, each * bytes)?;
    }
    Ok(())
}

/// For each level of each tree, the side off the path to its point: 1 for the right one.
fn choices(points: &[usize], depth: usize) -> Choices {
    let count = points.len() * depth;
    let mut blocks = Zeroizing::new(vec![0; count.div_ceil(128)]);
    for (tree, point) in points.iter().enumerate() {
        for level in 0..depth {
            let i = tree * depth + level;
            let right = !point >> (depth - level - 1) & 1;
            blocks[i / 128] |= (right as Block) << (i % 128);
        }
    }
    Choices::from_blocks(blocks, count)
}

/// A uniform position in each block.
fn points(shape: &Shape, rng: &mut dyn CryptoRng) -> Zeroizing<Vec<usize>> {
    let mut random = Zeroizing::new(vec![[0u8; 16]; shape.all_trees()]);
    rng.fill_bytes(random.as_flattened_mut());
    // 96 bits times fewer than 2^32 leaves: uniform up to 2^-64.
    let point = |bytes: &[u8; 16]| {
        (((u128::from_le_bytes(*bytes) >> 32) * shape.block as u128) >> 96) as usize
    };
    Zeroizing::new(random.iter().map(point).collect())
}
