//! `unspoken search put`, `delete` and `info`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use unspoken_collection::{Builder, Collection, Writer};

use super::documents::{Documents, Source};

/// Add documents to a collection, or replace those with the same ids
///
/// The documents come from a file as for `unspoken search build`, with vectors of the same embedder. Services take the
/// change up within seconds. A document goes to the nearest cluster with room; when those are full, build the
/// collection again.
#[derive(clap::Args)]
pub struct PutArguments {
    #[command(flatten)]
    source: Source,
    /// Directory of the collection
    collection: PathBuf,
}

/// Remove documents of a collection by their ids
#[derive(clap::Args)]
pub struct DeleteArguments {
    /// Directory of the collection
    collection: PathBuf,
    /// Ids of documents
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// Show what a collection has
#[derive(clap::Args)]
pub struct InfoArguments {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Directory of the collection
    collection: PathBuf,
}

/// Runs `put`.
pub fn put(arguments: &PutArguments) -> anyhow::Result<()> {
    let Documents { documents, vectors, embedder } = arguments.source.read()?;
    let mut writer = Writer::open(&arguments.collection)?;
    if let (Some(found), Some(needed)) = (&embedder, writer.embedder()) {
        anyhow::ensure!(found == needed, "the vectors are of the {found}; needed those of the {needed}");
    }
    let mut replaced = 0;
    for (number, (document, vector)) in documents.iter().zip(vectors.outer_iter()).enumerate() {
        let put = writer.put(document, &vector.to_vec());
        replaced += usize::from(put.with_context(|| format!("document {number}; nothing was changed"))?);
    }
    writer.commit()?;
    println!("added {}, replaced {replaced}; {} documents", documents.len() - replaced, writer.documents());
    Ok(())
}

/// Runs `delete`.
pub fn delete(arguments: &DeleteArguments) -> anyhow::Result<()> {
    let mut writer = Writer::open(&arguments.collection)?;
    for id in &arguments.ids {
        anyhow::ensure!(writer.delete(id.as_bytes())?, "found no document with the id {id}; nothing was changed");
    }
    writer.commit()?;
    println!("removed {}; {} documents", arguments.ids.len(), writer.documents());
    Ok(())
}

/// Runs `info`.
pub fn info(arguments: &InfoArguments) -> anyhow::Result<()> {
    let index = Collection::open(&arguments.collection, None)?.index();
    let (shape, asked) = (index.shape(), index.directory().asked());
    let [width, blocks, groups] = [shape.width(), shape.blocks(), shape.groups()];
    let (documents, removed, positions) = (index.documents(), index.removed().len(), index.positions());
    let (embedder, recall) = (index.about().embedder.as_deref(), index.about().recall);
    if arguments.json {
        let info = json!({
            "documents": documents, "removed": removed, "positions": positions, "width": width, "blocks": blocks,
            "groups": groups, "asked": asked, "embedder": embedder, "recall": recall,
            "preset": index.parameters().name(),
            "memory_bytes": index.memory_bytes(),
        });
        println!("{info}");
        return Ok(());
    }
    println!("documents   {documents}, {width} coordinates");
    println!("positions   {positions}, {removed} of them left empty by removed documents");
    println!("layout      {blocks} blocks of {groups} clusters, {asked} of them asked");
    println!("memory      {} bytes for the table, at the service", index.memory_bytes());
    if let Some(recall) = recall {
        println!("recall      {recall:.3} of the {} nearest, when it was built", Builder::NEIGHBOURS);
    }
    println!("embedder    {}", embedder.unwrap_or("not known"));
    Ok(())
}
