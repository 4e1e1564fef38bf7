//! Language models of the Llama architecture.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use unspoken_chat::{ChatServer, PassInput, ServedModel, ServerOptions};
use unspoken_llama_model::RotatedModel;
use unspoken_protocol::{ApplicationDescription, ServerHalf};
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;
use crate::preparation;
use crate::preset::{LLAMA_PRESET, for_tests, secure};
use crate::publish::{Halves, PUBLISH, publish};
use crate::session_directory::SessionDirectory;
use crate::shared::{KEYS, key_storage};

pub const KIND: Kind = Kind {
    name: "chat",
    about: "a language model that continues private text; DIR is made by `unspoken llama prepare`",
    default_name: "chat/{directory}",
    options: &[
        KindOption { name: "preset", about: "parameter set [default: n16_boot_depth15_scale40]" },
        KindOption {
            name: "insecure_preset",
            about: "parameter set for tests, which protects nothing; clients refuse it unless told otherwise",
        },
        KindOption { name: "chunk", about: "private tokens of a pass, a power of two from 8 [default: 16]" },
        KindOption { name: "chunks", about: "chunks of private tokens of a session, at most [default: 8]" },
        KindOption { name: "sessions", about: "sessions of all clients, at most [default: 4]" },
        KindOption { name: "sessions_per_client", about: "sessions of one client, at most [default: 2]" },
        KindOption { name: "session_mib", about: "memory for all sessions, in MiB [default: 4096]" },
        KindOption { name: "age", about: "time after its last use at which a session expires [default: 1h]" },
        KindOption { name: "input", about: "tokens or embeddings: what clients encrypt [default: embeddings]" },
        KindOption {
            name: "keep",
            about: "directory in which sessions outlive the service, written after each pass; the log says how many \
                    bytes they take [default: sessions end with the service]",
        },
        KEYS,
        PUBLISH,
    ],
    serving: Serving { on_device: true, state: State::Process, in_parts: true, slow: true, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_chat::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "chat",
        about: "private text generation",
        command: "unspoken chat",
        class: "unspoken.ChatClient",
    }],
    load,
};

/// A head that is the embedding has no file of its own, earlier versions wrote no coverage, and some models have no
/// template of conversations.
const HALVES: Halves = Halves {
    client: &["client/client.json", "client/client.safetensors", "client/tokenizer.json"],
    optional: &["client/head.safetensors", "client/coverage.json", "client/drafts.json", "client/chat_template.json"],
    server: &["tamed.safetensors"],
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let parameters = match offer.option::<String>("insecure_preset")? {
        Some(_) if offer.option::<String>("preset")?.is_some() => {
            anyhow::bail!("found both option preset and option insecure_preset; name one parameter set")
        }
        Some(preset) => for_tests(offer, &preset)?,
        None => secure(&offer.option::<String>("preset")?.unwrap_or_else(|| LLAMA_PRESET.into()))?,
    };
    let parameters = offer.on_device(parameters)?;
    let standard = ServerOptions::default();
    let options = ServerOptions {
        chunk: offer.option("chunk")?.unwrap_or(standard.chunk),
        chunks: offer.option("chunks")?.unwrap_or(standard.chunks),
        sessions: offer.option("sessions")?.unwrap_or(standard.sessions),
        sessions_per_client: offer.option("sessions_per_client")?.unwrap_or(standard.sessions_per_client),
        session_bytes: offer
            .option::<u64>("session_mib")?
            .map_or(standard.session_bytes, |mib| mib.saturating_mul(1 << 20)),
        age: offer.option::<humantime::Duration>("age")?.map_or(standard.age, Duration::from),
        input: pass_input(offer)?,
        storage: key_storage(offer)?,
    };
    // Opened first: it must not be in use.
    let kept = offer.option::<PathBuf>("keep")?.map(|path| {
        SessionDirectory::open(&path).with_context(|| format!("option keep: cannot use {}", path.display()))
    });
    let kept = kept.transpose()?;
    let preparation = preparation::load(offer.path())?;
    if preparation.least_public.is_none() {
        tracing::warn!(
            application = offer.name(),
            "an earlier version prepared this model: texts with few public tokens may be refused or wrong; run \
             `unspoken llama prepare` again"
        );
    }
    let served = ServedModel::new(&preparation, RotatedModel::load(offer.path())?)?;
    let mut server = ChatServer::new(served, &parameters, &options)?;
    // The sessions are on the device alone; the session of the answer is a part of what the answer needs.
    let ((sessions, session_bytes), working_bytes) = (server.sessions(), server.limits().working_bytes);
    let least = working_bytes + (sessions as u64).saturating_sub(1) * session_bytes;
    offer.check_device_memory((least, working_bytes + server.prepared_bytes() + server.key_bytes()))?;
    if let Some(directory) = kept {
        let (application, most_bytes) = (offer.name(), server.entry_bytes().saturating_mul(server.sessions().0 as u64));
        tracing::info!(application, most_bytes, "sessions are kept on disk");
        server = server.store_sessions(Arc::new(directory)).context("option keep: cannot list its sessions")?;
    }
    let (application, (sessions, session_bytes)) = (offer.name(), server.sessions());
    let (bootstraps, key_bytes) = (server.requirements().bootstraps, server.key_bytes());
    tracing::info!(application, sessions, session_bytes, key_bytes, bootstraps, "room for sessions");
    if sessions < options.sessions {
        tracing::warn!(application, asked = options.sessions, sessions, "fewer sessions: raise option session_mib");
    }
    publish(offer, &HALVES, offer.add(server, applications)?)
}

fn pass_input(offer: &Offer) -> anyhow::Result<PassInput> {
    match offer.option::<String>("input")?.as_deref() {
        None | Some("embeddings") => Ok(PassInput::Embeddings),
        Some("tokens") => Ok(PassInput::Tokens),
        Some(other) => anyhow::bail!("option input is {other:?}; it can be tokens or embeddings"),
    }
}
