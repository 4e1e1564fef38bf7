//! Tests of the values that transforms and samplers leave on the stack, read from the memory of a thread that has
//! ended.

#![expect(unsafe_code, reason = "a thread whose stack is read after it has ended")]

use std::ffi::c_void;

use crate::modular::primes_descending;
use crate::{Backend, Basis, Ring, RingKind, RingLiteral, SecretRng, derive_bytes};

const STACK_BYTES: usize = 1 << 20;

/// Runs `work` in a thread whose stack is zero at the start, and returns the words of the stack afterwards.
fn stack_after(work: impl FnOnce() + Send) -> Vec<u32> {
    extern "C" fn start<F: FnOnce()>(work: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer is to an `Option<F>` that outlives the thread and that no other thread accesses in the
        // meantime.
        if let Some(work) = unsafe { (*work.cast::<Option<F>>()).take() } {
            work();
        }
        std::ptr::null_mut()
    }
    fn start_of<F: FnOnce()>(_: &Option<F>) -> extern "C" fn(*mut c_void) -> *mut c_void {
        start::<F>
    }
    let mut work = Some(work);
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    // SAFETY: the attributes are initialised before they are used; the stack and `work` outlive the thread, which is
    // joined before anything else accesses them.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack.as_mut_ptr().cast(), STACK_BYTES), 0);
        let mut thread = std::mem::zeroed();
        let entry = start_of(&work);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, entry, (&raw mut work).cast()), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        libc::pthread_attr_destroy(&mut attributes);
    }
    stack.iter().flat_map(|word| [0, 32, 64, 96].map(|shift| (word >> shift) as u32)).collect()
}

/// The longest run of words that are all below `bound` and not zero.
fn longest_run(words: &[u32], bound: u32) -> usize {
    let runs = words.split(|&word| word == 0 || word >= bound);
    runs.map(<[u32]>::len).max().unwrap_or(0)
}

#[test]
fn the_stack_of_a_thread_is_seen() {
    let left = stack_after(|| {
        std::hint::black_box([7u32; 1000]);
    });
    assert!(longest_run(&left, 8) >= 1000);
}

#[test]
fn transforms_leave_no_tile_on_the_stack() {
    const DEGREE: usize = 1 << 16;
    for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
        let chain = primes_descending(1 << 28, 1 << 29, 1 << 17).take(1).collect();
        let literal = RingLiteral {
            degree: DEGREE,
            kind: RingKind::Standard,
            chain,
            terminal: vec![],
            special: vec![],
            digit_len: 1,
        };
        let ring = Ring::new(literal, backend).unwrap();
        let mut poly = ring.from_i32(&SecretRng::insecure_from_seed(1).ternary(DEGREE), Basis::chain(1)).unwrap();
        poly.mark_secret();
        for direction in ["forward", "inverse"] {
            let left = stack_after(|| match direction {
                "forward" => ring.to_evaluation(&mut poly).unwrap(),
                _ => ring.to_coefficients(&mut poly).unwrap(),
            });
            // A tile has 4096 residues below four times the prime, which is below 2^31. A pointer has a word outside
            // that range.
            let run = longest_run(&left, 1 << 31);
            assert!(run < 64, "{backend:?}, {direction}: {run} residues");
        }
    }
}

#[test]
fn samplers_leave_no_draws_on_the_stack() {
    let mut rng = SecretRng::insecure_from_seed(2);
    // Draws are words of all values. The other data of functions on the stack contains many zeros.
    let run = longest_run(&stack_after(|| drop(rng.gaussian(5000))), u32::MAX);
    assert!(run < 24, "{run} words of draws");
    for (what, draw) in [
        ("ternary", SecretRng::ternary as fn(&mut SecretRng, usize) -> _),
        ("binary", SecretRng::binary),
        ("sparse", |rng, n| rng.sparse_ternary(n, n / 2)),
    ] {
        let run = longest_run(&stack_after(|| drop(draw(&mut rng, 5000))), u32::MAX);
        assert!(run < 24, "{what}: {run} words");
    }
}

#[test]
fn keys_leave_no_copy_on_the_stack() {
    let secret: [u8; 32] = std::array::from_fn(|i| 0x61 + i as u8);
    let holds = |words: &[u32], bytes: &[u8]| {
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // Half of the bytes count as a copy, too.
        stack.windows(16).any(|window| window == &bytes[..16] || window == &bytes[16..])
    };
    let mut derived = [0; 32];
    derive_bytes("a label", &[&secret], &mut derived);
    let boxed = Box::new(secret);
    let mut kept = None;
    let left = stack_after(|| kept = Some(SecretRng::derived("a label", &[boxed.as_slice()])));
    assert!(!holds(&left, &secret) && !holds(&left, &derived));
    // Moving a generator moves a pointer.
    let left = stack_after(|| {
        let moved = std::hint::black_box(kept.take());
        std::hint::black_box((moved, [0u8; 64]));
    });
    assert!(!holds(&left, &derived));
}
