//! The keys of tasks in a cache: hashes of everything that the choice of a plan depends on.

use sha2::{Digest, Sha256};
use unspoken_ckks::{CkksParameters, CostModel};

use crate::candidates::Scope;
use crate::diagonals::Packing;
use crate::permutation::Permutation;
use crate::plan_file::PlanKey;
use crate::task::PermutationTask;

/// The version of the search. Raise it with every change that may choose another plan, prices included: plans of
/// earlier versions are not found any more.
pub(crate) const SEARCH_VERSION: u32 = 2;

/// The key of the cheapest allowed plan of a task.
pub(crate) fn task_key(
    task: &PermutationTask<'_>,
    scope: Scope,
    parameters: &CkksParameters,
    model: &CostModel,
) -> PlanKey {
    let mut hash = Hash(Sha256::new());
    hash.bytes(b"unspoken plan of a permutation");
    hash.number(u64::from(SEARCH_VERSION));
    hash.parameters(parameters);
    hash.model(model);
    hash.number(match scope {
        Scope::Structured => 0,
        Scope::Stages => 1,
        Scope::All => 2,
    });
    hash.permutation(task.permutation);
    hash.number(task.factors.len() as u64);
    task.factors.iter().for_each(|factor| hash.permutation(factor));
    hash.number(match task.packing {
        Packing::Repeated => 0,
        Packing::Blocks => 1,
    });
    hash.number(task.output_level as u64);
    hash.number(task.input_level as u64);
    // One more than the limit: no limit is 0.
    hash.number(task.max_keys.map_or(0, |most| (most as u64).saturating_add(1)));
    hash.number(task.max_prepared_bytes);
    hash.0.finalize().into()
}

struct Hash(Sha256);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn permutation(&mut self, permutation: &Permutation) {
        let bytes: Vec<u8> = permutation.source().iter().flat_map(|from| from.to_le_bytes()).collect();
        self.bytes(&bytes);
    }

    /// The ring and its keys, and the primes of each level.
    fn parameters(&mut self, parameters: &CkksParameters) {
        self.bytes(&parameters.rlwe().fingerprint().0);
        self.number(parameters.scale().to_bits());
        self.number(parameters.max_level() as u64);
        for level in 0..=parameters.max_level() {
            let basis = parameters.basis(level);
            self.number(basis.chain as u64);
            self.number(basis.terminal as u64);
        }
    }

    fn model(&mut self, model: &CostModel) {
        let &CostModel { limb_transform, conversion_mac, key_mac, matrix_mac, run_mac, elementwise, encoding } = model;
        let prices = [limb_transform, conversion_mac, key_mac, matrix_mac, run_mac, elementwise, encoding];
        prices.iter().for_each(|price| self.number(price.to_bits()));
    }
}
