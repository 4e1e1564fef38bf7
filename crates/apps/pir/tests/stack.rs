//! What a client of private retrieval leaves on the stack: nothing of its secret key, although the client is moved.

#![expect(unsafe_code, reason = "a thread whose stack is read after it has ended")]

use std::ffi::c_void;
use std::io;

use unspoken_pir::{Description, PirClient, PirOptions, Question};
use unspoken_pir_scheme::{Layout, Length, Mode, Preset, TableKind, Tables};
use unspoken_protocol::{ClientHalf, DurableCounters, KeyGenerator};

const STACK_BYTES: usize = 8 << 20;

/// Runs `work` in a thread whose stack is zero at the start, and returns the stack afterwards.
fn stack_after(work: impl FnOnce() + Send) -> Vec<u8> {
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
    stack.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Counters in memory.
struct Numbers;

impl DurableCounters for Numbers {
    fn start(&self, _: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
        Ok(0)
    }
}

/// Number of places with eight bytes in a row of the key.
fn places(stack: &[u8], key: &[u8]) -> usize {
    let part = |window: &[u8]| key.windows(8).any(|part| part == window);
    stack.windows(8).filter(|window| window[0] != 0 && part(window)).count()
}

/// A key without repeated bytes.
fn key() -> Vec<u8> {
    (0..32u8).map(|i| 0x91 ^ i.wrapping_mul(37)).collect()
}

#[test]
fn a_key_on_the_stack_is_seen() {
    let key = key();
    let copied = stack_after(|| copy_below(&key, 100));
    assert!(places(&copied, &key) > 0);
}

/// Copies a key far below the frames that the end of a thread overwrites.
#[inline(never)]
fn copy_below(key: &[u8], frames: usize) {
    if frames > 0 {
        copy_below(key, std::hint::black_box(frames) - 1);
        std::hint::black_box(frames);
        return;
    }
    let copy: [u8; 32] = key.try_into().unwrap();
    std::hint::black_box(&copy);
}

#[test]
fn a_moved_client_leaves_nothing_of_its_key_on_the_stack() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let layout = Layout::Index { records: 50, length: Length::Fixed(20) };
    let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
    let description = Description::new(&tables).unwrap();
    let key = key();
    for mode in [Mode::Session, Mode::Packed] {
        let left = stack_after(|| {
            let options = PirOptions::new(mode, Numbers);
            let client = PirClient::open(description.clone(), options, Some(&key)).unwrap();
            // Moved to the heap, and back.
            let mut client = *std::hint::black_box(Box::new(client));
            let encoded = client.encode(&[Question::Index(7)]).unwrap();
            assert!(!client.query(&encoded).unwrap().is_empty());
            assert_eq!(client.secret_bytes().unwrap().as_slice(), key);
        });
        assert_eq!(places(&left, &key), 0, "{mode} queries");
    }
}
