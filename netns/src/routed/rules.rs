//! The text of the nftables table, and of changes to its maps. Pure.
//!
//! | chain | hook, priority | does |
//! |---|---|---|
//! | guard | prerouting, raw | drops what no allocation may send |
//! | ports | jumped to | maps ports: those of one address first, then those of every local one |
//! | prerouting, output | nat, dstnat | traffic from elsewhere, and from this host, goes to ports |
//! | forward | filter | keeps others from ports of an allocation that are not mapped |
//! | stray | postrouting, filter | keeps packets for addresses without a link on this host |
//! | postrouting | nat, srcnat | masquerades |

use super::mapping::{Element, Protocol};
use super::{Layout, Mapping};

/// Marks a packet that returns to the link it came from, from forward to postrouting. The CNI
/// plugin `portmap` uses the same bit for the same purpose, so that another's rule does no harm.
const HAIRPIN: &str = "0x2000";

/// The names of the maps, with the kind of their keys.
pub(super) const MAPS: [(&str, &str); 4] = [
    ("any_tcp4", "inet_service"),
    ("any_udp4", "inet_service"),
    ("tcp4", "ipv4_addr . inet_service"),
    ("udp4", "ipv4_addr . inet_service"),
];

/// The chains and where they are hooked in. `ports` comes before those that jump to it.
const CHAINS: [(&str, &str); 7] = [
    (
        "guard",
        "type filter hook prerouting priority -300; policy accept;",
    ),
    ("ports", ""),
    (
        "prerouting",
        "type nat hook prerouting priority -100; policy accept;",
    ),
    (
        "output",
        "type nat hook output priority -100; policy accept;",
    ),
    (
        "forward",
        "type filter hook forward priority 0; policy accept;",
    ),
    (
        "stray",
        "type filter hook postrouting priority 0; policy accept;",
    ),
    (
        "postrouting",
        "type nat hook postrouting priority 100; policy accept;",
    ),
];

/// The name of the map that an element is in.
pub(super) const fn map_of(element: &Element) -> &'static str {
    match (element.mapping.host, element.protocol) {
        (None, Protocol::Tcp) => "any_tcp4",
        (None, Protocol::Udp) => "any_udp4",
        (Some(_), Protocol::Tcp) => "tcp4",
        (Some(_), Protocol::Udp) => "udp4",
    }
}

/// Creates the table or brings its rules up to date, in one transaction. Elements stay.
pub(super) fn ensure(layout: &Layout) -> String {
    let table = layout.table();
    let mut text = format!("add table inet {table}\n");
    for (map, key) in MAPS {
        text +=
            &format!("add map inet {table} {map} {{ type {key} : ipv4_addr . inet_service; }}\n");
    }
    // A set, so that another node can read which subnet this table is for.
    text += &format!(
        "add set inet {table} subnet {{ type ipv4_addr; flags interval; }}\n\
         flush set inet {table} subnet\n\
         add element inet {table} subnet {{ {} }}\n",
        layout.subnet()
    );
    for (chain, hook) in CHAINS {
        text += &match hook {
            "" => format!("add chain inet {table} {chain}\n"),
            hook => format!("add chain inet {table} {chain} {{ {hook} }}\n"),
        };
        text += &format!("flush chain inet {table} {chain}\n");
    }
    for (chain, rule) in rules(layout) {
        text += &format!("add rule inet {table} {chain} {rule}\n");
    }
    text
}

/// The rules by chain, in order. The reason for each stands above it.
fn rules(layout: &Layout) -> Vec<(&'static str, String)> {
    let subnet = layout.subnet();
    // All links of this layout, and no other's: other nodes of this host have another tag.
    let ours = format!("\"{}*\"", layout.link_prefix());
    let rule = |chain, text: &str| (chain, text.replace("OURS", &ours));
    vec![
        rule("guard", "iifname != OURS return"),
        // Allocations have no IPv6 address.
        rule("guard", "meta nfproto != ipv4 drop"),
        // Mapped ports of 127.0.0.1 need route_localnet on our links. That alone would let a task
        // that sets a route reach services which listen on the host's loopback. Replies of mapped
        // ports are not concerned: they are masqueraded, so they come to the gateway address.
        rule("guard", "ip daddr 127.0.0.0/8 drop"),
        // A source that is not routed to its link is forged. rp_filter says the same, but the
        // host's setting for all links can weaken it.
        rule("guard", "fib saddr . iif oif missing drop"),
        rule("ports", "dnat ip to ip daddr . tcp dport map @tcp4"),
        rule("ports", "dnat ip to ip daddr . udp dport map @udp4"),
        rule(
            "ports",
            "fib daddr type local dnat ip to tcp dport map @any_tcp4",
        ),
        rule(
            "ports",
            "fib daddr type local dnat ip to udp dport map @any_udp4",
        ),
        rule("prerouting", "jump ports"),
        rule("output", "jump ports"),
        // Back to the link it came from: an allocation uses its own mapped port.
        rule(
            "forward",
            &format!(
                "iifname OURS fib daddr . iif oif exists meta mark set meta mark or {HAIRPIN}"
            ),
        ),
        // No link has this address: its allocation ended. The default route is not for it.
        rule(
            "forward",
            &format!("ip daddr {subnet} oifname != OURS meta l4proto tcp reject with tcp reset"),
        ),
        rule(
            "forward",
            &format!("ip daddr {subnet} oifname != OURS reject with icmp type host-unreachable"),
        ),
        rule("forward", "oifname != OURS return"),
        // Allocations may reach each other, as on a bridge.
        rule("forward", "iifname OURS accept"),
        rule("forward", "ct state established,related accept"),
        rule("forward", "ct status dnat accept"),
        rule("forward", "drop"),
        // The same for packets of this host. They cannot be refused here, but only here it is known
        // where a mapped one leaves.
        rule(
            "stray",
            &format!("ip daddr {subnet} oifname != OURS oifname != \"lo\" drop"),
        ),
        rule("postrouting", "ip saddr @subnet oifname != OURS masquerade"),
        // The other end could not answer to 127.0.0.1.
        rule(
            "postrouting",
            "ip saddr 127.0.0.0/8 oifname OURS masquerade",
        ),
        rule(
            "postrouting",
            &format!("oifname OURS meta mark and {HAIRPIN} == {HAIRPIN} masquerade"),
        ),
    ]
}

/// Adds elements. An element that is there already changes nothing; one whose port has another
/// target makes the transaction fail.
pub(super) fn add(layout: &Layout, elements: &[Element]) -> String {
    change("add", layout, elements)
}

/// Removes elements that are there, or not there. Adding them first makes the removal of an absent
/// one succeed and that of a port with another target fail: nobody else's mapping is removed.
pub(super) fn remove(layout: &Layout, elements: &[Element]) -> String {
    change("add", layout, elements) + &change("delete", layout, elements)
}

/// Removes elements that are certainly there.
pub(super) fn remove_present(layout: &Layout, elements: &[Element]) -> String {
    change("delete", layout, elements)
}

/// Removes the table. Adding it first makes the removal of an absent one succeed.
pub(super) fn delete(layout: &Layout) -> String {
    let table = layout.table();
    format!("add table inet {table}\ndelete table inet {table}\n")
}

fn change(verb: &str, layout: &Layout, elements: &[Element]) -> String {
    let mut text = String::new();
    for (map, _) in MAPS {
        let of_map: Vec<String> = elements
            .iter()
            .filter(|element| map_of(element) == map)
            .map(|element| written(&element.mapping))
            .collect();
        if !of_map.is_empty() {
            let (table, list) = (layout.table(), of_map.join(", "));
            text += &format!("{verb} element inet {table} {map} {{ {list} }}\n");
        }
    }
    text
}

fn written(mapping: &Mapping) -> String {
    let Mapping {
        host,
        port,
        address,
        to,
    } = mapping;
    match host {
        Some(host) => format!("{host} . {port} : {address} . {to}"),
        None => format!("{port} : {address} . {to}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::mapping::elements;
    use super::*;

    fn layout() -> Layout {
        let subnet = "172.26.64.0/20".parse().expect("a network");
        Layout::new(subnet, 0x1a2b).expect("a layout")
    }

    fn two() -> Vec<Element> {
        let to = Ipv4Addr::new(172, 26, 64, 5);
        let mapping = |host, port| Mapping {
            host,
            port,
            address: to,
            to: 80,
        };
        let host = Some(Ipv4Addr::new(192, 0, 2, 1));
        elements(&[
            mapping(None, 20000),
            mapping(None, 20001),
            mapping(host, 20000),
        ])
    }

    #[test]
    fn table_is_one_transaction_that_keeps_elements() {
        insta::assert_snapshot!(ensure(&layout()));
    }

    #[test]
    fn changes_name_each_map_once() {
        insta::assert_snapshot!(
            [
                add(&layout(), &two()),
                remove(&layout(), &two()),
                remove_present(&layout(), &two()),
                delete(&layout()),
            ]
            .join("\n")
        );
    }
}
