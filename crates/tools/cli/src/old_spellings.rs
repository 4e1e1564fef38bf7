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
const OPTIONS: &[(&str, &str, &str)] = &[
    ("pir", "--unseal", "--oprf"),
    ("pir", "--seal", "--oprf-key"),
    ("serve", "--arrays", "--matrix"),
    ("serve", "--database", "--pir"),
    ("serve", "--shard", "--pir-shard"),
    ("serve", "--router", "--pir-router"),
    ("serve", "--embedding", "--embed"),
];

/// Kinds whose flags of `serve` had their options beside them.
const SERVED: &[&str] = &["classify", "embed", "digits", "chat", "llama"];

/// These options.
const SERVED_OPTIONS: &[&str] = &["name", "head", "layer", "query", "preset", "plan", "error", "batch"];

fn notice(old: &str, now: &str) {
    note(&format!("'{old}' is spelled '{now}' now; the next release does not know the old spelling"));
}

/// The arguments of the process as this release spells them.
pub fn translated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
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
    if command == "serve" { options_of_offers(arguments) } else { arguments }
}

/// The flag among `names` that an argument is, and its value if that follows in the same argument.
fn flag_of(argument: &OsString, names: &[&'static str]) -> Option<(&'static str, Option<String>)> {
    let text = argument.to_str()?.strip_prefix("--")?;
    let (flag, value) = text.split_once('=').map_or((text, None), |(flag, value)| (flag, Some(value.to_owned())));
    Some((names.iter().find(|name| **name == flag)?, value))
}

/// `serve` with the options of an application in its offer, as in `--classify NAME=DIR,head=FILE`. Arguments that name
/// none or several applications stay as they are.
fn options_of_offers(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_kind = |flag: &OsString| flag_of(flag, SERVED).is_some();
    let is_old = |flag: &OsString| flag_of(flag, SERVED_OPTIONS).or_else(|| flag_of(flag, &["llama"])).is_some();
    if arguments.iter().filter(|argument| is_kind(argument)).count() != 1 || !arguments.iter().any(is_old) {
        return arguments;
    }
    let (mut rest, mut offered, mut name, mut options) = (Vec::new(), Default::default(), String::new(), String::new());
    let mut given = arguments.into_iter();
    while let Some(argument) = given.next() {
        let mut value =
            |inline: Option<String>| inline.or_else(|| given.next()?.into_string().ok()).unwrap_or_default();
        if let Some((kind, inline)) = flag_of(&argument, SERVED) {
            offered = (kind, value(inline));
        } else if let Some((option, inline)) = flag_of(&argument, SERVED_OPTIONS) {
            match option {
                "name" => name = format!(":{}", value(inline)),
                _ => options.push_str(&format!(",{option}={}", value(inline))),
            }
        } else {
            rest.push(argument);
        }
    }
    let (kind, path) = offered;
    let offer = format!("{kind}{name}={path}{options}");
    notice(&format!("--{kind} with options beside it"), &format!("--offer {offer}"));
    rest.extend(["--offer".into(), offer.into()]);
    rest
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
            ("unspoken serve --router a=b --shard=c", "unspoken serve --pir-router a=b --pir-shard=c"),
            ("unspoken serve --model m --web w", "unspoken serve --model m --web w"),
            (
                "unspoken serve --classify m --name a/b --head=h --web w",
                "unspoken serve --web w --offer classify:a/b=m,head=h",
            ),
            ("unspoken serve --embedding t --layer h", "unspoken serve --offer embed=t,layer=h"),
            ("unspoken serve --llama d", "unspoken serve --offer llama=d"),
            ("unspoken serve --chat d --embed e --name n", "unspoken serve --chat d --embed e --name n"),
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
