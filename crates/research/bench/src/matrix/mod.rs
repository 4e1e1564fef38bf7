//! The matrix suite: the tables of the permutation paper; our algorithms compared with the published ones.
//!
//! - **Products** of encrypted matrices all end three levels below the highest; deeper methods start higher. Times and
//!   key switches are per product, with every slot in use (`params.at_once`). Rizomiliotis and Triakosia's product
//!   rotates one by one, as published. Its hoisted form is another baseline, as is the paper's product by doublings.
//!   Jiang et al.'s product that rotates one by one is a baseline, too. Its hoisted form counts as ours, and is the
//!   planner's choice in a single block (`params.method`). Every result is decrypted and compared once.
//! - **The planner's choice** is compared with the fastest plan. Every plan is checked and timed alone that the limits
//!   allow and that is predicted to take at most 1.6 times as long as the choice; then the fastest three are timed in
//!   turn with the choice. `planned_over_the_fastest_candidate` is the largest of the medians of the paired ratios, and
//!   1 if the choice is the fastest. With `--quick` only the five plans that are predicted to be fastest are timed;
//!   `params` has the number of plans.
//! - **Plain products** (`--only plain`): one plaintext matrix by all the encrypted matrices that fit; times are per
//!   product. All end two levels below the highest. One ciphertext for each row holds more matrices at once than slots
//!   do; `params` has the number.

mod keys;
mod permutations;
pub(crate) mod plain;
mod planned;
mod products;
mod table2;
mod table3;
mod table4;
mod table6;
mod table7;
mod table8;

use ndarray::Array2;
use permutations::PermutationFixture;
use products::ProductFixture;
use unspoken_ckks::{Encoder, Preset};

use crate::harness::Harness;
use crate::row::Metric;

const TABLE2: &str = "table2";
const TABLE3: &str = "table3";
const TABLE4: &str = "table4";
const TABLE6: &str = "table6";
const TABLE7: &str = "table7";
const TABLE8: &str = "table8";
const KEYS: &str = "keys";
const PLAIN: &str = "plain";

pub(crate) const PARTS: [&str; 8] = [TABLE2, TABLE3, TABLE4, TABLE6, TABLE7, TABLE8, KEYS, PLAIN];

/// Largest allowed error of an entry, relative to the largest entry.
const TOLERANCE: f64 = 1e-2;

const TIME_PER_PRODUCT: Metric = Metric::less("time_per_product", "ms");
const ROTATION_KEYS: Metric = Metric::less("rotation_keys", "keys");
const KEY_BYTES: Metric = Metric::less("key_bytes", "bytes");
const DEPTH: Metric = Metric::less("depth", "levels");
const LOG2_RELATIVE_ERROR: Metric = Metric::less("log2_relative_error", "bits");

/// A counted quantity of the compared methods.
pub(crate) type CountedMetric<'a, T> = (Metric, &'a dyn Fn(&T) -> f64);

/// The paper's parameters for products: 2^15 real slots and 18 levels.
const FULL: Case = Case {
    preset: "n15_real_depth17_scale30",
    dimensions: &[8, 16, 32, 64],
    replicated: &[8, 16, 32],
    plain: &[16, 32],
    every_space: true,
    transposes: Some(("n15_depth17_scale30", 128)),
    random: &[9, 10, 11, 12, 13, 14, 15],
    by_keys: &[9, 12, 15],
};

/// For `--quick`: half the slots, and only the largest and the smallest space.
const QUICK: Case = Case {
    preset: "n14_real_depth8_scale30",
    dimensions: &[8, 16],
    replicated: &[8],
    plain: &[8],
    every_space: false,
    transposes: Some(("n14_real_depth8_scale30", 32)),
    random: &[9],
    by_keys: &[],
};

/// The measured sizes.
#[derive(Clone, Copy, Debug)]
struct Case {
    preset: &'static str,
    /// Dimensions of Table 4.
    dimensions: &'static [usize],
    /// Dimensions of Table 8.
    replicated: &'static [usize],
    /// Dimensions of products with a plaintext matrix.
    plain: &'static [usize],
    /// Measure every encoding space that fits, or only the largest and the smallest.
    every_space: bool,
    /// Preset and dimension of the transposes (Table 3).
    transposes: Option<(&'static str, usize)>,
    /// Lengths of random permutations (Tables 2 and 7), as exponents of two.
    random: &'static [u32],
    /// Those whose time is measured against the number of keys.
    by_keys: &'static [u32],
}

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    run_case(harness, if harness.options.quick { QUICK } else { FULL })?;
    if harness.includes(TABLE6) {
        table6::run(harness)?;
    }
    harness.peak_memory("keys, masks and matrices of the largest product");
    Ok(())
}

fn run_case(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    let encoder = Encoder::new(&Preset::find(case.preset)?.build()?);
    if harness.includes(TABLE2) {
        for &log2_length in case.random {
            table2::run(harness, &encoder, log2_length)?;
        }
    }
    if harness.includes(TABLE3)
        && let Some((preset, dimension)) = case.transposes
    {
        table3::run(harness, &PermutationFixture::new(Encoder::new(&Preset::find(preset)?.build()?))?, dimension)?;
    }
    if harness.includes(TABLE7) {
        let fixture = PermutationFixture::new(encoder.clone())?;
        for &log2_length in case.random {
            table7::run(harness, &fixture, log2_length)?;
        }
    }
    if harness.includes(KEYS) {
        let fixture = PermutationFixture::new(encoder.clone())?;
        for &log2_length in case.by_keys {
            keys::run(harness, &fixture, log2_length)?;
        }
    }
    if harness.includes(PLAIN) {
        for &dimension in case.plain {
            plain::run(harness, &encoder, dimension, encoder.parameters().max_level())?;
        }
    }
    let fixture = ProductFixture::new(encoder)?;
    if harness.includes(TABLE4) {
        for &dimension in case.dimensions {
            table4::run(harness, &fixture, dimension, case.every_space)?;
        }
    }
    if harness.includes(TABLE8) {
        for &dimension in case.replicated {
            table8::run(harness, &fixture, dimension)?;
        }
    }
    Ok(())
}

/// The largest error of an entry, relative to the largest exact entry; infinite if an entry is NaN.
fn relative_error<'a>(pairs: impl Iterator<Item = (&'a Array2<f64>, Array2<f64>)>) -> f64 {
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    for (found, exact) in pairs {
        largest = exact.iter().fold(largest, |max, x| max.max(x.abs()));
        let error = |x: &f64| if x.is_nan() { f64::INFINITY } else { x.abs() };
        worst = (found - &exact).iter().fold(worst, |max, x| max.max(error(x)));
    }
    worst / largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn products_of_every_space_at_a_small_ring() {
        let preset = "insecure_n11_real_depth17_scale30";
        let transposes = Some((preset, 16));
        let case = Case {
            preset,
            dimensions: &[8],
            replicated: &[8],
            plain: &[8],
            every_space: true,
            transposes,
            random: &[6],
            by_keys: &[6],
        };
        let rows = test_rows(Suite::Matrix, |harness| run_case(harness, case));
        let find = |case: &str, metric: &str, baseline: &str| {
            let row =
                rows.iter().find(|r| r.case == case && r.metric == metric && r.baseline_name.starts_with(baseline));
            row.unwrap_or_else(|| panic!("no {metric} of {case} against '{baseline}'"))
        };
        for (blocks, parallel) in [(8, 4), (4, 8), (2, 16), (1, 32)] {
            let case = format!("product, d = 8, {blocks} blocks");
            let row = find(&case, "time_per_product", "Rizomiliotis");
            assert!(row.ours > 0.0 && row.ratio.is_some());
            assert_eq!((&row.params["at_once"], &row.params["baseline_at_once"]), (&parallel.into(), &4.into()));
            // 14 rotations of the expansions, and 9 more.
            assert_eq!(find(&case, "rotation_keys", "Rizomiliotis").baseline, Some(23.0));
        }
        assert!(find("product, d = 8, 1 blocks", "time_per_product", "Jiang").ratio.is_some());
        let transpose = find("transpose, d = 16, depth 3", "masks", "Jiang");
        assert!(transpose.ours < 31.0 && transpose.baseline == Some(31.0), "{transpose:?}");
        assert!(find("random permutation, n = 2^6", "time", "Benes").ratio.is_some());
        let by_keys: Vec<_> = rows.iter().filter(|row| row.metric == "time_by_keys").collect();
        assert!(!by_keys.is_empty() && by_keys.iter().all(|row| row.ratio.is_some()), "{by_keys:?}");
        let levels: Vec<_> = rows.iter().filter(|row| row.metric == "rotations_by_level").collect();
        assert!(levels.len() >= 6 && levels.iter().map(|row| row.ours).sum::<f64>() >= 6.0, "{levels:?}");
        assert!(levels.iter().filter_map(|row| row.baseline).sum::<f64>() >= 6.0, "{levels:?}");
        for case in ["transpose, d = 16, depth 3", "random permutation, n = 2^6"] {
            let row = find(case, "planned_over_the_fastest_candidate", "");
            assert!(row.ours >= 1.0 && row.params["candidates"].as_u64() > Some(3), "{row:?}");
        }
        let plain = |metric: &str, baseline: &str| find("plain product, d = 8", metric, baseline);
        for (baseline, depth, keys) in
            [("slots, from rows", 1.0, None), ("Jiang", 2.0, None), ("coeff", 1.0, Some(0.0))]
        {
            let (levels, time) = (plain("depth", baseline), plain("time_per_product", baseline));
            assert_eq!((levels.ours, levels.baseline), (1.0, Some(depth)));
            assert!(time.ours > 0.0 && time.ratio.is_some());
            assert!(keys.is_none() || plain("rotation_keys", baseline).baseline == keys);
        }
        let rotated = plain("key_switches", "Jiang");
        assert!(rotated.baseline > Some(rotated.ours), "{rotated:?}");
        assert!(find("replication, d = 8, step 1", "time_per_product", "no steps").ratio.is_some());
    }
}
