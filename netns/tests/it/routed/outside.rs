//! A machine beside the host, on a link of its own: it sees the host's address and mapped ports.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use netns::create_loopback_only;

use super::Host;
use super::host::{ask, ask_in_vain, ask_udp, run_in, serve};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
/// The host's address on the link, and the machine's (TEST-NET-2).
const UPLINK: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const MACHINE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

/// A machine that sends everything to the host, also packets for its allocations.
fn machine(host: &Host) -> OwnedFd {
    let machine = create_loopback_only().expect("a namespace");
    // ip(8) takes the namespace by the number of a process or by a path; this process has it open.
    let path = format!("/proc/{}/fd/{}", std::process::id(), machine.as_raw_fd());
    let words = [
        "ip", "link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", &path,
    ];
    host.run(&words);
    let each = |namespace: &OwnedFd, commands: [String; 2]| {
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            run_in(namespace, &words);
        }
    };
    let up = || "ip link set up0 up".to_owned();
    let address = |address| format!("ip address add {address}/24 dev up0");
    each(&host.namespace, [address(UPLINK), up()]);
    each(&machine, [address(MACHINE), up()]);
    run_in(
        &machine,
        &[
            "ip",
            "route",
            "add",
            "172.26.64.0/20",
            "via",
            "198.51.100.1",
        ],
    );
    machine
}

#[test]
fn machine_reaches_mapped_ports_and_is_seen_as_itself() {
    let Some(host) = Host::new() else { return };
    let machine = machine(&host);
    let web = host.allocation(5);
    serve(&web.namespace, (ANY, 80), "web");
    host.map(20000, &web, 80);
    let expected = format!("web {MACHINE}");
    assert_eq!(ask(&machine, (UPLINK, 20000)).expect("tcp"), expected);
    assert_eq!(ask_udp(&machine, (UPLINK, 20000)).expect("udp"), expected);
}

#[test]
fn machine_does_not_reach_ports_that_are_not_mapped() {
    let Some(host) = Host::new() else { return };
    let machine = machine(&host);
    let web = host.allocation(5);
    serve(&web.namespace, (ANY, 80), "web");
    let refused = ask_in_vain(&machine, (web.address, 80));
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut, "{refused}");

    let table = host.layout.table();
    host.run(&["nft", "flush", "chain", "inet", &table, "forward"]);
    let control = ask(&machine, (web.address, 80)).expect("the control bites");
    assert_eq!(control, format!("web {MACHINE}"));
}

#[test]
fn allocation_reaches_the_machine_with_the_hosts_address() {
    let Some(host) = Host::new() else { return };
    let machine = machine(&host);
    serve(&machine, (ANY, 80), "machine");
    let client = host.allocation(5);
    let expected = format!("machine {UPLINK}");
    let at = (MACHINE, 80);
    assert_eq!(ask(&client.namespace, at).expect("tcp"), expected);
    assert_eq!(ask_udp(&client.namespace, at).expect("udp"), expected);
}

#[test]
fn packets_for_an_address_without_an_allocation_do_not_leave_the_host() {
    let Some(host) = Host::new() else { return };
    let machine = machine(&host);
    let gone = Ipv4Addr::new(172, 26, 64, 77);
    run_in(
        &machine,
        &["ip", "address", "add", "172.26.64.77/32", "dev", "lo"],
    );
    serve(&machine, (gone, 80), "machine");
    host.run(&["ip", "route", "add", "default", "via", "198.51.100.2"]);
    let client = host.allocation(5);
    let at = (gone, 80);
    let refused = ask_in_vain(&client.namespace, at);
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let refused = ask_in_vain(&host.namespace, at);
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);

    for chain in ["forward", "stray"] {
        host.run(&["nft", "flush", "chain", "inet", &host.layout.table(), chain]);
    }
    for from in [&client.namespace, &host.namespace] {
        let control = ask(from, at).expect("the control bites");
        assert_eq!(control, format!("machine {UPLINK}"));
    }
}
