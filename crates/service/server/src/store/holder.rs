//! Who has a bundle.

use super::Meta;
use crate::auth::ClientName;
use crate::network::Network;

/// Clients that share one limit on the number of bundles: the clients of a token, or the clients without a token that
/// connect from one network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    owner: ClientName,
    /// None for a token, and for bundles that an earlier process received: addresses are not stored.
    network: Option<Network>,
}

impl Holder {
    pub(crate) fn new(owner: ClientName, network: Option<Network>) -> Self {
        let network = network.filter(|_| owner.is_anonymous());
        Self { owner, network }
    }

    /// The holder of a bundle on the disk.
    pub(super) fn stored(meta: &Meta) -> Self {
        Self::new(ClientName::new(&meta.owner), None)
    }

    pub(crate) fn owner(&self) -> &ClientName {
        &self.owner
    }

    pub(super) fn has_token(&self) -> bool {
        !self.owner.is_anonymous()
    }
}
