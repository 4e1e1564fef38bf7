//! Tests of all help texts.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Command, CommandFactory};

use crate::Arguments;

/// Words that consist of two others and are right.
const COMPOUNDS: &[&str] = &[
    "anyone",
    "backend",
    "cannot",
    "checkpoint",
    "checksums",
    "elsewhere",
    "everyone",
    "handwritten",
    "logits",
    "meanwhile",
    "newline",
    "newlines",
    "offset",
    "outlives",
    "output",
    "outputs",
    "outside",
    "overwrite",
    "overwrites",
    "overwritten",
    "percent",
    "safetensors",
    "someone",
    "timeout",
    "without",
];

/// The long help of a command and of all commands below it, by name.
fn helps(command: &mut Command, path: &str, found: &mut BTreeMap<String, String>) {
    let path = format!("{path} {}", command.get_name());
    found.insert(path.clone(), command.render_long_help().to_string());
    for below in command.get_subcommands_mut() {
        helps(below, &path, found);
    }
}

/// The words of a text in small letters, without names of options, files and values.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let bare = |word: &'_ str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    text.split_whitespace()
        .map(|word| word.trim_matches(['.', ',', ':', ';', '(', ')', '\'', '"']))
        .filter(move |word| bare(word))
}

/// A text in the source that goes on in the next line needs a space in between, and a column needs room to the right of
/// its longest name. Without the space two words run together, and each of the two is also a word elsewhere.
#[test]
fn no_words_run_together() {
    let mut found = BTreeMap::new();
    let mut command = Arguments::command();
    command.build();
    helps(&mut command, "", &mut found);
    assert!(found.len() > 40, "{:?}", found.keys());
    let known: BTreeSet<&str> = found.values().flat_map(|help| words(help)).collect();
    let joined = |word: &str| {
        let mut splits = (3..word.len().saturating_sub(2)).map(|at| word.split_at(at));
        splits.any(|(first, second)| known.contains(first) && known.contains(second))
    };
    let suspects: BTreeSet<&str> = known.iter().copied().filter(|word| joined(word)).collect();
    let unknown: Vec<_> = suspects.iter().filter(|word| !COMPOUNDS.contains(word)).collect();
    assert!(unknown.is_empty(), "two words each, or right and to be named in COMPOUNDS? {unknown:?}");
    // The check itself sees the fault.
    assert!(joined("evaluationskeys") && !joined("evaluations"));
}
