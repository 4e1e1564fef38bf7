//! Rache, which alternates with vanilla encryption: its cache is too large to have several at once.

use unspoken_audit::insecure_reproduction::Rache;
use unspoken_ring::SecretRng;

use super::shop::Shop;
use super::ways::{Way, Worker};
use crate::clock::{Contender, Effort, alternate};
use crate::error::BenchError;
use crate::session::Session;

/// Radix and pivots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    pub(super) radix: u64,
    pub(super) pivots: usize,
}

/// Seconds, repetition by repetition.
pub(super) struct Times {
    pub(super) rache: Vec<f64>,
    /// Vanilla encryption of an encoded message.
    pub(super) vanilla: Vec<f64>,
}

impl Cache {
    /// As part of a case.
    pub(super) fn name(self) -> String {
        format!("Rache (broken), radix {}, {} pivots", self.radix, self.pivots)
    }

    /// Digits that the largest of these numbers has.
    pub(super) fn that_holds(radix: u64, values: &[f64]) -> Self {
        let largest = values.iter().fold(0.0, |max: f64, &x| max.max(x)).round() as u64;
        let digits = std::iter::successors(Some(largest), |rest| Some(rest / radix)).take_while(|&rest| rest > 0);
        Cache { radix, pivots: digits.count().max(1) }
    }

    /// Times it in turn with vanilla encryption. Numbers come from `values`, one after the other, those left out evenly;
    /// random ones of all lengths the pivots allow if there are none.
    pub(super) fn measure(
        self,
        session: &Session<'_>,
        shop: &Shop,
        values: &[u64],
        effort: Effort,
    ) -> Result<Times, BenchError> {
        let (clock, single) = (session.clock(), &session.single);
        let mut rng = SecretRng::insecure_from_seed(3);
        let cache = Rache::new(&shop.vanilla, self.radix, self.pivots, &mut rng)?;
        let bound = u128::from(self.radix).pow(self.pivots as u32);
        let mut turn = 0usize;
        let mut next = |rng: &mut SecretRng| -> u64 {
            turn += 1;
            match values.len() {
                0 => {
                    let mut bytes = [0; 8];
                    rng.fill(&mut bytes);
                    (u128::from(u64::from_le_bytes(bytes)) % bound) as u64
                }
                len => values[turn * STRIDE % len],
            }
        };
        let first = next(&mut rng);
        shop.check(&self.name(), &cache.encrypt(first, &mut rng)?, &[first as f64])?;
        let mut vanilla = Worker::new(shop, Way::Vanilla)?;
        let message = shop.message(&vec![1.0; shop.slots()])?;
        let mut contenders: Vec<Contender<'_>> = vec![
            Box::new(|| {
                let value = next(&mut rng);
                let (made, seconds) = clock.time_in(single, || cache.encrypt(value, &mut rng));
                made?;
                Ok(seconds)
            }),
            Box::new(|| {
                let (made, seconds) = clock.time_in(single, || vanilla.work(&message));
                made?;
                Ok(seconds)
            }),
        ];
        let mut samples = alternate(effort, &mut contenders)?;
        let vanilla = samples.pop().unwrap_or_default();
        Ok(Times { rache: samples.pop().unwrap_or_default(), vanilla })
    }
}

/// From one row of a table to the next that is measured: coprime to their number for every table there is.
const STRIDE: usize = 7919;
