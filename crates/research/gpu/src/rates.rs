//! How fast single operations are, in one ring of degree 2^16, beside the rate of copies.

use std::time::Instant;

use serde_json::json;
use unspoken_device::{Arguments, kernel};
use unspoken_ring::modular::{Modulus, primes_descending};
use unspoken_ring::{Device, Poly, Ring, RingError, RingKind, Seed};

use crate::bits;
use crate::report::Report;

/// Seconds for which each operation is repeated, at least.
const SECONDS: f64 = 0.3;

/// Waits for the device.
fn wait(ring: &Ring, poly: &Poly) -> Result<(), RingError> {
    ring.fetch(&mut poly.clone())
}

/// Median seconds of one call of `work`, of batches that end with a wait.
fn seconds(ring: &Ring, work: impl Fn() -> Result<Poly, RingError>) -> anyhow::Result<f64> {
    let time = |count: usize| -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut last = work()?;
        for _ in 1..count {
            last = work()?;
        }
        wait(ring, &last)?;
        Ok(start.elapsed().as_secs_f64())
    };
    time(1)?;
    // The wait copies a polynomial: it is taken away.
    let once = time(1)?;
    let count = ((SECONDS / once.max(1e-6)) as usize).clamp(2, 1000);
    let mut each: Vec<f64> = Vec::new();
    for _ in 0..5 {
        each.push((time(count + 1)? - time(1)?) / count as f64);
    }
    each.sort_by(f64::total_cmp);
    Ok(each[2])
}

/// Blocks of [`ceiling`], several for each multiprocessor, and the products of each chain.
const BLOCKS: usize = 4096;
const ROUNDS: u32 = 4096;

/// Multiplications of 32-bit words in a second that the device does when nothing else bounds it.
#[expect(unsafe_code, reason = "launches a kernel")]
fn ceiling(device: &Device, rounds: u32) -> anyhow::Result<f64> {
    let modulus = Modulus::new(primes_descending(1 << 29, 1 << 30, 2).next().unwrap_or(3));
    let prime =
        kernel::Prime { q: modulus.q, neg_inv: modulus.neg_inv, r: modulus.r, r2: modulus.r2, ..Default::default() };
    let (prime, out) = (device.upload(&[prime])?, device.buffer(BLOCKS * kernel::THREADS)?);
    let arguments = kernel::CeilingArgs { prime: prime.address(), out: out.address(), rounds };
    let time = |count: usize| -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the buffers have a prime, and a word for each thread.
            unsafe { device.launch(kernel::CEILING, [BLOCKS, 1, 1], &arguments) }?;
        }
        out.read(0, &mut [0])?;
        Ok(start.elapsed().as_secs_f64())
    };
    time(1)?;
    let seconds = (time(6)? - time(1)?) / 5.0;
    Ok(arguments.work(kernel::CEILING.number(), [BLOCKS, 1, 1]).multiplications as f64 / seconds)
}

pub fn run(device: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let rate = ceiling(device, if quick { 1 } else { ROUNDS })?;
    report.line(json!({ "part": "rates", "ceiling": "reduced products", "multiplications_per_second": rate }))?;
    let log_degree = if quick { 12 } else { 16 };
    let host = bits::ring(log_degree, RingKind::Standard)?;
    let ring = host.on_device(device)?;
    let basis = bits::widest();
    let extended = ring.switching_basis(basis);
    let seed = Seed([8; 32]);
    let [a, b] = [0, 1].map(|stream| ring.uniform(&seed, stream, basis));
    let wide = ring.uniform(&seed, 2, extended);
    let key = bits::key(&ring)?;
    let digits = ring.decompose(&a)?;
    let (degree, limbs) = (f64::from(1 << log_degree), ring.limb_count(basis) as f64);
    let (wide_limbs, count) = (ring.limb_count(extended) as f64, ring.digit_count(basis.chain) as f64);
    let mut row = |name: &str, seconds: f64, bytes: f64, transforms: f64| {
        report.line(json!({
            "part": "rates", "operation": name, "seconds": seconds, "bytes_per_second": bytes / seconds,
            "transforms_per_second": transforms / seconds, "log_degree": log_degree,
        }))
    };
    let words = 4.0 * degree;
    row("copy", seconds(&ring, || ring.restricted(&a, basis))?, 2.0 * limbs * words, 0.0)?;
    row("product", seconds(&ring, || ring.mul(&a, &b))?, 3.0 * limbs * words, 0.0)?;
    // In place, of a copy.
    let inverse = || {
        let mut poly = a.clone();
        ring.to_coefficients(&mut poly)?;
        Ok(poly)
    };
    row("copy and inverse transform", seconds(&ring, inverse)?, 6.0 * limbs * words, limbs)?;
    let mut plain = a.clone();
    ring.to_coefficients(&mut plain)?;
    let forward = || {
        let mut poly = plain.clone();
        ring.to_evaluation(&mut poly)?;
        Ok(poly)
    };
    row("copy and forward transform", seconds(&ring, forward)?, 6.0 * limbs * words, limbs)?;
    row("automorphism", seconds(&ring, || ring.automorphism(&a, 5))?, 2.0 * limbs * words, 0.0)?;
    let raised = limbs + wide_limbs * count - limbs;
    let decompose = || {
        ring.decompose(&a)?;
        Ok(a.clone())
    };
    row("decomposition", seconds(&ring, decompose)?, (3.0 * limbs + 5.0 * raised) * words, raised + limbs)?;
    let product = || Ok(ring.gadget_product_hoisted(&digits, &key)?.into_iter().next().unwrap_or_else(|| a.clone()));
    row("product with a key", seconds(&ring, product)?, wide_limbs * (3.0 * count + 2.0) * words, 0.0)?;
    row(
        "division",
        seconds(&ring, || ring.divide_round(&wide, basis))?,
        (wide_limbs + 6.0 * limbs) * words,
        wide_limbs,
    )?;
    Ok(())
}
