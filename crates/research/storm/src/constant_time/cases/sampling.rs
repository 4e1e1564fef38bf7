//! Samplers of secrets and errors.

use std::path::Path;

use super::secret_generator;

const COUNT: usize = 4096;

pub fn run(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    generator.ternary(COUNT);
    generator.binary(COUNT);
    generator.sparse_ternary(COUNT, 32);
    generator.gaussian(COUNT);
    generator.fill(&mut [0; 100]);
    Ok(())
}
