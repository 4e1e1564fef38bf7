//! Serialisation of keys: one after the other, with seeds as they are and residues packed. The format has no header:
//! the caller must store which keys a stream contains and their parameters.

use std::io::{Read, Write};

use rayon::prelude::*;
use unspoken_ring::{Basis, DigitGadget, DigitKey, Domain, Poly, Ring, Seed};

use crate::bootstrap::{ConversionKey, SeededConversionKey};
use crate::error::GswError;
use crate::lwe_switch::{LweSwitchKey, SeededLweSwitchKey};
use crate::parameters::{BinaryRing, BootstrapParameters, GadgetLiteral, LweLiteral};
use crate::ring_secret::SeededRows;
use crate::rotation::{BlindRotationKey, SeededBlindRotationKey};
use crate::trace::{SeededTraceKey, TraceKey};

/// Number of keys that are read before they are expanded on all threads.
const BATCH: usize = 64;

impl SeededRows {
    /// Bytes of a gadget encryption of `rows` rows.
    pub fn byte_len(ring: &Ring, rows: usize) -> u64 {
        (size_of::<Seed>() + rows * ring.residue_bytes(Basis::chain(ring.chain().len()))) as u64
    }

    /// Writes the seed and the bodies.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, ring: &Ring, out: &mut impl Write) -> Result<(), GswError> {
        out.write_all(&self.seed.0)?;
        let mut bytes = Vec::new();
        for body in &self.bodies {
            bytes.clear();
            ring.write_residues(body, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Reads the output of [`SeededRows::write`] for a gadget and one or two components, from untrusted bytes.
    ///
    /// # Errors
    /// If reading fails, or a residue is not below its prime.
    pub fn read(
        ring: &Ring,
        gadget: DigitGadget,
        components: usize,
        input: &mut impl Read,
    ) -> Result<SeededRows, GswError> {
        let seed = read_seed(input)?;
        let basis = Basis::chain(ring.chain().len());
        let mut bytes = vec![0; ring.residue_bytes(basis)];
        let mut body = |_| -> Result<Poly, GswError> {
            input.read_exact(&mut bytes)?;
            Ok(ring.read_residues(&bytes, basis, Domain::Evaluation)?)
        };
        let bodies = (0..components * gadget.levels()).map(&mut body).collect::<Result<_, _>>()?;
        Ok(SeededRows { seed, gadget, bodies })
    }
}

impl SeededTraceKey {
    fn write(&self, ring: &BinaryRing, out: &mut impl Write) -> Result<(), GswError> {
        self.steps.iter().try_for_each(|rows| rows.write(ring, out))
    }
}

impl SeededConversionKey {
    /// Bytes of the key.
    pub fn byte_len(parameters: &BootstrapParameters) -> u64 {
        let ring = parameters.ring();
        u64::from(ring.degree().trailing_zeros() + 1) * SeededRows::byte_len(ring, parameters.trace().levels())
    }

    /// Writes the key.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: &mut impl Write) -> Result<(), GswError> {
        let ring = self.parameters.ring();
        self.trace.write(ring, out)?;
        self.square.write(ring, out)
    }
}

impl ConversionKey {
    /// Reads the output of [`SeededConversionKey::write`], from untrusted bytes, and expands it.
    ///
    /// # Errors
    /// If reading fails, or a residue is not below its prime.
    pub fn read(parameters: &BootstrapParameters, input: &mut impl Read) -> Result<Self, GswError> {
        let (ring, gadget) = (parameters.ring(), parameters.trace());
        let steps = read_keys(ring, gadget, 1, ring.degree().trailing_zeros() as usize, input)?;
        let square = SeededRows::read(ring, gadget, 1, input)?.expand(ring)?;
        Ok(ConversionKey { parameters: parameters.clone(), trace: TraceKey::new(ring, steps)?, square })
    }
}

impl SeededBlindRotationKey {
    /// Bytes of the key for the bits of an LWE secret.
    pub fn byte_len(ring: &BinaryRing, gadget: DigitGadget, dimension: usize) -> u64 {
        dimension as u64 * SeededRows::byte_len(ring, 2 * gadget.levels())
    }

    /// Writes the key.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, ring: &BinaryRing, out: &mut impl Write) -> Result<(), GswError> {
        self.bits.iter().try_for_each(|rows| rows.write(ring, out))
    }
}

impl BlindRotationKey {
    /// Reads the output of [`SeededBlindRotationKey::write`], from untrusted bytes, and expands it while reading.
    ///
    /// # Errors
    /// If reading fails, or a residue is not below its prime.
    pub fn read(
        ring: &BinaryRing,
        gadget: DigitGadget,
        dimension: usize,
        input: &mut impl Read,
    ) -> Result<Self, GswError> {
        Ok(BlindRotationKey { ring: ring.clone(), bits: read_keys(ring, gadget, 2, dimension, input)? })
    }
}

impl SeededLweSwitchKey {
    /// Bytes of the key from an LWE secret of `source` words.
    pub fn byte_len(source: usize, gadget: GadgetLiteral) -> u64 {
        (size_of::<Seed>() + source * gadget.levels * size_of::<u32>()) as u64
    }

    /// Writes the key.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: &mut impl Write) -> Result<(), GswError> {
        out.write_all(&self.seed.0)?;
        let bytes: Vec<u8> = self.bodies.iter().flat_map(|body| body.to_le_bytes()).collect();
        Ok(out.write_all(&bytes)?)
    }
}

impl LweSwitchKey {
    /// Reads the output of [`SeededLweSwitchKey::write`] for the bits of a secret of `source` words, from untrusted
    /// bytes, and expands it.
    ///
    /// # Errors
    /// If reading fails.
    pub fn read(
        (source, target): (usize, LweLiteral),
        gadget: GadgetLiteral,
        input: &mut impl Read,
    ) -> Result<Self, GswError> {
        let seed = read_seed(input)?;
        let mut bytes = vec![0; source * gadget.levels * size_of::<u32>()];
        input.read_exact(&mut bytes)?;
        let bodies = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Ok(SeededLweSwitchKey { seed, gadget, target: target.dimension, bodies }.expand())
    }
}

/// Reads gadget encryptions, and expands a batch on all threads before the next one is read.
fn read_keys(
    ring: &BinaryRing,
    gadget: DigitGadget,
    components: usize,
    count: usize,
    input: &mut impl Read,
) -> Result<Vec<DigitKey>, GswError> {
    let mut keys = Vec::with_capacity(count);
    while keys.len() < count {
        let batch = (count - keys.len()).min(BATCH);
        let rows = (0..batch).map(|_| SeededRows::read(ring, gadget, components, input));
        let rows: Vec<SeededRows> = rows.collect::<Result<_, _>>()?;
        keys.par_extend(rows.par_iter().map(|rows| rows.expand(ring)).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(keys)
}

fn read_seed(input: &mut impl Read) -> Result<Seed, GswError> {
    let mut seed = Seed([0; 32]);
    input.read_exact(&mut seed.0)?;
    Ok(seed)
}
