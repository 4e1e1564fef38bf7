//! The client's half: queries to dense tables, and reading their responses.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use unspoken_gsw::{RingSecret, rounded_to_even};
use unspoken_ring::{Poly, SecretRng, declassify};
use zeroize::Zeroizing;

use crate::client::{PirSecret, nearest, noise_of};
use crate::dense::failure::{check_failure, unreadable};
use crate::dense::masks::{CONJUGATION_STREAM, FIRST_ROW_STREAM, MaskSeed, ROTATION_STREAM, public_seed};
use crate::dense::query::{DenseQuery, RowsQuery};
use crate::dense::response::{DenseResponse, rounding};
use crate::dense::shape::{DenseShape, DenseSplit};
use crate::dense::{PLAINTEXT_BITS, QUERY_BITS, packing_gadget, selection_gadgets};
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
        let unit = parameters.scale(PLAINTEXT_BITS) as i64;
        let of_row = |at: u64| i64::conditional_select(&0, &unit, at.ct_eq(&row));
        let rows = self.rows_query(shape.masks, (shape.rows, shape.word_bits()), of_row, rng)?;
        Ok(DenseQuery { rows, selection: self.packed_bits(&selection_gadgets(parameters, shape)?, selected, rng)? })
    }

    /// Encrypts a vector over the rows of a table with these masks, with a fresh secret of its own: the masks are
    /// public and the same in all queries. Words are rounded to `word_bits` bits. `value` gives the entry of a row, and
    /// zero after the last one; no branch and no address depends on what it gives.
    pub(crate) fn rows_query(
        &self,
        masks: Option<MaskSeed>,
        (rows, word_bits): (usize, u32),
        value: impl Fn(u64) -> i64,
        rng: &mut SecretRng,
    ) -> Result<RowsQuery, SchemeError> {
        let parameters = self.parameters();
        let (ring, seed) = (parameters.ring(), public_seed(parameters, masks));
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
        let (degree, mut words) = (ring.degree(), Vec::with_capacity(rows));
        for block in 0..rows.div_ceil(degree) {
            let first = (block * degree) as u64;
            let values = (first..first + degree as u64).map(&value);
            let coefficients: Zeroizing<Vec<i64>> = Zeroizing::new(values.collect());
            let mut message = ring.evaluate_i64(&coefficients, ring.basis())?;
            message.mark_secret();
            let mut body = fresh.encrypt_seeded(&message, (&seed, FIRST_ROW_STREAM + block as u32), rng)?;
            ring.to_coefficients(&mut body)?;
            // If all ties were rounded up, a table of equal bytes would add up the errors to a bias.
            let rounded = |&word: &u32| rounded_to_even(word, u32::BITS - word_bits) >> (u32::BITS - QUERY_BITS);
            words.extend(ring.fractions(&body)?.iter().map(rounded));
        }
        words.truncate(rows);
        Ok(RowsQuery { words, word_bits, rotation, conjugation, switch })
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
        let (found, needed) = (response.0.coefficients(), shape.cell_bytes);
        if found != needed {
            return Err(SchemeError::format("response", found, format!("{needed} bytes")));
        }
        let mut units = self.fractions(&response.0, rounding(self.parameters(), shape))?;
        units.iter_mut().for_each(|unit| *unit *= f64::from(1 << PLAINTEXT_BITS));
        Ok(units)
    }
}
