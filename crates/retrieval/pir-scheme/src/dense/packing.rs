//! Packing the sums of a group into one RLWE ciphertext: what depends on the table alone.

use std::ops::Range;

use rayon::prelude::*;
use unspoken_gsw::BinaryRing;
use unspoken_ring::{BYTE_BLOCK, DeviceCopy, Domain, GadgetDigits, OrbitShape, OrbitTable, Poly, Seed, Stored};

use crate::dense::masks::{CONJUGATION_STREAM, FIRST_ROW_STREAM, ROTATION_STREAM, public_seed};
use crate::dense::packing_gadget;
use crate::dense::part::{DensePart, check_group};
use crate::dense::query::RowsQuery;
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// The digits of the masks of a group, for all switches of its packing. Of the group's bytes, packing needs only these
/// digits.
#[derive(Debug)]
pub struct Packing {
    words: Vec<u32>,
    copy: DeviceCopy,
    last: LastFactors,
}

/// The factors of the last two switches of a packing.
#[derive(Debug)]
pub struct LastFactors {
    /// The factor of the conjugation key.
    conjugation: Poly,
    /// The factor of the key that switches to the client's lasting secret.
    switch: Poly,
}

/// View of a packing.
#[derive(Clone, Copy, Debug)]
pub struct PackingView<'a> {
    /// The factors of the images of the rotation key, then the factors of the images of its conjugate:
    /// [`Packing::word_count`] words.
    pub words: Stored<'a, u32>,
    /// The factors of the last two switches.
    pub last: &'a LastFactors,
}

impl LastFactors {
    /// Bytes of the serialised factors.
    pub fn byte_len(parameters: &PirParameters) -> usize {
        2 * parameters.ring().residue_bytes(parameters.ring().basis())
    }

    /// Serialises the factors.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(parameters));
        [&self.conjugation, &self.switch].iter().for_each(|poly| parameters.ring().write_residues(poly, &mut bytes));
        bytes
    }

    /// Reads serialised factors.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, SchemeError> {
        let ring = parameters.ring();
        let (conjugation, switch) = bytes.split_at_checked(Self::byte_len(parameters) / 2).unwrap_or_default();
        let read = |bytes| ring.read_residues(bytes, ring.basis(), Domain::Evaluation);
        Ok(LastFactors { conjugation: read(conjugation)?, switch: read(switch)? })
    }
}

/// Words between the coefficients of consecutive columns.
const PADDING: usize = 16;

/// Shape of each of the two lists of factors.
fn shape(ring: &BinaryRing) -> OrbitShape {
    OrbitShape { factors: ring.degree() / 2 - 1, chain: ring.chain().len() }
}

impl Packing {
    /// Number of words.
    pub fn word_count(parameters: &PirParameters) -> usize {
        2 * parameters.ring().orbit_words(shape(parameters.ring()))
    }

    /// The words ([`PackingView::words`]).
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The factors of the last two switches.
    pub fn last(&self) -> &LastFactors {
        &self.last
    }

    /// View of the packing for [`answer`](crate::dense::answer).
    pub fn view(&self) -> PackingView<'_> {
        PackingView { words: Stored::new(&self.words, &self.copy), last: &self.last }
    }

    /// Bytes in memory.
    pub fn memory_bytes(parameters: &PirParameters) -> usize {
        let ring = parameters.ring();
        Self::word_count(parameters) * size_of::<u32>() + 2 * ring.poly_bytes(ring.basis())
    }

    /// Bytes of memory that preparing a packing needs beside it: the masks of all columns, and their transforms.
    pub fn work_bytes(parameters: &PirParameters) -> usize {
        let ring = parameters.ring();
        2 * ring.degree() * ring.poly_bytes(ring.basis())
    }

    /// Prepares the packing of a group of a part with these bytes, in the order of [`DensePart`]. Uses all threads of
    /// the processor.
    ///
    /// # Errors
    /// If the bytes do not have the length of a group.
    pub fn new(parameters: &PirParameters, of: &DensePart, bytes: &[u8]) -> Result<Self, SchemeError> {
        let host = parameters.host();
        let Packing { words, copy, last } = Self::on_processor(host, of, bytes)?;
        let last = LastFactors::from_bytes(parameters, &last.to_bytes(host))?;
        Ok(Packing { words, copy, last })
    }

    fn on_processor(parameters: &PirParameters, of: &DensePart, bytes: &[u8]) -> Result<Self, SchemeError> {
        check_group(parameters, of, bytes)?;
        let (ring, gadget) = (parameters.ring(), packing_gadget(parameters)?);
        let (seed, shape) = (public_seed(parameters, of.shape().masks), shape(ring));
        let mut masks = masks(parameters, &seed, bytes, of.rows())?;
        // The packing is the sum over all automorphisms of 1/n of these sums.
        masks.iter_mut().try_for_each(|mask| ring.unscale_assign(mask, ring.degree() as u32))?;
        let sums = ring.galois_sums(&masks)?;
        drop(masks);
        let order = 2 * ring.degree() as u64;
        let rotation = ring.uniform(&seed, ROTATION_STREAM, ring.basis());
        let conjugation = ring.uniform(&seed, CONJUGATION_STREAM, ring.basis());
        let powers: Vec<u64> =
            std::iter::successors(Some(1), |power| Some(power * 5 % order)).take(ring.degree() / 2).collect();
        let digits = |poly: &Poly| -> Result<GadgetDigits, SchemeError> {
            let mut poly = poly.clone();
            ring.to_coefficients(&mut poly)?;
            Ok(ring.digits(gadget, &[&poly])?)
        };
        // From the last image to the first: the mask of each switch is added to the sum of the image before.
        let chain = |sign: u64| -> Result<(Vec<u32>, Poly), SchemeError> {
            let mut words = vec![0; ring.orbit_words(shape)];
            let galois = |power: u64| if sign == 1 { power } else { order - power };
            let mut sum = ring.galois_sum(&sums, galois(powers[shape.factors]))?;
            for index in (0..shape.factors).rev() {
                let digit = digits(&sum)?;
                ring.write_orbit_factor(shape, &mut words, index, &digit)?;
                sum = ring.galois_sum(&sums, galois(powers[index]))?;
                let image = ring.automorphism(&rotation, galois(powers[index]))?;
                ring.mul_add_assign(&mut sum, &ring.digit_value(&digit)?, &image)?;
            }
            Ok((words, sum))
        };
        let (upper, lower) = rayon::join(|| chain(1), || chain(order - 1));
        let ((mut words, mut sum), (lower, conjugate)) = (upper?, lower?);
        words.extend(lower);
        let conjugate = ring.digit_value(&digits(&conjugate)?)?;
        ring.mul_add_assign(&mut sum, &conjugate, &conjugation)?;
        let switch = ring.digit_value(&digits(&sum)?)?;
        let last = LastFactors { conjugation: conjugate, switch };
        Ok(Packing { words, copy: DeviceCopy::default(), last })
    }
}

impl PackingView<'_> {
    /// The packed ciphertexts of some queries, under the lasting secrets of their clients. `bodies` are the sums of
    /// this group, modulo the ring's modulus and in the evaluation domain.
    pub(crate) fn packed(
        &self,
        parameters: &PirParameters,
        keys: &PackingKeys<'_>,
        mut bodies: Vec<Poly>,
    ) -> Result<Vec<[Poly; 2]>, SchemeError> {
        let (ring, shape) = (parameters.ring(), shape(parameters.ring()));
        ring.add_each(&mut bodies, &ring.orbit_sums(shape, self.words, &[&keys.rotations, &keys.conjugates])?)?;
        let LastKeys { conjugations, switches, masks } = &keys.last;
        ring.add_multiples(&mut bodies, &self.last.conjugation, conjugations)?;
        ring.add_multiples(&mut bodies, &self.last.switch, switches)?;
        let masks = ring.multiples(&self.last.switch, &masks.iter().collect::<Vec<_>>())?;
        Ok(bodies.into_iter().zip(masks).map(|(body, mask)| [body, mask]).collect())
    }
}

/// The keys of some queries, prepared once for the packings of all groups.
pub(crate) struct PackingKeys<'a> {
    rotations: Vec<OrbitTable>,
    /// The images of `rotations` under `X -> X^-1`.
    conjugates: Vec<OrbitTable>,
    last: LastKeys<'a>,
}

/// The keys of the queries for the last two switches.
struct LastKeys<'a> {
    conjugations: Vec<&'a Poly>,
    /// Bodies and masks of the keys that switch to the clients' lasting secrets.
    switches: Vec<&'a Poly>,
    masks: Vec<Poly>,
}

impl<'a> PackingKeys<'a> {
    pub(crate) fn new(parameters: &PirParameters, queries: &[&'a RowsQuery]) -> Result<Self, SchemeError> {
        let (ring, minus_one) = (parameters.ring(), 2 * parameters.ring().degree() as u64 - 1);
        let conjugate = |query: &&RowsQuery| ring.orbit_table(&ring.automorphism(&query.rotation, minus_one)?);
        let last = LastKeys {
            conjugations: queries.iter().map(|query| &query.conjugation).collect(),
            switches: queries.iter().map(|query| &query.switch.1).collect(),
            masks: queries.iter().map(|query| ring.uniform(&query.switch.0, 0, ring.basis())).collect(),
        };
        Ok(PackingKeys {
            rotations: queries.iter().map(|query| ring.orbit_table(&query.rotation)).collect::<Result<_, _>>()?,
            conjugates: queries.iter().map(conjugate).collect::<Result<_, _>>()?,
            last,
        })
    }
}

/// The masks of the sums over rows, one for each column: polynomials of whose products with a query's secret the
/// constant coefficient counts.
fn masks(parameters: &PirParameters, seed: &Seed, bytes: &[u8], rows: Range<usize>) -> Result<Vec<Poly>, SchemeError> {
    let (ring, degree) = (parameters.ring(), parameters.ring().degree());
    let random = |block: usize| ring.uniform(seed, FIRST_ROW_STREAM + block as u32, ring.basis());
    let random: Vec<Poly> = (rows.start / degree..rows.end.div_ceil(degree)).into_par_iter().map(random).collect();
    let columns = |bytes: &[u8]| -> Result<Vec<Poly>, SchemeError> {
        let zero = || ring.zero(ring.basis(), Domain::Evaluation);
        let mut masks: Vec<Poly> = (0..BYTE_BLOCK).map(|_| zero()).collect();
        // Padded, so that the places of a row in all columns are not in the same cache sets.
        let stride = degree + PADDING;
        let mut coefficients = vec![0; stride * BYTE_BLOCK];
        for (random, bytes) in random.iter().zip(bytes.chunks(degree * BYTE_BLOCK)) {
            // The sum over j of the bytes times X^-j.
            coefficients.fill(0);
            for (row, bytes) in bytes.chunks_exact(BYTE_BLOCK).enumerate() {
                let (place, sign) = if row == 0 { (0, 1) } else { (degree - row, -1) };
                let places = coefficients.iter_mut().skip(place).step_by(stride);
                places.zip(bytes).for_each(|(place, byte)| *place = sign * i32::from(byte.cast_signed()));
            }
            for (mask, coefficients) in masks.iter_mut().zip(coefficients.chunks_exact(stride)) {
                let sum = ring.evaluate_i32(&coefficients[..degree], ring.basis())?;
                ring.mul_add_assign(mask, &sum, random)?;
            }
        }
        Ok(masks)
    };
    let blocks: Vec<Vec<Poly>> = bytes.par_chunks(rows.len() * BYTE_BLOCK).map(columns).collect::<Result<_, _>>()?;
    Ok(blocks.into_iter().flatten().collect())
}
