//! Cost estimates of the product methods.

use unspoken_ckks::{Complex64, Cost, CostModel, Encoder, Simulator};
use unspoken_rlwe::KeyPlan;

use super::{Method, Product};
use crate::encrypted::EncryptedMatrix;
use crate::error::EncryptedMatrixError;
use crate::layout::Layout;

/// A product to plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductTask {
    /// The layout of the matrices.
    pub layout: Layout,
    /// Rows of the left factor, columns of the left factor, columns of the right factor.
    pub shape: (usize, usize, usize),
    /// Minimum level of the result.
    pub output_level: usize,
    /// Maximum number of rotation keys, if there is a limit.
    pub most_keys: Option<usize>,
}

/// The requirements and the cost of a product by one method.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The method.
    pub method: Method,
    /// The level of the factors, for a result at the output level of the task.
    pub level: usize,
    /// The keys it needs.
    pub keys: KeyPlan,
    /// The operations, as counted by the simulator.
    pub cost: Cost,
    /// Predicted seconds, for all matrices of a vector together.
    pub seconds: f64,
}

impl Estimate {
    /// Number of rotation keys: all keys except the relinearisation key.
    pub fn rotation_keys(&self) -> usize {
        self.keys.len() - 1
    }
}

/// Estimates of all methods, including the baselines, that the levels and the key limit allow, the fastest first. All
/// end at the same level.
///
/// # Errors
/// If the shape is empty, or no method fits.
pub fn estimates(
    encoder: &Encoder,
    model: &CostModel,
    task: &ProductTask,
) -> Result<Vec<Estimate>, EncryptedMatrixError> {
    let highest = encoder.parameters().max_level();
    let candidates = Method::all(task.layout).into_iter().filter(|m| task.output_level + m.depth() <= highest);
    let all: Vec<Estimate> = candidates.map(|m| estimate(encoder, model, task, m)).collect::<Result<_, _>>()?;
    let least = all.iter().map(Estimate::rotation_keys).min();
    let within = |estimate: &Estimate| task.most_keys.is_none_or(|most| estimate.rotation_keys() <= most);
    let mut all: Vec<Estimate> = all.into_iter().filter(within).collect();
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    match (all.is_empty(), least) {
        (false, _) => Ok(all),
        (true, Some(least)) => Err(EncryptedMatrixError::Layout {
            operation: "plan a product",
            found: format!("room for {} rotation keys", task.most_keys.unwrap_or(0)),
            needed: format!("at least {least} in this layout; fewer blocks need fewer"),
        }),
        (true, None) => Err(EncryptedMatrixError::Depth {
            operation: "plan a product",
            found: highest.saturating_sub(task.output_level),
            needed: 2,
            remedy: "ask for a lower level of the result, or use a deeper preset".into(),
        }),
    }
}

fn estimate(
    encoder: &Encoder,
    model: &CostModel,
    task: &ProductTask,
    method: Method,
) -> Result<Estimate, EncryptedMatrixError> {
    let (simulator, scale) = (Simulator::counting(encoder), encoder.parameters().scale());
    let level = task.output_level + method.depth();
    let factor = |rows: usize, columns: usize| {
        let count = task.layout.tiles((rows, columns));
        let tile = || simulator.encrypt(&[Complex64::default()], level, scale);
        let tiles = (0..count).map(|_| tile()).collect::<Result<_, _>>()?;
        EncryptedMatrix::from_tiles(task.layout, (rows, columns), 1, tiles)
    };
    let (rows, inner, columns) = task.shape;
    let product = Product::new(encoder.parameters(), task.layout, method, level, [scale, scale])?;
    product.apply(&simulator, &factor(rows, inner)?, &factor(inner, columns)?)?;
    let (keys, cost) = (simulator.key_plan(), simulator.cost());
    let seconds = model.seconds(&cost);
    Ok(Estimate { method, level, keys, cost, seconds })
}
