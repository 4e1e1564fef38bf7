//! Networks that clients connect from: the unit of limits for each address.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 network of an IPv6 address, because a client with one IPv6 address usually has the whole
/// network of 2^64 addresses. As an extension of a request it is where the connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }

    /// What applications get in place of the address.
    pub(crate) fn hash(self) -> [u8; 8] {
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 network of a client, as applications know it");
        hasher.update(self.0.to_string().as_bytes());
        let mut hash = [0; 8];
        hasher.finalize_xof().fill(&mut hash);
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_together() {
        let network = |text: &str| Network::of(text.parse().unwrap());
        let shown = |text| network(text).0.to_string();
        assert_eq!(shown("192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(shown("2001:db8:1:2::"), "2001:db8:1:2::");
        assert_ne!(network("2001:db8:1:3::1"), network("2001:db8:1:2::1"));
        assert_eq!(network("2001:db8:1:2::1").hash(), network("2001:db8:1:2::2").hash());
        assert_ne!(network("192.0.2.7").hash(), network("192.0.2.8").hash());
    }
}
