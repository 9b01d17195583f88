//! Mapped ports: reached from everywhere, with the source address that the server sees.

use std::net::Ipv4Addr;

use super::Host;
use super::host::{OWN, ask, ask_udp, serve};

const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

#[test]
fn host_reaches_a_mapped_port_at_loopback_and_at_its_own_address() {
    let Some(host) = Host::new() else { return };
    let web = host.allocation(5);
    serve(&web.namespace, (ANY, 80), "web");
    host.map(20000, &web, 80);
    let gateway = host.layout.gateway();
    for (at, source) in [
        ((LOCALHOST, 20000), gateway),
        ((OWN, 20000), OWN),
        ((gateway, 20000), gateway),
        ((web.address, 80), gateway),
    ] {
        let expected = format!("web {source}");
        assert_eq!(ask(&host.namespace, at).expect("tcp"), expected, "{at:?}");
        assert_eq!(
            ask_udp(&host.namespace, at).expect("udp"),
            expected,
            "{at:?}"
        );
    }
}

#[test]
fn allocation_reaches_another_directly_and_through_the_host() {
    let Some(host) = Host::new() else { return };
    let (web, client) = (host.allocation(5), host.allocation(6));
    serve(&web.namespace, (ANY, 80), "web");
    host.map(20000, &web, 80);
    let expected = format!("web {}", client.address);
    for at in [
        (web.address, 80),
        (OWN, 20000),
        (host.layout.gateway(), 20000),
    ] {
        assert_eq!(ask(&client.namespace, at).expect("tcp"), expected, "{at:?}");
        assert_eq!(
            ask_udp(&client.namespace, at).expect("udp"),
            expected,
            "{at:?}"
        );
    }
}

#[test]
fn allocation_reaches_itself_through_the_host() {
    let Some(host) = Host::new() else { return };
    let web = host.allocation(5);
    serve(&web.namespace, (ANY, 80), "web");
    host.map(20000, &web, 80);
    let expected = format!("web {}", host.layout.gateway());
    assert_eq!(ask(&web.namespace, (OWN, 20000)).expect("tcp"), expected);
    assert_eq!(
        ask_udp(&web.namespace, (OWN, 20000)).expect("udp"),
        expected
    );
}
