//! Parts of passes as messages between processes of one service.
//!
//! With `Call::helpers` other servers of the same model, with the keys of the same client, compute parts of a pass
//! (`compute_part`): a `Part` message has the public tokens, the place of the pass, what is computed, and ciphertexts.
//! Helpers have no sessions. Parts come from processes of the same service; they are checked so that a mistake is
//! named, not against an attacker.

use prost::Message;
use unspoken_ckks::{Ciphertext, CkksError, CkksParameters};
use unspoken_encrypted_llama::{Helpers, Part, PartTask};
use unspoken_llama::{Place, Quantity};
use unspoken_protocol::{AnswerHelpers, ProtocolError};

use crate::error::ChatError;
use crate::message::{token_bytes, tokens_of};
use crate::proto;

/// The session and the chunk that a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartOf<'a> {
    /// The public tokens, without the prefix.
    pub tokens: &'a [u32],
    /// The chunk of the pass.
    pub chunk: usize,
    /// Chunks that the session has room for.
    pub chunks: usize,
}

/// A part that was received.
#[derive(Debug)]
pub(crate) struct Received {
    pub tokens: Vec<u32>,
    pub chunk: usize,
    pub chunks: usize,
    pub part: Part<Ciphertext>,
}

/// Serialises a part.
///
/// # Errors
/// If the device that has a vector failed.
pub(crate) fn to_bytes(
    parameters: &CkksParameters,
    of: PartOf<'_>,
    part: &Part<Ciphertext>,
) -> Result<Vec<u8>, ChatError> {
    use proto::part::Task as Kind;
    let place = |place: &Place| proto::ValuePlace { layer: place.layer as u32, quantity: place.quantity.to_string() };
    let task = match &part.task {
        PartTask::Refresh => Kind::Refresh(proto::RefreshTask {}),
        PartTask::Coefficients => Kind::Coefficients(proto::CoefficientsTask {}),
        PartTask::Product { places, outputs, scale } => Kind::Product(proto::ProductTask {
            places: places.iter().map(place).collect(),
            first: outputs.start as u32,
            end: outputs.end as u32,
            scale: *scale,
        }),
        PartTask::Function { place: at, index } => {
            Kind::Function(proto::PlacedVector { place: Some(place(at)), index: *index as u32 })
        }
        PartTask::Heads { layer, block, step } => {
            Kind::Heads(proto::HeadsTask { layer: *layer as u32, block: *block as u32, step: *step as u32 })
        }
    };
    let message = proto::Part {
        public_tokens: token_bytes(of.tokens),
        chunk: of.chunk as u32,
        chunks: of.chunks as u32,
        task: Some(task),
        vectors: vector_bytes(parameters, &part.vectors)?,
    };
    Ok(message.encode_to_vec())
}

/// Reads a part of a model whose softmax has `rounds` rounds.
///
/// # Errors
/// If the bytes are no part, or vectors are of other parameters.
pub(crate) fn from_bytes(parameters: &CkksParameters, rounds: u8, bytes: &[u8]) -> Result<Received, ChatError> {
    use proto::part::Task as Kind;
    let malformed = |found: String| ChatError::mismatch("part of a pass", found, "one of the same version");
    let message = proto::Part::decode(bytes).map_err(|error| malformed(error.to_string()))?;
    let place = |place: &proto::ValuePlace| {
        let quantity = Quantity::all(rounds).find(|quantity| quantity.to_string() == place.quantity);
        let quantity = quantity.ok_or_else(|| malformed(format!("the place {:?}", place.quantity)))?;
        Ok::<_, ChatError>(Place::new(place.layer as usize, quantity))
    };
    let task = match message.task {
        Some(Kind::Refresh(_)) => PartTask::Refresh,
        Some(Kind::Coefficients(_)) => PartTask::Coefficients,
        Some(Kind::Product(proto::ProductTask { places, first, end, scale })) => PartTask::Product {
            places: places.iter().map(place).collect::<Result<_, _>>()?,
            outputs: first as usize..end as usize,
            scale,
        },
        Some(Kind::Function(proto::PlacedVector { place: Some(at), index })) => {
            PartTask::Function { place: place(&at)?, index: index as usize }
        }
        Some(Kind::Heads(proto::HeadsTask { layer, block, step })) => {
            PartTask::Heads { layer: layer as usize, block: block as usize, step: step as usize }
        }
        Some(Kind::Function(_)) | None => return Err(malformed("no task".into())),
    };
    let tokens = tokens_of(&message.public_tokens)
        .ok_or_else(|| malformed(format!("{} bytes of public tokens", message.public_tokens.len())))?;
    Ok(Received {
        tokens,
        chunk: message.chunk as usize,
        chunks: message.chunks as usize,
        part: Part { task, vectors: ciphertexts(parameters, &message.vectors)? },
    })
}

fn ciphertexts(parameters: &CkksParameters, vectors: &[Vec<u8>]) -> Result<Vec<Ciphertext>, ChatError> {
    let read = |bytes: &Vec<u8>| Ciphertext::from_bytes(parameters, bytes);
    Ok(vectors.iter().map(read).collect::<Result<_, _>>().map_err(ProtocolError::from)?)
}

fn vector_bytes(parameters: &CkksParameters, vectors: &[Ciphertext]) -> Result<Vec<Vec<u8>>, ChatError> {
    let write = |vector: &Ciphertext| Ok(vector.fetched(parameters)?.to_bytes(parameters));
    Ok(vectors.iter().map(write).collect::<Result<_, CkksError>>().map_err(ProtocolError::from)?)
}

/// Serialises the result of a part.
///
/// # Errors
/// If the device that has a vector failed.
pub(crate) fn result_to_bytes(parameters: &CkksParameters, vectors: &[Ciphertext]) -> Result<Vec<u8>, ChatError> {
    Ok(proto::PartResult { vectors: vector_bytes(parameters, vectors)? }.encode_to_vec())
}

/// Reads the result of a part.
fn result_from_bytes(parameters: &CkksParameters, bytes: &[u8]) -> Result<Vec<Ciphertext>, ChatError> {
    let result = proto::PartResult::decode(bytes)
        .map_err(|error| ChatError::mismatch("result of a part", error, "one of the same version"))?;
    ciphertexts(parameters, &result.vectors)
}

/// Helpers of a pass, which get parts as bytes.
pub(crate) struct RemoteHelpers<'a> {
    pub helpers: &'a dyn AnswerHelpers,
    pub parameters: &'a CkksParameters,
    pub of: PartOf<'a>,
}

impl Helpers for RemoteHelpers<'_> {
    fn count(&self) -> usize {
        self.helpers.count()
    }

    fn compute(&self, helper: usize, part: &Part<Ciphertext>) -> Option<Vec<Ciphertext>> {
        let sent = to_bytes(self.parameters, self.of, part)
            .inspect_err(|error| tracing::warn!(%error, "a part cannot be sent to a helper; it is computed here"));
        let result = self.helpers.compute(helper, &sent.ok()?)?;
        result_from_bytes(self.parameters, &result)
            .inspect_err(
                |error| tracing::warn!(helper, %error, "a helper's result cannot be used; the part is computed here"),
            )
            .ok()
    }
}
