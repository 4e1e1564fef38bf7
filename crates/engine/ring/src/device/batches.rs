//! Operations on many polynomials at once.

use unspoken_device::kernel::{
    self, BatchArgs, BatchItem, BatchOperation, ChoiceArgs, ChoiceItem, GatherArgs, GatherItem, RowArgs, ScatterArgs,
};
use unspoken_device::{Address, Buffer, MAX_BLOCKS};

use super::ring::DeviceRing;
use super::transform::several;
use crate::basis::{Basis, Domain};
use crate::batch::DigitTerm;
use crate::error::RingError;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;

/// Most items of a launch, which bounds the memory of its digits, too.
const MAX_ITEMS: usize = 1 << 10;

impl DeviceRing {
    /// The address of a polynomial, or none.
    fn address(&self, poly: Option<&Poly>) -> Result<Address, RingError> {
        poly.map_or(Ok(0), |poly| Ok(self.limbs(poly)?.words))
    }

    /// The addresses of polynomials, in the memory of the device.
    pub(super) fn addresses<'a>(&self, polys: impl IntoIterator<Item = &'a Poly>) -> Result<Buffer, RingError> {
        let all = polys.into_iter().map(|poly| Ok(self.limbs(poly)?.words)).collect::<Result<Vec<_>, RingError>>()?;
        Ok(self.device.upload(&all)?)
    }

    /// `count` polynomials with unspecified residues, in the evaluation domain.
    pub(super) fn blanks(&self, ring: &Ring, basis: Basis, count: usize) -> Result<Vec<Poly>, RingError> {
        (0..count).map(|_| self.blank(ring, basis, Domain::Evaluation)).collect()
    }

    /// Blocks for all residues of `limbs` limbs of each of `items` items.
    fn item_blocks(&self, ring: &Ring, items: usize, limbs: usize) -> [usize; 3] {
        [ring.degree().div_ceil(kernel::THREADS), items, limbs]
    }

    /// The limbs of images of differences, `[prime][item]`.
    pub(super) fn gathered(&self, ring: &Ring, basis: Basis, items: &[GatherItem]) -> Result<Words, RingError> {
        let limbs = ring.limb_count(basis);
        let (words, list) = (self.words(ring, limbs * items.len())?, self.device.upload(items)?);
        let arguments = GatherArgs {
            ring: self.ring,
            basis: self.basis(basis),
            items: list.address(),
            count: items.len() as u32,
            out: words.on(&self.device)?.address(),
        };
        self.launch(kernel::GATHER, self.item_blocks(ring, items.len(), limbs), &arguments)?;
        Ok(words)
    }

    /// The polynomials in the evaluation domain that limbs are of, `[prime][polynomial]`.
    pub(super) fn scattered(
        &self,
        ring: &Ring,
        basis: Basis,
        words: &Words,
        count: usize,
    ) -> Result<Vec<Poly>, RingError> {
        let polys = self.blanks(ring, basis, count)?;
        let list = self.addresses(&polys)?;
        let arguments = ScatterArgs {
            ring: self.ring,
            words: words.on(&self.device)?.address(),
            out: list.address(),
            count: count as u32,
        };
        self.launch(kernel::SCATTER, self.item_blocks(ring, count, ring.limb_count(basis)), &arguments)?;
        Ok(polys)
    }

    /// Both components of products of digits with keys of one gadget, plus polynomials.
    pub(crate) fn digit_products(&self, ring: &Ring, terms: &[DigitTerm<'_>]) -> Result<Vec<[Poly; 2]>, RingError> {
        let Some(first) = terms.first() else { return Ok(Vec::new()) };
        let (gadget, mut products) = (first.key.gadget(), Vec::with_capacity(terms.len()));
        // The limbs of the digits of all terms are one dimension of the blocks of a transform.
        let limbs = gadget.chain() * first.key.components() * gadget.levels();
        for some in terms.chunks((MAX_BLOCKS / limbs).clamp(1, MAX_ITEMS)) {
            products.extend(self.some_digit_products(ring, some)?);
        }
        Ok(products)
    }

    fn some_digit_products(&self, ring: &Ring, terms: &[DigitTerm<'_>]) -> Result<Vec<[Poly; 2]>, RingError> {
        let Some(first) = terms.first() else { return Ok(Vec::new()) };
        let (gadget, components) = (first.key.gadget(), first.key.components());
        let (basis, rows) = (Basis::chain(gadget.chain()), components * gadget.levels());
        let operands = terms.iter().flat_map(|term| term.operands.iter().map(|operand| (operand, term.galois)));
        let operands = operands.map(|(operand, galois)| {
            let [plus, minus] = [self.address(operand.plus)?, self.address(operand.minus)?];
            Ok(GatherItem { plus, minus, galois: galois as u32, unused: 0 })
        });
        let operands = operands.collect::<Result<Vec<_>, RingError>>()?;
        let coefficients = self.gathered(ring, basis, &operands)?;
        let place = coefficients.on(&self.device)?.address();
        let many = several(self.basis(basis), operands.len());
        self.inverse(ring, &many, basis.chain * operands.len(), (place, place), (0, 0))?;
        let digits =
            self.digits_of(ring, (&ring.digit_table(gadget), gadget.levels()), &coefficients, operands.len())?;
        let mut out = self.blanks(ring, basis, 2 * terms.len())?.into_iter();
        let mut products = Vec::with_capacity(terms.len());
        let mut items = Vec::with_capacity(terms.len());
        for (term, product) in terms.iter().zip(std::iter::from_fn(|| Some([out.next()?, out.next()?]))) {
            items.push(ChoiceItem {
                key: term.key.words.on(&self.device)?.address(),
                plus: [self.address(term.plus[0])?, self.address(term.plus[1])?],
                out: [self.limbs(&product[0])?.words, self.limbs(&product[1])?.words],
                galois: term.galois as u32,
                unused: 0,
            });
            products.push(product);
        }
        let list = self.device.upload(&items)?;
        let arguments = ChoiceArgs {
            ring: self.ring,
            basis: self.basis(basis),
            digits: digits.on(&self.device)?.address(),
            rows: rows as u32,
            count: terms.len() as u32,
            items: list.address(),
        };
        self.launch(kernel::CHOICES, self.item_blocks(ring, terms.len(), basis.chain), &arguments)?;
        Ok(products)
    }

    /// An operation on polynomials, each paired with another polynomial.
    pub(crate) fn batch(
        &self,
        ring: &Ring,
        (operation, factor): (BatchOperation, Option<&Poly>),
        basis: Basis,
        polys: &mut [Poly],
        others: &[&Poly],
    ) -> Result<(), RingError> {
        let items = polys.iter_mut().zip(others).map(|(poly, &other)| {
            let (other, place) = (self.limbs(other)?.words, self.limbs_to_change(poly)?.words);
            // A product is of the other polynomial.
            let (a, b) = if operation == BatchOperation::Sum { (place, other) } else { (other, place) };
            Ok(BatchItem { out: place, other: 0, a, b })
        });
        self.run_batch(ring, (operation, factor), basis, &items.collect::<Result<Vec<_>, RingError>>()?)
    }

    /// The products of a factor with polynomials over its basis.
    pub(crate) fn multiples(&self, ring: &Ring, factor: &Poly, polys: &[&Poly]) -> Result<Vec<Poly>, RingError> {
        let out = self.blanks(ring, factor.basis, polys.len())?;
        let items = out.iter().zip(polys).map(|(out, poly)| {
            Ok(BatchItem { out: self.limbs(out)?.words, a: self.limbs(poly)?.words, ..BatchItem::default() })
        });
        let items = items.collect::<Result<Vec<_>, RingError>>()?;
        self.run_batch(ring, (BatchOperation::Product, Some(factor)), factor.basis, &items)?;
        Ok(out)
    }

    /// `(a, b)` becomes `(a + b, (a - b) factor)`, for each pair.
    pub(crate) fn split_each(
        &self,
        ring: &Ring,
        a: &mut [Poly],
        b: &mut [Poly],
        factor: &Poly,
    ) -> Result<(), RingError> {
        let items = a.iter_mut().zip(b).map(|(a, b)| {
            let [out, other] = [self.limbs_to_change(a)?.words, self.limbs_to_change(b)?.words];
            Ok(BatchItem { out, other, a: out, b: other })
        });
        let items = items.collect::<Result<Vec<_>, RingError>>()?;
        self.run_batch(ring, (BatchOperation::Split, Some(factor)), factor.basis, &items)
    }

    fn run_batch(
        &self,
        ring: &Ring,
        (operation, factor): (BatchOperation, Option<&Poly>),
        basis: Basis,
        items: &[BatchItem],
    ) -> Result<(), RingError> {
        let factor = self.address(factor)?;
        for items in items.chunks(MAX_ITEMS) {
            let list = self.device.upload(items)?;
            let (ring_args, basis_args) = (self.ring, self.basis(basis));
            let arguments = BatchArgs { ring: ring_args, basis: basis_args, items: list.address(), factor, operation };
            self.launch(kernel::BATCH, self.item_blocks(ring, items.len(), ring.limb_count(basis)), &arguments)?;
        }
        Ok(())
    }

    /// The words of a key from the components of its rows.
    pub(crate) fn key_rows(&self, ring: &Ring, chain: usize, rows: &[[&Poly; 2]]) -> Result<Words, RingError> {
        let words = self.memory(ring, chain * rows.len() * 2 * ring.degree())?;
        let list = self.addresses(rows.iter().flatten().copied())?;
        let arguments = RowArgs {
            ring: self.ring,
            rows: list.address(),
            count: rows.len() as u32,
            out: words.on(&self.device)?.address(),
        };
        self.launch(kernel::KEY_ROWS, self.item_blocks(ring, 2 * rows.len(), chain), &arguments)?;
        Ok(words)
    }
}
