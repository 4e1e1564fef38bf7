//! The operations that kernels need from a vector register, and modular arithmetic built on them.

use crate::modular::{Modulus, Shoup};

/// A register of `L = LANES` lanes of 32 bits.
///
/// A value is proof that the machine has the instructions, because only unsafe constructors create one. So arithmetic
/// on values is safe. Every method inlines into a kernel compiled for the instruction set; outside such a kernel the
/// results are the same, but slow.
///
/// Methods whose names end in `64` treat the register as `L / 2` wide lanes. Wide values of all `L` lanes are a
/// [`Wide`], a pair of such registers.
pub(super) trait Vector: Copy {
    /// `L`.
    const LANES: usize;
    /// `L` registers.
    type Square: Copy + AsRef<[Self]> + AsMut<[Self]>;
    /// A factor of wide products: what several products with the same factor need to compute once only.
    type Operand: Copy;

    /// All lanes `x`.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn splat(x: u32) -> Self;

    /// All wide lanes `x`.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn splat64(x: u64) -> Self;

    /// The `L` words at `source`, of any alignment.
    ///
    /// # Safety
    /// The machine has the instruction set, and `source` is valid for reading `L` words.
    unsafe fn load_from(source: *const u32) -> Self;

    /// The `L` signed bytes at `source`, each extended to a lane.
    ///
    /// # Safety
    /// The machine has the instruction set, and `source` is valid for reading `L` bytes.
    unsafe fn load_bytes_from(source: *const u8) -> Self;

    /// Writes the lanes to `target`, of any alignment.
    ///
    /// # Safety
    /// `target` is valid for writing `L` words.
    unsafe fn store_to(self, target: *mut u32);

    /// The lanes `at..at + L` of a slice.
    ///
    /// # Safety
    /// The machine has the instruction set, and `at + L <= source.len()` (checked in debug builds).
    #[inline(always)]
    unsafe fn load(source: &[u32], at: usize) -> Self {
        debug_assert!(at + Self::LANES <= source.len());
        // SAFETY: the caller vouches for both.
        unsafe { Self::load_from(source.as_ptr().add(at)) }
    }

    /// Overwrites `at..at + L` of a slice.
    ///
    /// # Safety
    /// `at + L <= target.len()` (checked in debug builds).
    #[inline(always)]
    unsafe fn store(self, target: &mut [u32], at: usize) {
        debug_assert!(at + Self::LANES <= target.len());
        // SAFETY: the caller vouches for the bound.
        unsafe { self.store_to(target.as_mut_ptr().add(at)) }
    }

    /// `self + other`, wrapping.
    fn add(self, other: Self) -> Self;
    /// `self - other`, wrapping.
    fn sub(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// The smaller of each pair, unsigned.
    fn min(self, other: Self) -> Self;
    /// The low 32 bits of the products.
    fn mul_low(self, other: Self) -> Self;
    /// The lanes as a factor of wide products.
    fn operand(self) -> Self::Operand;
    /// The same for a register whose lanes are all equal.
    fn equal_operand(self) -> Self::Operand;
    /// The 64-bit products.
    fn products(a: Self::Operand, b: Self::Operand) -> Wide<Self>;
    /// The 64-bit products `(t * a mod 2^32) * b`. All lanes of `a` are equal, and all lanes of `b` are equal.
    fn low_products(t: Wide<Self>, a: Self, b: Self) -> Wide<Self>;
    /// `self + other` on wide lanes, wrapping.
    fn add64(self, other: Self) -> Self;
    /// Wide lanes shifted right by `count < 64`.
    fn shift_right64(self, count: u32) -> Self;
    /// In each wide lane `self` or `self - multiple`, whichever is in `[0, multiple)`, for `self < 2 multiple` and
    /// `multiple < 2^63`.
    fn reduce64(self, multiple: Self) -> Self;
    /// The high words.
    fn high_words(wide: Wide<Self>) -> Self;
    /// The low words.
    fn low_words(wide: Wide<Self>) -> Self;
    /// The lanes in reverse order.
    fn reverse(self) -> Self;
    /// Moves the lanes that are below the same lane of `bound` to the front, in their order, and counts them; the other
    /// lanes are unspecified. Both registers hold numbers below 2^31.
    fn compress_below(self, bound: Self) -> (Self, usize);
    /// `L` copies.
    fn square(self) -> Self::Square;
    /// Lane `j` of vector `i` becomes lane `i` of vector `j`.
    fn transpose(block: &mut Self::Square);
}

/// The wide products of a register whose instruction multiplies the even lanes, with the methods `mul_even`, and `odd`,
/// which moves each odd lane to the even lane before it.
#[cfg(target_arch = "x86_64")]
macro_rules! even_odd_products {
    () => {
        type Operand = [Self; 2];

        #[inline(always)]
        fn operand(self) -> [Self; 2] {
            [self, self.odd()]
        }

        #[inline(always)]
        fn equal_operand(self) -> [Self; 2] {
            [self, self]
        }

        #[inline(always)]
        fn products(a: [Self; 2], b: [Self; 2]) -> Wide<Self> {
            Wide(a[0].mul_even(b[0]), a[1].mul_even(b[1]))
        }

        #[inline(always)]
        fn low_products(t: Wide<Self>, a: Self, b: Self) -> Wide<Self> {
            Wide(t.0.mul_even(a).mul_even(b), t.1.mul_even(a).mul_even(b))
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use even_odd_products;

/// For each set of `L` lanes the number `first + step * lane` of each of its lanes, in ascending order, then zeros. `S`
/// is `2^L`.
pub(super) const fn lanes_of_sets<const L: usize, const S: usize>(first: u32, step: u32) -> [[u32; L]; S] {
    let mut table = [[0; L]; S];
    let mut set = 0;
    while set < S {
        let (mut lane, mut place) = (0, 0);
        while lane < L {
            if set >> lane & 1 == 1 {
                table[set][place] = first + step * lane as u32;
                place += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
}

/// The constants of one prime, in every lane.
#[derive(Clone, Copy)]
pub(super) struct Prime<V> {
    pub(super) q: V,
    pub(super) twice: V,
    neg_inv: V,
}

/// A constant factor per lane, as [`Shoup`].
#[derive(Clone, Copy)]
pub(super) struct Factor<V: Vector> {
    value: V,
    quotient: V::Operand,
}

/// 64 bits for each lane, such as products and their sums: two registers of wide lanes. The register decides which of
/// its lanes are in which half: all even lanes and all odd lanes, or the lower and the upper lanes.
#[derive(Clone, Copy)]
pub(super) struct Wide<V>(pub(super) V, pub(super) V);

impl<V: Vector> Factor<V> {
    /// The same factor in every lane.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn splat(factor: Shoup) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        let (value, quotient) = unsafe { (V::splat(factor.value), V::splat(factor.quotient)) };
        Factor { value, quotient: quotient.equal_operand() }
    }

    /// `L` values and then `L` quotients, from `at` on.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`, and `at + 2 L <= words.len()`.
    #[inline(always)]
    pub(super) unsafe fn load(words: &[u32], at: usize) -> Self {
        // SAFETY: the caller vouches for both.
        let (value, quotient) = unsafe { (V::load(words, at), V::load(words, at + V::LANES)) };
        Factor { value, quotient: quotient.operand() }
    }
}

impl<V: Vector> Wide<V> {
    /// `a * b`.
    #[inline(always)]
    pub(super) fn product(a: V, b: V) -> Self {
        V::products(a.operand(), b.operand())
    }

    /// `self + other`.
    #[inline(always)]
    pub(super) fn add(self, other: Self) -> Self {
        Wide(self.0.add64(other.0), self.1.add64(other.1))
    }

    /// `self + a * b`, where all lanes of `b` are equal.
    #[inline(always)]
    pub(super) fn add_multiple(self, a: V::Operand, b: V) -> Self {
        self.add(V::products(a, b.equal_operand()))
    }

    /// `self` or `self - multiple`, whichever is in `[0, multiple)`, as [`Vector::reduce64`].
    #[inline(always)]
    pub(super) fn reduce(self, multiple: V) -> Self {
        Wide(self.0.reduce64(multiple), self.1.reduce64(multiple))
    }
}

impl<V: Vector> Prime<V> {
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn new(modulus: &Modulus) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Prime { q: V::splat(modulus.q), twice: V::splat(2 * modulus.q), neg_inv: V::splat(modulus.neg_inv) } }
    }

    /// `[0, 4q)` to `[0, q)`.
    #[inline(always)]
    pub(super) fn canonical_from_4q(&self, a: V) -> V {
        reduce_once(reduce_once(a, self.twice), self.q)
    }

    /// `a + b`, canonical.
    #[inline(always)]
    pub(super) fn add(&self, a: V, b: V) -> V {
        reduce_once(a.add(b), self.q)
    }

    /// `a - b`, canonical.
    #[inline(always)]
    pub(super) fn sub(&self, a: V, b: V) -> V {
        let difference = a.sub(b);
        difference.min(difference.add(self.q))
    }

    /// `a * w` in `[0, 2q)`, for any 32-bit `a`.
    #[inline(always)]
    pub(super) fn mul_lazy(&self, a: V, w: Factor<V>) -> V {
        let quotient = V::high_words(V::products(a.operand(), w.quotient));
        a.mul_low(w.value).sub(quotient.mul_low(self.q))
    }

    /// `a * w`, canonical, for any 32-bit `a`.
    #[inline(always)]
    pub(super) fn mul(&self, a: V, w: Factor<V>) -> V {
        reduce_once(self.mul_lazy(a, w), self.q)
    }

    /// Montgomery reduction: `t / R mod q` in `[0, t / 2^32 + q]`, for `t < 2^64 - 2^32 q`.
    #[inline(always)]
    pub(super) fn montgomery_lazy(&self, t: Wide<V>) -> V {
        V::high_words(t.add(V::low_products(t, self.neg_inv, self.q)))
    }

    /// `a * b / R`, canonical.
    #[inline(always)]
    pub(super) fn montgomery_mul(&self, a: V, b: V) -> V {
        reduce_once(self.montgomery_lazy(Wide::product(a, b)), self.q)
    }

    /// Forward (Cooley-Tukey) butterfly: `(u + w v, u - w v)`, from and to `[0, 4q)`.
    #[inline(always)]
    pub(super) fn forward(&self, u: V, v: V, w: Factor<V>) -> (V, V) {
        let (a, b) = (reduce_once(u, self.twice), self.mul_lazy(v, w));
        (a.add(b), a.add(self.twice).sub(b))
    }

    /// Inverse (Gentleman-Sande) butterfly: `(u + v, w (u - v))`, from and to `[0, 2q)`.
    #[inline(always)]
    pub(super) fn inverse(&self, u: V, v: V, w: Factor<V>) -> (V, V) {
        (reduce_once(u.add(v), self.twice), self.mul_lazy(u.add(self.twice).sub(v), w))
    }
}

/// `a` or `a - m`, whichever is in `[0, m)`, for `a < 2m`.
#[inline(always)]
pub(super) fn reduce_once<V: Vector>(a: V, m: V) -> V {
    a.min(a.sub(m))
}
