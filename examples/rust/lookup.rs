//! Looks a record up by its key, privately: `lookup URL APPLICATION KEY`.
//!
//! ```sh
//! unspoken serve --pir codes
//! cargo run --release -p unspoken-cli --example lookup -- http://127.0.0.1:8080 pir/codes A00.1
//! ```

use std::env::args;
use std::path::Path;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;

fn main() -> anyhow::Result<()> {
    let [url, application, key] = args().skip(1).collect::<Vec<_>>().try_into().ok().context("URL APPLICATION KEY")?;
    // The secret key, and what is known of the service. Nobody else may read this directory.
    let state = StateDir::open(Path::new("client-state"), &url, &application)?;
    let cancel = Cancel::new();
    let options = PirOptions::new(Mode::Packed, state.clone());
    let transport = Transport::new(TransportConfig::new(&url))?;
    // Makes keys and sends them, unless the service has them.
    let mut client: ServiceClient<PirClient> =
        ServiceClient::connect(transport, &application, options, &state, &mut |_| {}, &cancel)?;
    let answers = client.ask(&[Question::Key(key.into_bytes())], &mut |_| {}, &cancel)?;
    match answers.into_iter().next().and_then(|answer| answer.record) {
        Some(record) => println!("{}", String::from_utf8_lossy(&record)),
        // The service does not learn that there is none.
        None => println!("no such key"),
    }
    Ok(())
}
