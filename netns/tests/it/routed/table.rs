//! The nftables table: what is in it after each change.

use std::net::Ipv4Addr;

use netns::{Mapping, TableError};

use super::Host;
use super::host::{OWN, ask, ask_in_vain, serve};

fn mapping(host: Option<Ipv4Addr>, port: u16, last: u8) -> Mapping {
    Mapping {
        host,
        port,
        address: Ipv4Addr::new(172, 26, 64, last),
        to: 80,
    }
}

/// Three mappings, sorted.
fn three() -> [Mapping; 3] {
    [
        mapping(None, 20000, 5),
        mapping(None, 20001, 6),
        mapping(Some(OWN), 20000, 6),
    ]
}

#[test]
fn list_equals_the_mappings_that_were_added() {
    let Some(host) = Host::new() else { return };
    host.inside(|table| {
        assert_eq!(table.list().expect("listed"), []);
        table.add(&three()).expect("added");
        assert_eq!(table.list().expect("listed"), three());
        table.add(&three()).expect("added already");
        table.add(&[]).expect("nothing to add");
        assert_eq!(table.list().expect("listed"), three());
    });
}

#[test]
fn removing_mappings_that_are_not_there_succeeds() {
    let Some(host) = Host::new() else { return };
    host.inside(|table| {
        table.add(&three()).expect("added");
        table.remove(&three()[..1]).expect("removed");
        assert_eq!(table.list().expect("listed"), three()[1..]);
        table.remove(&three()).expect("the first is gone already");
        assert_eq!(table.list().expect("listed"), []);
        table.remove(&three()).expect("gone already");
        table.remove(&[]).expect("nothing to remove");
    });
}

#[test]
fn port_that_another_allocation_has_by_now_is_neither_taken_nor_removed() {
    let Some(host) = Host::new() else { return };
    let [first, second, third] = three();
    let late = mapping(None, 20000, 7);
    host.inside(|table| {
        table.add(&[first, second]).expect("added");
        let refused = table.add(&[third, late]);
        let Err(TableError::Taken {
            wanted, present, ..
        }) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((wanted, present), (late, first));
        assert_eq!(table.list().expect("listed"), [first, second], "as a whole");
        table.remove(&[late, second]).expect("removed");
        assert_eq!(table.list().expect("listed"), [first]);
    });
}

#[test]
fn ensure_keeps_mappings_and_restores_rules() {
    let Some(host) = Host::new() else { return };
    let name = host.layout.table();
    let rules = host.run(&["nft", "list", "table", "inet", &name]);
    host.run(&["nft", "flush", "chain", "inet", &name, "ports"]);
    assert_ne!(host.run(&["nft", "list", "table", "inet", &name]), rules);
    host.inside(|table| {
        table.ensure().expect("ensured");
    });
    assert_eq!(host.run(&["nft", "list", "table", "inet", &name]), rules);
    host.inside(|table| {
        table.add(&three()).expect("added");
        table.ensure().expect("ensured");
        assert_eq!(table.list().expect("listed"), three());
    });
}

#[test]
fn deleted_table_is_empty_and_can_be_deleted_again() {
    let Some(host) = Host::new() else { return };
    host.inside(|table| {
        table.add(&three()).expect("added");
        table.delete().expect("deleted");
        assert_eq!(table.list().expect("listed"), []);
        table.remove(&three()).expect("gone already");
        table.delete().expect("gone already");
        let refused = table.add(&three());
        assert!(
            matches!(refused, Err(TableError::Refused { .. })),
            "{refused:?}"
        );
        table.ensure().expect("made again");
        assert_eq!(table.list().expect("listed"), []);
    });
}

#[test]
fn ten_thousand_mappings_are_added_listed_and_removed() {
    let Some(host) = Host::new() else { return };
    let many: Vec<Mapping> = (20_000..30_000)
        .map(|port| mapping(None, port, 5))
        .collect();
    host.inside(|table| {
        table.add(&many).expect("added");
        assert_eq!(table.list().expect("listed"), many);
        table.remove(&many).expect("removed");
        assert_eq!(table.list().expect("listed"), []);
    });
}

#[test]
fn port_of_one_host_address_is_not_open_on_others() {
    let Some(host) = Host::new() else { return };
    let web = host.allocation(5);
    serve(&web.namespace, (Ipv4Addr::UNSPECIFIED, 80), "web");
    let only = mapping(Some(OWN), 20000, 5);
    host.inside(|table| table.add(&[only])).expect("mapped");
    let at = |address| (address, 20000);
    ask(&host.namespace, at(OWN)).expect("an answer");
    for other in [Ipv4Addr::LOCALHOST, host.layout.gateway()] {
        let refused = ask_in_vain(&host.namespace, at(other));
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    host.inside(|table| table.remove(&[only])).expect("removed");
    let refused = ask_in_vain(&host.namespace, at(OWN));
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn port_of_one_address_comes_before_that_of_every_address() {
    let Some(host) = Host::new() else { return };
    let (one, two) = (host.allocation(5), host.allocation(6));
    serve(&one.namespace, (Ipv4Addr::UNSPECIFIED, 80), "one");
    serve(&two.namespace, (Ipv4Addr::UNSPECIFIED, 80), "two");
    let both = [mapping(None, 20000, 5), mapping(Some(OWN), 20000, 6)];
    host.inside(|table| table.add(&both)).expect("mapped");
    let name = |address| {
        let answer = ask(&host.namespace, (address, 20000)).expect("an answer");
        answer.split(' ').next().map(str::to_owned)
    };
    assert_eq!(name(OWN).as_deref(), Some("two"));
    assert_eq!(name(Ipv4Addr::LOCALHOST).as_deref(), Some("one"));
}

#[test]
fn changes_at_the_same_time_all_happen() {
    let Some(host) = Host::new() else { return };
    let ports = |first: u16| -> Vec<Mapping> {
        (first..first + 8)
            .map(|port| mapping(None, port, 5))
            .collect()
    };
    let change = |first: u16| {
        host.inside(|table| {
            for kept in ports(first) {
                let passing = mapping(None, kept.port + 10_000, 6);
                table.add(&[kept, passing]).expect("added");
                assert!(table.list().expect("listed").contains(&kept));
                table.remove(&[passing]).expect("removed");
            }
        });
    };
    let starts = [20_000, 20_100, 20_200, 20_300];
    std::thread::scope(|scope| {
        for first in starts {
            scope.spawn(move || change(first));
        }
        host.inside(|table| {
            for _ in 0..8 {
                table.ensure().expect("ensured");
            }
        });
    });
    let expected: Vec<Mapping> = starts.into_iter().flat_map(ports).collect();
    assert_eq!(host.inside(|table| table.list()).expect("listed"), expected);
}
