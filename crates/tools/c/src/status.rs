//! What functions return.

/// The result of a call. `unspoken_error` has the text of an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnspokenStatus {
    /// The call did what it says.
    Ok = 0,
    /// An argument that must not be NULL is NULL.
    NullPointer = 1,
    /// Another call uses the client. The client's last error belongs to an earlier call.
    Busy = 2,
    /// An argument cannot be used, or the client is not in the state for this call.
    Argument = 3,
    /// Both sides do not match: other versions or parameters, or a request or an answer of another description. This
    /// follows from what the service knows, never from a decrypted answer.
    Mismatch = 4,
    /// A message was damaged on its way. This never follows from a decrypted answer.
    Damaged = 5,
    /// An index of the request does not exist. The service did not learn this: do not ask again because of it.
    NoSuchIndex = 6,
    /// A callback returned an error.
    Callback = 7,
    /// The system has no randomness, or this library has a bug. The client can no longer be used.
    Internal = 8,
    /// The answer was decrypted, and is not one that an honest service gives to these keys: its data are damaged or
    /// forged, or it computed with other keys. Do not ask again because of it, and do not let the service learn it:
    /// whether an answer can be read may depend on the question.
    Unreadable = 9,
}
