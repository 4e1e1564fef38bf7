//! Key-switching: relinearisation, automorphisms, hoisting, and division by primes.

use unspoken_ring::{Basis, Domain, GadgetKey, Image, ImageInput, ImageSum, Poly, Ring, RnsDigits};

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::key_plan::KeyPlan;

/// A ciphertext over an extended basis ([`Ring::switching_basis`], or all special primes after
/// [`Raised::product_sum`](crate::Raised::product_sum)), times the product `P` of its special primes.
///
/// The result of a key switch before its division by `P`. Sums and plaintext products of several of them share one
/// division (double hoisting).
#[derive(Clone, Debug)]
pub struct ExtendedCiphertext {
    pub(crate) components: [Poly; 2],
}

impl ExtendedCiphertext {
    /// The two components, to go on with.
    pub fn into_components(self) -> [Poly; 2] {
        self.components
    }

    /// Divides by `P` and rescales to `to` at once, rounding ([`Ring::rescale_round`]).
    ///
    /// # Errors
    /// If the ring has no such rescaling.
    pub fn divide(&self, ring: &Ring, to: Basis) -> Result<Ciphertext, RlweError> {
        let [c0, c1] = &self.components;
        Ok(Ciphertext { components: vec![ring.rescale_round(c0, to)?, ring.rescale_round(c1, to)?] })
    }
}

/// A ciphertext with the digits of its second component already raised, so that many automorphisms share one raise.
pub struct Hoisted<'a> {
    ciphertext: &'a Ciphertext,
    digits: RnsDigits,
}

/// A ciphertext as sums of products use it ([`Lifted::product_sums`]): the digits of its second component, raised, and
/// both components times `P`, over [`Ring::switching_basis`].
pub struct Lifted {
    digits: RnsDigits,
    components: [Poly; 2],
}

impl Ciphertext {
    /// Relinearises: reduces three components to two, with the relinearisation key, and rescales to `to` in the same
    /// step (rescaling fused into the division by `P`).
    ///
    /// # Errors
    /// If there are not three components, or the key is missing, or the ring has no such rescaling.
    pub fn relinearise(&self, ring: &Ring, keys: &EvaluationKeys, to: Basis) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "relinearise";
        let [c0, c1, c2] = self.components.as_slice() else {
            return Err(RlweError::Components { operation: OPERATION, found: self.components.len(), needed: 3 });
        };
        let key = keys.get(OPERATION, ring, KeyKind::Relinearisation, self.basis())?;
        let mut switched = ring.gadget_product(c2, key)?;
        if to == self.basis() {
            let mut components = vec![ring.divide_round(&switched[0], to)?, ring.divide_round(&switched[1], to)?];
            ring.add_assign(&mut components[0], c0)?;
            ring.add_assign(&mut components[1], c1)?;
            return Ok(Ciphertext { components });
        }
        ring.add_lifted_assign(&mut switched[0], c0)?;
        ring.add_lifted_assign(&mut switched[1], c1)?;
        ExtendedCiphertext { components: switched }.divide(ring, to)
    }

    /// The image under `X -> X^element`.
    ///
    /// # Errors
    /// If there are not two components, or the key is missing.
    pub fn automorphism(&self, ring: &Ring, element: u64, keys: &EvaluationKeys) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "automorphism";
        let [c0, c1] = self.pair(OPERATION)?;
        if element == 1 {
            return Ok(self.clone());
        }
        let key = keys.get(OPERATION, ring, KeyKind::Galois { element }, self.basis())?;
        finish_automorphism(ring, c0, ring.gadget_product(c1, key)?, element)
    }

    /// Raises the digits of the second component, once for several automorphisms.
    ///
    /// # Errors
    /// If there are not two components.
    pub fn hoist<'a>(&'a self, ring: &Ring) -> Result<Hoisted<'a>, RlweError> {
        let [_, c1] = self.pair("hoist")?;
        Ok(Hoisted { ciphertext: self, digits: ring.decompose(c1)? })
    }

    /// As [`Ciphertext::hoist`], for sums of products with plaintext polynomials before the division by `P`.
    ///
    /// # Errors
    /// If there are not two components.
    pub fn lift(&self, ring: &Ring) -> Result<Lifted, RlweError> {
        let [c0, c1] = self.pair("lift")?;
        Ok(Lifted { digits: ring.decompose(c1)?, components: [ring.lift_special(c0)?, ring.lift_special(c1)?] })
    }

    /// Rescales to `to`: divides by the primes that `to` lacks, rounding, and multiplies by the primes that are new in
    /// `to` ([`Ring::rescale_round`]).
    ///
    /// # Errors
    /// If the ring has no such rescaling.
    pub fn rescale(&self, ring: &Ring, to: Basis) -> Result<Ciphertext, RlweError> {
        let components = self.components.iter().map(|c| ring.rescale_round(c, to)).collect::<Result<_, _>>()?;
        Ok(Ciphertext { components })
    }

    /// The same message over fewer primes.
    ///
    /// # Errors
    /// If the ciphertext lacks one of them.
    pub fn restricted(&self, ring: &Ring, basis: Basis) -> Result<Ciphertext, RlweError> {
        let restrict = |c: &Poly| ring.restricted(c, basis);
        Ok(Ciphertext { components: self.components.iter().map(restrict).collect::<Result<_, _>>()? })
    }
}

impl Lifted {
    /// Sums of images of ciphertexts times plaintext polynomials before the division by `P`: `(i, factor)` stands for
    /// `factor` times the image of `images[i].0` under `X -> X^images[i].1`; an element of 1 is the ciphertext itself.
    /// The polynomials are over [`Ring::switching_basis`].
    ///
    /// # Errors
    /// If there are no images, a key is missing, a sum has an image that does not exist, or ciphertexts or polynomials
    /// are over different bases.
    pub fn product_sums(
        ring: &Ring,
        images: &[(&Lifted, u64)],
        sums: Vec<ImageSum<'_>>,
        keys: &EvaluationKeys,
    ) -> Result<Vec<ExtendedCiphertext>, RlweError> {
        let image = |&(lifted, element): &(_, _)| Lifted::image(lifted, ring, element, keys);
        let images = images.iter().map(image).collect::<Result<Vec<_>, RlweError>>()?;
        let sums = ring.hoisted_product_sums(&images, sums)?;
        Ok(sums.into_iter().map(|components| ExtendedCiphertext { components }).collect())
    }

    /// The image under `X -> X^element`, to be computed.
    fn image<'a>(&'a self, ring: &Ring, element: u64, keys: &'a EvaluationKeys) -> Result<Image<'a>, RlweError> {
        const OPERATION: &str = "sum of products of automorphisms";
        let Lifted { digits, components: [c0, c1] } = self;
        let key = || keys.get(OPERATION, ring, KeyKind::Galois { element }, digits.basis());
        let input = ImageInput { digits, added: [c0, c1] };
        Ok(Image { input, key: (element != 1).then(key).transpose()?, galois: element })
    }
}

impl Hoisted<'_> {
    /// The image under `X -> X^element`.
    ///
    /// # Errors
    /// If the key is missing.
    pub fn automorphism(&self, ring: &Ring, element: u64, keys: &EvaluationKeys) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "hoisted automorphism";
        if element == 1 {
            return Ok(self.ciphertext.clone());
        }
        let key = keys.get(OPERATION, ring, KeyKind::Galois { element }, self.digits.basis())?;
        let switched = ring.gadget_product_hoisted(&self.digits, key)?;
        finish_automorphism(ring, &self.ciphertext.components[0], switched, element)
    }

    /// The sum of the images under `X -> X^element` for several elements (1 is the ciphertext itself), divided by `P`
    /// once, and rescaled to `to` in the same step.
    ///
    /// # Errors
    /// If there are no elements, keys are missing (the error names all of them), or the ring has no such rescaling.
    pub fn sum_automorphisms(
        &self,
        ring: &Ring,
        elements: &[u64],
        keys: &EvaluationKeys,
        to: Basis,
    ) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "sum of automorphisms";
        let basis = self.digits.basis();
        let switched: Vec<u64> = elements.iter().copied().filter(|&element| element != 1).collect();
        let mut needed = KeyPlan::new();
        switched.iter().for_each(|&element| needed.require(KeyKind::Galois { element }, basis.chain));
        keys.check(OPERATION, &needed)?;
        let [c0, c1] = self.ciphertext.pair(OPERATION)?;
        let c0 = ring.automorphism_sum(c0, elements)?;
        // The identity needs no key switch, so its images keep their second component. There is one image for each 1
        // among the elements.
        let identities = vec![1; elements.len() - switched.len()];
        let c1 = if identities.is_empty() { None } else { Some(ring.automorphism_sum(c1, &identities)?) };
        let terms = switched
            .iter()
            .map(|&element| Ok((keys.get(OPERATION, ring, KeyKind::Galois { element }, basis)?, element)));
        let terms: Vec<(&GadgetKey, u64)> = terms.collect::<Result<_, RlweError>>()?;
        if terms.is_empty() {
            let c1 = c1.unwrap_or_else(|| ring.zero(basis, Domain::Evaluation));
            return Ciphertext { components: vec![c0, c1] }.rescale(ring, to);
        }
        let mut components = ring.hoisted_sum(&self.digits, &terms)?;
        if to != basis {
            ring.add_lifted_assign(&mut components[0], &c0)?;
            if let Some(c1) = &c1 {
                ring.add_lifted_assign(&mut components[1], c1)?;
            }
            return ExtendedCiphertext { components }.divide(ring, to);
        }
        let mut sum = ExtendedCiphertext { components }.divide(ring, to)?;
        ring.add_assign(&mut sum.components[0], &c0)?;
        if let Some(c1) = &c1 {
            ring.add_assign(&mut sum.components[1], c1)?;
        }
        Ok(sum)
    }
}

/// Divides a switched second component by `P`, adds the first, and applies the automorphism to both.
fn finish_automorphism(ring: &Ring, c0: &Poly, switched: [Poly; 2], element: u64) -> Result<Ciphertext, RlweError> {
    let to = c0.basis();
    let mut k0 = ring.divide_round(&switched[0], to)?;
    ring.add_assign(&mut k0, c0)?;
    let k1 = ring.divide_round(&switched[1], to)?;
    Ok(Ciphertext { components: vec![ring.automorphism(&k0, element)?, ring.automorphism(&k1, element)?] })
}
