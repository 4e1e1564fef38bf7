//! The service's half: evaluates the pseudorandom function on blinded names, and counts.

use std::time::Instant;

use unspoken_protocol::{Call, Limits, Request, ServerHalf, append_checksum, checked, impl_registering_server};
use unspoken_symmetric_pir::{ServiceKey, request_bytes};

use crate::allowance::Allowance;
use crate::budgets::{Budgets, RequestHash};
use crate::description::Description;
use crate::error::OprfError;

/// Bytes of memory for each name of a request while it is evaluated: elements before and after, and their sums.
const NAME_BYTES: usize = 2048;

/// Gives clients the keys of the records that they ask for, up to their allowance, without learning which records.
pub struct OprfServer {
    key: ServiceKey,
    description: Description,
    budgets: Budgets,
}

impl OprfServer {
    /// Serves the keys of a sealed database. Budgets are in memory only: all are full after a restart.
    pub fn new(key: ServiceKey, allowance: Allowance) -> Self {
        let description = Description::new(key.sealing().clone(), allowance);
        OprfServer { key, description, budgets: Budgets::new(allowance) }
    }

    /// Sets the maximum number of clients without a token whose requests come from one address, 1,024 by default and
    /// 16,384 at most. Where all come through one proxy, they have one address.
    #[must_use]
    pub fn with_most_of_an_address(mut self, clients: usize) -> Self {
        self.budgets.set_most_of_a_network(clients);
        self
    }

    /// The number of names in a request of `bytes` bytes.
    fn count(&self, bytes: usize) -> Result<u32, OprfError> {
        let (count, most) = (bytes / request_bytes(1), self.budgets.allowance().most_questions());
        if bytes != request_bytes(count) || !(1..=most).contains(&count) {
            let needed = format!("1 to {most} blinded names of {} bytes each", request_bytes(1));
            return Err(OprfError::mismatch("request", format!("{bytes} bytes"), needed));
        }
        Ok(count as u32)
    }
}

fn hash(request: &[u8]) -> RequestHash {
    let mut hash = RequestHash::default();
    blake3::Hasher::new().update(request).finalize_xof().fill(&mut hash);
    hash
}

impl_registering_server!(OprfServer);

impl ServerHalf for OprfServer {
    type Error = OprfError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn limits(&self) -> Limits {
        let most = self.budgets.allowance().most_questions();
        Limits {
            query_bytes: self.description.query_bytes(most),
            answer_bytes: self.description.answer_bytes(most),
            working_bytes: (most * NAME_BYTES) as u64,
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.budgets.capacity_bytes()
    }

    /// A request is charged before it is evaluated, also if its elements turn out to be malformed.
    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, OprfError> {
        let names = checked("request", request.query)?;
        let count = self.count(names.len())?;
        if call.is_cancelled() {
            return Err(OprfError::Cancelled);
        }
        self.budgets.charge(request.client, hash(names), count, Instant::now())?;
        let mut answer = self.key.evaluate(names, count as usize)?;
        append_checksum(&mut answer);
        Ok(answer)
    }
}
