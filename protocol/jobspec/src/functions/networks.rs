//! Address arithmetic on CIDR prefixes, for IPv4 and IPv6 alike.

use super::arguments::{bounded, text, whole};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) static FUNCTIONS: &[Function] = &[
    function("cidrhost", Arity::exactly(2), host),
    function("cidrnetmask", Arity::exactly(1), |_, a| {
        let prefix = prefix(a, 0)?;
        if prefix.width != 32 {
            return Err(Failure::argument(0, "only IPv4 prefixes have a netmask"));
        }
        Ok(Value::String(
            address(mask(32, prefix.length), 32).to_string(),
        ))
    }),
    function("cidrsubnet", Arity::exactly(3), |_, a| {
        let prefix = prefix(a, 0)?;
        let more = bounded(a, 1, 0, 128)?;
        let number = u128::try_from(whole(a, 2)?)
            .map_err(|_| Failure::argument(2, "the subnet number must not be negative"))?;
        subnet(prefix, more, number).map(|s| Value::String(s.to_string()))
    }),
    function("cidrsubnets", Arity::at_least(1), subnets),
];

/// The first `length` bits of an address of `width` bits; the rest of `bits` is zero.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    bits: u128,
    width: u32,
    length: u32,
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", address(self.bits, self.width), self.length)
    }
}

/// `length` one-bits at the top of a word of `width` bits.
fn mask(width: u32, length: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & !all.checked_shr(length).unwrap_or(0)
}

fn address(bits: u128, width: u32) -> IpAddr {
    match (width, u32::try_from(bits)) {
        (32, Ok(bits)) => IpAddr::V4(Ipv4Addr::from(bits)),
        _ => IpAddr::V6(Ipv6Addr::from(bits)),
    }
}

fn prefix(arguments: &[Value], position: usize) -> Result<Prefix, Failure> {
    let whole = text(arguments, position)?;
    let parsed = whole.split_once('/').and_then(|(address, length)| {
        let (bits, width) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let length: u32 = length.parse().ok().filter(|length| *length <= width)?;
        Some(Prefix {
            bits: bits & mask(width, length),
            width,
            length,
        })
    });
    parsed.ok_or_else(|| {
        Failure::argument(
            position,
            format!("`{whole}` is no CIDR prefix such as 10.0.0.0/8"),
        )
    })
}

/// A host of a prefix; negative numbers count from its end.
fn host(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let prefix = prefix(arguments, 0)?;
    let number = whole(arguments, 1)?;
    let last = !mask(prefix.width, prefix.length) & (u128::MAX >> (128 - prefix.width));
    let offset = if number < 0 {
        last.checked_sub(number.unsigned_abs() - 1)
    } else {
        u128::try_from(number).ok().filter(|offset| *offset <= last)
    };
    let Some(offset) = offset else {
        return Err(Failure::argument(
            1,
            format!("{prefix} has no host {number}"),
        ));
    };
    Ok(Value::String(
        address(prefix.bits | offset, prefix.width).to_string(),
    ))
}

fn subnet(prefix: Prefix, more: usize, number: u128) -> Result<Prefix, Failure> {
    let length = u32::try_from(more)
        .unwrap_or(u32::MAX)
        .saturating_add(prefix.length);
    if length > prefix.width {
        let message = format!("{prefix} cannot be extended by {more} bits");
        return Err(Failure::argument(1, message));
    }
    // With 128 more bits every number fits.
    if number.checked_shr(length - prefix.length).unwrap_or(0) != 0 {
        let message = format!("{number} does not fit into {more} bits");
        return Err(Failure::argument(2, message));
    }
    let shifted = number.checked_shl(prefix.width - length).unwrap_or(0);
    Ok(Prefix {
        bits: prefix.bits | shifted,
        length,
        ..prefix
    })
}

/// Consecutive subnets, each extended by its own number of bits.
fn subnets(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let whole = prefix(arguments, 0)?;
    let end = whole.bits | (!mask(whole.width, whole.length) & (u128::MAX >> (128 - whole.width)));
    let mut next = Some(whole.bits);
    let mut out = Vec::new();
    for position in 1..arguments.len() {
        let more = bounded(arguments, position, 1, 128)?;
        let shape = subnet(whole, more, 0)?;
        let host_bits = shape.width - shape.length;
        let size = 1_u128.checked_shl(host_bits).unwrap_or(0);
        // Round up to the next multiple of the size, which is a power of two.
        let start = next
            .and_then(|next| next.checked_add(size - 1))
            .map(|start| start & !(size - 1))
            .filter(|start| start.checked_add(size - 1).is_some_and(|last| last <= end));
        let Some(start) = start else {
            return Err(Failure::argument(
                position,
                format!("{whole} has no room left"),
            ));
        };
        out.push(Value::String(
            Prefix {
                bits: start,
                ..shape
            }
            .to_string(),
        ));
        next = start.checked_add(size);
    }
    Ok(Value::List(out))
}
