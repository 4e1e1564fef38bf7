//! Several clients that ask at the same time.

use serde_json::{Value, json};
use unspoken_encrypted_llama::Requirements;

/// What one session of one client takes, part by part.
type Memory = [(&'static str, u64); 7];

/// Bytes of memory of a service with one session for each of so many clients, whose passes run at the same time.
fn bytes(clients: u64, memory: &Memory) -> u64 {
    let parts = memory.iter().zip(Requirements::SHARED);
    parts.map(|((_, bytes), shared)| if shared { *bytes } else { clients * bytes }).sum()
}

/// Seconds of a pass for each of so many clients: one pass keeps all threads busy, and a pass is no shorter beside
/// others, because keys and ciphertexts, which are most of what it reads, are each client's own.
fn seconds(clients: u64, pass: f64) -> f64 {
    clients as f64 * pass
}

/// What is printed with `--json`.
pub fn objects(clients: &[u64], pass: f64, memory: &Memory) -> Vec<Value> {
    let object = |&count: &u64| {
        let (seconds, bytes) = (seconds(count, pass), bytes(count, memory));
        json!({ "clients": count, "seconds_per_pass": seconds, "total_bytes": bytes })
    };
    clients.iter().map(object).collect()
}

/// What is printed without `--json`.
pub fn describe(clients: &[u64], pass: f64, memory: &Memory) {
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
        let parts = ["keys", "weights", "matrices", "bootstraps", "public", "private", "working"];
        let memory = std::array::from_fn(|part| (parts[part], 1 << part));
        assert_eq!((bytes(1, &memory), bytes(3, &memory)), (127, 127 + 2 * (127 - 2 - 4 - 8)));
        let objects = objects(&[1, 2], 7.0, &memory);
        assert_eq!((&objects[1]["seconds_per_pass"], &objects[1]["total_bytes"]), (&json!(14.0), &json!(127 + 113)));
    }
}
