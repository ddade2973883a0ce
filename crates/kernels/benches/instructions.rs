//! Instructions that each kernel takes per item, in each version: `cargo bench -p vesica-kernels --bench instructions`.
//!
//! The processor's trap flag stops the process after every instruction, whatever it is, and a signal handler counts.
//! Unlike times, counts are the same on a busy machine, but not with another compiler. On virtual machines a stop takes
//! some 20 microseconds, and so the inputs are small.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod inputs;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() {
    stepping::table();
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {
    eprintln!("instructions are counted on Linux on x86-64");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod stepping {
    use std::arch::asm;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};

    use vesica_kernels::residues::{self, Modulus, ntt::Ntt};
    use vesica_kernels::{Backend, aes, band, binary, blake3, code, curve25519, gf2k, transpose};

    use super::inputs::{self, words};

    static STEPS: AtomicU64 = AtomicU64::new(0);

    extern "C" fn step(_: libc::c_int) {
        STEPS.fetch_add(1, Ordering::Relaxed);
    }

    fn install() {
        let handler: extern "C" fn(libc::c_int) = step;
        // SAFETY: the handler does nothing but an atomic addition.
        let before = unsafe { libc::signal(libc::SIGTRAP, handler as libc::sighandler_t) };
        assert!(before != libc::SIG_ERR, "no handler of signals");
    }

    /// The instructions of a call, and some ten more.
    fn steps(call: &mut dyn FnMut()) -> u64 {
        STEPS.store(0, Ordering::Relaxed);
        // SAFETY: the trap flag changes nothing but that the handler is called after each instruction.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        call();
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
        STEPS.load(Ordering::Relaxed)
    }

    /// Items that fill the registers of a version of `curve25519`.
    fn lanes(backend: Backend) -> usize {
        match backend {
            Backend::Portable => 1,
            Backend::Avx2 | Backend::Gfni => 4,
            Backend::Best => 8,
        }
    }

    /// Prints a row: the instructions of `call`, without those of `less`, for each of `items(backend)`. `kernel` begins
    /// with the name of its module; a version that is that of the column before is left out.
    fn row(
        kernel: &str,
        items: impl Fn(Backend) -> usize,
        less: &mut dyn FnMut(Backend),
        call: &mut dyn FnMut(Backend),
    ) {
        let version = |backend| {
            let module = kernel.split('`').nth(1);
            vesica_kernels::backends(backend)
                .into_iter()
                .find(|(name, _)| Some(*name) == module)
                .map(|(_, version)| version)
        };
        print!("| {kernel} |");
        let mut before = None;
        for backend in Backend::ALL {
            if version(backend) == before {
                print!(" |");
                continue;
            }
            before = version(backend);
            // What is looked up once is looked up here.
            call(backend);
            let taken = steps(&mut || call(backend)) - steps(&mut || less(backend));
            match taken as f64 / items(backend) as f64 {
                few if few < 10.0 => print!(" {few:.1} |"),
                many => print!(" {many:.0} |"),
            }
        }
        println!();
    }

    pub(super) fn table() {
        install();
        let names = Backend::ALL.map(|backend| format!("{backend:?}"));
        println!(
            "| kernel, per | {} |\n|---|---|---|---|---|",
            names.join(" | ")
        );
        bands();
        curve();
        rows_of_bits();
        fields();
        hashes();
        moduli();
    }

    /// Rows as of an encoding, with values of 128 bits.
    fn bands() {
        let (n, columns) = (1usize << 8, 720);
        let (frames, rows) = inputs::bands(n, columns);
        let values: Vec<[u64; 2]> = words(n).map(|word| [word, !word]).collect();
        let free: Vec<[u64; 2]> = words(columns - n).map(|word| [!word, word]).collect();
        let mut slots = vec![[0; 2]; columns];
        let mut out = vec![[0; 2]; n];
        let insert = |backend| {
            let mut system = band::System::new(backend, 0..columns, 0);
            system.begin(free.clone());
            system
                .insert(&frames, black_box(&rows), &values)
                .and_then(|()| system.finish())
                .expect("independent rows");
            system
        };
        let mut inserted = |backend| drop(insert(backend));
        row(
            "`band`, rows eliminated, per row",
            |_| n,
            &mut |_| {},
            &mut inserted,
        );
        let mut solved = |backend| insert(backend).solve(&mut slots);
        row(
            "`band`, solving back, per column",
            |_| columns,
            &mut inserted,
            &mut solved,
        );
        let mut combined = |backend| band::combine(backend, &slots, &frames, &rows, &mut out);
        row(
            "`band`, decoding, per row",
            |_| n,
            &mut |_| {},
            &mut combined,
        );
    }

    fn curve() {
        let inputs: Vec<[u8; 32]> = (0..8)
            .map(|i: usize| std::array::from_fn(|j| (i * 31 + j * 7 + i * i) as u8))
            .collect();
        let mut nine = [0; 32];
        nine[0] = 9;
        let base = curve25519::Multiples::new(&nine).expect("the base point");
        let mut out = vec![[0; 32]; 8];
        let name = "`curve25519`, ladder, per point";
        row(name, lanes, &mut |_| {}, &mut |backend| {
            let n = lanes(backend);
            curve25519::multiply(backend, &inputs[..n], &inputs[..n], &mut out[..n]);
        });
        let name = "`curve25519`, one point by many scalars, per scalar";
        row(name, lanes, &mut |_| {}, &mut |backend| {
            let n = lanes(backend);
            curve25519::multiply_one_point(backend, &inputs[..n], &base, &mut out[..n]);
        });
        let name = "`curve25519`, Elligator decoding, per point";
        row(name, lanes, &mut |_| {}, &mut |backend| {
            let n = lanes(backend);
            curve25519::decode(backend, &inputs[..n], &mut out[..n]);
        });
    }

    fn rows_of_bits() {
        let n = 1usize << 10;
        let coefficients: Vec<u32> = words(n).map(|word| word as u32 >> 8).collect();
        let mut rows: Vec<[u64; 2]> = words(n + code::SLACK).map(|word| [word, !word]).collect();
        let mut pairs: Vec<[u64; 4]> = rows.iter().map(|[a, b]| [*a, *b, !*a, !*b]).collect();
        let name = "`code`, convolution, per row of 16 bytes";
        row(name, |_| n, &mut |_| {}, &mut |backend| {
            code::convolve(backend, &mut rows, &coefficients);
        });
        let name = "`code`, convolution, per row of 32 bytes";
        row(name, |_| n, &mut |_| {}, &mut |backend| {
            code::convolve(backend, &mut pairs, &coefficients);
        });
        let columns: Vec<u8> = words(2 * n).flat_map(u64::to_le_bytes).collect();
        let mut out = vec![0; n];
        row(
            "`transpose`, per 128 bits",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                transpose::transpose128(backend, &columns, &mut out);
            },
        );
    }

    fn fields() {
        let n = 1usize << 6;
        let mut a: Vec<binary::Element> = words(n).map(|x| [x, x ^ 5, !x, x >> 3]).collect();
        let b = a.clone();
        row(
            "`binary`, GF(2^256), per product",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                binary::multiply_assign(backend, &mut a, &b);
            },
        );
        let transform = binary::Transform::new(6);
        let name = "`binary`, transform of 2^6 elements, per element";
        row(name, |_| n, &mut |_| {}, &mut |backend| {
            transform.forward(backend, &mut a, 6, 0);
        });
        let field = gf2k::Field::new(109);
        let mut a: Vec<u128> = words(n)
            .map(|word| (u128::from(word) << 64 | u128::from(!word)) & field.mask())
            .collect();
        let b = a.clone();
        row(
            "`gf2k`, GF(2^109), per product",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                field.multiply_assign(backend, &mut a, &b);
            },
        );
        let transform = gf2k::Transform::new(field);
        let name = "`gf2k`, transform of 2^6 elements, per element";
        row(name, |_| n, &mut |_| {}, &mut |backend| {
            transform.forward(backend, &mut a, 6, 0);
        });
    }

    fn hashes() {
        let n = 1usize << 7;
        let inputs: Vec<u8> = words(8 * n).flat_map(u64::to_le_bytes).collect();
        let mut out = vec![[0; 32]; n];
        row(
            "`blake3`, 64 bytes, per hash",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                blake3::keyed_hash_many(backend, &[7; 32], &inputs, 64, &mut out);
            },
        );
        let keys = [aes::Key::new(1), aes::Key::new(2)];
        let mut blocks = vec![0; 18 * 8];
        row("`aes`, per block", |_| n, &mut |_| {}, &mut |backend| {
            aes::encrypt(backend, &keys[0], &mut blocks[..n]);
        });
        let many: [u128; 18] = std::array::from_fn(|i| i as u128);
        for planes in [4, 8] {
            let blocks = &mut blocks[..18 * planes];
            let name = format!("`aes`, {planes} planes under 18 keys, per block");
            row(&name, |_| 18 * planes, &mut |_| {}, &mut |backend| {
                aes::feed_forward_under_each(backend, &many, blocks);
            });
        }
        row(
            "`aes`, two children of a node, per child",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                black_box(aes::children(backend, &keys, &mut blocks[..n]));
            },
        );
    }

    fn moduli() {
        let n = 1usize << 8;
        // 7·2^14 + 1.
        let q = 114_689;
        let modulus = Modulus::new(q);
        let residues: Vec<u64> = words(n).map(|word| word % q).collect();
        let mut out = vec![0; n];
        row(
            "`residues`, u·(x + y) + v, per row",
            |_| n,
            &mut |_| {},
            &mut |backend| {
                let r = &residues;
                residues::evaluate(backend, modulus, r, r, r, r, &mut out);
            },
        );
        let ntt = Ntt::<u32>::new(modulus, n);
        let mut values: Vec<u32> = residues.iter().map(|x| *x as u32).collect();
        let mut scratch = values.clone();
        let name = "`residues`, number-theoretic transform of 2^8, per value";
        row(name, |_| n, &mut |_| {}, &mut |backend| {
            ntt.forward(backend, &mut values, &mut scratch);
        });
    }
}
