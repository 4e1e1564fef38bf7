//! The service: keys, requests, limits and metrics over HTTP.
//!
//! ```
//! use unspoken_server::{Applications, Server, ServerConfig};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let config = ServerConfig {
//!     listen: "127.0.0.1:0".parse()?,
//!     data_dir: directory.path().join("data"),
//!     ..ServerConfig::default()
//! };
//! // `Applications::new().with("classify/spam", half)?` offers an application.
//! let server = Server::bind(config, Applications::new()).await?;
//! println!("http://{}", server.local_addr()?);
//! server.run(async {}).await; // until the future ends; a program passes `shutdown_signal()`
//! # Ok(())
//! # }
//! ```
//!
//! Start a [`Server`] from a [`ServerConfig`] and [`Applications`]. A [`ServerHalf`](unspoken_protocol::ServerHalf)
//! computes the answers; everything else is in this crate. `unspoken-wire` defines the protocol.

mod application;
mod arriving;
mod auth;
mod authorization;
mod binding;
mod blocking;
mod body;
mod budget;
mod capacity;
mod concurrency;
mod config;
mod connection;
mod descriptors;
mod disk;
mod engine;
mod exposition;
mod gather;
mod listen;
mod logging;
mod memory;
mod metrics;
mod network;
mod observe;
mod offer;
mod origin;
mod page;
mod queue;
mod refusal;
mod renewal;
mod routes;
mod serve;
mod service;
mod starting;
mod steps;
mod store;
mod timeouts;
mod tls;
mod untyped;

pub use application::{Application, Applications, InvalidName};
pub use auth::{NewToken, TokenError, make_token};
pub use binding::ServeError;
pub use capacity::CapacityError;
pub use config::{ConfigError, ServerConfig, ServiceLimits, TlsFiles};
pub use disk::{Disk, LocalDisk};
pub use gather::OwnedRequest;
pub use listen::{ListenAddressError, resolve_listen_address};
pub use logging::{LogError, LogFormat, init_logging};
pub use offer::{OfferConfig, OfferSyntaxError};
pub use origin::{AllowedOrigin, OriginError};
pub use page::PageError;
pub use renewal::ReloadSignal;
pub use routes::openapi;
pub use serve::{Server, shutdown_signal};
pub use starting::{Starting, StartingStep};
pub use timeouts::Timeouts;
pub use tls::TlsError;
pub use untyped::{AnyServerHalf, LoadedKeys};
