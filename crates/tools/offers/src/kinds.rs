//! The kinds of applications.

use std::fmt::Write;

use unspoken_server::Applications;

use crate::offer::Offer;
use crate::{chat, classify, digits, embed, matrix, oprf, pir, pir_encrypted, pir_router, pir_shard, sums};

/// All kinds of applications. A new kind is one more line here.
pub const KINDS: &[Kind] = &[
    classify::KIND, //
    embed::KIND,
    digits::KIND,
    matrix::KIND,
    pir::KIND,
    pir_shard::KIND,
    pir_router::KIND,
    pir_encrypted::KIND,
    oprf::KIND,
    sums::KIND,
    chat::KIND,
];

/// One kind of application.
pub struct Kind {
    /// Name of the kind in offers.
    pub name: &'static str,
    /// Description, for the help text.
    pub about: &'static str,
    /// Default name in the service's URL; `{directory}` is replaced by the last part of the offer's path.
    pub default_name: &'static str,
    /// Options of offers of this kind.
    pub options: &'static [KindOption],
    /// Loads the files of an offer and adds the application.
    pub load: fn(&Offer, Applications) -> anyhow::Result<Applications>,
}

/// An option of a kind.
pub struct KindOption {
    /// Name of the option in offers.
    pub name: &'static str,
    /// Description, for the help text.
    pub about: &'static str,
}

impl Kind {
    /// Finds a kind by name.
    pub fn find(name: &str) -> anyhow::Result<&'static Kind> {
        let names = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let found = KINDS.iter().find(|kind| kind.name == name);
        found.ok_or_else(|| anyhow::anyhow!("no kind {name:?} of offers; choose one of {}", names()))
    }

    /// Checks that the kind has the option.
    pub fn check_option(&self, option: &str) -> anyhow::Result<()> {
        if self.options.iter().any(|known| known.name == option) {
            return Ok(());
        }
        let names = self.options.iter().map(|option| option.name).collect::<Vec<_>>().join(", ");
        let has = if names.is_empty() { "none".into() } else { names };
        anyhow::bail!("offers of kind {} have no option {option:?}; they have: {has}", self.name)
    }
}

/// The kinds and their options, for a help text.
pub fn help() -> String {
    let mut text = String::from("Kinds of offers, and their options:\n");
    let options = KINDS.iter().flat_map(|kind| kind.options);
    let width = KINDS.iter().map(|kind| kind.name).chain(options.map(|option| option.name)).map(str::len).max();
    let width = width.unwrap_or(0) + 2;
    for kind in KINDS {
        let _ = writeln!(text, "  {:width$}{} [default name: {}]", kind.name, kind.about, kind.default_name);
        for option in kind.options {
            let _ = writeln!(text, "    {:width$}{}", option.name, option.about);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_separates_every_name_from_its_text() {
        let help = help();
        for kind in KINDS {
            let entries =
                kind.options.iter().map(|option| (option.name, option.about)).chain([(kind.name, kind.about)]);
            for (name, about) in entries {
                let lines: Vec<_> = help.lines().filter(|line| line.contains(about)).collect();
                let separated = |line: &&str| line.split_whitespace().next() == Some(name);
                assert!(lines.iter().any(separated), "{name}: {lines:?}");
            }
        }
    }
}
