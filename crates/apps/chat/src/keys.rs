//! Key bundles: the switching keys, then the keys of the small ring.

use std::io::{self, Read};

use unspoken_protocol::{CkksDescription, ProtocolError};
use unspoken_rlwe::{
    EvaluationKeys, FORMAT_VERSION, KeyBundle, KeyPlan, KeyStorage, MAX_BUNDLE_KEYS, RlweError, SeededSmallRingKeys,
    SmallRingKeys,
};

use crate::description::Description;

/// The keys of one client.
pub struct ChatKeys {
    /// The switching keys.
    pub(crate) evaluation: EvaluationKeys,
    /// The keys of products on coefficients.
    pub(crate) small: SmallRingKeys,
}

/// Version of the format of bundles.
pub(crate) const KEY_FORMAT: u32 = FORMAT_VERSION as u32;

/// Bytes at the start of a bundle from which its size in memory is known.
pub(crate) const FRONT_BYTES: usize = KeyBundle::most_plan_bytes(MAX_BUNDLE_KEYS);

/// Bytes of a bundle with the keys of a plan.
pub(crate) fn bundle_bytes(description: &Description, plan: &KeyPlan) -> u64 {
    let small = SeededSmallRingKeys::byte_len(description.small_ring());
    KeyBundle::byte_len(description.parameters().rlwe(), plan) + small as u64
}

/// Bytes in memory of the keys of a plan and of the small ring.
pub(crate) fn memory_bytes(description: &Description, plan: &KeyPlan, storage: KeyStorage) -> u64 {
    plan.stored_bytes(description.parameters().ring(), storage) + SmallRingKeys::memory_bytes(description.small_ring())
}

/// Reads the plan at the start of a bundle and returns the bytes of memory of its keys.
pub(crate) fn loaded_bytes(description: &Description, front: &[u8], storage: KeyStorage) -> Result<u64, ProtocolError> {
    let parameters = description.parameters();
    let mut plan = KeyBundle::read_plan(parameters.rlwe(), &mut &front[..])?;
    check_covered(description, &plan)?;
    // The bundle does not say which of its keys are used in their short form, but the application does.
    plan.extend(description.header().key_plan());
    Ok(memory_bytes(description, &plan, storage))
}

/// Refuses a bundle that lacks a key.
fn check_covered(description: &Description, plan: &KeyPlan) -> Result<(), ProtocolError> {
    let needed = description.header().key_plan();
    let mut missing = needed.iter().filter(|&(kind, chain)| !plan.covers_key(kind, chain));
    let Some((first, _)) = missing.next() else { return Ok(()) };
    let found =
        format!("a bundle of {} keys, without {} that are needed: {first}, ..", plan.len(), 1 + missing.count());
    let needed = format!("all {} of the description; read it again and upload new keys", needed.len());
    Err(ProtocolError::mismatch("key bundle", found, needed))
}

/// Reads a bundle of untrusted bytes.
pub(crate) fn read(
    description: &Description,
    storage: KeyStorage,
    bundle: &mut impl Read,
) -> Result<ChatKeys, ProtocolError> {
    let parameters = description.parameters();
    let mut copied = Copied { input: &mut *bundle, bytes: Vec::new() };
    let plan = KeyBundle::read_plan(parameters.rlwe(), &mut copied)?;
    let front = copied.bytes;
    check_covered(description, &plan)?;
    let rest = KeyBundle::byte_len(parameters.rlwe(), &plan) - front.len() as u64;
    let mut first = front.as_slice().chain(bundle.by_ref().take(rest));
    let evaluation = KeyBundle::read(parameters.rlwe(), storage, &mut first)?;
    check(description, &evaluation)?;
    evaluation.prepare(parameters.ring(), description.header().key_plan())?;

    let ring = description.small_ring();
    // The length follows from the description, which this side has made.
    let mut bytes = vec![0; SeededSmallRingKeys::byte_len(ring)];
    bundle.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let needed = format!("{} bytes after the switching keys; upload new keys", bytes.len());
            ProtocolError::mismatch("keys of the small ring", "the end of the bundle", needed)
        }
        _ => RlweError::Io(error).into(),
    })?;
    let small = SeededSmallRingKeys::from_bytes(ring, &bytes)?.expand(ring)?;
    match bundle.read(&mut [0]).map_err(RlweError::Io)? {
        0 => Ok(ChatKeys { evaluation, small }),
        _ => Err(ProtocolError::mismatch("key bundle", "bytes after its end", "keys and nothing else")),
    }
}

/// Names the keys that are missing.
pub(crate) fn check(description: &Description, keys: &EvaluationKeys) -> Result<(), ProtocolError> {
    Ok(keys.check("private text generation", description.header().key_plan())?)
}

/// Keeps a copy of what is read.
struct Copied<'a, R> {
    input: &'a mut R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for Copied<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes.extend(&buffer[..count]);
        Ok(count)
    }
}
