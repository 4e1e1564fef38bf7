//! Programs of encrypted matrices.

use unspoken_matrix::MatrixServer;
use unspoken_protocol::ApplicationDescription;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving};
use crate::offer::Offer;

pub const KIND: Kind = Kind {
    name: "matrix",
    about: "a program of encrypted matrices; the path is a file with the bytes of `program.to_bytes()` in Python",
    default_name: "matrix/{directory}",
    options: &[KindOption { name: "largest", about: "largest magnitude of an input's entry [default: as planned]" }],
    serving: Serving::PLAIN,
    clients: &[ClientKind {
        wire: <unspoken_matrix::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "matrix",
        about: "computing with encrypted matrices",
        command: "unspoken matrix ask",
        class: "unspoken.MatrixClient",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    offer.add(MatrixServer::open(offer.path(), offer.option("largest")?, false, offer.cache())?, applications)
}
