//! What an owner decides when a model is compiled.

use unspoken_ckks::Preset;
use unspoken_network::{Options, Wishes};

use crate::error::ModelError;

/// What an owner decides when a model is compiled: the options of `unspoken compile`, with their names.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Rows of a query, rounded up to a power of two.
    pub batch: usize,
    /// The parameter set. Without it the one with the fewest predicted seconds is chosen.
    pub preset: Option<String>,
    /// Factor by which ranges are wider than in the calibration.
    pub margin: f64,
    /// Precision of functions with a kink: the mean error over the calibration, as bits of their range.
    pub kink_bits: f64,
    /// Precision of smooth functions: the largest error, as bits of their range.
    pub smooth_bits: f64,
    /// Whether all weights stay as they are. Otherwise maps are fitted again to what polynomials give them, where that
    /// makes results more precise.
    pub keep_weights: bool,
    /// Memory of weights, keys of one client, and one run, at most, in MiB.
    pub memory_mib: u64,
}

impl CompileOptions {
    /// What is taken if an owner decides nothing.
    pub const DEFAULT: CompileOptions = CompileOptions {
        batch: 128,
        preset: None,
        margin: 1.25,
        kink_bits: 9.0,
        smooth_bits: 12.0,
        keep_weights: false,
        memory_mib: 8192,
    };

    /// The options of a network and of the choice of parameters.
    ///
    /// # Errors
    /// Names an option that is out of range, and a preset that is unknown or insecure.
    pub fn checked(&self) -> Result<(Options, Wishes), ModelError> {
        let wrong = |option: &'static str, found: String, needed: &'static str| {
            Err(ModelError::Option { option, found, needed })
        };
        for (option, bits) in [("kink-bits", self.kink_bits), ("smooth-bits", self.smooth_bits)] {
            if !(1.0..=30.0).contains(&bits) {
                return wrong(option, bits.to_string(), "1 to 30");
            }
        }
        if !(self.margin >= 1.0 && self.margin.is_finite()) {
            return wrong("margin", self.margin.to_string(), "a factor of 1 or more");
        }
        if self.batch == 0 {
            return wrong("batch", "0".into(), "one row or more");
        }
        if let Some(name) = &self.preset {
            let needed = "one of 128 bits of security; `unspoken params` lists them";
            match Preset::find(name) {
                Ok(preset) if preset.is_insecure() => return wrong("preset", "an insecure set".into(), needed),
                Ok(_) => {}
                Err(_) => return wrong("preset", format!("{name:?}, which is unknown"), needed),
            }
        }
        let options = Options {
            margin: self.margin,
            kink_error: (-self.kink_bits).exp2(),
            smooth_error: (-self.smooth_bits).exp2(),
            refit: !self.keep_weights,
            ..Options::default()
        };
        let wishes = Wishes {
            presets: self.preset.iter().cloned().collect(),
            rows: Some(self.batch),
            memory: self.memory_mib.saturating_mul(1 << 20),
            ..Wishes::default()
        };
        Ok((options, wishes))
    }
}
