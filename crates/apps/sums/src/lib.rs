#![doc = include_str!("../README.md")]

mod collection;
mod collector;
mod columns;
mod contribution;
mod contributor;
mod description;
mod error;
mod format;
mod messages;
mod receipt;
mod results;
mod server;
mod state;
mod store;

pub use collection::{CollectionOptions, CollectorKey, create, create_with_preset};
pub use collector::{CollectorAnswer, CollectorQuestion, SumsCollector};
pub use columns::Column;
pub use contribution::{Contribution, ContributionEncryptor, Zeros};
pub use contributor::{SumsContributor, Trust};
pub use description::{Description, Fingerprint, PROTOCOL_VERSION};
pub use error::SumsError;
pub use receipt::Receipt;
pub use results::{ColumnSum, Sums};
pub use server::SumsServer;
pub use store::{MemoryStore, SumStore};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.sums.v1.rs"));
}
