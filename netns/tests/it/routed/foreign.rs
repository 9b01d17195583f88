//! Tables, links and routes of others on the same host.

use std::net::Ipv4Addr;

use netns::{Forwarding, Layout, Obstacle, enable_forwarding, obstacles, within};

use super::Host;
use super::host::{OWN, ask, read_in, run_in, serve};

/// Foreign objects on a host: a firewall, another node's table, links and routes.
const PLANTED: &str = "
add table ip filter
add chain ip filter FORWARD { type filter hook forward priority 0; policy accept; }
add rule ip filter FORWARD iifname \"docker0\" drop
add table inet drover_3c4d
add map inet drover_3c4d any_tcp4 { type inet_service : ipv4_addr . inet_service; }
add element inet drover_3c4d any_tcp4 { 20000 : 172.26.64.9 . 80 }
";

fn plant(host: &Host) {
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&path, PLANTED).expect("written");
    host.run(&["nft", "-f", &path.path().display().to_string()]);
    for command in [
        "ip link add vethforeign type veth peer name vethother",
        "ip link set vethforeign up",
        "ip link set vethother up",
        "ip route add 198.51.100.0/24 dev vethforeign",
        // As a name of ours, but for the tag.
        "ip link add dv3c4dac1a4009 type veth peer name dvother",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        host.run(&words);
    }
}

/// Everything on the host but our table, our links and their routes.
fn foreign(host: &Host) -> String {
    let tables = host.run(&["nft", "list", "tables"]);
    let others = tables.lines().filter(|line| !line.ends_with("drover_1a2b"));
    let mut text: String = others
        .map(|line| {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            host.run(&[&["nft", "list", "table"], words.as_slice()].concat())
        })
        .collect();
    for object in ["link", "route", "address"] {
        text += &host
            .run(&["ip", "-o", object])
            .lines()
            .filter(|line| !line.contains("dv1a2b"))
            .map(|line| format!("{line}\n"))
            .collect::<String>();
    }
    text
}

#[test]
fn tables_links_and_routes_of_others_are_untouched() {
    let Some(host) = Host::new() else { return };
    plant(&host);
    let before = foreign(&host);
    assert!(before.contains("vethforeign") && before.contains("drover_3c4d"));
    let web = host.allocation(5);
    serve(&web.namespace, (Ipv4Addr::UNSPECIFIED, 80), "web");
    host.inside(|table| table.ensure()).expect("rules");
    let mapping = host.map(20001, &web, 80);
    ask(&host.namespace, (OWN, 20001)).expect("an answer");
    assert_eq!(foreign(&host), before);
    host.inside(|table| table.remove(&[mapping]))
        .expect("removed");
    drop(web);
    host.inside(|table| table.delete()).expect("deleted");
    assert_eq!(foreign(&host), before);
}

#[test]
fn link_of_somebody_else_with_our_name_is_untouched() {
    let Some(host) = Host::new() else { return };
    host.run(&[
        "ip",
        "link",
        "add",
        "dv1a2bac1a4005",
        "type",
        "veth",
        "peer",
        "name",
        "x",
    ]);
    let before = host.run(&["ip", "-d", "-o", "link"]);
    let address = Ipv4Addr::new(172, 26, 64, 5);
    let refused = within(&host.namespace, || {
        netns::create_routed(&host.layout, address)
    });
    let refused = refused.expect("entered");
    assert!(
        matches!(refused, Err(netns::RoutedError::InUse { .. })),
        "{refused:?}"
    );
    assert_eq!(host.run(&["ip", "-d", "-o", "link"]), before);
    let path = "/proc/sys/net/ipv4/conf/dv1a2bac1a4005/route_localnet";
    assert_eq!(read_in(&host.namespace, path), "0");
}

fn found(host: &Host, forwarding: Forwarding) -> Vec<Obstacle> {
    let found = within(&host.namespace, || obstacles(&host.layout, forwarding));
    found.expect("entered").expect("looked at")
}

#[test]
fn host_without_obstacles_has_none_before_and_while_it_is_used() {
    let Some(host) = Host::bare() else { return };
    assert_eq!(found(&host, Forwarding::Check), [Obstacle::ForwardingOff]);
    assert_eq!(found(&host, Forwarding::Set), []);
    let enable = || within(&host.namespace, enable_forwarding).expect("entered");
    assert!(enable().expect("written"), "it was off");
    assert!(!enable().expect("read"), "it is on");
    assert_eq!(found(&host, Forwarding::Check), []);
    host.inside(|table| table.ensure()).expect("rules");
    let _allocation = host.allocation(5);
    assert_eq!(found(&host, Forwarding::Check), []);
}

#[test]
fn foreign_routes_and_addresses_of_the_subnet_are_found() {
    let Some(host) = Host::new() else { return };
    for command in [
        "ip link add nomad type veth peer name other",
        "ip address add 172.26.64.1/20 dev nomad",
        "ip link set nomad up",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        host.run(&words);
    }
    let texts: Vec<String> = found(&host, Forwarding::Check)
        .iter()
        .map(|obstacle| format!("{} {obstacle}", obstacle.is_fatal()))
        .collect();
    let [route, address] = texts.as_slice() else {
        panic!("{texts:?}")
    };
    assert!(
        route.starts_with(
            "true subnet 172.26.64.0/20 overlaps the route to 172.26.64.0/20 over nomad"
        )
    );
    assert!(address.starts_with("true subnet 172.26.64.0/20 has the address 172.26.64.1 of nomad"));
}

#[test]
fn another_node_with_the_same_subnet_is_found() {
    let Some(host) = Host::new() else { return };
    let other = Layout::new(host.layout.subnet(), 0x3c4d).expect("a layout");
    within(&host.namespace, || netns::Table::new(other).ensure())
        .expect("entered")
        .expect("rules");
    let subnet = host.layout.subnet();
    let table = Obstacle::OtherTable {
        subnet,
        table: "drover_3c4d".to_owned(),
    };
    assert!(!table.is_fatal());
    assert_eq!(
        found(&host, Forwarding::Check),
        std::slice::from_ref(&table)
    );

    let allocation = within(&host.namespace, || {
        netns::create_routed(&other, Ipv4Addr::new(172, 26, 64, 9))
    });
    let _allocation = allocation.expect("entered").expect("made");
    let node = Obstacle::OtherNode {
        subnet,
        tag: 0x3c4d,
        link: "dv3c4dac1a4009".to_owned(),
    };
    assert!(node.is_fatal());
    assert_eq!(found(&host, Forwarding::Check), [node, table]);
}

#[test]
fn dropping_forward_chain_is_found_and_its_remedy_works() {
    let Some(host) = Host::new() else { return };
    let (one, two) = (host.allocation(5), host.allocation(6));
    serve(&one.namespace, (Ipv4Addr::UNSPECIFIED, 80), "one");
    host.run(&["nft", "add", "table", "ip", "filter"]);
    let chain = "{ type filter hook forward priority 0; policy drop; }";
    host.run(&["nft", "add", "chain", "ip", "filter", "FORWARD", chain]);
    let obstacles = found(&host, Forwarding::Check);
    let [obstacle @ Obstacle::ForwardPolicy { .. }] = obstacles.as_slice() else {
        panic!("{obstacles:?}")
    };
    assert!(!obstacle.is_fatal());
    assert!(
        super::host::ask_in_vain(&two.namespace, (one.address, 80)).kind()
            == std::io::ErrorKind::TimedOut
    );

    // The commands of the text, between backquotes.
    let text = obstacle.to_string();
    let commands: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 2, "{text}");
    for command in commands {
        run_in(&host.namespace, &["sh", "-c", command]);
    }
    ask(&two.namespace, (one.address, 80)).expect("an answer");
    assert_eq!(found(&host, Forwarding::Check), []);
}
