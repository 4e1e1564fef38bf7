//! `unspoken openapi`

/// Print the OpenAPI description of the service's HTTP interface
///
/// An OpenAPI 3.1 document in JSON, as a service has it at /openapi.json.
#[derive(clap::Args)]
pub struct Arguments {}

/// Runs the command.
pub fn run(_: &Arguments) -> anyhow::Result<()> {
    println!("{}", unspoken_server::openapi());
    Ok(())
}
