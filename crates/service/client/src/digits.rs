//! Asking a recogniser of handwritten digits: images in and digits out.

use unspoken_digits::{ImageAsker, Recognised};
use unspoken_digits_model::Image;
use unspoken_protocol::ClientHalf;

use crate::client::{Asks, Client};
use crate::session::{ClientError, Step, Watch};
use crate::transport::Cancel;

/// A client of one recogniser of one service. It needs no part of the network.
pub type DigitsClient = Client<ImageAsker>;

impl DigitsClient {
    /// Recognises digits without showing the images: as many queries as their number takes.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again.
    pub fn recognise(
        &mut self,
        images: &[Image],
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Vec<Recognised>, ClientError> {
        self.ask(images, &mut Watch { progress, cancel }, &mut |_| {})
    }
}

impl Asks<Image> for ImageAsker {
    const WORK: &'static str = "recognising";
    type Answer = Recognised;

    fn batch(&self) -> usize {
        self.description().batch()
    }

    fn query(&mut self, questions: &[Image]) -> Result<Vec<u8>, Self::Error> {
        ImageAsker::query(self, questions)
    }

    fn read(&self, answer: &[u8], questions: &[Image]) -> Result<Vec<Recognised>, Self::Error> {
        ImageAsker::read(self, answer, questions.len())
    }
}
