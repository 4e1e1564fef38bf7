//! Host names are looked up by the operating system, with errors that say whether the name exists.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Looks up host names with the system's resolver.
pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let lookup = move || dns_lookup::lookup_host(name.as_str()).map(|found| found.collect::<Vec<_>>());
            let found = tokio::task::spawn_blocking(lookup).await??;
            // Port 0 stands for the port of the address.
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
