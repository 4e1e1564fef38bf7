//! Kinds of queries by their names.

use crate::error::PirError;
use crate::mode::Mode;

impl std::str::FromStr for Mode {
    type Err = PirError;

    fn from_str(name: &str) -> Result<Self, PirError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| PirError::format("kind of queries", name, "compact, session, bits or packed"))
    }
}
