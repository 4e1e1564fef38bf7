//! The permutation that a command works on.

use std::path::PathBuf;

use anyhow::Context;
use unspoken_permute::{Permutation, factors};

/// The permutation; give one of these
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub struct Subject {
    /// The transpose of a D x D matrix in row-major order
    #[arg(long, value_name = "D")]
    transpose: Option<usize>,
    /// Diagonals of a D x D matrix to columns (sigma of Jiang et al.)
    #[arg(long, value_name = "D")]
    sigma: Option<usize>,
    /// Diagonals of a D x D matrix to rows (tau of Jiang et al.)
    #[arg(long, value_name = "D")]
    tau: Option<usize>,
    /// Column k of a D x D matrix to the front of block k of D: the left factor of a matrix product
    #[arg(long, value_name = "D")]
    columns: Option<usize>,
    /// Row k of a D x D matrix to the front of block k of D: the right factor of a matrix product
    #[arg(long, value_name = "D")]
    rows: Option<usize>,
    /// All N entries in reverse order
    #[arg(long, value_name = "N")]
    reversal: Option<usize>,
    /// A random permutation of N entries, with the seed of --seed
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// A JSON array; its entry i is the position in the input of entry i of the result
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// A permutation, and its factors if its structure gives factors.
pub struct Given {
    /// Description.
    pub title: String,
    /// The whole permutation.
    pub permutation: Permutation,
    /// Factors in the order of application; empty if the permutation has no known structure.
    pub factors: Vec<Permutation>,
}

impl Subject {
    /// The requested permutation.
    pub fn permutation(&self, seed: u64) -> anyhow::Result<Given> {
        type Factors = fn(usize) -> Result<Vec<Permutation>, unspoken_permute::PermuteError>;
        let structured: [(Option<usize>, &str, Factors); 5] = [
            (self.transpose, "transpose", factors::transpose),
            (self.sigma, "diagonals to columns", factors::diagonals_to_columns),
            (self.tau, "diagonals to rows", factors::diagonals_to_rows),
            (self.columns, "columns to blocks", factors::expand_columns),
            (self.rows, "rows to blocks", factors::expand_rows),
        ];
        for (dimension, what, factors) in structured {
            let Some(dimension) = dimension else { continue };
            let factors = factors(dimension)?;
            let length = factors.first().map_or(dimension * dimension, Permutation::len);
            let start = Permutation::identity(length)?;
            let permutation = factors.iter().try_fold(start, |product, factor| product.then(factor))?;
            return Ok(Given { title: format!("{what}, {dimension} x {dimension}"), permutation, factors });
        }
        let whole = |title: String, permutation| Given { title, permutation, factors: Vec::new() };
        if let Some(length) = self.reversal {
            return Ok(whole(format!("reversal of {length}"), Permutation::reversal(length)?));
        }
        if let Some(length) = self.random {
            return Ok(whole(format!("random permutation of {length}"), Permutation::random(length, seed)?));
        }
        let path = self.file.as_ref().context("no permutation given; see --help")?;
        let text = unspoken_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
        let source: Vec<u32> = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a JSON array of positions", path.display()))?;
        Ok(whole(path.display().to_string(), Permutation::new(source)?))
    }
}
