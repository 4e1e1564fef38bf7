//! Parameters of the published decomposition: digits, gadgets, counts and bytes of keys, noise, failure probability.

use unspoken_gsw::{
    BootstrapParameters, GadgetLiteral, LweLiteral, LweSwitchKey, Noise, SeededBlindRotationKey, SeededConversionKey,
    SeededLweSwitchKey, log2_failure,
};
use unspoken_pir_scheme::PirParameters;
use unspoken_ring::DigitGadget;

use super::table_six::TableSix;

/// Largest `log2` of the failure probability of a decomposition.
const MAX_LOG2_FAILURE: f64 = -40.0;

/// Bits of the largest digit of the paper (section 3.1).
const MAX_DIGIT_BITS: u32 = 5;

/// Gadgets of the key for digits, the cheapest first: fewer levels are faster.
const FLOOR_GADGETS: [GadgetLiteral; 4] = [
    GadgetLiteral { log2_base: 14, levels: 2 },
    GadgetLiteral { log2_base: 12, levels: 3 },
    GadgetLiteral { log2_base: 10, levels: 4 },
    GadgetLiteral { log2_base: 9, levels: 5 },
];

/// Gadget of the key for the bits of a digit. One level is enough: these bits are half the modulus apart.
const BITS_GADGET: GadgetLiteral = GadgetLiteral { log2_base: 22, levels: 1 };

/// The published decomposition of an index on a parameter set of this project: Algorithms 17 to 20, then Algorithm 15.
/// The LWE secret of the query and of the digits is the ring's secret, so that digits need no key switch. The switch to
/// the small LWE secret, the circuit bootstrap and the security of every key come from the parameter set.
#[derive(Clone, Debug)]
pub(super) struct Decomposition {
    pub(super) pir: PirParameters,
    /// Bits of the index; at most the bits of all digits.
    pub(super) index_bits: u32,
    /// Bits of a digit: `v` in the paper, `log2 (q / alpha)`.
    pub(super) digit_bits: u32,
    /// Number of digits: `d` in the paper.
    pub(super) digits: u32,
    /// Gadget of the blind rotation key for digits.
    pub(super) floor: DigitGadget,
    /// Gadget of the blind rotation key for the bits of digits.
    pub(super) bits: DigitGadget,
}

impl Decomposition {
    /// The decomposition of an index of `index_bits` bits with the largest digits and then the fewest gadget levels
    /// that fail at most once in 2^40.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(pir: &PirParameters, index_bits: u32) -> anyhow::Result<Self> {
        let bits = pir.ring().gadget(BITS_GADGET)?;
        for digit_bits in (1..=MAX_DIGIT_BITS).rev() {
            for gadget in FLOOR_GADGETS {
                let (floor, digits) = (pir.ring().gadget(gadget)?, index_bits.div_ceil(digit_bits));
                let found = Decomposition { pir: pir.clone(), index_bits, digit_bits, digits, floor, bits };
                if found.width(0) <= u32::BITS && found.log2_failure() <= MAX_LOG2_FAILURE {
                    return Ok(found);
                }
            }
        }
        anyhow::bail!(
            "published decomposition of {index_bits} bits on '{}': found no digits that fail less than once in 2^40, \
             needed a smaller index or a larger ring",
            pir.name()
        )
    }

    /// `log2 q`: the modulus `q = 2N` of a blind rotation.
    pub(super) fn log2_order(&self) -> u32 {
        self.pir.ring().degree().trailing_zeros() + 1
    }

    /// `log2 alpha`: the distance of two digits modulo `q`.
    pub(super) fn log2_alpha(&self) -> u32 {
        self.log2_order() - self.digit_bits
    }

    /// `log2 Q'` at a step. `q = 2N` divides it exactly at every step (Theorem A.15).
    pub(super) fn width(&self, step: u32) -> u32 {
        self.log2_order() + self.digit_bits * (self.digits - 1 - step)
    }

    /// Bits of the message: at least the bits of the index. The highest bits are zero.
    pub(super) fn message_bits(&self) -> u32 {
        self.digit_bits * self.digits
    }

    /// Predicted noise of a digit modulo `q`, as a fraction of `q`.
    pub(super) fn digit_noise(&self, step: u32) -> Noise {
        let before = match step.checked_sub(1) {
            None => fresh(self.pir.literal().compact),
            Some(before) => self.table_noise(before),
        };
        self.modulo_order(step, before.plus(self.to_width(step)))
    }

    /// Noise of an evaluated table, switched to the modulus `Q'` of a step, as a fraction of `Q'`.
    fn table_noise(&self, step: u32) -> Noise {
        let rotation = Noise::rotation(self.pir.ring(), self.floor, self.pir.literal().compact.dimension);
        rotation.plus(self.extraction()).plus(self.to_width(step))
    }

    /// Noise of rounding to the modulus of a step. Words of 32 bits need no rounding to 32 bits.
    fn to_width(&self, step: u32) -> Noise {
        match self.width(step) {
            u32::BITS => Noise(0.0),
            width => Noise::switching(self.pir.literal().compact.dimension, width.into()),
        }
    }

    /// A noise in fractions of `Q'` at a step, in fractions of `q`.
    fn modulo_order(&self, step: u32, noise: Noise) -> Noise {
        let times = f64::from(self.width(step) - self.log2_order()).exp2();
        noise.times(times * times)
    }

    /// Noise of rounding the coefficients of a ring ciphertext to 32 bits.
    fn extraction(&self) -> Noise {
        Noise::switching(self.pir.ring().degree(), u32::BITS.into())
    }

    /// Predicted noise of a bit of a digit under the small LWE secret, as a fraction of the modulus, without the
    /// rounding to exponents (Theorem A.17). A factor of the highest bit has `2^(v-1)` coefficients of 1; a factor of
    /// another bit has half of this number of coefficients, of 2.
    pub(super) fn bit_noise(&self) -> Noise {
        let (literal, ring) = (self.pir.literal(), self.pir.ring());
        let source = literal.compact.dimension;
        Noise::rotation(ring, self.bits, source)
            .times(f64::from(self.digit_bits).exp2())
            .plus(self.extraction())
            .plus(LweSwitchKey::noise(source, literal.bootstrap.lwe, literal.compact_switch))
    }

    /// `log2` of the probability that the decomposition or one of the circuit bootstraps gives a wrong bit. The noise
    /// of a digit must stay below half of `alpha`. So must the noise of the digit minus the noise of its highest bit,
    /// or the table of the identity would be read outside its range.
    pub(super) fn log2_failure(&self) -> f64 {
        let half_alpha = (-f64::from(self.digit_bits + 1)).exp2();
        let probability = |noise: Noise| log2_failure(noise, half_alpha, 1.0).exp2();
        let digits = (0..self.digits).map(|step| probability(self.digit_noise(step)));
        let floors = (0..self.digits - 1).map(|step| {
            let table = self.modulo_order(step, self.table_noise(step));
            probability(self.digit_noise(step).plus(table))
        });
        let bootstrap = self.pir.bootstrap();
        let order = Noise::switching(bootstrap.lwe().dimension, self.log2_order().into());
        let count = f64::from(self.index_bits);
        let bits = log2_failure(
            self.bit_noise().plus(order),
            0.25 / BootstrapParameters::blocks(bootstrap.output()) as f64,
            count,
        )
        .exp2();
        (digits.chain(floors).sum::<f64>() + bits).log2()
    }

    /// Bytes of all keys as they are sent, seeded: three blind rotation keys, one switch key, and the keys of the
    /// conversion.
    pub(super) fn key_bytes(&self) -> u64 {
        let (ring, bootstrap, literal) = (self.pir.ring(), self.pir.bootstrap(), self.pir.literal());
        let source = literal.compact.dimension;
        let rotation = |gadget, dimension| SeededBlindRotationKey::byte_len(ring, gadget, dimension);
        rotation(self.floor, source)
            + rotation(self.bits, source)
            + rotation(bootstrap.rotation(), bootstrap.lwe().dimension)
            + SeededLweSwitchKey::byte_len(source, literal.compact_switch)
            + SeededConversionKey::byte_len(bootstrap)
    }

    /// Bytes of the same keys by the formulas of the paper's Table 6, which count the masks, too.
    pub(super) fn table_six_bytes(&self) -> f64 {
        let source = self.pir.literal().compact.dimension;
        let count = TableSix::of(&self.pir);
        count.evaluation(source, self.floor.levels())
            + count.evaluation(source, self.bits.levels())
            + bootstrap_bytes(&self.pir)
    }
}

/// Bytes of the keys that both decompositions have, by Table 6: the keys of the circuit bootstrap and the switch to its
/// secret.
pub(super) fn bootstrap_bytes(pir: &PirParameters) -> f64 {
    let (bootstrap, literal, count) = (pir.bootstrap(), pir.literal(), TableSix::of(pir));
    let lwe = bootstrap.lwe().dimension;
    count.evaluation(lwe, bootstrap.rotation().levels())
        + TableSix::switch((literal.compact.dimension, lwe), literal.compact_switch.levels, f64::from(u32::BITS))
        + count.conversion(bootstrap.trace().levels())
}

fn fresh(literal: LweLiteral) -> Noise {
    Noise((literal.sigma().log2() - f64::from(u32::BITS)).exp2().powi(2))
}
