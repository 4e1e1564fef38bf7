//! Client requests to valgrind's memcheck: a program asks the tool that runs it to mark memory.
//!
//! Outside valgrind a request does nothing. The crate `crabgrind` has the same requests, but builds need valgrind's
//! headers and libclang.

#![expect(unsafe_code, reason = "the instruction sequence of a valgrind client request")]

/// Codes of requests, from `valgrind/valgrind.h` and `valgrind/memcheck.h`.
const RUNNING_ON_VALGRIND: usize = 0x1001;
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Whether valgrind runs this process.
pub fn is_running() -> bool {
    request([RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) != 0
}

/// Marks values as undefined: memcheck reports every branch and every address that depends on them.
pub fn mark_secret<T: Copy>(values: &mut [T]) {
    let (address, bytes) = (values.as_mut_ptr() as usize, size_of_val(values));
    request([MAKE_MEM_UNDEFINED, address, bytes, 0, 0, 0]);
}

/// Marks values as defined: they are no longer secret. What they point to stays as it is.
pub fn mark_public<T>(values: &mut [T]) {
    let (address, bytes) = (values.as_mut_ptr() as usize, size_of_val(values));
    request([MAKE_MEM_DEFINED, address, bytes, 0, 0, 0]);
}

/// Sends a request; returns 0 outside valgrind.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn request(words: [usize; 6]) -> usize {
    let mut result = 0usize;
    // SAFETY: the rotations sum to 128 bits, so they restore the register, and the exchange of a register with itself
    // does nothing: this is the sequence of `valgrind.h` for this architecture. Valgrind reads the six words and writes
    // the result register. The memory that a request marks keeps its content.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") result,
            inout("rdi") 0usize => _,
            options(nostack),
        );
    }
    result
}

/// Valgrind's requests are implemented for x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
fn request(_: [usize; 6]) -> usize {
    0
}
