//! The embedding lookup through the service, at a small insecure ring.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::Preset;
use unspoken_client::transport::{Cancel, UploadProgress};
use unspoken_client::{Progress, ServiceClient, StateDir};
use unspoken_embed::{EmbedClient, EmbedOptions, EmbedServer};
use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList, compress};
use unspoken_server::Applications;

use crate::support::*;

#[test]
fn tokens_are_looked_up_through_the_service() {
    let tokens = TokenList::new((0..40).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..40 * 3).map(|i| ((i * i) as f32 * 0.37).cos()).collect();
    let table = EmbeddingTable::new(tokens, 3, values).unwrap();
    let options = CompressOptions { columns: 8, rounds: 2, ..CompressOptions::default() };
    let table = compress(&table, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    let embedder = EmbedServer::new(table.subtables(), &parameters, &EmbedOptions::default()).unwrap();
    let service = Setup::new().start_beside(Applications::new().with("embed/words", embedder).unwrap());
    let (state, cancel) = (tempfile::tempdir().unwrap(), Cancel::new());
    let state = StateDir::open(state.path(), "http://127.0.0.1", "embed/words").unwrap();
    let connect = |steps: &mut Vec<Progress>| {
        let codes = Arc::new(table.codes().clone());
        let mut note = |step| steps.push(step);
        let transport = service.client(None);
        ServiceClient::<EmbedClient>::insecure_connect(transport, "embed/words", codes, &state, &mut note, &cancel)
            .unwrap()
    };
    let mut steps = Vec::new();
    let mut client = connect(&mut steps);
    assert!(steps.iter().any(|step| matches!(step, Progress::MakingKeys { .. })));
    // What keys and queries take is said before they are sent.
    let uploaded = steps.iter().find_map(|step| match step {
        Progress::Uploading(UploadProgress::Sending { total, .. }) => Some(*total),
        _ => None,
    });
    assert_eq!(steps[0], Progress::KeysToSend { bytes: uploaded.unwrap() });
    let ids = [39, 0, 17];
    let mut steps = Vec::new();
    let answers = client.ask(&ids, &mut |step| steps.push(step), &cancel).unwrap();
    let (cost, usage) = (client.cost(ids.len()), client.usage());
    assert_eq!((cost.questions, cost.queries, cost.key_bytes), (3, 1, 0));
    assert!(matches!(&steps[..2], [Progress::QueriesToSend(said), Progress::Asking { done: 0, .. }] if *said == cost));
    for (predicted, bytes) in [(cost.query_bytes, usage.query_bytes), (cost.answer_bytes, usage.answer_bytes)] {
        assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
    }
    for (embedding, id) in answers.iter().zip(ids) {
        for (found, clear) in embedding.iter().zip(table.reconstruct_row(id).unwrap()) {
            assert!((found - f64::from(clear)).abs() < 1e-4, "{found} {clear}");
        }
    }
    assert_eq!(client.usage().questions, 3);
    // The service has the keys already.
    let mut steps = Vec::new();
    assert_eq!(connect(&mut steps).usage().key_bytes, 0);
    assert!(steps.is_empty(), "{steps:?}");
}
