//! Server halves of all types as one type.

use std::any::Any;
use std::io::Read;
use std::sync::Arc;

use unspoken_protocol::{
    ApplicationError, Call, ErrorKind, Group, KeyLimits, KeyLoader, KeySetId, Limits, PlainError, Request, ServerHalf,
};

/// The loaded keys of a client, of any application.
#[derive(Clone)]
pub struct LoadedKeys(Arc<dyn Any + Send + Sync>);

/// The server half of any application. Errors have the kinds and texts of its own. Answers are computed on the threads
/// of the pool, so that parallel work does not switch threads at every step, or on the calling thread if they wait for
/// others.
pub type AnyServerHalf = dyn ServerHalf<Keys = LoadedKeys, KeyError = PlainError, Error = PlainError>;

/// A server half as an [`AnyServerHalf`].
pub(crate) struct Untyped<H> {
    pub(crate) half: H,
    pub(crate) waits_for_others: bool,
}

impl<H: ServerHalf> Untyped<H> {
    fn in_place<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        if self.waits_for_others { work() } else { rayon::scope(|_| work()) }
    }
}

impl LoadedKeys {
    pub(crate) fn new(keys: impl Send + Sync + 'static) -> Self {
        LoadedKeys(Arc::new(keys))
    }

    /// The keys, if they are of this type.
    fn typed<K: 'static>(&self) -> Result<&K, PlainError> {
        let other = "keys of another type were passed: two key sets have one id";
        self.0.downcast_ref().ok_or_else(|| PlainError::new(ErrorKind::Internal, other))
    }
}

fn typed<'a, K: 'static>(request: &Request<'a, LoadedKeys>) -> Result<Request<'a, K>, PlainError> {
    Ok(Request::new(request.client, request.keys.typed()?, request.query))
}

fn plain<T>(result: Result<T, impl ApplicationError>) -> Result<T, PlainError> {
    result.map_err(|error| PlainError::of(&error))
}

impl<H: ServerHalf> KeyLoader for Untyped<H> {
    type Keys = LoadedKeys;
    type KeyError = PlainError;

    fn key_set(&self) -> KeySetId {
        self.half.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        self.half.key_limits()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PlainError> {
        plain(self.half.loaded_key_bytes(front))
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<LoadedKeys, PlainError> {
        plain(self.half.load_keys(bundle)).map(LoadedKeys::new)
    }

    fn check_keys(&self, keys: &LoadedKeys) -> Result<(), PlainError> {
        plain(self.half.check_keys(keys.typed()?))
    }
}

impl<H: ServerHalf> ServerHalf for Untyped<H> {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        self.half.describe()
    }

    fn limits(&self) -> Limits {
        self.half.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.half.prepared_bytes()
    }

    fn check_ready(&self) -> Result<(), PlainError> {
        plain(self.half.check_ready())
    }

    fn release_idle_memory(&self) {
        self.half.release_idle_memory();
    }

    fn answer(&self, request: &Request<'_, LoadedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        let request = typed(request)?;
        plain(self.in_place(|| self.half.answer(&request, call)))
    }

    /// Requests with keys of another type are refused when they are answered.
    fn group(&self, request: &Request<'_, LoadedKeys>) -> Group {
        typed(request).map_or(Group::ALONE, |request| self.half.group(&request))
    }

    fn answer_together(
        &self,
        requests: &[Request<'_, LoadedKeys>],
        call: &Call<'_>,
    ) -> Vec<Result<Vec<u8>, PlainError>> {
        match requests.iter().map(typed).collect::<Result<Vec<_>, _>>() {
            Ok(typed) => self.in_place(|| self.half.answer_together(&typed, call)).into_iter().map(plain).collect(),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn compute_part(&self, keys: &LoadedKeys, part: &[u8], call: &Call<'_>) -> Option<Result<Vec<u8>, PlainError>> {
        match keys.typed() {
            Ok(keys) => self.in_place(|| self.half.compute_part(keys, part, call)).map(plain),
            Err(error) => Some(Err(error)),
        }
    }
}
