//! Does it fit? The one function that answers, for the scheduler, for the plan check and for
//! `apply`: two implementations would disagree about some node forever.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::claims::Claims;
use crate::usage::{Capacity, FixedCapacity, Usage};

/// What a node has too little of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Exhausted {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Disk.
    Disk,
    /// Whole cores: this one is taken, or the node has none of that number.
    Core(u16),
    /// Ports: this one is taken or reserved.
    Port(u16),
}

impl std::fmt::Display for Exhausted {
    /// The dimension as explanations show it (Nomad's words).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory => f.write_str("memory"),
            Self::Disk => f.write_str("disk"),
            Self::Core(_) => f.write_str("cores"),
            Self::Port(port) => write!(f, "network: reserved port collision {port}"),
        }
    }
}

/// Whether the part of `ask` that has an amount fits: the first step of [`fits`].
///
/// # Errors
/// As [`fits`].
pub fn fits_amounts(capacity: &Capacity, used: &Usage, ask: &Usage) -> Result<(), Exhausted> {
    if used.cpu.saturating_add(ask.cpu) > capacity.cpu {
        return Err(Exhausted::Cpu);
    }
    if used.memory_mb.saturating_add(ask.memory_mb) > capacity.memory_mb {
        return Err(Exhausted::Memory);
    }
    if used.disk_mb.saturating_add(ask.disk_mb) > capacity.disk_mb {
        return Err(Exhausted::Disk);
    }
    Ok(())
}

/// Whether `ask` fits on a node with `capacity` of which `used` is taken by the allocations that
/// stay. The first dimension that does not fit is the answer, in a fixed order.
///
/// # Errors
/// The dimension that there is too little of.
pub fn fits(capacity: &Capacity, used: &Usage, ask: &Usage) -> Result<(), Exhausted> {
    fits_amounts(capacity, used, ask)?;
    if let Some(core) = ask.claims.cores.repeated() {
        return Err(Exhausted::Core(core));
    }
    let free_core =
        |core: u16| capacity.fixed.cores.contains(core) && !used.claims.cores.contains(core);
    if let Some(core) = ask.claims.cores.iter().find(|core| !free_core(*core)) {
        return Err(Exhausted::Core(core));
    }
    if let Some(port) = ask.claims.ports.repeated() {
        return Err(Exhausted::Port(port));
    }
    let fixed = &capacity.fixed;
    let mut ports = ask.claims.ports.iter();
    if let Some(port) = ports.find(|port| fixed.is_taken(&used.claims, *port)) {
        return Err(Exhausted::Port(port));
    }
    host_ports_fit(fixed, &used.claims, &ask.claims)
}

/// The ports of host networks besides the default one. Their addresses are looked at alone: a
/// network that its node lost meanwhile stays what its allocations have.
fn host_ports_fit(fixed: &FixedCapacity, used: &Claims, ask: &Claims) -> Result<(), Exhausted> {
    if let Some((_, port)) = ask.host_ports.repeated() {
        return Err(Exhausted::Port(port));
    }
    let taken = |(address, port): (IpAddr, u16)| {
        let twice = fixed.default_addresses.contains(&address) && ask.ports.contains(port);
        twice || fixed.is_taken_on(used, address, port)
    };
    match ask.host_ports.iter().find(|claim| taken(*claim)) {
        Some((_, port)) => Err(Exhausted::Port(port)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn node() -> Capacity {
        Capacity {
            cpu: 1000,
            memory_mb: 512,
            disk_mb: 100,
            fixed: Arc::new(FixedCapacity {
                reserved_ports: [22].into_iter().collect(),
                cores: [0, 1].into_iter().collect(),
                min_dynamic_port: 20_000,
                max_dynamic_port: 32_000,
                ..FixedCapacity::default()
            }),
        }
    }

    fn ask(cpu: i64, memory_mb: i64, disk_mb: i64, ports: &[u16], cores: &[u16]) -> Usage {
        let claims = Claims {
            ports: ports.iter().copied().collect(),
            cores: cores.iter().copied().collect(),
            ..Claims::default()
        };
        Usage {
            cpu,
            memory_mb,
            disk_mb,
            claims: Arc::new(claims),
        }
    }

    #[test]
    fn a_node_can_be_filled_to_the_brim_and_no_further() {
        let used = ask(400, 256, 50, &[80], &[0]);
        assert_eq!(
            fits(&node(), &used, &ask(600, 256, 50, &[81], &[1])),
            Ok(())
        );
        assert_eq!(
            fits(&node(), &used, &ask(601, 1, 1, &[], &[])),
            Err(Exhausted::Cpu)
        );
        assert_eq!(
            fits(&node(), &used, &ask(1, 257, 1, &[], &[])),
            Err(Exhausted::Memory)
        );
        assert_eq!(
            fits(&node(), &used, &ask(1, 1, 51, &[], &[])),
            Err(Exhausted::Disk)
        );
    }

    #[test]
    fn a_port_or_core_is_had_only_once() {
        let used = ask(0, 0, 0, &[80], &[0]);
        assert_eq!(
            fits(&node(), &used, &ask(0, 0, 0, &[80], &[])),
            Err(Exhausted::Port(80))
        );
        assert_eq!(
            fits(&node(), &used, &ask(0, 0, 0, &[22], &[])),
            Err(Exhausted::Port(22))
        );
        assert_eq!(
            fits(&node(), &used, &ask(0, 0, 0, &[90, 90], &[])),
            Err(Exhausted::Port(90))
        );
        assert_eq!(
            fits(&node(), &used, &ask(0, 0, 0, &[], &[0])),
            Err(Exhausted::Core(0))
        );
        assert_eq!(
            fits(&node(), &used, &ask(0, 0, 0, &[], &[7])),
            Err(Exhausted::Core(7))
        );
    }

    #[test]
    fn a_port_is_had_once_per_address_and_the_default_is_on_its_own() {
        let at = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let (own, lan, other) = (at("10.0.0.1"), at("192.168.0.1"), at("192.168.0.2"));
        let mut node = node();
        let fixed = Arc::make_mut(&mut node.fixed);
        fixed.default_addresses = vec![own];
        fixed.reserved_host_ports = [(lan, 443)].into_iter().collect();
        let on = |claims: &[(IpAddr, u16)], ports: &[u16]| {
            let mut usage = ask(0, 0, 0, ports, &[]);
            Arc::make_mut(&mut usage.claims).host_ports = claims.iter().copied().collect();
            usage
        };
        let taken = Err(Exhausted::Port(80));
        for (used, ask, expected) in [
            (on(&[(lan, 80)], &[]), on(&[(lan, 80)], &[]), taken),
            (on(&[(lan, 80)], &[]), on(&[(other, 80)], &[]), Ok(())),
            (on(&[(lan, 80)], &[]), on(&[], &[80]), Ok(())),
            (on(&[(own, 80)], &[]), on(&[], &[80]), taken),
            (on(&[], &[80]), on(&[(own, 80)], &[]), taken),
            (on(&[], &[80]), on(&[(lan, 80)], &[]), Ok(())),
            (on(&[], &[]), on(&[(own, 80)], &[80]), taken),
            (on(&[], &[]), on(&[(lan, 80), (lan, 80)], &[]), taken),
            (
                on(&[], &[]),
                on(&[(lan, 443)], &[]),
                Err(Exhausted::Port(443)),
            ),
            (
                on(&[], &[]),
                on(&[(other, 22)], &[]),
                Err(Exhausted::Port(22)),
            ),
        ] {
            assert_eq!(fits(&node, &used, &ask), expected, "{used:?} {ask:?}");
        }
    }

    #[test]
    fn absurd_numbers_do_not_wrap_around() {
        let used = ask(i64::MAX, 0, 0, &[], &[]);
        assert_eq!(
            fits(&node(), &used, &ask(i64::MAX, 0, 0, &[], &[])),
            Err(Exhausted::Cpu)
        );
    }
}
