//! A service that continues stories, and answers messages as if they were parts of a story, with **insecure**
//! parameters, for the tests of the page: the keys have some megabytes and a pass takes seconds. With secure
//! parameters, keys have 1.5 GB and a pass takes a minute.
//!
//! `story DIRECTORY SITE DATA` serves the model that `unspoken llama prepare --out DIRECTORY` made, and the page in
//! SITE. Prints a line of JSON with the address, and runs until it is ended.

use std::error::Error;
use std::path::Path;

use unspoken_chat::{ChatServer, ServedModel, ServerOptions};
use unspoken_ckks::Preset;
use unspoken_llama::Preparation;
use unspoken_llama_model::RotatedModel;
use unspoken_server::{Applications, Server, ServerConfig, shutdown_signal};
use unspoken_wire::v1::{ModelFile, PublishedModel};

/// The model, and the same one with a template of conversations.
const STORIES: &str = "chat/stories";
const TALKS: &str = "chat/talks";
const TEMPLATE: &str = "{% for m in messages %}{{ ' ' if not loop.first and m.role != 'assistant' }}{{ m.content }}\
                        {% endfor %}";

const PRESET: &str = "insecure_n11_boot_depth15_scale40";

/// Files that are published, as paths from the directory.
const FILES: [&str; 5] = [
    "client/client.json",
    "client/client.safetensors",
    "client/head.safetensors",
    "client/tokenizer.json",
    "tamed.safetensors",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, site, data] = arguments.as_slice() else {
        return Err("needed three directories: a prepared model, a page, and one for keys".into());
    };
    let directory = Path::new(directory);
    let [record, ranges] = Preparation::FILES.map(|name| std::fs::read(directory.join(name)));
    let preparation = Preparation::from_bytes(&record?, &ranges?)?;
    let parameters = Preset::find(PRESET)?.build()?;
    let half = || -> Result<ChatServer, Box<dyn Error>> {
        let served = ServedModel::new(&preparation, RotatedModel::load(directory)?)?;
        Ok(ChatServer::new(served, &parameters, &ServerOptions { chunk: 8, chunks: 4, ..ServerOptions::default() })?)
    };
    let file = |path: &str| -> Result<ModelFile, Box<dyn Error>> {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        Ok(ModelFile { name, content: std::fs::read(directory.join(path))? })
    };
    let mut model = PublishedModel { files: FILES.into_iter().map(file).collect::<Result<_, _>>()? };
    let applications = Applications::new().with(STORIES, half()?)?.publish(STORIES, &model);
    let template = serde_json::json!({ "source": TEMPLATE, "tokens": {} });
    let template = serde_json::json!({ "id": RotatedModel::load(directory)?.id(), "template": template });
    model.files.push(ModelFile { name: "chat_template.json".into(), content: serde_json::to_vec(&template)? });
    let applications = applications.with(TALKS, half()?)?.publish(TALKS, &model);
    let config = ServerConfig {
        listen: "127.0.0.1:0".parse()?,
        data_dir: data.into(),
        web: Some(site.into()),
        ..ServerConfig::default()
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = Server::bind(config, applications).await?;
        println!("{}", serde_json::json!({ "listening": format!("http://{}", server.local_addr()?) }));
        server.run(shutdown_signal()).await;
        Ok(())
    })
}
