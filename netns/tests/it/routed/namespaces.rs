//! Routed namespaces: their inside, their outside, and their end.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use netns::{RoutedError, create_routed, list_routed, within};

use super::Host;
use super::host::{ask, read_in, run_in, serve};

/// How long the kernel may take to remove links whose namespaces are gone.
const REMOVAL_MAX: Duration = Duration::from_secs(60);

#[test]
fn inside_has_one_address_one_route_and_no_port_is_privileged() {
    let Some(host) = Host::new() else { return };
    let allocation = host.allocation(5);
    let inside = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        run_in(&allocation.namespace, &words)
    };
    let routes = inside("ip -4 route");
    // Not `linkdown`: the kernel has processed the carrier.
    assert_eq!(
        routes.trim(),
        "default via 169.254.1.1 dev eth0 proto static onlink"
    );
    let addresses = inside("ip -o address show dev eth0");
    assert!(addresses.contains(" 172.26.64.5/32 "), "{addresses}");
    assert_eq!(addresses.lines().count(), 1, "no IPv6: {addresses}");
    let neighbours = inside("ip neighbour");
    assert_eq!(
        neighbours.trim(),
        "169.254.1.1 dev eth0 lladdr 06:d5:ac:1a:40:05 PERMANENT"
    );
    let loopback = inside("ip -o address show dev lo");
    assert!(loopback.contains(" 127.0.0.1/8 "), "{loopback}");
    let path = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    assert_eq!(read_in(&allocation.namespace, path), "0");
}

#[test]
fn outside_has_the_gateway_a_host_route_and_a_strict_link() {
    let Some(host) = Host::new() else { return };
    let _allocation = host.allocation(5);
    let link = "dv1a2bac1a4005";
    let addresses = host.run(&["ip", "-o", "address", "show", "dev", link]);
    assert!(addresses.contains(" 172.26.64.1/32 "), "{addresses}");
    assert_eq!(addresses.lines().count(), 1, "no IPv6: {addresses}");
    assert_eq!(
        host.run(&["ip", "-4", "route"]).trim(),
        format!("172.26.64.5 dev {link} proto static scope link")
    );
    assert_eq!(
        host.run(&["ip", "neighbour"]).trim(),
        format!("172.26.64.5 dev {link} lladdr 02:d5:ac:1a:40:05 PERMANENT")
    );
    let setting = |device: &str, name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{device}/{name}");
        read_in(&host.namespace, &path)
    };
    assert_eq!(setting(link, "rp_filter"), "1");
    assert_eq!(setting(link, "route_localnet"), "1");
    for other in ["all", "default", "lo"] {
        assert_eq!(setting(other, "route_localnet"), "0", "{other}");
    }
}

#[test]
fn address_in_use_is_refused_and_its_owner_goes_on() {
    let Some(host) = Host::new() else { return };
    let owner = host.allocation(5);
    serve(&owner.namespace, (owner.address, 80), "owner");
    let again = within(&host.namespace, || {
        create_routed(&host.layout, owner.address)
    });
    assert!(
        matches!(again.expect("entered"), Err(RoutedError::InUse { address, .. }) if address == owner.address)
    );
    ask(&host.namespace, (owner.address, 80)).expect("an answer");
    assert_eq!(listed(&host), [owner.address]);
}

#[test]
fn address_with_a_route_of_somebody_else_is_in_use() {
    let Some(host) = Host::new() else { return };
    let address = Ipv4Addr::new(172, 26, 64, 5);
    host.run(&["ip", "route", "add", "172.26.64.5/32", "dev", "lo"]);
    let before = host.run(&["ip", "route"]);
    let refused = within(&host.namespace, || create_routed(&host.layout, address));
    assert!(matches!(
        refused.expect("entered"),
        Err(RoutedError::InUse { .. })
    ));
    wait_until_gone(&host);
    assert_eq!(host.run(&["ip", "route"]), before);
}

#[test]
fn addresses_that_no_allocation_may_have_are_refused() {
    let Some(host) = Host::new() else { return };
    for address in ["172.26.64.0", "172.26.64.1", "172.26.79.255", "10.0.0.5"] {
        let address = address.parse().expect("an address");
        let refused = within(&host.namespace, || create_routed(&host.layout, address));
        assert!(matches!(
            refused.expect("entered"),
            Err(RoutedError::Address { .. })
        ));
    }
    assert!(listed(&host).is_empty());
}

#[test]
fn two_hundred_namespaces_leave_nothing_behind() {
    let Some(host) = Host::new() else { return };
    let routes = host.run(&["ip", "route"]);
    let links = host.run(&["ip", "-o", "link"]);
    let all: Vec<_> = (2..202).map(|last| host.allocation(last)).collect();
    let addresses: BTreeSet<Ipv4Addr> = all.iter().map(|one| one.address).collect();
    assert_eq!(BTreeSet::from_iter(listed(&host)), addresses);
    drop(all);
    wait_until_gone(&host);
    assert_eq!(host.run(&["ip", "route"]), routes);
    assert_eq!(host.run(&["ip", "-o", "link"]), links);
    assert_eq!(host.run(&["ip", "neighbour"]), "");
}

#[test]
fn links_of_other_nodes_are_not_listed() {
    let Some(host) = Host::new() else { return };
    let _allocation = host.allocation(5);
    let other = netns::Layout::new(host.layout.subnet(), 0x3c4d).expect("a layout");
    let of_other = within(&host.namespace, || list_routed(&other));
    assert!(of_other.expect("entered").expect("listed").is_empty());
}

fn listed(host: &Host) -> Vec<Ipv4Addr> {
    let listed = within(&host.namespace, || list_routed(&host.layout));
    listed.expect("entered").expect("listed")
}

fn wait_until_gone(host: &Host) {
    let begin = Instant::now();
    while !listed(host).is_empty() {
        assert!(begin.elapsed() < REMOVAL_MAX, "left: {:?}", listed(host));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn namespaces_made_at_the_same_time_are_all_reachable() {
    let Some(host) = Host::new() else { return };
    let all: Vec<_> = std::thread::scope(|scope| {
        let begun: Vec<_> = (2..50)
            .map(|last| (last, &host))
            .map(|(last, host)| scope.spawn(move || host.allocation(last)))
            .collect();
        let made = begun.into_iter().map(|one| one.join().expect("made"));
        made.collect()
    });
    for one in &all {
        serve(&one.namespace, (one.address, 80), "one");
        ask(&host.namespace, (one.address, 80)).expect("an answer");
    }
    assert_eq!(listed(&host).len(), all.len());
}

#[test]
fn first_packets_in_both_directions_arrive() {
    let Some(host) = Host::new() else { return };
    let gateway = host.layout.gateway();
    for last in 2..102 {
        let one = host.allocation(last);
        let [outside, inside] = [(&host, None), (&host, Some(&one))].map(|(host, one)| {
            let (namespace, address) = one.map_or((&host.namespace, gateway), |one| {
                (&one.namespace, one.address)
            });
            let bound = within(namespace, || UdpSocket::bind((address, 0)));
            bound.expect("entered").expect("bound")
        });
        for (from, to) in [(&inside, &outside), (&outside, &inside)] {
            let at = to.local_addr().expect("an address");
            from.send_to(&[last], at).expect("sent");
            to.set_read_timeout(Some(Duration::from_secs(5)))
                .expect("set");
            let mut byte = [0];
            to.recv(&mut byte)
                .unwrap_or_else(|error| panic!("{at}, {last}: {error}"));
        }
    }
}
