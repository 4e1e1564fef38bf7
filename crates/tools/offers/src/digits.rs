//! Networks for handwritten digits.

use unspoken_digits::DigitsServer;
use unspoken_digits_model::Network;
use unspoken_protocol::ApplicationDescription;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving};
use crate::offer::Offer;
use crate::preset::{DIGITS_PRESET, secure};
use crate::publish::{Halves, PUBLISH_ALL, publish};
use crate::shared::{KEYS, add_with_keys};

pub const KIND: Kind = Kind {
    name: "digits",
    about: "a network for handwritten digits; DIR is made by `unspoken digits train`",
    default_name: "digits/mnist",
    options: &[
        KindOption { name: "preset", about: "parameter set [default: n14_real_depth8_scale30]" },
        KindOption { name: "batch", about: "images per query, a power of two [default: as many as fit]" },
        KEYS,
        PUBLISH_ALL,
    ],
    serving: Serving { on_device: true, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_digits::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "digits",
        about: "private recognition of handwritten digits",
        command: "unspoken digits ask",
        class: "unspoken.DigitsClient",
    }],
    load,
};

const HALVES: Halves = Halves { client: &[], optional: &[], server: &["digits.json", "digits.safetensors"] };

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let parameters = secure(&offer.option::<String>("preset")?.unwrap_or_else(|| DIGITS_PRESET.into()))?;
    let parameters = offer.on_device(parameters)?;
    let batch = offer.option("batch")?;
    let server = DigitsServer::new(&Network::load(offer.path())?, &parameters, batch)?;
    publish(offer, &HALVES, add_with_keys(offer, server, applications)?)
}
