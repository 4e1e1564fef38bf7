//! Spellings of commands and options of the last release. This release still reads them, with a notice.

use std::ffi::OsString;

use crate::progress::note;

/// Commands, and how they are spelled now.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["get"], &["pir", "get"]),
    (&["pir", "seal-key"], &["pir", "oprf-key"]),
    (&["embed", "classify"], &["classify"]),
];

/// A command, an option of it, and how the option is spelled now.
const OPTIONS: &[(&str, &str, &str)] =
    &[("pir", "--unseal", "--oprf"), ("pir", "--seal", "--oprf-key"), ("serve", "--arrays", "--matrix")];

/// The arguments of the process as this release spells them.
pub fn translated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let notice = |old: &str, now: &str| {
        note(&format!("'{old}' is spelled '{now}' now; the next release does not know the old spelling"));
    };
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    // `unspoken help get` names a command, too.
    let first = 1 + usize::from(arguments.get(1).is_some_and(|argument| argument == "help"));
    for (old, now) in COMMANDS {
        if arguments
            .get(first..first + old.len())
            .is_some_and(|given| given.iter().zip(*old).all(|(given, old)| given == old))
        {
            notice(&format!("unspoken {}", old.join(" ")), &format!("unspoken {}", now.join(" ")));
            arguments.splice(first..first + old.len(), now.iter().map(OsString::from));
        }
    }
    let command = arguments.get(1).cloned().unwrap_or_default();
    for argument in arguments.iter_mut().take_while(|argument| *argument != "--") {
        for (_, old, now) in OPTIONS.iter().filter(|(of, ..)| command == *of) {
            let value = argument.to_str().and_then(|text| text.strip_prefix(old));
            if let Some(value) = value.filter(|value| value.is_empty() || value.starts_with('=')) {
                notice(old, now);
                *argument = format!("{now}{value}").into();
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_are_translated_and_others_are_left() {
        let translated = |line: &str| {
            let read = translated(line.split(' ').map(OsString::from));
            read.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (old, now) in [
            ("unspoken get K7 --oprf=unseal/x --usage", "unspoken pir get K7 --oprf=unseal/x --usage"),
            ("unspoken pir seal-key --record-bytes 8 f", "unspoken pir oprf-key --record-bytes 8 f"),
            ("unspoken pir put d K V --seal f", "unspoken pir put d K V --oprf-key f"),
            ("unspoken serve --arrays d --sealed x", "unspoken serve --matrix d --sealed x"),
            ("unspoken get -- --unseal", "unspoken pir get -- --unseal"),
            ("unspoken classify --seal get", "unspoken classify --seal get"),
            ("unspoken embed classify --model m t", "unspoken classify --model m t"),
            ("unspoken help pir seal-key", "unspoken help pir oprf-key"),
            ("unspoken", "unspoken"),
        ] {
            assert_eq!(translated(old), now);
        }
    }
}
