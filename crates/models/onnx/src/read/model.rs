//! The message of a whole model, and what is around its graph.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use crate::error::{OnnxError, Refusal, quoted};
use crate::limits::{MAX_FILE_BYTES, MAX_ITEMS};
use crate::proto::{GraphProto, ModelProto, OperatorSetIdProto};

/// Versions of the operators of `ai.onnx` that are read.
const OPSETS: std::ops::RangeInclusive<i64> = 9..=23;
/// Versions of the operators of `ai.onnx.ml` that are read.
const ML_OPSETS: std::ops::RangeInclusive<i64> = 1..=5;
/// The domain of classical models.
pub(crate) const ML: &str = "ai.onnx.ml";

/// Reads the bytes of a model's file.
///
/// # Errors
/// If the file cannot be read or is longer than a model can be.
pub(crate) fn read_file(path: &Path) -> Result<Bytes, OnnxError> {
    let failed = |source| OnnxError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(failed)?;
    let known = file.metadata().map_err(failed)?.len().min(MAX_FILE_BYTES);
    let mut bytes = Vec::with_capacity(known as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let needed = format!("at most {MAX_FILE_BYTES} bytes");
        let remedy = "write the weights to a file of external data";
        return Err(Refusal::new("a longer file", needed, remedy).at(quoted(&path.display().to_string())));
    }
    Ok(Bytes::from(bytes))
}

/// Decodes a model, and returns its graph and the version of `ai.onnx`.
///
/// # Errors
/// If the message is damaged, or has parts that are not read.
pub(crate) fn checked_model(bytes: Bytes) -> Result<(GraphProto, i64), OnnxError> {
    let place = "the file";
    let model = ModelProto::decode(bytes).map_err(|error| {
        let found = format!("damaged protobuf ({error})");
        Refusal::new(found, "a whole ONNX model", "copy the file again, or export it again").at(place)
    })?;
    let version = check_front(&model).map_err(|refusal| refusal.at(place))?;
    let graph = model.graph.ok_or_else(|| {
        Refusal::new("no graph", "an ONNX model", "give the file that `torch.onnx.export` or `skl2onnx` wrote")
            .at(place)
    })?;
    check_graph(&graph).map_err(|refusal| refusal.at("the graph"))?;
    Ok((graph, version))
}

/// Checks versions and the parts beside the graph, and returns the version of `ai.onnx`.
fn check_front(model: &ModelProto) -> Result<i64, Refusal> {
    if model.ir_version < 3 {
        let found = format!("IR version {}", model.ir_version);
        return Err(Refusal::new(found, "IR version 3 or newer", "export the model with a newer exporter"));
    }
    if let Some(function) = model.functions.first() {
        let found = format!("{} functions, such as {}", model.functions.len(), quoted(&function.name));
        return Err(Refusal::new(
            found,
            "a graph of operators",
            "inline them with `onnx.inliner.inline_local_functions`",
        ));
    }
    if !model.training_info.is_empty() {
        return Err(Refusal::new("a model with its training", "inference only", "export the model for inference"));
    }
    let versions = versions(&model.opset_import)?;
    if let Some(&version) = versions.get(ML).filter(|version| !ML_OPSETS.contains(version)) {
        let found = format!("version {version} of {ML}");
        return Err(Refusal::new(found, format!("{ML_OPSETS:?}"), "export with another `target_opset`"));
    }
    match versions.get("") {
        Some(&version) if OPSETS.contains(&version) => Ok(version),
        Some(&version) => {
            let found = format!("operator set {version}");
            Err(Refusal::new(found, format!("{OPSETS:?}"), "export with `opset_version=18`"))
        }
        None if versions.contains_key(ML) => Ok(*OPSETS.start()),
        None => Err(Refusal::broken("no operator set", "the operator sets that the model uses")),
    }
}

/// The version of each domain. `ai.onnx` is another name of the empty one.
fn versions(imports: &[OperatorSetIdProto]) -> Result<BTreeMap<&str, i64>, Refusal> {
    let mut versions = BTreeMap::new();
    for import in imports {
        let domain = if import.domain == "ai.onnx" { "" } else { import.domain.as_str() };
        if versions.insert(domain, import.version).is_some_and(|version| version != import.version) {
            let found = format!("two versions of the operators of {}", quoted(domain));
            return Err(Refusal::broken(found, "one version of each domain"));
        }
    }
    Ok(versions)
}

fn check_graph(graph: &GraphProto) -> Result<(), Refusal> {
    let counts = [graph.node.len(), graph.initializer.len(), graph.input.len(), graph.output.len()];
    if let Some(count) = counts.iter().find(|&&count| count > MAX_ITEMS) {
        let found = format!("{count} nodes, initializers, inputs or outputs");
        return Err(Refusal::new(found, format!("at most {MAX_ITEMS}"), "use a smaller model"));
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(Refusal::new("sparse initializers", "dense weights", "make the weights dense before the export"));
    }
    if graph.output.is_empty() {
        return Err(Refusal::broken("a graph without outputs", "at least one output"));
    }
    Ok(())
}
