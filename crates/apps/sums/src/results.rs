//! Decrypted sums.

use unspoken_exact::Ciphertext;
use unspoken_rlwe::SecretKey;
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::SumsError;

/// The sum of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSum {
    /// Name of the column.
    pub name: String,
    /// Sum over all contributions, exact.
    pub sum: i64,
    /// The sum divided by the number of contributions.
    pub mean: f64,
}

/// The sums of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Number of contributions, as their encrypted ones add up.
    pub contributions: u32,
    /// The sums, in the order of the columns.
    pub columns: Vec<ColumnSum>,
}

impl Sums {
    /// Decrypts and checks a sum of untrusted bytes, of `counted` contributions according to the service.
    pub(crate) fn read(
        description: &Description,
        secret: &SecretKey,
        counted: u32,
        sum: &[u8],
    ) -> Result<Self, SumsError> {
        let encoder = description.encoder();
        let ciphertext = Ciphertext::from_bytes(description.parameters(), sum)?;
        let coefficients = encoder.decode_coefficients(&encoder.decrypt(&ciphertext, secret)?)?;
        check_count(description, counted)?;
        read_coefficients(description, counted, coefficients)
    }
}

fn check_count(description: &Description, counted: u32) -> Result<(), SumsError> {
    let (least, most) = (description.least_contributions(), description.most_contributions());
    match (least..=most).contains(&counted) {
        true => Ok(()),
        false => Err(spoiled(format!("{counted} contributions"), format!("{least} to {most}"))),
    }
}

/// The sums in the coefficients, after checks that honest contributions pass: the counting coefficient equals their
/// number, no sum is out of the range of `counted` values, and all other coefficients are 0. Not inlined, so that tools
/// can name this function when they find a branch on a secret.
#[inline(never)]
fn read_coefficients(
    description: &Description,
    counted: u32,
    coefficients: Zeroizing<Vec<i64>>,
) -> Result<Sums, SumsError> {
    let columns = description.columns();
    let (sums, rest) = coefficients.split_at(columns.len());
    let [ones, padding @ ..] = rest else { return Err(spoiled("no count".into(), "one".into())) };
    if *ones != i64::from(counted) {
        let found = "another number of contributions counted in the sum";
        return Err(spoiled(found.into(), format!("{counted}, as the service counted")));
    }
    if padding.iter().any(|&value| value != 0) {
        return Err(spoiled("numbers after the last column".into(), "zeros".into()));
    }
    for (column, &sum) in columns.iter().zip(sums) {
        let times = |value: i64| i128::from(value) * i128::from(counted);
        let (smallest, largest) = (times(column.smallest()), times(column.largest()));
        if !(smallest..=largest).contains(&i128::from(sum)) {
            let found = format!("a sum of '{}' out of range", column.name());
            return Err(spoiled(found, format!("{smallest} to {largest} for {counted} contributions")));
        }
    }
    let sums = columns.iter().zip(sums).map(|(column, &sum)| ColumnSum {
        name: column.name().into(),
        sum,
        mean: sum as f64 / f64::from(counted),
    });
    Ok(Sums { contributions: counted, columns: sums.collect() })
}

fn spoiled(found: String, needed: String) -> SumsError {
    SumsError::Spoiled { found, needed }
}
