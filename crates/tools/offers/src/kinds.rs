//! The kinds of applications: the one table of them. Commands, messages, the Python package and clusters read it.

use std::fmt::Write;

use crate::kind::{ClientKind, Kind};
use crate::{
    chat, classify, digits, embed, matrix, model, oprf, pir, pir_encrypted, pir_router, pir_shard, search,
    search_documents, search_router, search_shard, sums,
};

/// All kinds of applications. A new kind is one more line here.
pub const KINDS: &[Kind] = &[
    classify::KIND, //
    embed::KIND,
    digits::KIND,
    matrix::KIND,
    model::KIND,
    pir::KIND,
    pir_shard::KIND,
    pir_router::KIND,
    pir_encrypted::KIND,
    oprf::KIND,
    search::KIND,
    search_shard::KIND,
    search_router::KIND,
    search_documents::KIND,
    sums::KIND,
    chat::KIND,
];

impl Kind {
    /// Finds a kind by name.
    pub fn find(name: &str) -> anyhow::Result<&'static Kind> {
        let names = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let found = KINDS.iter().find(|kind| kind.name == name);
        found.ok_or_else(|| anyhow::anyhow!("no kind {name:?} of offers; choose one of {}", names()))
    }
}

impl ClientKind {
    /// The clients of applications with this kind in their descriptions.
    pub fn find(wire: &str) -> Option<&'static ClientKind> {
        KINDS.iter().flat_map(|kind| kind.clients).find(|clients| clients.wire == wire)
    }

    /// The message for `application` at `url`, whose description has the kind `found` where `client` needs another
    /// one. `remedy` names what asks applications of the kind that was found.
    pub fn mismatch(
        [url, application, found, needed]: [&str; 4],
        client: &str,
        remedy: impl FnOnce(&ClientKind) -> String,
    ) -> String {
        let known = ClientKind::find(found);
        let name = known.map_or(found, |clients| clients.kind);
        let needed = ClientKind::find(needed).map_or(needed, |clients| clients.kind);
        let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let what = known.map(|clients| format!(" ({})", clients.about)).unwrap_or_default();
        let remedy = known.map_or_else(|| "update Unspoken here: this version does not know that kind".into(), remedy);
        format!(
            "{url} offers {application}, {article} {name} application{what}; this {client} asks {needed} \
             applications; {remedy}"
        )
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
