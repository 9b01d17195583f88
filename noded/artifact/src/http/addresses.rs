//! Addresses that a download may connect to.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Resolves names, and refuses loopback and link-local addresses of hosts that the job does not
/// name: a server on the internet must not redirect a node to its own services or to a cloud's
/// metadata.
#[derive(Debug)]
pub(super) struct JudgingResolver {
    named: BTreeSet<String>,
    resolver: DefaultResolver,
}

impl JudgingResolver {
    /// `named` are the hosts of the job, in lower case.
    pub(super) fn new(named: impl Iterator<Item = String>) -> Self {
        Self {
            named: named.collect(),
            resolver: DefaultResolver::default(),
        }
    }
}

impl Resolver for JudgingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = self.resolver.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let host = host.to_ascii_lowercase();
        let own = addresses.iter().find(|it| is_of_the_node(it.ip()));
        match own {
            Some(own) if !self.named.contains(&host) => {
                Err(ureq::Error::Io(io::Error::other(format!(
                    "{host} is {}, an address of the node itself or its link; name this host in \
                     the artifact's source if that is intended",
                    own.ip()
                ))))
            }
            _ => Ok(addresses),
        }
    }
}

/// Loopback, link-local and unspecified addresses, also where IPv6 maps them.
fn is_of_the_node(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_link_local() || address.octets()[0] == 0
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_of_the_node(IpAddr::V4(mapped)),
            None => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unicast_link_local()
                    // The metadata service of a large cloud.
                    || address == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_the_node;

    #[test]
    fn addresses_of_the_node_are_told_from_others() {
        for (address, own) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("169.254.169.254", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("fe80::1", true),
            ("::ffff:127.0.0.1", true),
            ("fd00:ec2::254", true),
            ("10.0.0.1", false),
            ("192.0.2.1", false),
            ("fd00::1", false),
        ] {
            let parsed = address.parse().expect(address);
            assert_eq!(is_of_the_node(parsed), own, "{address}");
        }
    }
}
