//! Models that owners bring.

use unspoken_model::CompiledModel;
use unspoken_protocol::{ApplicationDescription, KeyLoader, ServerHalf};
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, Serving};
use crate::offer::Offer;
use crate::preset::secure;
use crate::shared::{KEYS, add_with_keys};

pub const KIND: Kind = Kind {
    name: "model",
    about: "a model of one's own; DIR is made by `unspoken compile`",
    default_name: "model",
    options: &[KEYS],
    serving: Serving { on_device: true, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_model::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "model",
        about: "private predictions of a model",
        command: "unspoken ask",
        class: "unspoken.ModelClient",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let model = CompiledModel::load(offer.path())?;
    let server = model.server(&offer.on_device(secure(&model.preset)?)?)?;
    // What one answer holds with the keys of its client, and all that it reads: weights and matrices, too.
    let least = server.limits().working_bytes + server.key_limits().memory_bytes;
    offer.check_device_memory((least, least + server.prepared_bytes()))?;
    add_with_keys(offer, server, applications)
}
