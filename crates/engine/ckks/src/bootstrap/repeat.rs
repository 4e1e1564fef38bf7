//! Bootstraps that are done again and again with the same keys: a device records them.

use unspoken_ring::Poly;
use unspoken_rlwe as rlwe;

use super::bootstrapper::Bootstrapper;
use super::works::Work;
use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;

impl Bootstrapper {
    /// Does work that depends on this bootstrapper, the keys and `factor` alone. So must the levels and scales of its
    /// inputs.
    pub(super) fn repeat(
        &self,
        evaluator: &Evaluator<'_>,
        (work, factor): (Work, f64),
        inputs: &[&Ciphertext],
        run: impl Fn(&[&Ciphertext]) -> Result<Vec<Ciphertext>, CkksError> + Sync,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let ring = evaluator.parameters().ring();
        if ring.device().is_none() {
            return run(inputs);
        }
        let id = [self.works.number, work as u64, factor.to_bits()];
        let polys: Vec<&Poly> = inputs.iter().flat_map(|input| input.inner.components()).collect();
        let outputs = ring.repeat(&evaluator.keys().recording(id), &polys, |polys| {
            let mut polys = polys.iter().map(|poly| (*poly).clone());
            let input = |input: &&Ciphertext| {
                let components = polys.by_ref().take(input.inner.components().len()).collect();
                let inner = rlwe::Ciphertext::new(components)?;
                Ok(Ciphertext { inner, level: input.level, scale: input.scale })
            };
            let inputs = inputs.iter().map(input).collect::<Result<Vec<_>, CkksError>>()?;
            let outputs = run(&inputs.iter().collect::<Vec<_>>())?;
            let shapes = outputs.iter().map(|output| (output.level, output.scale)).collect();
            self.works.outputs().insert(id, shapes);
            Ok::<_, CkksError>(outputs.iter().flat_map(|output| output.inner.components()).cloned().collect())
        })?;
        let shapes = self.works.outputs().get(&id).cloned().unwrap_or_default();
        let (components, mut outputs) = (outputs.len() / shapes.len().max(1), outputs.into_iter());
        let output = |(level, scale)| {
            let inner = rlwe::Ciphertext::new(outputs.by_ref().take(components).collect())?;
            Ok(Ciphertext { inner, level, scale })
        };
        shapes.into_iter().map(output).collect()
    }
}
