//! The keys of the small ring.

use unspoken_ring::{GadgetKey, KeyRows, Poly, Ring, SecretRng, Seed};
use zeroize::Zeroizing;

use crate::error::RlweError;
use crate::key_kind::KeyKind;
use crate::keys::{SecretKey, secret_poly};
use crate::secured::DerivedSecret;
use crate::small_ring::SmallRing;

const MASK_LABEL: &str = "unspoken 2026 mask of a key of the small ring";

/// The keys of [`SmallRing::product`], as a server uses them.
#[derive(Debug)]
pub struct SmallRingKeys {
    /// From the main secret to the secret of the small ring.
    pub(crate) down: GadgetKey,
    /// From each part of the secret of the small ring to the secret itself.
    pub(crate) parts: Vec<GadgetKey>,
    /// From the secret of the small ring to the sparse secret of a bootstrap.
    pub(crate) up: [Poly; 2],
}

impl SmallRingKeys {
    /// Bytes in memory of the keys of a ring.
    pub fn memory_bytes(ring: &SmallRing) -> u64 {
        let gadget = |ring: &Ring| ring.gadget_key_bytes(ring.gadget_key_basis(ring.chain().len()));
        let up = 2 * ring.main.ring().poly_bytes(ring.up_basis());
        (gadget(&ring.wide) + ring.rank() * gadget(ring.small.ring()) + up) as u64
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let gadget = self.down.bytes() + self.parts.iter().map(GadgetKey::bytes).sum::<usize>();
        (gadget + self.up.iter().map(Poly::bytes).sum::<usize>()) as u64
    }
}

/// The keys of [`SmallRing::product`] for storage and transfer: a seed, and one half of every row.
#[derive(Clone, Debug)]
pub struct SeededSmallRingKeys {
    pub(crate) seed: Seed,
    pub(crate) down: Vec<Poly>,
    pub(crate) parts: Vec<Vec<Poly>>,
    pub(crate) up: Poly,
}

/// A key of the set, for its mask.
#[derive(Clone, Copy)]
enum Mask {
    Down,
    Up,
    Part(usize),
}

impl Mask {
    /// The seed of a key: keys of different rings must not share one.
    fn seed(self, seed: &Seed) -> Seed {
        let number = match self {
            Mask::Down => 0,
            Mask::Up => 1,
            Mask::Part(index) => 2 + index as u64,
        };
        Seed(blake3::derive_key(MASK_LABEL, &[seed.0.as_slice(), &number.to_le_bytes()].concat()))
    }
}

impl SeededSmallRingKeys {
    /// Generates the keys under a fresh seed. The secret of the small ring is derived from the main one.
    ///
    /// # Errors
    /// If the secret belongs to other parameters.
    pub fn generate(ring: &SmallRing, secret: &SecretKey, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let (main, small) = (ring.main.ring(), ring.small.ring());
        let own = secret.derive(DerivedSecret::SmallRing)?.ternary(small.degree());
        let embedded = spread(&own, (0, 1), (main.degree(), main.degree() / small.degree()));
        let seed = rng.seed();

        let all = |ring: &Ring| ring.gadget_key_basis(ring.chain().len());
        let lift = |ring: &Ring, coefficients: &[i32]| secret_poly(ring, coefficients, all(ring));
        let wide = &ring.wide;
        let [target, message] = [lift(wide, &embedded)?, lift(wide, &secret.coefficients()?)?];
        let down = rows(wide, &target, &message, &Mask::Down.seed(&seed), rng)?;

        let target = lift(small, &own)?;
        let rank = ring.rank();
        let mut part = |index: usize| {
            let message = lift(small, &spread(&own, (index, rank), (small.degree(), rank)))?;
            rows(small, &target, &message, &Mask::Part(index).seed(&seed), rng)
        };
        let parts = (0..rank).map(&mut part).collect::<Result<_, _>>()?;

        let basis = ring.up_basis();
        let (target, message) = (secret.sparse_secret()?, secret.lift_secret(&embedded)?);
        let (error, mask) = (rng.gaussian(main.degree()), Mask::Up.seed(&seed));
        let mut up = main.small_minus_uniform_product(&error, (&mask, 0), &target, basis)?;
        main.add_assign(&mut up, &secret.encapsulated_message(KeyKind::Encapsulation, &message, basis.chain)?)?;
        up.declare_public();
        Ok(SeededSmallRingKeys { seed, down, parts, up })
    }

    /// The keys in the form in which a server uses them.
    ///
    /// # Errors
    /// If the keys belong to another ring.
    pub fn expand(&self, ring: &SmallRing) -> Result<SmallRingKeys, RlweError> {
        let part = |(index, bodies): (usize, &Vec<Poly>)| {
            expanded(ring.small.ring(), bodies, &Mask::Part(index).seed(&self.seed))
        };
        let main = ring.main.ring();
        Ok(SmallRingKeys {
            down: expanded(&ring.wide, &self.down, &Mask::Down.seed(&self.seed))?,
            parts: self.parts.iter().enumerate().map(part).collect::<Result<_, _>>()?,
            up: [self.up.clone(), main.uniform(&Mask::Up.seed(&self.seed), 0, self.up.basis())],
        })
    }
}

/// Every `step`-th value from `first` on, at every `distance`-th coefficient of a polynomial of degree below `degree`.
fn spread(values: &[i32], (first, step): (usize, usize), (degree, distance): (usize, usize)) -> Zeroizing<Vec<i32>> {
    let mut all = Zeroizing::new(vec![0; degree]);
    let values = values.iter().skip(first).step_by(step);
    all.iter_mut().step_by(distance).zip(values).for_each(|(target, value)| *target = *value);
    all
}

/// The halves `-a t + e + P mask_d m` of the rows of a gadget key from `message` to `target` over all primes of a ring.
fn rows(ring: &Ring, target: &Poly, message: &Poly, seed: &Seed, rng: &mut SecretRng) -> Result<Vec<Poly>, RlweError> {
    let chain = ring.chain().len();
    let row = |digit: usize| {
        let error = rng.gaussian(ring.degree());
        let basis = ring.gadget_key_basis(chain);
        let mut body = ring.small_minus_uniform_product(&error, (seed, digit as u32), target, basis)?;
        ring.add_gadget_message(&mut body, message, digit)?;
        body.declare_public();
        Ok(body)
    };
    (0..ring.digit_count(chain)).map(row).collect()
}

fn expanded(ring: &Ring, bodies: &[Poly], seed: &Seed) -> Result<GadgetKey, RlweError> {
    let chain = ring.chain().len();
    let mut builder = ring.gadget_key_builder(chain, KeyRows::EachDigit)?;
    for (digit, body) in bodies.iter().enumerate() {
        builder.push([body, &ring.uniform(seed, digit as u32, ring.gadget_key_basis(chain))])?;
    }
    Ok(builder.finish()?)
}
