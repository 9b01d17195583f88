//! The kernel's own answers, in namespaces that end with the test.

mod pins;
mod routed;

use std::net::{IpAddr, Ipv4Addr};

use netns::{
    LinkState, NamespaceError, Scope, create_loopback_only, current, default_interface,
    default_route, list_addresses, list_links, within,
};

/// `None`, with a line that says so, when this is not root.
fn fresh() -> Option<std::os::fd::OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    Some(create_loopback_only().expect("a namespace"))
}

#[test]
fn a_new_namespace_has_a_loopback_that_is_up_and_nothing_else_in_use() {
    let Some(namespace) = fresh() else { return };
    let (links, addresses, route) = within(&namespace, || {
        (list_links(), list_addresses(), default_route())
    })
    .expect("entered");
    let links = links.expect("links");
    let loopback = &links[0];
    assert_eq!((loopback.index, loopback.name.as_str()), (1, "lo"));
    assert!(loopback.is_loopback);
    assert_eq!(loopback.state, LinkState::Up);
    // Some kernels put tunnel devices into every namespace; they are down.
    assert!(
        links[1..].iter().all(|link| link.state == LinkState::Down),
        "{links:?}"
    );
    let addresses = addresses.expect("addresses");
    let local = addresses
        .iter()
        .find(|address| address.ip() == Ipv4Addr::LOCALHOST);
    let local = local.unwrap_or_else(|| panic!("no 127.0.0.1 in {addresses:?}"));
    assert_eq!(
        (local.link_index, local.scope, local.network.prefix_len()),
        (1, Scope::Host, 8)
    );
    assert_eq!(route.expect("routes"), None);
    assert_eq!(
        within(&namespace, default_interface)
            .expect("entered")
            .expect("routes"),
        None
    );
}

#[test]
fn the_loopback_of_a_new_namespace_carries_traffic_that_the_host_does_not_see() {
    let Some(namespace) = fresh() else { return };
    let listener = within(&namespace, || std::net::TcpListener::bind("127.0.0.1:0"))
        .expect("entered")
        .expect("bound");
    let address = listener.local_addr().expect("address");
    within(&namespace, || std::net::TcpStream::connect(address))
        .expect("entered")
        .expect("connected inside");
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "reached from outside"
    );
}

#[test]
fn making_and_visiting_a_namespace_leaves_the_caller_where_it_was() {
    let Some(namespace) = fresh() else { return };
    let id = || {
        rustix::fs::fstat(current().expect("own"))
            .expect("stat")
            .st_ino
    };
    let before = id();
    let inside = within(&namespace, id).expect("entered");
    assert_ne!(inside, before);
    assert_eq!(id(), before);
}

#[test]
fn something_else_than_a_namespace_cannot_be_entered() {
    let file = std::fs::File::open("/dev/null").expect("null");
    let entered = within(&file, || ());
    assert!(
        matches!(entered, Err(NamespaceError::Enter(_))),
        "{entered:?}"
    );
}

#[test]
fn the_devices_of_this_host_can_be_listed_without_root() {
    let links = list_links().expect("links");
    assert!(links.iter().any(|link| link.is_loopback), "{links:?}");
    for address in list_addresses().expect("addresses") {
        assert!(
            links.iter().any(|link| link.index == address.link_index),
            "{address:?}"
        );
    }
    if let Some(interface) = default_interface().expect("routes") {
        assert!(links.contains(&interface.link));
        assert!(
            interface
                .address
                .is_none_or(|address: IpAddr| !address.is_loopback())
        );
    }
}
