//! Traffic that no allocation may send. Each test has a control: without the rule, the same
//! packets arrive.

use std::net::Ipv4Addr;

use super::Host;
use super::host::{Allocation, ask, ask_in_vain, run_in, serve};

const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// An allocation that sends packets for 127.0.0.1 to the host, as root in it can.
fn with_the_hosts_loopback(host: &Host) -> Allocation {
    let hostile = host.allocation(5);
    for command in [
        "ip address del 127.0.0.1/8 dev lo",
        "ip route add 127.0.0.1/32 via 169.254.1.1 dev eth0 onlink",
        "sysctl -qw net.ipv4.conf.eth0.route_localnet=1",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        run_in(&hostile.namespace, &words);
    }
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
