//! An allocator that inspects every block checks two properties: the values that a client encrypts and decrypts are
//! wiped before their memory is freed, and allocations do not depend on the values.

#![expect(unsafe_code, reason = "an allocator that reads blocks before it frees them")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use unspoken_ckks::{Complex64, Encoder, Preset};
use unspoken_encrypt::{ClientKey, Encryptor, Needs};
use unspoken_exact::Scheme;
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

/// Values that occur nowhere else: a number, its multiple by the scale, and an integer.
const VALUE: f64 = 1_234.567_891_2;
const SCALE: f64 = (1u64 << 40) as f64;
const INTEGER: i64 = 23_457;

/// Counts the blocks that are freed with a value in them, while it is armed.
struct Probe;

static ARMED: AtomicBool = AtomicBool::new(false);
static FOUND: AtomicUsize = AtomicUsize::new(0);

fn holds_a_value(words: &[u64]) -> bool {
    let near = |x: f64, value: f64| (x.abs() / value - 1.0).abs() < 1e-6;
    let pair = |word: u64| [word as u32 as i32, (word >> 32) as i32].map(|half| i64::from(half).abs());
    words.windows(2).any(|pair_of_words| {
        let [first, second] = [pair_of_words[0], pair_of_words[1]];
        let [x, y] = [first, second].map(f64::from_bits);
        near(x, VALUE)
            || near(x, VALUE * SCALE)
            || (first.cast_signed() == INTEGER && second.cast_signed() == INTEGER)
            || (pair(first) == [INTEGER; 2] && pair(second) == [INTEGER; 2])
            || near(y, VALUE * SCALE)
    })
}

// SAFETY: all memory comes from the system allocator. A block is read before it is freed, as whole words inside it.
unsafe impl GlobalAlloc for Probe {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_size(layout);
        // Zeroed, so that all bytes of a block have values when `dealloc` reads them.
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_size(layout);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if ARMED.load(Ordering::Relaxed) && layout.align() >= 4 && layout.size() >= 16 {
            // SAFETY: the block has `layout.size()` bytes, and the system aligns blocks to 16. `alloc` zeroed it, so
            // every byte that its owner never wrote is zero.
            let words: Vec<u64> = unsafe {
                ARMED.store(false, Ordering::Relaxed);
                let first = block.cast::<u64>();
                (0..layout.size() / 8).map(|i| first.add(i).read_volatile()).collect()
            };
            FOUND.fetch_add(usize::from(holds_a_value(&words)), Ordering::Relaxed);
            drop(words);
            ARMED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The first sizes that were requested while the probe was armed.
static SIZES: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn note_size(layout: Layout) {
    if ARMED.load(Ordering::Relaxed) {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        SIZES[number.min(SIZES.len() - 1)].store(layout.size(), Ordering::Relaxed);
    }
}

/// Number of requested blocks, and their first sizes.
fn allocations(work: impl FnOnce()) -> (usize, Vec<usize>) {
    COUNT.store(0, Ordering::Relaxed);
    leaks(work);
    let count = COUNT.load(Ordering::Relaxed);
    (count, SIZES[..count.min(SIZES.len())].iter().map(|size| size.load(Ordering::Relaxed)).collect())
}

#[global_allocator]
static PROBE: Probe = Probe;

/// Number of blocks that were freed with a value in them.
fn leaks(work: impl FnOnce()) -> usize {
    FOUND.store(0, Ordering::Relaxed);
    ARMED.store(true, Ordering::Relaxed);
    work();
    ARMED.store(false, Ordering::Relaxed);
    FOUND.load(Ordering::Relaxed)
}

/// The allocations of encoding reveal its control flow, so they must depend on level and scale only, not on values.
fn encoding_takes_one_way(encoder: &Encoder) {
    let (slots, level) = (encoder.parameters().slots(), encoder.parameters().max_level());
    let encode = |value: Complex64, count: usize, scale: f64| {
        let values = vec![value; count];
        // Encode once before, so that the ring has buffers for reuse.
        let encode = || drop(encoder.encode(&values, level, scale).unwrap());
        encode();
        allocations(encode)
    };
    for count in [slots, 1] {
        for scale in [2f64.powi(30), 2f64.powi(70)] {
            let expected = encode(Complex64::from(0.0), count, scale);
            assert!(expected.0 > 0 || count == 1, "vectors need memory");
            for value in [(1.0, 0.0), (0.0, -1.0), (1e-9, 1e-9), (3e11, 0.0), (-7.0, 8e12)] {
                let value = Complex64::new(value.0, value.1);
                assert_eq!(encode(value, count, scale), expected, "{count} values {value} at scale {scale:e}");
            }
        }
    }
}

/// All checks are in one test, because the probe sees all threads. The small rings keep the work on this thread.
#[test]
fn messages_are_wiped_before_their_memory_is_freed() {
    // The threads of the pool allocate when they start, which may be late on a busy machine.
    rayon::broadcast(|_| ());
    // The probe finds values that are not wiped.
    assert_eq!(leaks(|| drop(vec![Complex64::from(VALUE); 9])), 1);
    assert_eq!(leaks(|| drop(vec![INTEGER; 9])), 1);

    let parameters = Preset::find("insecure_n11_linear_depth4_scale30").unwrap().build().unwrap();
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = Arc::new(SecretKey::generate(parameters.rlwe(), &mut rng).unwrap());
    let encryptor = Encryptor::new(&parameters, ClientKey::Secret(Arc::clone(&secret)), Needs::default()).unwrap();
    let encoder = Encoder::new(&parameters);
    // All slots are equal, so the first coefficient is the value times the scale.
    let (values, level) = (vec![Complex64::from(VALUE); parameters.slots()], parameters.max_level());
    let real = vec![VALUE; parameters.slots()];
    let mut sent = None;
    assert_eq!(leaks(|| sent = Some(encryptor.encrypt_at(&values, level, SCALE).unwrap())), 0, "encrypt");
    assert_eq!(leaks(|| drop(encoder.encode_real(&real, level, SCALE).unwrap())), 0, "encode");
    assert_eq!(leaks(|| drop(encoder.encode(&values[..1], level, SCALE).unwrap())), 0, "encode a constant");
    encoding_takes_one_way(&encoder);
    let received = sent.unwrap().expand(&parameters);
    let opened = leaks(|| {
        let slots = encoder.decrypt(&received, &secret).unwrap();
        assert!((slots[0].re - VALUE).abs() < 1e-3);
    });
    assert_eq!(opened, 0, "decrypt");
    let coefficients = leaks(|| {
        let poly = secret.decrypt(received.inner()).unwrap();
        let coefficients = encoder.decode_coefficients(&poly, 1.0).unwrap();
        assert!((coefficients[0] / SCALE - VALUE).abs() < 1e-3);
    });
    assert_eq!(coefficients, 0, "decode coefficients");

    for scheme in [Scheme::Bfv, Scheme::Bgv] {
        let parameters = unspoken_exact::Preset::find("insecure_n10_exact17").unwrap().build(scheme).unwrap();
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        let encoder = unspoken_exact::Encoder::new(&parameters);
        let values = vec![INTEGER; parameters.slots()];
        let mut sent = None;
        let encrypted = leaks(|| {
            let plaintexts = [encoder.encode_slots(&values).unwrap(), encoder.encode_coefficients(&values).unwrap()];
            sent = Some(plaintexts.map(|plaintext| encoder.encrypt(&plaintext, &secret, &mut rng).unwrap()));
        });
        assert_eq!(encrypted, 0, "{scheme}: encrypt");
        let [slots, coefficients] = sent.unwrap().map(|sent| sent.expand().unwrap());
        let opened = leaks(|| {
            let slots = encoder.decode_slots(&encoder.decrypt(&slots, &secret).unwrap()).unwrap();
            let plaintext = encoder.decrypt(&coefficients, &secret).unwrap();
            assert_eq!((slots[5], encoder.decode_coefficients(&plaintext).unwrap()[5]), (INTEGER, INTEGER));
        });
        assert_eq!(opened, 0, "{scheme}: decrypt");
    }
}
