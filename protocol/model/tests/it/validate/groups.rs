//! Groups: counts, networks, services, volumes.

use serde_json::{Value, json};

use super::{assert_refused, errors, of_group, of_task};

#[test]
fn groups_are_refused_for() {
    let service = |group: Value| of_group(group);
    assert_refused(vec![
        (
            crate::fixtures::service(json!({"Type": "system"}), json!({"Count": 2}), json!({})),
            "group \"web\" > count",
            "once on each node",
        ),
        (
            service(json!({"Count": 50_001})),
            "group \"web\" > count",
            "at most 50000",
        ),
        (service(json!({"Tasks": []})), "group \"web\"", "no task"),
        (
            service(
                json!({"EphemeralDisk": {"SizeMB": 9}, "Tasks": [{"Name": "t", "Driver":
                "exec", "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1}}]}),
            ),
            "group \"web\" > ephemeral_disk > size",
            "at least 10 MB",
        ),
        (
            service(
                json!({"Tasks": [{"Name": "a", "Driver": "exec", "Leader": true},
                {"Name": "b", "Driver": "exec", "Leader": true}]}),
            ),
            "group \"web\"",
            "a and b",
        ),
        (
            service(json!({"Scaling": {"Min": 1}})),
            "group \"web\" > scaling > max",
            "missing",
        ),
        (
            service(json!({"Count": 9, "Scaling": {"Min": 1, "Max": 3}})),
            "group \"web\" > scaling",
            "more than max",
        ),
        (
            service(json!({"MaxRunDuration": "1h"})),
            "group \"web\" > max_run_duration",
            "batch and sysbatch",
        ),
    ]);
}

#[test]
fn networks_are_refused_for() {
    let ports = |reserved: Value| of_group(json!({"Networks": [{"ReservedPorts": reserved}]}));
    let network = "group \"web\" > network";
    assert_refused(vec![
        (
            of_group(json!({"Networks": [{}, {}]})),
            "group \"web\"",
            "2 networks",
        ),
        (
            of_group(json!({"Networks": [{"Mode": "mesh"}]})),
            &format!("{network} > mode"),
            "\"mesh\"",
        ),
        (
            ports(json!([{"Label": "a", "Value": 70_000}])),
            &format!("{network} > port \"a\" > static"),
            "is 70000",
        ),
        (
            ports(json!([{"Label": "a", "Value": 80}, {"Label": "b", "Value": 80}])),
            &format!("{network} > port \"b\" > static"),
            "\"a\" already",
        ),
        (
            ports(json!([{"Label": "a", "Value": 80}, {"Label": "a", "Value": 81}])),
            &format!("{network} > port \"a\""),
            "named twice",
        ),
        (
            ports(json!([{"Label": "a b", "Value": 80}])),
            &format!("{network} > port \"a b\""),
            "label",
        ),
        (
            ports(json!([{"Label": "", "Value": 80}])),
            &format!("{network} > port \"\""),
            "no label",
        ),
        (
            ports(json!([{"Label": "a", "Value": 80, "To": 65_536}])),
            &format!("{network} > port \"a\" > to"),
            "65536",
        ),
        (
            of_group(json!({"Networks": [{"DNS": {"Servers": ["one.one"]}}]})),
            &format!("{network} > dns > servers"),
            "no IP address",
        ),
        (
            of_task(json!({"Resources": {"Networks": [{"Mode": "bridge"}]}})),
            "group \"web\" > task \"server\" > resources > network > mode",
            "whole group",
        ),
    ]);
    let two_host_networks = json!([{"Label": "a", "Value": 80, "HostNetwork": "public"},
        {"Label": "b", "Value": 80}]);
    assert_eq!(errors(&ports(two_host_networks)), []);
}

#[test]
fn services_and_volumes_are_refused_for() {
    let group = |service: Value| of_group(json!({"Services": [service]}));
    let volume = |volume: Value| of_group(json!({"Volumes": {"v": volume}}));
    let mount = |mount: Value| {
        crate::fixtures::service(
            json!({}),
            json!({"Volumes": {"v": {"Type": "host", "Source": "s"}}}),
            json!({"VolumeMounts": [mount]}),
        )
    };
    let place = "group \"web\" > service \"s\"";
    assert_refused(vec![
        (
            group(json!({"Name": "s", "Provider": "dns"})),
            &format!("{place} > provider"),
            "\"dns\"",
        ),
        (
            group(json!({"Name": "s", "PortLabel": "x"})),
            &format!("{place} > port"),
            "\"x\"",
        ),
        (
            group(json!({"Name": "s_s"})),
            "group \"web\" > service \"s_s\"",
            "no name",
        ),
        (
            group(
                json!({"Name": "s", "Provider": "nomad", "Checks": [{"Name": "c",
                "Type": "script", "Command": "x", "Interval": "5s", "Timeout": "5s"}]}),
            ),
            &format!("{place} > check \"c\" > type"),
            "\"script\"",
        ),
        (
            group(json!({"Name": "s", "Checks": [{"Name": "c", "Type": "tcp",
                "Interval": "5s"}]})),
            &format!("{place} > check \"c\" > timeout"),
            "at least 1s",
        ),
        (
            group(json!({"Name": "s", "Connect": {"SidecarService": {}}})),
            &format!("{place} > connect > sidecar_service"),
            "bridge",
        ),
        (
            volume(json!({"Type": "host"})),
            "group \"web\" > volume \"v\" > source",
            "missing",
        ),
        (
            volume(json!({"Type": "nfs", "Source": "s"})),
            "group \"web\" > volume \"v\" > type",
            "\"nfs\"",
        ),
        (
            mount(json!({"Volume": "w", "Destination": "/w"})),
            "group \"web\" > task \"server\" > volume_mount 1 > volume",
            "no volume \"w\"",
        ),
        (
            mount(json!({"Volume": "v"})),
            "group \"web\" > task \"server\" > volume_mount 1 > destination",
            "missing",
        ),
    ]);
}
