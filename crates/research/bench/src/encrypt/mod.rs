//! The encryption suite: the published methods, the product's and SEAL's, in CKKS, BFV and BGV, and on real tables.
//!
//! - **The modulus** is the largest with 128 bits of security at N = 32768: 868 bits in 29 primes of ours. SEAL has the
//!   paper's 16 primes of 881 bits, which SEAL's own check allows: 15 primes of 864 bits in a ciphertext and a special
//!   prime of 17 bits, the smallest possible. SEAL's times do not depend on the bits of a prime. `SEAL of one prime
//!   less` has 840 bits in 14 primes.
//! - **SEAL's public-key encryption** works over all primes and divides by the special prime. It cannot skip the
//!   division, but it encrypts zeros at the level of its keys, which shows the cost of the division. tenseal's
//!   `sealapi` calls SEAL's encoder and encryptor separately. So `encrypt` is encryption alone on both sides, and
//!   `encode_and_encrypt` the sum of the two calls on both sides. The targets of the project are stated for `encrypt`.
//!   SEAL's encoding includes turning a Python list into a vector.
//! - **Pools** hold eight zeros, of which the oldest is taken; filling a pool is not timed.
//! - **Zinc and Rache** come from `unspoken-audit`, which explains why they must not be used. Each cache of Rache is
//!   timed in turn with vanilla encryption only: several caches would fill the memory. Rache holds one number in a
//!   ciphertext. Random numbers have one digit for each pivot. Radix 6 ends at 24 pivots, because 2^55 6^24 is the
//!   largest number that can be encoded.
//! - **Tables**: one column of each table. Rows from all parts of the table are encrypted one by one, and the time is
//!   extrapolated to all rows (`params.rows_measured`); then the column is packed. SEAL encrypts other numbers than the
//!   table's, below 1. Tables that were not downloaded are skipped.

mod methods;
mod modes;
mod numbers;
mod rache;
mod scheme;
mod schemes;
mod seal;
mod tables;

use numbers::Table;
use scheme::SchemeFixture;
use seal::SealBaseline;
use unspoken_audit::insecure_reproduction::RacheShape;
use unspoken_audit::{Scheme, Size};

use crate::harness::Harness;
use crate::peer::SealRequest;
use crate::row::Metric;

const MODES: &str = "modes";
const SCHEMES: &str = "schemes";
const TABLES: &str = "tables";

pub(crate) const PARTS: [&str; 3] = [MODES, SCHEMES, TABLES];

/// Encryption of an encoded message.
const ENCRYPT: Metric = Metric::less("encrypt", "ms");
/// Encoding, then encryption.
const TOGETHER: Metric = Metric::less("encode_and_encrypt", "ms");
/// Numbers encoded and encrypted per second.
const VALUES: Metric = Metric::more("values_per_second", "values/s");

/// Sizes of a run.
struct Case {
    size: Size,
    /// SEAL's primes: with the same number of bits of data as ours, and with one prime less.
    seal: [SealRequest; 2],
    /// Caches in a scheme.
    rache: fn(Scheme) -> Vec<RacheShape>,
    /// Number of rows of a table that are encrypted one by one.
    rows: usize,
}

/// The paper's degree and, within 881 bits, its 16 primes: 15 of 864 bits and a special one of 17, or 14 of 840 bits
/// and a special one of 41.
const FULL: Case = Case {
    size: Size::Paper,
    seal: [
        SealRequest { log_n: 15, log_qp: 881, primes: 16, special_bits: 17, plain_modulus: None },
        SealRequest { log_n: 15, log_qp: 881, primes: 15, special_bits: 41, plain_modulus: None },
    ],
    rache: |scheme| RacheShape::published(scheme).to_vec(),
    rows: 21,
};

/// For `--quick`: small insecure rings.
const QUICK: Case = Case {
    size: Size::Small,
    seal: [
        SealRequest { log_n: 11, log_qp: 167, primes: 4, special_bits: 17, plain_modulus: None },
        SealRequest { log_n: 11, log_qp: 167, primes: 3, special_bits: 53, plain_modulus: None },
    ],
    rache: few_caches,
    rows: 3,
};

/// The primes for BFV, with the plaintext modulus of our preset at the paper's degree, which fits every degree. It is
/// the only prime of 17 bits for that degree, and there is none of 18 or 19 bits; so the special prime has 20 or more.
fn of_bfv(request: SealRequest) -> SealRequest {
    SealRequest { plain_modulus: Some(65537), special_bits: request.special_bits.max(20), ..request }
}

/// Two caches of each radix: the largest that a scheme can hold, and one that holds small numbers.
fn few_caches(scheme: Scheme) -> Vec<RacheShape> {
    let of = |radix| RacheShape::published(scheme).iter().filter(move |shape| shape.radix == radix);
    let holds = |shape: &&RacheShape| shape.limit() >= 1 << 10;
    let two = |radix| of(radix).find(holds).into_iter().chain(of(radix).next_back()).copied();
    let mut shapes: Vec<RacheShape> = [2, 6].into_iter().flat_map(two).collect();
    shapes.dedup();
    shapes
}

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let case = if harness.options.quick { QUICK } else { FULL };
    let mut tables = Vec::new();
    if harness.includes(TABLES) {
        tables = Table::all(harness)?;
    }
    run_case(harness, &case, &tables)
}

fn run_case(harness: &mut Harness<'_>, case: &Case, tables: &[Table]) -> anyhow::Result<()> {
    if harness.includes(MODES) || harness.includes(TABLES) {
        let mut seal = SealBaseline::start(harness, case.seal)?;
        let fixture = SchemeFixture::new(Scheme::Ckks, case.size)?;
        if harness.includes(MODES) {
            modes::run(harness, &fixture, &mut seal, &(case.rache)(Scheme::Ckks))?;
        }
        for table in tables {
            tables::run(harness, &fixture, &mut seal, table, case.rows)?;
        }
    }
    if harness.includes(SCHEMES) {
        for scheme in [Scheme::Bfv, Scheme::Bgv] {
            let mut seal = match scheme {
                Scheme::Bfv => SealBaseline::start(harness, case.seal.map(of_bfv))?,
                _ => SealBaseline::absent(),
            };
            schemes::run(harness, &SchemeFixture::new(scheme, case.size)?, &mut seal, &(case.rache)(scheme))?;
        }
    }
    harness.peak_memory("keys, pools and the largest cache of the suite");
    Ok(())
}

/// Numbers spread over [-1, 1].
fn unit_values(count: usize) -> Vec<f64> {
    (0..count).map(|j| ((j * 7) % 257) as f64 / 128.0 - 1.0).collect()
}

#[cfg(test)]
mod tests {
    use super::methods::EncryptionMethod;
    use super::*;
    use crate::harness::test_rows;
    use crate::{Row, Suite};

    fn tiny_run(case: &Case, tables: &[Table]) -> Vec<Row> {
        test_rows(Suite::Encrypt, |harness| run_case(harness, case, tables))
    }

    #[test]
    fn every_method_in_every_scheme_and_on_a_table() {
        let values: Vec<f64> = (0..1500).map(|i| f64::from(i % 301)).collect();
        let table = Table { name: "exons", values };
        let rows = tiny_run(&Case { rows: 2, ..QUICK }, &[table]);
        let find = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case == case);
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        for scheme in ["CKKS", "BFV", "BGV"] {
            let encode = find("encode", &format!("{scheme}, encoding of all slots")).ours;
            for method in EncryptionMethod::ENCRYPTING {
                let case = format!("{scheme}, {method}");
                let (alone, together) = (find("encrypt", &case), find("encode_and_encrypt", &case));
                assert!(alone.ours > 0.0 && together.ours > alone.ours && together.ours > encode / 2.0, "{case}");
                assert_eq!(alone.baseline_name, if method == EncryptionMethod::Vanilla { "" } else { "vanilla" });
            }
            let rache = find("encrypt", &format!("{scheme}, Rache (broken), radix 2, 16 pivots"));
            assert!(rache.ratio.is_some());
        }
        let packed = find("table_packed", "exons, seeded");
        assert_eq!(packed.params["ciphertexts"], 2);
        let single = find("table_one_by_one", "exons, seeded");
        assert!(single.ours > 100.0 * packed.ours, "{} {}", single.ours, packed.ours);
        find("table_one_by_one", "exons, Rache (broken), radix 2, 9 pivots");
        let [secret, public] =
            ["secret", "public key"].map(|name| find("pool_entry_memory", &format!("CKKS, {name}")).ours);
        assert_eq!(2.0 * secret, public);
    }
}
