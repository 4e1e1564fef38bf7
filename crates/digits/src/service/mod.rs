//! Both halves of private recognition: images encrypted by the client, weights known to the server.

mod asker;
mod description;
mod recogniser;

pub use asker::{ImageAsker, Recognised};
pub use description::{Description, PROTOCOL_VERSION};
pub use recogniser::Recogniser;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.digits.v1.rs"));
}
