//! A simulated run of a lookup, for the errors of its outputs.

use unspoken_ckks::{Complex64, Simulated, Simulator};

use crate::error::LookupError;
use crate::lookup::Lookup;

/// The outputs of a simulated query whose slots are all full, with indices that differ from slot to slot.
///
/// # Errors
/// If the simulator is one of other parameters.
pub fn simulated_outputs(simulator: &Simulator, lookup: &Lookup) -> Result<Vec<Simulated>, LookupError> {
    let ((subtables, _, columns), slots) = (lookup.shape(), lookup.parameters().slots());
    let encoding = lookup.plan().index_encoding();
    let mut query = Vec::new();
    for t in 0..subtables {
        for vector in 0..encoding.vectors(columns) {
            let value = |slot: usize| encoding.value(Some(varied_index(t, slot, columns)), columns, vector);
            let values: Vec<Complex64> = (0..slots).map(value).collect();
            query.push(simulator.encrypt(&values, lookup.input_level(), lookup.input_scale())?);
        }
    }
    lookup.run(simulator, &query)
}

/// The index in a slot of subtable `t` of a simulated query.
pub fn varied_index(t: usize, slot: usize, columns: usize) -> usize {
    (31 * slot + 17 * t + slot / 7) % columns
}
