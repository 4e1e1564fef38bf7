//! `unspoken keys`

use std::time::{Duration, SystemTime};

use anyhow::Context;
use unspoken_client::StateDir;
use unspoken_client::transport::{Cancel, KeyId, Transport};
use unspoken_server::make_token;
use unspoken_wire::ProblemCode;
use unspoken_wire::v1::KeyStatus;

use crate::commands::connection::Connection;
use crate::commands::state_root::StateRoot;

/// Manage evaluation keys at a service, and create access tokens
#[derive(clap::Subcommand)]
pub enum Command {
    /// List this client's key bundles at a service
    ///
    /// With a token, the service lists all bundles of the token. Without one, the command shows those whose ids are in
    /// the state directory. Applications with the same parameters share a bundle; its line names one of them.
    List {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        state: StateRoot,
    },
    /// Delete a key bundle from a service
    ///
    /// The secret key stays. The next question makes and uploads new keys.
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
        Command::List { connection, state } => {
            let keys = list(&connection.open()?, state, &cancel)?;
            for key in keys {
                println!("{}", line(&key, SystemTime::now()));
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

/// The bundles of the client's token; without a token, the bundles that the state directory knows and the service has.
fn list(transport: &Transport, state: &StateRoot, cancel: &Cancel) -> anyhow::Result<Vec<KeyStatus>> {
    match transport.keys(cancel) {
        Err(error) if error.code() == Some(ProblemCode::Forbidden) => {}
        listed => return Ok(listed?),
    }
    let root = state.path()?;
    let ids =
        StateDir::uploaded_keys(&root, transport.url()).with_context(|| format!("cannot read {}", root.display()))?;
    let mut keys = Vec::new();
    for id in ids {
        match transport.key_status(&KeyId::parse(&id)?, cancel) {
            Ok(status) => keys.push(status),
            Err(error) if error.code() == Some(ProblemCode::KeyNotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(keys)
}

/// A line for people: id, state, application, bytes, and when the bundle expires.
fn line(key: &KeyStatus, now: SystemTime) -> String {
    let state = format!("{:?}", key.state()).to_lowercase();
    let (id, application, length) = (&key.id, &key.application, key.length);
    format!("{id}\t{state}\t{application}\t{length} bytes\texpires {}", expiry(&key.expires, now))
}

/// The date, and how far it is.
fn expiry(expires: &str, now: SystemTime) -> String {
    let Ok(time) = humantime::parse_rfc3339(expires) else { return format!("{expires:?}") };
    let date = expires.trim_end_matches('Z').replace('T', " ");
    let left = time.duration_since(now).unwrap_or_default();
    let left = match left.as_secs() {
        seconds if seconds >= 2 * 86400 => format!("{} days", seconds / 86400),
        seconds => humantime::format_duration(Duration::from_secs(seconds - seconds % 60)).to_string(),
    };
    format!("{date} UTC (in {left})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_a_date_for_people() {
        let now = humantime::parse_rfc3339("2026-11-22T22:41:29Z").unwrap();
        assert_eq!(expiry("2026-12-22T22:41:29Z", now), "2026-12-22 22:41:29 UTC (in 30 days)");
        assert_eq!(expiry("2026-11-22T23:44:00Z", now), "2026-11-22 23:44:00 UTC (in 1h 2m)");
        assert_eq!(expiry("2026-11-22T00:00:00Z", now), "2026-11-22 00:00:00 UTC (in 0s)");
        assert_eq!(expiry("soon", now), "\"soon\"");
    }
}
