//! Reading `nft -j list table` (libnftables-json(5)). Pure.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::mapping::{Element, Protocol};
use super::{Layout, Mapping};

/// The elements of the table's four maps, sorted.
///
/// # Errors
/// The text is no JSON of nft, or a map has an element that is no mapping; the string names it.
pub(super) fn elements(layout: &Layout, text: &str) -> Result<Vec<Element>, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let objects = document
        .get("nftables")
        .and_then(Value::as_array)
        .ok_or_else(|| "no array `nftables`".to_owned())?;
    let mut found = Vec::new();
    for map in objects.iter().filter_map(|object| object.get("map")) {
        let text = |key| map.get(key).and_then(Value::as_str);
        if text("family") != Some("inet") || text("table") != Some(&layout.table()) {
            continue;
        }
        let (protocol, key) = match text("name") {
            Some("any_tcp4") => (Protocol::Tcp, Key::Port),
            Some("any_udp4") => (Protocol::Udp, Key::Port),
            Some("tcp4") => (Protocol::Tcp, Key::AddressAndPort),
            Some("udp4") => (Protocol::Udp, Key::AddressAndPort),
            // A later release may have more maps.
            _ => continue,
        };
        // A map without elements has no `elem`.
        let elements = map.get("elem").and_then(Value::as_array);
        for element in elements.into_iter().flatten() {
            let mapping = mapping(element, key)
                .ok_or_else(|| format!("element {element} is no mapping of a port"))?;
            found.push(Element { protocol, mapping });
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The key of a map.
#[derive(Clone, Copy)]
enum Key {
    Port,
    AddressAndPort,
}

/// `[key, target]`. Either may be wrapped as `{"elem": {"val": ...}}` where it has a comment.
fn mapping(element: &Value, key: Key) -> Option<Mapping> {
    let [from, target] = element.as_array()?.as_slice() else {
        return None;
    };
    let from = unwrapped(from);
    let (host, port) = match key {
        Key::Port => (None, port(from)?),
        Key::AddressAndPort => {
            let (host, port) = pair(from)?;
            (Some(host), port)
        }
    };
    let (address, to) = pair(unwrapped(target))?;
    Some(Mapping {
        host,
        port,
        address,
        to,
    })
}

fn unwrapped(value: &Value) -> &Value {
    value
        .get("elem")
        .and_then(|elem| elem.get("val"))
        .unwrap_or(value)
}

/// `{"concat": ["172.26.64.5", 80]}`
fn pair(value: &Value) -> Option<(Ipv4Addr, u16)> {
    let [address, port_inside] = value.get("concat")?.as_array()?.as_slice() else {
        return None;
    };
    Some((address.as_str()?.parse().ok()?, port(port_inside)?))
}

fn port(value: &Value) -> Option<u16> {
    u16::try_from(value.as_u64()?).ok()
}
