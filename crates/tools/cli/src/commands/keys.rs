//! `unspoken keys`

use unspoken_client::transport::{Cancel, KeyId};
use unspoken_server::make_token;

use crate::commands::connection::Connection;

/// Look after keys at a service, and make access tokens
#[derive(clap::Subcommand)]
pub enum Command {
    /// List this client's key bundles at a service
    List {
        #[command(flatten)]
        connection: Connection,
    },
    /// Delete a key bundle from a service
    Delete {
        #[command(flatten)]
        connection: Connection,
        /// The bundle's id, as `keys list` prints it
        id: String,
    },
    /// Make an access token for a client
    ///
    /// Prints the token, for the client, on the first line, and the line for the service's token file on the second.
    /// The token itself is stored nowhere.
    Token {
        /// Name of the client in the service's log
        name: String,
    },
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let cancel = Cancel::new();
    match command {
        Command::List { connection } => {
            for key in connection.open()?.keys(&cancel)? {
                let state = format!("{:?}", key.state()).to_lowercase();
                println!(
                    "{}\t{state}\t{}\t{} bytes\texpires {}",
                    key.id, key.application, key.length, key.expires_unix_seconds
                );
            }
        }
        Command::Delete { connection, id } => connection.open()?.delete_key(&KeyId::parse(id)?, &cancel)?,
        Command::Token { name } => {
            let token = make_token(name)?;
            println!("{}\n{}", token.secret, token.line);
        }
    }
    Ok(())
}
