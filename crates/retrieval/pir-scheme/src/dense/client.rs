//! The client's half: queries to dense tables, and reading their responses.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use unspoken_gsw::{RingSecret, rounded_to_even};
use unspoken_ring::{Poly, SecretRng, Seed, declassify};
use zeroize::Zeroizing;

use crate::client::{PirSecret, nearest, noise_of};
use crate::dense::failure::{check_failure, unreadable};
use crate::dense::masks::{CONJUGATION_STREAM, FIRST_ROW_STREAM, ROTATION_STREAM, public_seed};
use crate::dense::query::DenseQuery;
use crate::dense::response::DenseResponse;
use crate::dense::shape::{DenseShape, DenseSplit};
use crate::dense::{BODY_BITS, MASK_BITS, PLAINTEXT_BITS, QUERY_BITS, packing_gadget, selection_gadgets};
use crate::error::SchemeError;

impl PirSecret {
    /// A query for a cell of a dense table, with a fresh secret of its own. No branch and no address depends on the
    /// cell.
    ///
    /// # Errors
    /// If there is no such cell.
    pub fn dense_query(&self, shape: DenseShape, cell: u64, rng: &mut SecretRng) -> Result<DenseQuery, SchemeError> {
        let parameters = self.parameters();
        let (row, selected) = shape.position(parameters, cell)?;
        check_failure(parameters, DenseSplit::whole(shape))?;
        let (ring, seed) = (parameters.ring(), public_seed(parameters, shape.masks));
        let weight = 1 << packing_gadget(parameters)?.log2_weight(0);
        let fresh = RingSecret::generate(ring, rng)?;
        let image = |galois: u64| -> Result<Poly, SchemeError> {
            let mut image = ring.automorphism(fresh.poly(), galois)?;
            ring.scale_assign(&mut image, weight)?;
            Ok(image)
        };
        let rotation = fresh.encrypt_seeded(&image(5)?, (&seed, ROTATION_STREAM), rng)?;
        let conjugate = image(2 * ring.degree() as u64 - 1)?;
        let conjugation = fresh.encrypt_seeded(&conjugate, (&seed, CONJUGATION_STREAM), rng)?;
        let switch_seed = rng.seed();
        let switch = (switch_seed, self.ring().encrypt_seeded(&image(1)?, (&switch_seed, 0), rng)?);
        let bits_seed = rng.seed();
        let bits = self.packed_bits(&selection_gadgets(parameters, shape)?, selected, &bits_seed, rng)?;
        let words = self.unit_vector(&fresh, &seed, shape.rows, row, rng)?;
        Ok(DenseQuery { words, rotation, conjugation, switch, selection: (bits_seed, bits) })
    }

    /// The bodies of an encrypted unit vector, rounded. The secret must be fresh: the masks are public and the same in
    /// all queries.
    fn unit_vector(
        &self,
        fresh: &RingSecret,
        seed: &Seed,
        rows: usize,
        row: u64,
        rng: &mut SecretRng,
    ) -> Result<Vec<u32>, SchemeError> {
        let (parameters, degree) = (self.parameters(), self.parameters().ring().degree());
        let (ring, unit) = (parameters.ring(), parameters.scale(PLAINTEXT_BITS) as i64);
        let (shift, mut words) = (u32::BITS - QUERY_BITS, Vec::with_capacity(rows));
        for block in 0..rows.div_ceil(degree) {
            let first = (block * degree) as u64;
            let value = |at: u64| i64::conditional_select(&0, &unit, at.ct_eq(&row));
            let coefficients: Zeroizing<Vec<i64>> = Zeroizing::new((first..first + degree as u64).map(value).collect());
            let mut message = ring.evaluate_i64(&coefficients, ring.basis())?;
            message.mark_secret();
            let mut body = fresh.encrypt_seeded(&message, (seed, FIRST_ROW_STREAM + block as u32), rng)?;
            ring.to_coefficients(&mut body)?;
            // If all ties were rounded up, a table of equal bytes would add up the errors to a bias.
            words.extend(ring.fractions(&body)?.iter().map(|&word| rounded_to_even(word, shift) >> shift));
        }
        words.truncate(rows);
        Ok(words)
    }

    /// Decrypts a cell. No branch and no address depends on it, except that an unreadable response is an error.
    ///
    /// # Errors
    /// If the response has another shape, or its noise is too large: it was not computed from a query and keys of this
    /// secret, or a part of the computation failed.
    pub fn dense_extract(
        &self,
        response: &DenseResponse,
        shape: DenseShape,
    ) -> Result<Zeroizing<Vec<u8>>, SchemeError> {
        let units = self.dense_units(response, shape)?;
        let cell: Zeroizing<Vec<u8>> = Zeroizing::new(units.iter().map(|&unit| nearest(unit) as u8).collect());
        let readable = noise_of(&units, PLAINTEXT_BITS) <= unreadable(self.parameters(), shape)?;
        if declassify(readable) { Ok(cell) } else { Err(SchemeError::Unreadable) }
    }

    /// The decrypted coefficients, in units of the plaintext.
    pub(crate) fn dense_units(
        &self,
        response: &DenseResponse,
        shape: DenseShape,
    ) -> Result<Zeroizing<Vec<f64>>, SchemeError> {
        let ring = self.parameters().ring();
        if response.body.len() != shape.cell_bytes {
            return Err(SchemeError::format("response", response.body.len(), format!("{} bytes", shape.cell_bytes)));
        }
        let mask: Vec<i64> = response.mask.iter().map(|&word| word.into()).collect();
        let mut product = ring.evaluate_i64(&mask, ring.basis())?;
        ring.mul_assign(&mut product, self.ring().poly())?;
        ring.to_coefficients(&mut product)?;
        let products = ring.to_f64(&product)?;
        let per = |bits: u32| (f64::from(PLAINTEXT_BITS) - f64::from(bits)).exp2();
        let pairs = products.iter().step_by(shape.places(self.parameters())).zip(&response.body);
        let unit = |(product, &body): (&f64, &u32)| product * per(MASK_BITS) + f64::from(body) * per(BODY_BITS);
        Ok(Zeroizing::new(pairs.map(unit).collect()))
    }
}
