//! Pointers of the caller, checked as far as they can be, and calls on the client that a handle stands for.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use crate::client::{Opened, UnspokenClient};
use crate::failure::Failure;
use crate::status::UnspokenStatus;

/// Runs `work` on what a client is, and keeps its error.
///
/// # Safety
/// `client` is null or valid.
pub(crate) unsafe fn run(
    client: *const UnspokenClient,
    work: impl FnOnce(&mut Option<Opened>) -> Result<(), Failure>,
) -> UnspokenStatus {
    // SAFETY: the caller's promise. Only shared references to clients exist; their state is behind a lock.
    match unsafe { client.as_ref() } {
        Some(client) => catch_unwind(AssertUnwindSafe(|| client.run(work))).unwrap_or(UnspokenStatus::Internal),
        None => UnspokenStatus::NullPointer,
    }
}

/// As [`run`], with a client that is open.
///
/// # Safety
/// As [`run`].
pub(crate) unsafe fn run_opened(
    client: *const UnspokenClient,
    work: impl FnOnce(&mut Opened) -> Result<(), Failure>,
) -> UnspokenStatus {
    // SAFETY: the caller's promise.
    unsafe { run(client, |opened| work(opened.as_mut().ok_or(Failure::NotOpen)?)) }
}

/// Frees a handle, which may be null.
///
/// # Safety
/// `handle` is of `Box::into_raw`, not freed yet, and not in use.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's promise. A panic would be a bug in the destructor; it does not get through.
        _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}

/// The status that a call without a client returns.
pub(crate) fn status(result: Result<(), Failure>) -> UnspokenStatus {
    result.map_or_else(|error| error.status(), |()| UnspokenStatus::Ok)
}

/// Refuses a null pointer.
pub(crate) fn check<T>(argument: &'static str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() { Err(Failure::Null { argument }) } else { Ok(()) }
}

/// The `count` values at a pointer.
///
/// # Safety
/// The pointer is null, or the values are there for `'a`.
pub(crate) unsafe fn array<'a, T>(argument: &'static str, pointer: *const T, count: usize) -> Result<&'a [T], Failure> {
    check(argument, pointer)?;
    if count > isize::MAX as usize / size_of::<T>() {
        let needed = "as many as fit into memory".to_owned();
        return Err(Failure::Argument { what: argument, found: format!("a length of {count}"), needed });
    }
    // SAFETY: the caller's promise; the length in bytes is at most `isize::MAX`.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// The `length` bytes at a pointer.
///
/// # Safety
/// As [`array`].
pub(crate) unsafe fn bytes<'a>(argument: &'static str, pointer: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { array(argument, pointer, length) }
}

/// Writes a value to a pointer.
///
/// # Safety
/// The pointer is null or valid.
pub(crate) unsafe fn store<T>(argument: &'static str, pointer: *mut T, value: T) -> Result<(), Failure> {
    check(argument, pointer)?;
    // SAFETY: the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes where a slice is, and its length.
///
/// # Safety
/// Both pointers are null or valid.
pub(crate) unsafe fn store_slice(slice: &[u8], bytes: *mut *const u8, length: *mut usize) -> UnspokenStatus {
    if bytes.is_null() || length.is_null() {
        return UnspokenStatus::NullPointer;
    }
    // SAFETY: the caller's promise.
    unsafe {
        bytes.write(slice.as_ptr());
        length.write(slice.len());
    }
    UnspokenStatus::Ok
}

/// Makes a handle of a value, which the function for it frees.
///
/// # Safety
/// The pointer is null or valid.
pub(crate) unsafe fn hand_out<T>(argument: &'static str, pointer: *mut *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { store(argument, pointer, Box::into_raw(Box::new(value))) }
}

/// Writes where a slice is, and its length; null and 0 if there is none.
///
/// # Safety
/// Both pointers are null or valid.
pub(crate) unsafe fn store_optional(slice: Option<&[u8]>, bytes: *mut *const u8, length: *mut usize) -> UnspokenStatus {
    // SAFETY: the caller's promise.
    unsafe {
        match slice {
            Some(slice) => store_slice(slice, bytes, length),
            None if bytes.is_null() || length.is_null() => UnspokenStatus::NullPointer,
            None => {
                bytes.write(ptr::null());
                length.write(0);
                UnspokenStatus::Ok
            }
        }
    }
}

/// Copies a text and a 0.
///
/// # Safety
/// The buffer is null, or has room for `capacity` bytes.
pub(crate) unsafe fn copy_text(
    argument: &'static str,
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
) -> Result<(), Failure> {
    check(argument, buffer)?;
    if text.len() >= capacity {
        let (found, needed) = (format!("room for {capacity} bytes"), format!("{}", text.len() + 1));
        return Err(Failure::Argument { what: argument, found, needed });
    }
    // SAFETY: the caller's promise, and the text is shorter than the room.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}
