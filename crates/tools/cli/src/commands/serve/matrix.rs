//! Programs of encrypted matrices.

use unspoken_arrays::MatrixServer;
use unspoken_server::Applications;

use super::kinds::{Kind, KindOption};
use super::offer::Offer;

pub const KIND: Kind = Kind {
    name: "matrix",
    about: "a program of encrypted matrices; the path is a file with the bytes of `program.to_bytes()` in Python",
    default_name: "matrix/{directory}",
    options: &[KindOption { name: "largest", about: "largest magnitude of an input's entry [default: 1]" }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let largest = offer.option("largest")?.unwrap_or(1.0);
    offer.add(MatrixServer::open(offer.path(), largest, false)?, applications)
}
