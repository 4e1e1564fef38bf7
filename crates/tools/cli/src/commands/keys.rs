//! `unspoken keys`

use unspoken_client::transport::{Cancel, KeyId};
use unspoken_server::make_token;

use crate::commands::connection::Connection;

/// Manage evaluation keys at a service, and create access tokens
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
        /// Id of the bundle, as `keys list` prints it
        id: String,
    },
    /// Create an access token for a client
    ///
    /// The first line of the output is the token, for the client; the second is the line for the service's token
    /// file. The token itself is not stored.
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
