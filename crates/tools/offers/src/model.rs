//! Models that owners bring.

use unspoken_model::CompiledModel;
use unspoken_protocol::ApplicationDescription;
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
    serving: Serving::PLAIN,
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
    let server = model.server(&secure(&model.preset)?)?;
    add_with_keys(offer, server, applications)
}
