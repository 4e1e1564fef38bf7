#![doc = include_str!("../README.md")]

mod ckks;
pub mod demands;
mod error;
mod halves;
mod keyring;
mod ledger;
mod terms;
mod transfer;

pub use ckks::{CkksClientHalf, CkksDescribed, CkksServerHalf};
pub use error::{Failure, Fault, ProtocolError};
pub use halves::{ClientHalf, Described, KeyLoader, KeyMaker, ServerHalf};
pub use keyring::Keyring;
pub use ledger::Ledger;
pub use terms::Terms;
pub use transfer::{output_bytes, write_output};

mod v1 {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.protocol.v1.rs"));
}
