//! A client half whose bytes the caller moves, as programs in C and pages do.

use std::any::Any;
use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client_half::{ApplicationDescription, ClientHalf};

/// Counts the descriptions that the clients of this process read.
static DESCRIPTIONS: AtomicU64 = AtomicU64::new(0);

/// Why a call of an [`OpenedHalf`] failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenedError<E> {
    /// There are no questions, or too many.
    #[error("number of questions: found {found}, needed 1 to {most}")]
    Questions {
        /// Number of questions.
        found: usize,
        /// Maximum number.
        most: usize,
    },
    /// An answer is longer than the description allows.
    #[error("answer: found {found} bytes, needed at most {most} bytes")]
    TooLong {
        /// Bytes of the answer.
        found: usize,
        /// Maximum number.
        most: usize,
    },
    /// A request cannot be read with this description and this secret.
    #[error(
        "request: found one of another client, or of an earlier description, needed one that this client made; ask \
         again"
    )]
    OtherRequest,
    /// A newer description has other parameters, which need other keys.
    #[error("parameters: found other ones, needed those of before; open another client, with a new secret")]
    OtherParameters,
    /// The application refuses.
    #[error(transparent)]
    Application(#[from] E),
}

/// A client half, and what it needs to take up a newer description. The caller moves and stores all bytes.
pub struct OpenedHalf<H: ClientHalf> {
    half: H,
    model: H::Model,
    accept_insecure: bool,
    is_restored: bool,
    /// The number of the description.
    description: u64,
}

/// Questions, and the bytes to send.
pub struct HalfRequest<H: ClientHalf> {
    description: u64,
    encoded: Vec<H::Encoded>,
    /// The query to send.
    pub bytes: Vec<u8>,
    /// Maximum length of the answer in bytes.
    pub answer_bytes: usize,
}

impl<H: ClientHalf> HalfRequest<H> {
    /// Number of questions.
    pub fn questions(&self) -> usize {
        self.encoded.len()
    }
}

/// A [`HalfRequest`] without the type of its application.
pub struct AnyRequest {
    /// The [`HalfRequest`], whose bytes were taken.
    request: Box<dyn Any + Send + Sync>,
    /// The query to send.
    pub bytes: Vec<u8>,
    /// Maximum length of the answer in bytes.
    pub answer_bytes: usize,
}

impl AnyRequest {
    /// The request of this application. [`OpenedHalf`] refuses one of another client of the same application.
    ///
    /// # Errors
    /// If it is of another application.
    pub fn of<H: ClientHalf + 'static>(&self) -> Result<&HalfRequest<H>, OpenedError<H::Error>> {
        self.request.downcast_ref().ok_or(OpenedError::OtherRequest)
    }
}

impl<H: ClientHalf<Encoded: Send + Sync> + 'static> From<HalfRequest<H>> for AnyRequest {
    fn from(mut request: HalfRequest<H>) -> Self {
        let (bytes, answer_bytes) = (std::mem::take(&mut request.bytes), request.answer_bytes);
        AnyRequest { request: Box::new(request), bytes, answer_bytes }
    }
}

impl<H: ClientHalf> OpenedHalf<H> {
    /// Opens the half of an application with a stored secret or with a new one. The description is refused if it must
    /// not follow the `earlier` description that this client accepted, because it would reveal something. A stored
    /// secret is used only if it has the parameters of the earlier description.
    ///
    /// # Errors
    /// If the description is malformed or refused, or the model or the secret does not match it.
    pub fn open(
        description: &[u8],
        model: H::Model,
        (stored, earlier): (Option<&[u8]>, Option<&[u8]>),
        accept_insecure: bool,
    ) -> Result<Self, H::Error> {
        let mut description = H::Description::read(description, accept_insecure)?;
        // An earlier one that cannot be read belongs to another version.
        let earlier = earlier.and_then(|earlier| H::Description::read(earlier, accept_insecure).ok());
        let mut stored = stored;
        if let Some(earlier) = &earlier {
            H::check_change(earlier, &description)?;
            description.keep_from(earlier);
            let name = |description: &H::Description| H::secret_name(description, &model);
            stored = stored.filter(|_| name(earlier) == name(&description));
        }
        let half = H::open(description, model.clone(), stored)?;
        if stored.is_none() {
            half.begin()?;
        }
        Ok(OpenedHalf { half, model, accept_insecure, is_restored: stored.is_some(), description: next_description() })
    }

    /// Takes up a newer description of the same service. Requests of the earlier one can no longer be read.
    ///
    /// # Errors
    /// If the description is malformed, has other parameters, or must not follow the one of before.
    pub fn update(&mut self, description: &[u8]) -> Result<(), OpenedError<H::Error>> {
        let mut now = H::Description::read(description, self.accept_insecure).map_err(H::Error::from)?;
        let name = |description: &H::Description| H::secret_name(description, &self.model);
        if name(&now) != name(self.half.description()) {
            return Err(OpenedError::OtherParameters);
        }
        H::check_change(self.half.description(), &now)?;
        now.keep_from(self.half.description());
        let secret = self.half.secret_bytes().map_err(Into::into)?;
        self.half = H::open(now, self.model.clone(), Some(&secret))?;
        self.description = next_description();
        Ok(())
    }

    /// The client half.
    pub fn half(&self) -> &H {
        &self.half
    }

    /// The client's part of the model, and its options.
    pub fn model(&self) -> &H::Model {
        &self.model
    }

    /// Whether the secret is the stored one.
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// Encodes and encrypts questions.
    ///
    /// # Errors
    /// If a question cannot be asked, or there are none or too many.
    pub fn ask<Q: Borrow<H::Question>>(&mut self, questions: &[Q]) -> Result<HalfRequest<H>, OpenedError<H::Error>> {
        let (found, most) = (questions.len(), self.half.batch());
        if !(1..=most).contains(&found) {
            return Err(OpenedError::Questions { found, most });
        }
        let encoded = self.half.encode(questions)?;
        let bytes = self.half.query(&encoded)?;
        let answer_bytes = self.half.answer_bytes(found);
        Ok(HalfRequest { description: self.description, encoded, bytes, answer_bytes })
    }

    /// Checks everything in the answer to a request that can be checked without the secret.
    ///
    /// # Errors
    /// If the request is not of this client and its description, or the answer is too long or malformed.
    pub fn check_answer(&self, request: &HalfRequest<H>, answer: &[u8]) -> Result<(), OpenedError<H::Error>> {
        if request.description != self.description {
            return Err(OpenedError::OtherRequest);
        }
        // A damaged answer is damaged, whatever its length.
        self.half.check_answer(answer, request.encoded.len())?;
        let (found, most) = (answer.len(), request.answer_bytes);
        if found > most {
            return Err(OpenedError::TooLong { found, most });
        }
        Ok(())
    }

    /// Checks and decrypts the answer to a request, in the order of the questions.
    ///
    /// # Errors
    /// As for [`OpenedHalf::check_answer`], or if what the answer decrypts to cannot be used.
    pub fn read(&self, request: &HalfRequest<H>, answer: &[u8]) -> Result<Vec<H::Answer>, OpenedError<H::Error>> {
        self.check_answer(request, answer)?;
        Ok(self.half.read(answer, &request.encoded)?)
    }
}

fn next_description() -> u64 {
    DESCRIPTIONS.fetch_add(1, Ordering::Relaxed)
}
