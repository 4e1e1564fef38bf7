//! The kinds of applications: the one table of them. Commands, messages, the Python package and clusters read it.

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
    /// How its answers are computed.
    pub serving: Serving,
    /// The protocols that its clients speak.
    pub protocols: &'static [Protocol],
    /// Loads the files of an offer and adds the application.
    pub load: fn(&Offer, Applications) -> anyhow::Result<Applications>,
}

/// How answers of a kind are computed, and what that lets a cluster do.
pub struct Serving {
    /// On the device of the service, if it has one.
    pub on_device: bool,
    /// What an answer depends on besides query, keys and files.
    pub state: State,
    /// Whether other processes can compute parts of an answer.
    pub in_parts: bool,
    /// Whether an answer takes so long that clients are told how far it is.
    pub slow: bool,
    /// Queries of several clients that one computation answers.
    pub together: u32,
}

impl Serving {
    /// On the processor, from query, keys and files alone, one query after the other.
    pub const PLAIN: Serving =
        Serving { on_device: false, state: State::None, in_parts: false, slow: false, together: 1 };
}

/// What answers of a kind depend on besides query, keys and files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing: any process gives the same answer, now or later.
    None,
    /// The newest version of files that change. Processes that read the same files agree.
    Files,
    /// What one process remembers, such as sessions. Another process lacks it.
    Process,
    /// A directory that one process locks.
    Directory,
}

/// What a client speaks with an application.
pub struct Protocol {
    /// Name in descriptions of applications. Names on the wire stay when kinds are renamed.
    pub wire: &'static str,
    /// The kind, as people know it.
    pub kind: &'static str,
    /// Description, for messages.
    pub about: &'static str,
    /// The command that asks it.
    pub command: &'static str,
    /// The class of Python that asks it.
    pub class: &'static str,
}

impl Protocol {
    /// Finds a protocol by its name on the wire.
    pub fn find(wire: &str) -> Option<&'static Protocol> {
        KINDS.iter().flat_map(|kind| kind.protocols).find(|protocol| protocol.wire == wire)
    }

    /// The message for `application` at `url`, which speaks the protocol `found` and not `needed`, as `client` does.
    /// `remedy` says what asks the protocol that was found.
    pub fn mismatch(
        [url, application, found, needed]: [&str; 4],
        client: &str,
        remedy: impl FnOnce(&Protocol) -> String,
    ) -> String {
        let known = Protocol::find(found);
        let name = known.map_or(found, |protocol| protocol.kind);
        let needed = Protocol::find(needed).map_or(needed, |protocol| protocol.kind);
        let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let what = known.map(|protocol| format!(" ({})", protocol.about)).unwrap_or_default();
        let remedy = known.map_or_else(|| "update Unspoken here: this version does not know that kind".into(), remedy);
        format!(
            "{url} offers {application}, {article} {name} application{what}; this {client} asks {needed} \
             applications; {remedy}"
        )
    }
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
