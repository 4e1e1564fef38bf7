//! The server half of the application.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Evaluator, vector_bytes};
use unspoken_encrypted_llama::{EncryptedEvaluator, PartTask, PassPlace};
use unspoken_protocol::{
    Call, CkksDescription, KeyLimits, KeyLoader, KeySetId, Limits, ProtocolError, Request, ServerHalf, check_device,
};

use crate::error::ChatError;
use crate::keys::{self, ChatKeys};
use crate::message::{ChatRequest, Reply};
use crate::part;
use crate::server::ChatServer;

impl KeyLoader for ChatServer {
    type Keys = ChatKeys;
    type KeyError = ProtocolError;

    fn key_set(&self) -> KeySetId {
        use unspoken_protocol::ApplicationDescription;
        self.description.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        KeyLimits {
            format: keys::KEY_FORMAT,
            front_bytes: keys::FRONT_BYTES,
            max_bytes: keys::bundle_bytes(&self.description, self.description.header().key_plan()),
            memory_bytes: keys::memory_bytes(&self.description, &self.requirements.keys, self.storage),
        }
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, ProtocolError> {
        keys::loaded_bytes(&self.description, front, self.storage)
    }

    fn load_keys(&self, mut bundle: &mut dyn Read) -> Result<ChatKeys, ProtocolError> {
        keys::read(&self.description, self.storage, &mut bundle)
    }

    fn check_keys(&self, keys: &ChatKeys) -> Result<(), ProtocolError> {
        keys::check(&self.description, &keys.evaluation)
    }
}

impl ServerHalf for ChatServer {
    type Error = ChatError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), ChatError> {
        Ok(check_device(self.description.parameters())?)
    }

    fn limits(&self) -> Limits {
        let (parameters, level) = (self.description.parameters(), self.description.input_level());
        let vectors = self.program.layout().activation_vectors(self.model.config.width) * self.program.layout().parts;
        let inputs = vectors as u64 * vector_bytes(parameters, level);
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: self.description.answer_bytes(),
            // With a copy of the session, on which a pass works.
            working_bytes: self.requirements.working_bytes + self.session_bytes + inputs,
            most_together: 1,
            waits_for_others: false,
        }
    }

    /// With the memory for all sessions, whether they have begun or not.
    fn prepared_bytes(&self) -> u64 {
        let weights = self.model.config.parameters(self.model.weights.head.is_none()) * size_of::<f32>();
        let sessions = self.limits.sessions as u64 * self.session_bytes;
        weights as u64
            + self.program.prepared_bytes()
            + self.first.as_ref().map_or(0, |first| first.lookup.prepared_bytes())
            + self.bootstrapper.prepared_bytes()
            + self.seeds.capacity_bytes()
            + sessions
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(&self, request: &Request<'_, ChatKeys>, call: &Call<'_>) -> Result<Vec<u8>, ChatError> {
        let header = self.description.header();
        let most = 1 + self.description.input_vectors();
        let vectors = header.unpack("query", request.query, self.description.query_bytes(), most)?;
        let Some((control, vectors)) = vectors.split_first() else {
            return Err(ChatError::mismatch("query", "no vectors", "one that says what to do"));
        };
        let asked = ChatRequest::from_bytes(control, self.description.most_public_tokens())?;
        if !matches!(asked, ChatRequest::Pass { .. }) && !vectors.is_empty() {
            let found = format!("{} ciphertexts", vectors.len());
            return Err(ChatError::mismatch("query", found, "none but for a pass"));
        }
        let (reply, logits) = match asked {
            ChatRequest::Begin { session, tokens } => {
                (self.begin(request.client, (session, &tokens), call.cancel)?, Vec::new())
            }
            ChatRequest::Pass { session, chunk } => {
                match self.pass((request.client, request.keys), (session, chunk), vectors, call)? {
                    Some(logits) => (Reply::Passed { chunk }, logits),
                    None => (Reply::Unknown, Vec::new()),
                }
            }
            ChatRequest::End { session } => {
                self.sessions.end(request.client, session)?;
                (Reply::Ended, Vec::new())
            }
        };
        Ok(header.pack([vec![reply.to_bytes()], logits].concat()))
    }

    fn compute_part(&self, keys: &ChatKeys, part: &[u8], call: &Call<'_>) -> Option<Result<Vec<u8>, ChatError>> {
        Some(self.part(keys, part, call.cancel))
    }
}

impl ChatServer {
    /// Computes a part of a pass that another process of this service runs.
    fn part(&self, keys: &ChatKeys, bytes: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ChatError> {
        let parameters = self.description.parameters();
        keys::check(&self.description, &keys.evaluation)?;
        let received = part::from_bytes(parameters, self.program.circuit().rounds(), bytes)?;
        let made = match received.part.task {
            PartTask::Function { .. } | PartTask::Heads { .. } => {
                Some(self.public.get(&received.tokens, || self.public_cache(&received.tokens, cancel))?)
            }
            // Bootstraps and products do not depend on the place of the pass.
            PartTask::Refresh | PartTask::Coefficients | PartTask::Product { .. } => None,
        };
        let public = made.as_deref().unwrap_or(&self.prefix);
        let evaluator = Evaluator::new(&self.encoder, &keys.evaluation).with_cancel(cancel);
        let evaluator = EncryptedEvaluator::new(evaluator, &self.bootstrapper, &keys.small);
        let (chunk, chunks) = (received.chunk, received.chunks);
        let place = PassPlace { program: &self.program, public: public.into(), chunk, chunks };
        part::result_to_bytes(parameters, &place.compute(&evaluator, &received.part)?)
    }
}
