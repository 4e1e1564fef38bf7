//! The noise of responses, and the probability that one is wrong.

use unspoken_gsw::{BootstrapParameters, LweSwitchKey, Noise, digit_square, log2_failure, log2_failure_of_shared};
use unspoken_ring::{Basis, DigitGadget, ERROR_SIGMA};

use crate::error::SchemeError;
use crate::mode::Mode;
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters, ResponseLiteral, response_sigma};
use crate::shape::{DatabaseShape, MAX_INDEX_BITS};

impl PirParameters {
    /// The gadget of each bit of an index, the lowest first.
    pub(crate) fn gadgets(&self, shape: DatabaseShape) -> Vec<DigitGadget> {
        let bits = shape.index_bits();
        let of_rows = |&bit: &u32| bit >= bits - shape.row_bits;
        (0..bits).map(|bit| if of_rows(&bit) { self.bootstrap().output() } else { self.0.selection }).collect()
    }

    pub(crate) fn response_basis(&self) -> Basis {
        Basis::chain(1)
    }

    /// Pieces of records in an entry of the table: the degree of the computation's ring divided by the degree of the
    /// ring of responses.
    pub fn pieces(&self) -> usize {
        self.ring().degree() / self.response().degree()
    }

    /// Bytes of a piece.
    pub fn piece_bytes(&self) -> usize {
        self.response().degree() * self.0.literal.plaintext_bits as usize / 8
    }

    /// Scale of a unit of a record in the computation: `Q` divided by the plaintext modulus, rounded.
    pub(crate) fn delta(&self) -> i128 {
        self.scale(self.0.literal.plaintext_bits)
    }

    /// The modulus `Q` of the computation's ring.
    pub(crate) fn modulus(&self) -> i128 {
        self.ring().chain().iter().map(|&q| i128::from(q)).product()
    }

    /// Scale of a unit of data of `plaintext_bits` bits: `Q` divided by the plaintext modulus, rounded.
    pub(crate) fn scale(&self, plaintext_bits: u32) -> i128 {
        let modulus = 1i128 << plaintext_bits;
        (self.modulus() + modulus / 2) / modulus
    }

    /// Predicted noise of the phase of a response, as a fraction of the modulus, for a table of a shape.
    pub fn response_noise(&self, shape: DatabaseShape) -> Noise {
        self.selection_noise(shape).plus(self.switch_noise())
    }

    /// Noise of a row's selector. The noise of a product is added to one child and subtracted from the other, and
    /// passes from each to one child on average: a selector has the noise of two products on average.
    pub(crate) fn selector_noise(&self) -> Noise {
        Noise::bootstrapped_product(self.bootstrap()).times(2.0)
    }

    /// Noise of a sum over rows: the coefficients of selectors multiply the coefficients of the rows' entries. The
    /// errors of selectors are proportional to the secret. Half of the secret's second moment comes from its mean, and
    /// balanced entries have little weight at the frequencies of the mean.
    pub(crate) fn rows_noise(&self, shape: DatabaseShape) -> Noise {
        /// Effective second moment of the secret. It is more than half because entries have some weight at the mean,
        /// and because some products affect one row only.
        const SECRET: f64 = 0.57;
        let units = (shape.rows * self.ring().degree()) as f64 * digit_square(self.0.literal.plaintext_bits);
        self.selector_noise().times(units * SECRET)
    }

    /// Noise above which a response is rejected: one and a half times the largest standard deviation for any table.
    pub(crate) fn unreadable(&self) -> Noise {
        let literal = self.literal();
        let (row_bits, rows) = (literal.row_bits, 1 << literal.row_bits);
        let column_bits = MAX_INDEX_BITS - row_bits;
        self.response_noise(DatabaseShape { pieces: 0, row_bits, column_bits, piece_bits: 0, rows }).times(2.25)
    }

    /// Noise of a selected piece: of the sums over rows, and of selecting the column and the place.
    pub(crate) fn selection_noise(&self, shape: DatabaseShape) -> Noise {
        self.rows_noise(shape).plus(self.choice_noise().times(f64::from(shape.column_bits + shape.piece_bits)))
    }

    /// Noise that the choice between two halves of the columns or of the places adds.
    pub(crate) fn choice_noise(&self) -> Noise {
        Noise::rgsw_product(self.bootstrap(), self.0.selection)
    }

    /// Noise that switching to the ring of responses and rounding add.
    fn switch_noise(&self) -> Noise {
        let ResponseLiteral { degree, prime, gadget, body_bits } = self.0.literal.response;
        let log2_modulus = f64::from(prime).log2();
        let row = (response_sigma().log2() - log2_modulus).exp2().powi(2);
        // The digits contain all bits of a coefficient, so the highest digit may have its maximum size.
        let digits = digit_square(gadget.log2_base) * (gadget.levels - 1) as f64 + top_digit_square(gadget.log2_base);
        let key = Noise(row * digits * (self.pieces() * degree) as f64);
        let body = Noise((-2.0 * f64::from(body_bits)).exp2() / 12.0);
        key.plus(Noise::switching(self.ring().degree(), log2_modulus)).plus(body)
    }

    /// Noise of the phase that a bit of a query with a word for each bit is bootstrapped from, without the error of
    /// rounding its body.
    pub fn bit_noise(&self) -> Noise {
        let lwe = self.0.literal.bootstrap.lwe;
        Noise((lwe.sigma().log2() - 32.0).exp2().powi(2)).plus(self.order_noise())
    }

    /// Noise of the phase of a bit that is extracted from a compact query whose index has `index_bits` bits: the noise
    /// of the query and of the rotations for the bits below, which the shift multiplies, and the noise of the switch to
    /// the bootstrap's secret.
    pub fn extracted_bit_noise(&self, index_bits: u32, bit: u32) -> Noise {
        let fresh = Noise((ERROR_SIGMA.log2() - 32.0).exp2().powi(2));
        let below = self.compact_rotation_noise().times(f64::from(bit));
        fresh.plus(below).times((2.0 * f64::from(index_bits - 1 - bit)).exp2()).plus(self.compact_switch_noise())
    }

    /// Number of the lowest bits of a compact index that are refreshed before they are bootstrapped: the bits that
    /// would otherwise fail once in 2^64 or more often. A refresh costs a blind rotation. If a bootstrap has `k`
    /// blocks, a refresh tolerates `k` times more noise.
    pub fn refreshed_bits(&self, shape: DatabaseShape) -> u32 {
        const MOST: f64 = -64.0;
        let noise = |bit| self.extracted_bit_noise(shape.index_bits(), bit);
        let fails = |&(bit, gadget): &(u32, DigitGadget)| extraction_log2_failure(noise(bit), gadget) > MOST;
        let highest = (0..).zip(self.gadgets(shape)).filter(fails).last();
        highest.map_or(0, |(highest, _)| highest + 1)
    }

    /// `log2` of the probability that one of the bits of a compact query is wrong.
    fn compact_log2_failure(&self, shape: DatabaseShape) -> f64 {
        let refreshed = self.refreshed_bits(shape);
        let after_refresh = self.compact_rotation_noise().plus(self.compact_switch_noise());
        let bit = |(bit, gadget): (u32, DigitGadget)| {
            let noise = self.extracted_bit_noise(shape.index_bits(), bit);
            match bit < refreshed {
                true => log2_failure(noise, 0.25, 1.0).exp2() + extraction_log2_failure(after_refresh, gadget).exp2(),
                false => extraction_log2_failure(noise, gadget).exp2(),
            }
        };
        (0..).zip(self.gadgets(shape)).map(bit).sum::<f64>().log2().min(0.0)
    }

    /// Noise of the switch of a compact query to the bootstrap's secret, and of the rounding to exponents.
    fn compact_switch_noise(&self) -> Noise {
        let literal = &self.0.literal;
        let (source, target) = (literal.compact.dimension, literal.bootstrap.lwe);
        LweSwitchKey::noise(source, target, literal.compact_switch).plus(self.order_noise())
    }

    /// Noise of rounding an LWE ciphertext to exponents of a blind rotation.
    fn order_noise(&self) -> Noise {
        let log2_order = (self.ring().degree() as f64).log2() + 1.0;
        Noise::switching(self.0.literal.bootstrap.lwe.dimension, log2_order)
    }

    /// Noise that extracting one bit adds to a compact query, as a fraction of 2^32.
    fn compact_rotation_noise(&self) -> Noise {
        let rotation = Noise::rotation(self.ring(), self.bootstrap().rotation(), self.bootstrap().lwe().dimension);
        rotation.plus(Noise::switching(self.ring().degree(), 32.0))
    }

    /// Checks that queries of a mode to a table of this shape fail at most once in 2^40.
    ///
    /// # Errors
    /// If they fail more often.
    pub fn check_failure(&self, shape: DatabaseShape, mode: Mode) -> Result<(), SchemeError> {
        let found = self.log2_failure(shape, mode);
        if found <= MAX_LOG2_FAILURE {
            return Ok(());
        }
        Err(SchemeError::Failure { name: self.name(), mode, bits: shape.index_bits(), found, needed: MAX_LOG2_FAILURE })
    }

    /// `log2` of the probability that the response to a query of a mode to a table of this shape is wrong.
    pub fn log2_failure(&self, shape: DatabaseShape, mode: Mode) -> f64 {
        // Half of the rows' noise comes from the products with the last row bit. Rows share the errors of these
        // products.
        let response = log2_failure_of_shared(
            self.switch_noise(),
            self.selection_noise(shape),
            0.5 / f64::from(1 << self.0.literal.plaintext_bits),
            self.response().degree() as f64,
            self.bootstrap().output().levels(),
        );
        let expansion = match mode {
            // Weights have no more noise than those that are bootstrapped: the parameters were checked.
            Mode::Packed => return response,
            Mode::Bits => {
                // The error of rounding a body is not Gaussian: it counts with its largest value.
                let rounding = (-f64::from(self.0.literal.bit_body_bits + 1)).exp2();
                let bit = |gadget| log2_failure(self.bit_noise(), bootstrap_bound(gadget) - rounding, 1.0).exp2();
                self.gadgets(shape).into_iter().map(bit).sum::<f64>().log2().min(0.0)
            }
            Mode::Compact | Mode::Session => self.compact_log2_failure(shape),
        };
        (response.exp2() + expansion.exp2()).log2()
    }
}

/// `log2` of the probability that a bit of a query with this noise is bootstrapped to another one, for a gadget.
fn extraction_log2_failure(noise: Noise, gadget: DigitGadget) -> f64 {
    log2_failure(noise, bootstrap_bound(gadget), 1.0)
}

/// The largest error of a phase, as a fraction of the modulus, that a bootstrap of a bit for a gadget tolerates.
fn bootstrap_bound(gadget: DigitGadget) -> f64 {
    0.25 / BootstrapParameters::blocks(gadget) as f64
}

/// Bound on the mean square of the highest signed digit.
fn top_digit_square(log2_base: u32) -> f64 {
    f64::from(1u32 << (2 * (log2_base - 1)))
}
