//! Kinds of queries by their names.

use crate::error::SchemeError;
use crate::mode::Mode;

impl std::str::FromStr for Mode {
    type Err = SchemeError;

    fn from_str(name: &str) -> Result<Self, SchemeError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| SchemeError::format("kind of queries", name, "compact, session, bits or packed"))
    }
}
