//! `unspoken matrix ask`

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use unspoken_client::ServiceClient;
use unspoken_matrix::{MatrixClient, NamedArrays};

use crate::commands::connection::{Target, print_usage};
use crate::interrupt;
use crate::npy;
use crate::progress::Bars;

/// Encrypt arrays, let a service compute with them, and decrypt the result
///
/// The service has a program of matrix operations and its constants. It learns no entry of the arrays or of the
/// result. The first call generates and uploads keys; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Input of the program: NAME=FILE, where FILE is a NumPy file of real numbers; once per input
    #[arg(long = "input", value_name = "NAME=FILE", required = true)]
    inputs: Vec<Input>,
    /// NumPy file to write the result to
    #[arg(long)]
    out: PathBuf,
    /// Make the result safe to share: add noise that exceeds the encryption error by this many bits, and round.
    /// Without it, only the holder of the secret key may see the result
    #[arg(long, value_name = "BITS")]
    share: Option<u32>,
}

#[derive(Clone)]
struct Input {
    name: String,
    path: PathBuf,
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').ok_or("needed NAME=FILE, for instance a=a.npy")?;
        Ok(Input { name: name.into(), path: path.into() })
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a missing file must not cost a key upload.
    let arrays = arguments.inputs.iter().map(|input| npy::read(&input.path)).collect::<anyhow::Result<Vec<_>>>()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<MatrixClient>::connect(transport, &application, (), &state, &mut step, &cancel)?;
    let signature = client.description().signature().clone();
    let mut inputs: NamedArrays = Vec::new();
    for (Input { name, .. }, array) in arguments.inputs.iter().zip(arrays) {
        let found = signature.inputs().iter().find(|input| input.name == *name);
        let names = || signature.inputs().iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ");
        let input = found.with_context(|| format!("the program has no input {name}; its inputs are {}", names()))?;
        let matrices = input.shape.to_matrices(array, signature.batch()).with_context(|| format!("input {name}"))?;
        inputs.push((name.into(), matrices));
    }
    let mut result = client.ask(&[&inputs], &mut step, &cancel)?.pop().context("the service gave no answer")?;
    if let Some(bits) = arguments.share {
        result = client.half().share(&inputs, &result, bits)?;
    }
    bars.finish();
    let result = signature.output().to_array(result)?;
    npy::write(&arguments.out, &result)?;
    println!("result      shape {:?}, written to {}", result.shape(), arguments.out.display());
    let error = client.description().error_bound();
    println!("computed    with preset {}, error below {error:.1e}", signature.preset());
    print_usage(client.usage());
    Ok(())
}
