//! What `config.json` and old tensors say of the angles of RoPE.

use unspoken_llama_model::Config;

use super::config::Json;
use super::files::Files;
use crate::error::LoadError;
use crate::rope::{RopeScaling, rope_frequencies};
use crate::safetensors::json_scaling::JsonScaling;

/// How far old tensors of angles, which some files have in 16 bits, may be from the angles of `config.json`: relative
/// to them, and the smallest step of 16 bits.
const TOLERANCE: f64 = 1.0 / 128.0;
const SMALLEST_STEP: f64 = 1.0 / (1 << 24) as f64;

/// How angles are scaled; `None` if they are not.
type Scaling = Option<RopeScaling>;

impl Json {
    /// The coordinates of a head that RoPE turns: the first ones. Only some families have others.
    pub fn rotated(&self, head_width: usize, partial: bool) -> Result<usize, (String, String)> {
        let parts = self.parts().filter_map(|part| part.partial_rotary_factor);
        let mut stated = self.partial_rotary_factor.into_iter().chain(parts);
        let factor = stated.next().unwrap_or(1.0);
        if let Some(other) = stated.find(|other| *other != factor) {
            return Err((format!("partial_rotary_factor {factor} and {other}"), "equal ones".into()));
        }
        if factor != 1.0 && !partial {
            return Err((format!("partial_rotary_factor {factor}"), "1: RoPE on all coordinates of a head".into()));
        }
        let rotated = (head_width as f64 * factor) as usize;
        if !(0.0..=1.0).contains(&factor) || rotated == 0 || !rotated.is_multiple_of(2) {
            let found = format!("partial_rotary_factor {factor} of heads of width {head_width}");
            return Err((found, "an even number of coordinates, from 2 to all".into()));
        }
        Ok(rotated)
    }

    /// The angles, scaled; 0 for coordinates that are not turned.
    pub fn frequencies(&self, head_width: usize, rotated: usize) -> Result<Vec<f64>, (String, String)> {
        let stated: Vec<Scaling> =
            self.parts().filter_map(|part| part.scaling().transpose()).collect::<Result<_, _>>()?;
        if stated.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(("rope_parameters and rope_scaling that differ".into(), "one of them, or equal ones".into()));
        }
        let mut frequencies = self.plain_frequencies(rotated);
        if let Some(scaling) = stated.first().copied().flatten() {
            frequencies.iter_mut().for_each(|frequency| *frequency = scaling.apply(*frequency));
        }
        frequencies.resize(head_width / 2, 0.0);
        Ok(frequencies)
    }

    /// The angles before they are scaled.
    fn plain_frequencies(&self, head_width: usize) -> Vec<f64> {
        rope_frequencies(self.rope_base().unwrap_or(10_000.0), head_width)
    }

    /// The base of the angles, if it is stated.
    pub fn rope_base(&self) -> Option<f64> {
        self.parts().find_map(|part| part.rope_theta).or(self.rope_theta)
    }

    fn parts(&self) -> impl Iterator<Item = &JsonScaling> {
        [&self.rope_parameters, &self.rope_scaling].into_iter().flatten()
    }
}

impl JsonScaling {
    /// How angles are scaled, if this says it.
    fn scaling(&self) -> Result<Option<Scaling>, (String, String)> {
        let number = |name: &str, value: Option<f64>| {
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .ok_or_else(|| (format!("no {name} in rope_scaling"), "a positive number".to_owned()))
        };
        let kind = match (&self.rope_type, &self.kind) {
            (Some(new), Some(old)) if new != old => {
                let found = format!("rope_scaling with rope_type {new:?} and type {old:?}");
                return Err((found, "one of them, or equal ones".into()));
            }
            (Some(kind), _) | (None, Some(kind)) => kind,
            (None, None) => match self.factor {
                Some(factor) => {
                    let found = format!("rope_scaling with factor {factor} and no rope_type");
                    return Err((found, "\"rope_type\": \"linear\" if that is meant".into()));
                }
                None => return Ok(None),
            },
        };
        match kind.as_str() {
            "default" => Ok(Some(None)),
            "linear" => Ok(Some(Some(RopeScaling::Linear { factor: number("factor", self.factor)? }))),
            "llama3" => Ok(Some(Some(RopeScaling::Llama3 {
                factor: number("factor", self.factor)?,
                low_turns: number("low_freq_factor", self.low_freq_factor)?,
                high_turns: number("high_freq_factor", self.high_freq_factor)?,
                original_context: number("original_max_position_embeddings", self.original_max_position_embeddings)?,
            }))),
            other => Err((format!("rope_scaling {other:?}"), "\"default\", \"linear\" or \"llama3\"".into())),
        }
    }
}

/// Reads the tensors of angles that old files have, and refuses angles that differ from `config.json`. Some programs
/// wrote angles before they were scaled.
pub(super) fn check_angles(files: &mut Files, json: &Json, config: &Config) -> Result<(), LoadError> {
    let names: Vec<String> =
        files.unread().into_iter().filter(|name| name.ends_with("rotary_emb.inv_freq")).map(str::to_owned).collect();
    let stated = [config.rope_frequencies.clone(), json.plain_frequencies(config.head_width)];
    for name in names {
        let found = files.read(&name, &[config.head_width / 2])?;
        let same = |stated: &Vec<f64>| {
            stated
                .iter()
                .zip(&found)
                .all(|(stated, found)| (f64::from(*found) - stated).abs() <= TOLERANCE * stated + SMALLEST_STEP)
        };
        if !stated.iter().any(same) {
            let found = format!("a tensor {name} with other angles than those of config.json");
            let needed = "the same angles, or no such tensor: other programs take those of config.json";
            return Err(LoadError::content(files.directory(), found, needed));
        }
    }
    Ok(())
}
