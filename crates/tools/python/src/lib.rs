#![doc = include_str!("../README.md")]

mod collection;
mod compiled;
mod connections;
mod database;
mod digits;
mod embedding;
mod exact;
mod exact_pool;
mod failure;
mod head;
mod hosting;
mod interruptible;
mod kinds;
mod llama;
mod matrix;
mod matrix_graph;
mod model;
mod plan_cache;
mod presets;
mod progress;
mod records;
mod retrieval;
mod sampling;
mod search;
mod sums;
mod texts;

use pyo3::prelude::*;

/// The compiled half of the package `unspoken`. Not for direct use.
#[pymodule]
fn _unspoken(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<collection::Collection>()?;
    module.add_class::<collection::CollectionWriter>()?;
    module.add_class::<compiled::CompiledModel>()?;
    module.add_class::<compiled::OnnxModel>()?;
    module.add_class::<connections::Connection>()?;
    module.add_class::<connections::Service>()?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::DatabaseWriter>()?;
    module.add_class::<digits::Digits>()?;
    module.add_class::<embedding::Codes>()?;
    module.add_class::<embedding::Table>()?;
    module.add_class::<exact::ExactPublicKey>()?;
    module.add_class::<exact::ExactSecret>()?;
    module.add_class::<exact::ExactVector>()?;
    module.add_class::<exact_pool::ExactPool>()?;
    module.add_class::<head::Head>()?;
    module.add_class::<hosting::LoadedKeys>()?;
    module.add_class::<hosting::LocalApplication>()?;
    module.add_class::<hosting::ServiceGateway>()?;
    module.add_class::<hosting::Work>()?;
    module.add_class::<interruptible::Interrupt>()?;
    module.add_class::<llama::LlamaConversation>()?;
    module.add_class::<llama::LlamaModel>()?;
    module.add_class::<llama::LlamaPrompt>()?;
    module.add_class::<matrix::EncryptedMatrix>()?;
    module.add_class::<matrix::MatrixInputs>()?;
    module.add_class::<matrix::MatrixKeys>()?;
    module.add_class::<matrix::MatrixProgram>()?;
    module.add_class::<matrix::MatrixSecret>()?;
    module.add_class::<matrix::MatrixSignature>()?;
    module.add_class::<matrix_graph::MatrixGraph>()?;
    module.add_class::<matrix_graph::MatrixOperation>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Words>()?;
    module.add_class::<progress::Counter>()?;
    module.add_class::<progress::Progress>()?;
    module.add_class::<records::RecordReader>()?;
    module.add_class::<records::RecordSource>()?;
    module.add_class::<sums::SumsCollection>()?;
    module.add_function(wrap_pyfunction!(kinds::kinds, module)?)?;
    module.add_function(wrap_pyfunction!(presets::presets, module)?)?;
    module.add_function(wrap_pyfunction!(texts::load_texts, module)?)
}
