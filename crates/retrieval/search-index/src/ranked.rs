//! Numbers ranked by secret values. No branch and no address depends on the values or on the numbers.

use std::hint::black_box;

use zeroize::DefaultIsZeroes;

/// A number with a value. Greater values come first, and of equal ones smaller numbers.
///
/// It is a key that rises in this order: the bits of the value in the upper half, turned so that they fall when the
/// value rises, and the number in the lower half. The order of values is that of [`f32::total_cmp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranked(u128);

impl DefaultIsZeroes for Ranked {}

const SIGN: u32 = 1 << 31;

/// The upper half of a key for the bits of a value, and the other way round. The bits of a negative value rise when it
/// falls, as the key must. Those of other values rise with them, so all but the sign are turned.
fn turned(bits: u32) -> u32 {
    bits ^ (!sign_mask(bits) & !SIGN)
}

/// All ones if the highest bit is set, or zero.
fn sign_mask(bits: u32) -> u32 {
    (bits.cast_signed() >> 31).cast_unsigned()
}

impl Ranked {
    /// A number with its value.
    pub fn new(value: f32, number: u64) -> Self {
        Ranked(u128::from(turned(value.to_bits())) << 64 | u128::from(number))
    }

    /// The value.
    pub fn value(self) -> f32 {
        f32::from_bits(turned((self.0 >> 64) as u32))
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0 as u64
    }
}

/// Sorts, the greatest values first. Which places are compared depends on the length alone.
///
/// Batcher's merge exchange, as in algorithm 5.2.2 M of Knuth, The Art of Computer Programming, volume 3.
pub fn best_first(ranked: &mut [Ranked]) {
    let count = ranked.len();
    let first = count.next_power_of_two() / 2;
    let mut bit = first;
    while bit > 0 {
        let (mut step, mut wanted, mut distance) = (first, 0, bit);
        loop {
            for place in (0..count - distance).filter(|place| place & bit == wanted) {
                let (front, back) = ranked.split_at_mut(place + distance);
                exchange(&mut front[place], &mut back[0]);
            }
            if step == bit {
                break;
            }
            distance = step - bit;
            step /= 2;
            wanted = bit;
        }
        bit /= 2;
    }
}

/// Puts the key that comes first into the first place.
fn exchange(a: &mut Ranked, b: &mut Ranked) {
    // Keys are below 2^96, so the highest bit of the difference says which is greater. The compiler does not know that
    // the mask has only two values.
    let difference = b.0.wrapping_sub(a.0);
    let mask = black_box(((difference >> 64) as i64 >> 63) as u64);
    let swapped = (a.0 ^ b.0) & (u128::from(mask) << 64 | u128::from(mask));
    a.0 ^= swapped;
    b.0 ^= swapped;
}

#[cfg(test)]
mod tests {
    use unspoken_ring::SecretRng;

    use super::*;

    const SPECIAL: [f32; 8] = [f32::NAN, f32::INFINITY, f32::MAX, 0.0, -0.0, -f32::MIN_POSITIVE, f32::MIN, -f32::NAN];

    #[test]
    fn values_and_numbers_are_kept() {
        for value in SPECIAL.into_iter().chain([1.5, -2.5, 1e-45, -1e-45]) {
            for number in [0, 7, u64::MAX] {
                let ranked = Ranked::new(value, number);
                assert_eq!((ranked.value().to_bits(), ranked.number()), (value.to_bits(), number), "{value}");
            }
        }
    }

    #[test]
    fn the_order_is_that_of_sorting_at_every_length() {
        let mut rng = SecretRng::insecure_from_seed(8);
        let mut random = || {
            let mut bytes = [0; 4];
            rng.fill(&mut bytes);
            u32::from_le_bytes(bytes)
        };
        for count in (0..70).chain([127, 128, 129, 575, 1000]) {
            for kind in 0..3 {
                let mut value = |place: usize| match kind {
                    // Many are equal.
                    0 => (random() % 5) as f32 - 2.0,
                    1 => f32::from_bits(random()),
                    _ => SPECIAL[(place + random() as usize) % SPECIAL.len()],
                };
                let values: Vec<(f32, u64)> =
                    (0..count).map(|place| (value(place), (place * 7919 % 1009) as u64)).collect();
                let mut ranked: Vec<Ranked> =
                    values.iter().map(|&(value, number)| Ranked::new(value, number)).collect();
                best_first(&mut ranked);
                let mut sorted = values;
                sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                let sorted: Vec<Ranked> =
                    sorted.into_iter().map(|(value, number)| Ranked::new(value, number)).collect();
                assert_eq!(ranked, sorted, "{count} {kind}");
            }
        }
    }
}
