//! The client of an application in this process, and the service that answers all clients with its secret.

use serde_json::{Value, json};
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};

use super::{GO, failed};
use crate::clock::Clock;
use crate::peer::ClientStep;

/// The client and the service.
pub(super) struct Native<'a, S: ServerHalf, C: ClientHalf> {
    server: &'a S,
    keys: <S as KeyLoader>::Keys,
    client: C,
    question: &'a C::Question,
    told: &'a (dyn Fn(&C::Answer) -> Value + Sync),
    /// The last question and its answer.
    asked: Option<(Vec<C::Encoded>, Vec<u8>)>,
    answered: u8,
}

impl<'a, S: ServerHalf, C: ClientHalf> Native<'a, S, C> {
    /// Makes a client with a new secret, and its keys at the service. `told` is what an answer says, in JSON.
    pub(super) fn new(
        server: &'a S,
        model: C::Model,
        question: &'a C::Question,
        told: &'a (dyn Fn(&C::Answer) -> Value + Sync),
    ) -> anyhow::Result<Self> {
        let description = C::Description::read(&server.describe(), false);
        let client = C::open(description.map_err(failed)?, model, None).map_err(failed)?;
        client.begin().map_err(failed)?;
        let mut bundle = Vec::new();
        client.write_keys(&mut bundle, |_, _| (), &GO).map_err(failed)?;
        let keys = server.load_keys(&mut bundle.as_slice()).map_err(failed)?;
        Ok(Native { server, keys, client, question, told, asked: None, answered: 0 })
    }

    /// What another client with the same secret is opened with.
    pub(super) fn opening(&self) -> anyhow::Result<Value> {
        let secret = self.client.secret_bytes().map_err(failed)?;
        Ok(json!({ "description": hex::encode(self.server.describe()), "secret": hex::encode(&secret[..]) }))
    }

    pub(super) fn key_bytes(&self) -> u64 {
        self.client.key_bytes()
    }

    /// The answer to a query under the secret.
    pub(super) fn answer(&mut self, query: &[u8]) -> anyhow::Result<Vec<u8>> {
        // Each query is another client's: services refuse what they have answered.
        self.answered += 1;
        self.server
            .answer(&Request::new(ClientId::new([self.answered; 16]), &self.keys, query), &Call::default())
            .map_err(failed)
    }

    /// Asks the question, for the decryptions that follow; what the answer says.
    pub(super) fn ask(&mut self) -> anyhow::Result<Value> {
        let encoded = self.client.encode(&[self.question]).map_err(failed)?;
        let query = self.client.query(&encoded).map_err(failed)?;
        let answer = self.answer(&query)?;
        let read = self.client.read(&answer, &encoded).map_err(failed)?;
        self.asked = Some((encoded, answer));
        Ok(read.first().map_or(Value::Null, self.told))
    }

    /// Seconds of a step.
    pub(super) fn seconds(&mut self, step: ClientStep) -> anyhow::Result<f64> {
        let (result, seconds) = match step {
            ClientStep::Keys => Clock::Wall.time(|| {
                let mut bundle = Vec::with_capacity(self.client.key_bytes() as usize);
                self.client.write_keys(&mut bundle, |_, _| (), &GO).map_err(failed)
            }),
            ClientStep::Encryption => Clock::Wall.time(|| {
                let encoded = self.client.encode(&[self.question]).map_err(failed)?;
                self.client.query(&encoded).map(drop).map_err(failed)
            }),
            ClientStep::Decryption => Clock::Wall.time(|| match &self.asked {
                Some((encoded, answer)) => self.client.read(answer, encoded).map(drop).map_err(failed),
                None => Ok(()),
            }),
        };
        result.map(|()| seconds)
    }
}
