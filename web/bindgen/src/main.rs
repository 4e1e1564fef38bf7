//! Writes the JavaScript and the types of a WebAssembly module: `unspoken-bindgen MODULE.wasm DIRECTORY`.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, directory] = arguments.as_slice() else {
        eprintln!("needed two arguments: the module and the directory to write to");
        return ExitCode::FAILURE;
    };
    let written = Bindgen::new()
        .remove_name_section(true)
        .remove_producers_section(true)
        .input_path(module)
        .web(true)
        .and_then(|bindgen| bindgen.typescript(true).generate(directory));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("write the JavaScript of {module} to {directory}: {error:?}");
            ExitCode::FAILURE
        }
    }
}
