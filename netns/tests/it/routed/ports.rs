//! Mapped ports: reached from everywhere, with the source address that the server sees.

use std::net::Ipv4Addr;

use std::net::UdpSocket;
use std::time::Duration;

use netns::{forget_flows, within};

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

#[test]
fn udp_client_follows_a_port_to_its_next_allocation() {
    let Some(host) = Host::new() else { return };
    let (one, two, client) = (host.allocation(5), host.allocation(6), host.allocation(7));
    serve(&one.namespace, (ANY, 80), "one");
    serve(&two.namespace, (ANY, 80), "two");
    let socket = within(&client.namespace, || UdpSocket::bind((ANY, 5000)));
    let socket = socket.expect("entered").expect("bound");
    let limit = Some(Duration::from_secs(5));
    socket.set_read_timeout(limit).expect("set");
    socket.connect((OWN, 20000)).expect("connected");
    let name = || {
        let mut bytes = [0; 64];
        socket.send(&[0]).expect("sent");
        let length = socket.recv(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes[..length])
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    let former = host.map(20000, &one, 80);
    assert_eq!(name().as_deref(), Some("one"));
    host.inside(|table| table.remove(&[former]))
        .expect("removed");
    let mapping = host.map(20000, &two, 80);
    assert_eq!(
        name().as_deref(),
        Some("one"),
        "the control: the flow goes on"
    );
    let forgotten = || {
        host.inside(|_| forget_flows(&[mapping]))
            .expect("forgotten")
    };
    assert_eq!(forgotten(), 1);
    assert_eq!(name().as_deref(), Some("two"));
    assert_eq!(forgotten(), 0, "it leads where the mapping says");
}
