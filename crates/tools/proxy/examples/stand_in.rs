//! A proxy in front of a service of one small layer in a small insecure ring, all in one process: for tests with the
//! clients of others. It prints its address, and runs until standard input ends.

#[path = "../tests/support/mod.rs"]
mod support;

use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() {
    let (service, half, _) = support::SmallService::new();
    let (address, _) = support::start(service, half).await;
    println!("http://{address}/v1 {} {}", support::KEY, support::MODEL);
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}
