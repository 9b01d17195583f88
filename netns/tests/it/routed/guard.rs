//! Traffic that no allocation may send. Each test has a control: without the rule, the same
//! packets arrive.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use netns::within;

use super::Host;
use super::host::{Allocation, ask, ask_in_vain, run_in, serve, write_in};

const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// An allocation that sends packets for 127.0.0.1 to the host, as root in it can.
fn with_the_hosts_loopback(host: &Host) -> Allocation {
    let hostile = host.allocation(5);
    for command in [
        "ip address del 127.0.0.1/8 dev lo",
        "ip route add 127.0.0.1/32 via 169.254.1.1 dev eth0 onlink",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        run_in(&hostile.namespace, &words);
    }
    let path = "/proc/sys/net/ipv4/conf/eth0/route_localnet";
    write_in(&hostile.namespace, path, "1");
    hostile
}

#[test]
fn task_cannot_connect_to_a_loopback_service_of_the_host() {
    let Some(host) = Host::new() else { return };
    serve(&host.namespace, (LOCALHOST, 7000), "secret");
    let hostile = with_the_hosts_loopback(&host);
    let refused = ask_in_vain(&hostile.namespace, (LOCALHOST, 7000));
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut, "{refused}");

    host.run(&[
        "nft",
        "flush",
        "chain",
        "inet",
        &host.layout.table(),
        "guard",
    ]);
    let control = ask(&hostile.namespace, (LOCALHOST, 7000)).expect("the control bites");
    assert_eq!(control, format!("secret {}", hostile.address));

    host.inside(|table| table.ensure()).expect("rules");
    let refused = ask_in_vain(&hostile.namespace, (LOCALHOST, 7000));
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut, "{refused}");
}

#[test]
fn allocation_cannot_send_with_an_address_of_another_one() {
    let Some(host) = Host::new() else { return };
    let (forger, victim) = (host.allocation(5), host.allocation(6));
    let forged = format!("{}/32", victim.address);
    run_in(
        &forger.namespace,
        &["ip", "address", "add", &forged, "dev", "eth0"],
    );
    let arrived = || received_from(&host, &forger, victim.address);
    assert!(!arrived());
    // The setting of the link alone, and the rule alone, are enough.
    let link = host.layout.link_name(forger.address);
    let strict = |value: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{link}/rp_filter");
        host.write(&path, value);
    };
    strict("0");
    assert!(!arrived());
    host.run(&[
        "nft",
        "flush",
        "chain",
        "inet",
        &host.layout.table(),
        "guard",
    ]);
    assert!(arrived(), "the control bites");
    strict("1");
    assert!(!arrived());
}

/// Whether a datagram with a forged source arrives at the host.
fn received_from(host: &Host, forger: &Allocation, source: Ipv4Addr) -> bool {
    let gateway = host.layout.gateway();
    let receiver = within(&host.namespace, || UdpSocket::bind((gateway, 0)));
    let receiver = receiver.expect("entered").expect("bound");
    let at = receiver.local_addr().expect("an address");
    let sender = within(&forger.namespace, || UdpSocket::bind((source, 0)));
    let sender = sender.expect("entered").expect("bound");
    sender.send_to(b"forged", at).expect("sent");
    // A link delivers in order, and here at once.
    receiver
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("set");
    let mut bytes = [0; 16];
    receiver
        .recv_from(&mut bytes)
        .is_ok_and(|(_, peer)| peer.ip() == source)
}
