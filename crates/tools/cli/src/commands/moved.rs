//! Commands that are now in `unspoken-bench`.

use clap::error::{Error, ErrorKind};

/// Arguments after the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Names the new command and exits with status 2, as for every command line error.
pub fn exit(old: &str, new: &str, arguments: &Arguments) -> ! {
    let rest: String = arguments.rest.iter().map(|argument| format!(" {argument}")).collect();
    let message = format!(
        "'unspoken {old}' has moved to a command of its own: run '{new}{rest}'\n\n\
         'cargo build --release -p unspoken-bench' builds it, as target/release/unspoken-bench.\n"
    );
    Error::<clap::error::RichFormatter>::raw(ErrorKind::InvalidSubcommand, message).exit()
}
