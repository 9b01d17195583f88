//! The role and region that a certificate carries, and the DNS name that spells them.

use std::fmt;

/// The zone that all role names end in. It is never resolved, only compared.
const ZONE: &str = "drover";

/// What the holder of a certificate may be in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A member of the control plane: may speak Raft, forward requests and accept nodes.
    Server,
    /// A host that runs allocations: may open a session.
    Node,
    /// An operator's tool: may speak HTTPS with a client certificate.
    Cli,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Server, Self::Node, Self::Cli];

    /// The first label of the role's DNS name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Node => "node",
            Self::Cli => "cli",
        }
    }

    /// The DNS name that a certificate of this role carries: `<role>.<region>.drover`.
    pub fn dns_name(self, region: &Region) -> String {
        format!("{}.{region}.{ZONE}", self.label())
    }

    /// Reads a DNS name of the form `<role>.<region>.drover`; `None` for any other name.
    pub fn from_dns_name(name: &str) -> Option<(Self, Region)> {
        let mut labels = name.split('.');
        let (role, region, zone) = (labels.next()?, labels.next()?, labels.next()?);
        if labels.next().is_some() || zone != ZONE {
            return None;
        }
        let role = Self::ALL
            .into_iter()
            .find(|candidate| candidate.label() == role)?;
        Some((role, Region::parse(region).ok()?))
    }

    /// Whether `name` lies in the zone that is reserved for roles.
    pub(crate) fn is_reserved_name(name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == ZONE || name.ends_with(&format!(".{ZONE}"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A region's name: one DNS label, because it is part of a certificate's name. `EU` and `eu` are
/// two regions: names are compared byte for byte, although TLS compares them in any case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(String);

/// Why a text is not a region name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("region {0:?} is not one DNS label: 1 to 63 letters, digits and inner hyphens (RFC 1035)")]
pub struct RegionError(String);

impl Region {
    /// # Errors
    /// When `name` is not a DNS label (RFC 1035 section 2.3.1, digits first allowed).
    pub fn parse(name: &str) -> Result<Self, RegionError> {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = (1..=63).contains(&name.len())
            && name.bytes().all(letters)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(RegionError(name.to_owned()))
        }
    }

    /// The region of a cluster that was not given one: `global`, as Nomad's users know it.
    pub fn global() -> Self {
        Self("global".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_name_reads_back_as_itself() {
        let region = Region::parse("EU-1").expect("a region");
        for role in Role::ALL {
            let name = role.dns_name(&region);
            assert_eq!(Role::from_dns_name(&name), Some((role, region.clone())));
        }
    }

    #[test]
    fn names_of_other_shapes_carry_no_role() {
        for name in [
            "server.drover",
            "server.a.b.drover",
            "root.global.drover",
            "server.global.example",
            "",
        ] {
            assert_eq!(Role::from_dns_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_region_is_one_label() {
        for bad in ["", "a.b", "-a", "a-", "a b", &"x".repeat(64)] {
            assert!(Region::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_spelling_of_the_reserved_zone_is_recognised() {
        for name in [
            "drover",
            "server.global.drover",
            "SERVER.global.DROVER",
            "x.drover.",
        ] {
            assert!(Role::is_reserved_name(name), "{name}");
        }
        assert!(!Role::is_reserved_name("drover.example.org"));
    }
}
