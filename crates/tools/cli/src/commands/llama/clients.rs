//! Several clients that ask at the same time.

use serde_json::{Value, json};

/// Parts of the memory of a service that all clients share.
const SHARED: [&str; 3] = ["weights", "matrices and transformations", "matrices of bootstraps"];

/// Bytes of memory of a service with one session for each of so many clients, whose passes run at the same time.
fn bytes(clients: u64, memory: &[(&'static str, u64)]) -> u64 {
    memory.iter().map(|(what, bytes)| if SHARED.contains(what) { *bytes } else { clients * bytes }).sum()
}

/// Seconds of a pass for each of so many clients: one pass keeps all threads busy, and a pass is no shorter beside
/// others, because keys and ciphertexts, which are most of what it reads, are each client's own.
fn seconds(clients: u64, pass: f64) -> f64 {
    clients as f64 * pass
}

/// What is printed with `--json`.
pub fn objects(clients: &[u64], pass: f64, memory: &[(&'static str, u64)]) -> Vec<Value> {
    let object = |&count: &u64| {
        let (seconds, bytes) = (seconds(count, pass), bytes(count, memory));
        json!({ "clients": count, "seconds_per_pass": seconds, "total_bytes": bytes })
    };
    clients.iter().map(object).collect()
}

/// What is printed without `--json`.
pub fn describe(clients: &[u64], pass: f64, memory: &[(&'static str, u64)]) {
    if clients.is_empty() {
        return;
    }
    println!("\n  clients    seconds of a pass for each, if all ask at once        GB");
    for &count in clients {
        println!("{count:>9} {:>50.1} {:>9.1}", seconds(count, pass), bytes(count, memory) as f64 / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_what_is_not_their_own() {
        let memory = [("keys", 4), ("weights", 10), ("matrices of bootstraps", 5), ("working memory", 3)];
        assert_eq!((bytes(1, &memory), bytes(3, &memory)), (22, 15 + 21));
        let objects = objects(&[1, 2], 7.0, &memory);
        assert_eq!((&objects[1]["seconds_per_pass"], &objects[1]["total_bytes"]), (&json!(14.0), &json!(29)));
    }
}
