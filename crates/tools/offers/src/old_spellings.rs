//! Spellings of offers of the last release. This release still reads them, with a notice in the log.

use unspoken_server::OfferConfig;

/// Kinds: the old name, the name, and the default name of the application, by which clients know it.
const KINDS: &[(&str, &str, &str)] =
    &[("llama", "chat", "llama/{directory}"), ("unseal", "oprf", "unseal/{directory}")];

/// Options: the kind, the old name and the name.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("chat", "own", "sessions_per_client"),
    ("chat", "mib", "session_mib"),
    ("classify", "small", "short_queries"),
    ("embed", "small", "short_queries"),
];

/// An offer as this release spells it, and the default name of an application of its old kind. An old option beside the
/// new one stays, and is refused as unknown.
pub fn translated(mut config: OfferConfig) -> (OfferConfig, Option<&'static str>) {
    let mut default_name = None;
    if let Some((old, now, name)) = KINDS.iter().find(|(old, ..)| config.kind == *old) {
        notice(&format!("the kind {old}"), now);
        config.kind = (*now).to_owned();
        default_name = Some(*name);
    }
    if config.kind == "embed"
        && !config.options.contains_key("head")
        && let Some(head) = config.options.remove("layer")
    {
        notice("the option layer of kind embed", "the option head of kind classify");
        config.kind = "classify".to_owned();
        config.options.insert("head".to_owned(), head);
        default_name = Some("embed/table");
    }
    for (_, old, now) in OPTIONS.iter().filter(|(kind, ..)| config.kind == *kind) {
        if !config.options.contains_key(*now)
            && let Some(value) = config.options.remove(*old)
        {
            notice(&format!("the option {old} of kind {}", config.kind), now);
            config.options.insert((*now).to_owned(), value);
        }
    }
    (config, default_name)
}

fn notice(old: &str, now: &str) {
    tracing::warn!("{old} of offers is spelled {now} now; the next release does not know the old spelling");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    #[test]
    fn old_spellings_are_translated_to_what_kinds_have() {
        for (old, new, name) in [
            ("llama=d,own=2,mib=5", "chat=d,sessions_per_client=2,session_mib=5", Some("llama/{directory}")),
            ("unseal:x/y=d,window=5", "oprf:x/y=d,window=5", Some("unseal/{directory}")),
            ("embed=d,layer=h,small=off", "classify=d,head=h,short_queries=off", Some("embed/table")),
            ("classify=d,small=off", "classify=d,short_queries=off", None),
            ("pir=d", "pir=d", None),
        ] {
            let (config, default_name) = translated(old.parse().unwrap());
            assert_eq!((&config, default_name), (&new.parse().unwrap(), name), "{old}");
            let kind = Kind::find(&config.kind).unwrap();
            config.options.keys().for_each(|option| kind.check_option(option).unwrap());
        }
        let (config, _) = translated("classify=d,short_queries=off,small=on".parse().unwrap());
        let error = Kind::find("classify").unwrap().check_option("small").unwrap_err().to_string();
        assert!(config.options.contains_key("small") && error.contains("no option \"small\""), "{error}");
    }
}
