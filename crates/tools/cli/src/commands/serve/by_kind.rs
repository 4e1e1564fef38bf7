//! A flag for each kind of offers.

use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use unspoken_offers::KINDS;
use unspoken_server::{OfferConfig, ServerError};

/// Offers of flags such as `--classify DIR`, which is short for `--offer classify=DIR`.
pub struct OffersByKind(pub Vec<OfferConfig>);

impl clap::Args for OffersByKind {
    fn augment_args(command: Command) -> Command {
        KINDS.iter().fold(command, |command, kind| {
            let read = |text: &str| read(kind.name, text);
            let flag = Arg::new(kind.name).long(kind.name).value_name("[NAME=]DIR[,OPTION=VALUE]...");
            command
                .arg(flag.help(format!("Short for --offer {}", kind.name)).action(ArgAction::Append).value_parser(read))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// An offer of this kind, whose name may be left out.
fn read(kind: &str, text: &str) -> Result<OfferConfig, ServerError> {
    let named = text.split(',').next().is_some_and(|path| path.contains('='));
    format!("{kind}{}{text}", if named { ':' } else { '=' }).parse()
}

impl FromArgMatches for OffersByKind {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |kind: &str| matches.get_many::<OfferConfig>(kind).into_iter().flatten().cloned();
        Ok(OffersByKind(KINDS.iter().flat_map(|kind| given(kind.name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_options_may_be_left_out() {
        for (text, offer) in [
            ("model", "classify=model"),
            ("a/b=model", "classify:a/b=model"),
            ("model,head=h", "classify=model,head=h"),
            ("a/b=model,head=h,query=compact", "classify:a/b=model,head=h,query=compact"),
        ] {
            assert_eq!(read("classify", text).unwrap(), offer.parse().unwrap(), "{text}");
        }
        assert!(read("classify", "").is_err() && read("classify", "model,head").is_err());
    }
}
