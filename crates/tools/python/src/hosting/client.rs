//! The id of a client, as a gateway passes it to replicas: 16 bytes, and 8 of its network if it has no token.

use unspoken_protocol::ClientId;

const ID_BYTES: usize = 16;

pub(super) fn to_bytes(client: ClientId) -> Vec<u8> {
    let network = client.network().into_iter().flatten();
    client.to_bytes().into_iter().chain(network).collect()
}

/// None if the bytes are no id.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<ClientId> {
    let (id, network) = bytes.split_at_checked(ID_BYTES)?;
    let client = ClientId::new(id.try_into().ok()?);
    match network.is_empty() {
        true => Some(client),
        false => Some(client.with_network(network.try_into().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_passed_on_with_their_networks() {
        let client = ClientId::new([3; 16]);
        for (client, length) in [(client, 16), (client.with_network([5; 8]), 24)] {
            let bytes = to_bytes(client);
            let again = from_bytes(&bytes).unwrap();
            assert_eq!((bytes.len(), again, again.network()), (length, client, client.network()));
        }
        for length in [0, 15, 17, 23, 25] {
            assert!(from_bytes(&vec![0; length]).is_none(), "{length}");
        }
    }
}
