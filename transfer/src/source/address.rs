//! Which addresses may be connected to.
//!
//! A URL is a request made from inside the cluster, so it must not reach what
//! only the inside may: the node itself, its link, a cloud's metadata service.
//! Names are judged by what they resolve to, in the resolver that the
//! connection is made with, so that no second look-up can say otherwise.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::options::AddressPolicy;

/// An address that the policy refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(pub(super) IpAddr);

impl Refused {
    /// The address.
    pub(crate) fn address(&self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transfers may not use the address {}", self.0)
    }
}

impl std::error::Error for Refused {}

/// A name without an address.
#[derive(Debug)]
pub(super) struct Unresolved(Option<std::io::Error>);

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has no address")
    }
}

impl std::error::Error for Unresolved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|error| error as _)
    }
}

/// Metadata services outside the link-local ranges.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, or
/// translated by NAT64.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, .., high, low] = address.segments();
    let tail = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let nat64 = a == 0x64 && b == 0xff9b;
    let compatible = address.segments()[..6] == [0; 6] && tail.to_bits() > 0xffff;
    address
        .to_ipv4_mapped()
        .or((nat64 || compatible).then_some(tail))
}

/// Whether the policy allows an address.
pub(super) fn is_allowed(policy: AddressPolicy, address: IpAddr) -> bool {
    if policy == AddressPolicy::Any {
        return true;
    }
    if METADATA.contains(&address) {
        return false;
    }
    match address {
        IpAddr::V4(v4) => {
            let first = v4.octets()[0];
            !(v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                // "This network" reaches the host itself; 240/4 is reserved.
                || first == 0
                || first >= 240)
        }
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_allowed(policy, IpAddr::V4(v4)),
            None => {
                !(v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unicast_link_local())
            }
        },
    }
}

/// Names below `localhost` are this machine's, whatever a name server says
/// (RFC 6761, 6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Judges a URL whose host is an address, which no resolver is asked for.
pub(crate) fn judge_literal(policy: AddressPolicy, url: &Url) -> Result<(), Refused> {
    let address = match url.host() {
        Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
        Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
        // A proxy may resolve the name; what this one means is agreed on.
        Some(Host::Domain(name)) if is_localhost(name) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => return Ok(()),
    };
    if is_allowed(policy, address) {
        Ok(())
    } else {
        Err(Refused(address))
    }
}

/// The system's resolver, leaving out what the policy refuses.
pub(super) struct PolicyResolver(pub(super) AddressPolicy);

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0;
        Box::pin(async move {
            // Systems differ in whether they know the names below it.
            let host = if is_localhost(name.as_str()) {
                "localhost"
            } else {
                name.as_str()
            };
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0))
                .await
                .map_err(|error| Unresolved(Some(error)))?
                .collect();
            let first = found.first().ok_or(Unresolved(None))?.ip();
            let allowed: Vec<SocketAddr> = found
                .iter()
                .copied()
                .filter(|address| is_allowed(policy, address.ip()))
                .collect();
            if allowed.is_empty() {
                return Err(Refused(first).into());
            }
            let addresses: Addrs = Box::new(allowed.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inside_is_refused_and_networks_are_allowed() {
        let refused = [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
        ];
        for address in refused {
            let address = address.parse().unwrap();
            assert!(
                !is_allowed(AddressPolicy::PublicAndPrivate, address),
                "{address}"
            );
            assert!(is_allowed(AddressPolicy::Any, address), "{address}");
        }
        for address in [
            "10.0.0.1",
            "192.168.1.1",
            "8.8.8.8",
            "2001:db8::1",
            "fd12::1",
        ] {
            let address = address.parse().unwrap();
            assert!(
                is_allowed(AddressPolicy::PublicAndPrivate, address),
                "{address}"
            );
        }
    }

    #[test]
    fn literal_hosts_are_judged_in_every_spelling() {
        for url in [
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]:80/",
            "http://LOCALHOST/",
            "http://a.localhost./",
        ] {
            let url = Url::parse(url).unwrap();
            assert!(
                judge_literal(AddressPolicy::PublicAndPrivate, &url).is_err(),
                "{url}"
            );
        }
    }
}
