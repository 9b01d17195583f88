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
            service(json!({"Tasks": [
                {"Name": "a", "Driver": "exec", "Lifecycle": {"Hook": "prestart"}},
                {"Name": "b", "Driver": "exec", "Lifecycle": {"Hook": "poststop"}}]})),
            "group \"web\"",
            "Task group web must have at least one main task",
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
fn group_of_hook_tasks_alone_is_refused() {
    for kind in ["service", "batch", "system", "sysbatch"] {
        for hook in ["prestart", "poststart", "poststop"] {
            for sidecar in [false, true] {
                let lifecycle = json!({"Hook": hook, "Sidecar": sidecar});
                let job = crate::fixtures::service(
                    json!({"Type": kind}),
                    json!({}),
                    json!({"Lifecycle": lifecycle}),
                );
                let wanted = (
                    "group \"web\"".to_owned(),
                    "Task group web must have at least one main task".to_owned(),
                );
                assert_eq!(errors(&job), [wanted], "{kind}: {lifecycle}");
            }
        }
    }
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

#[test]
fn address_modes_out_of_place_are_refused() {
    let group = |service: Value| of_group(json!({"Services": [service]}));
    let check_in = |mode: &str| {
        json!({"Name": "s", "Checks": [{"Name": "c", "Type": "tcp", "Interval": "5s",
            "Timeout": "5s", "AddressMode": mode}]})
    };
    let place = "group \"web\" > service \"s\"";
    let of_tasks = "group \"web\" > task \"server\" > service \"s\"";
    assert_refused(vec![
        (
            group(json!({"Name": "s", "AddressMode": "driver"})),
            &format!("{place} > address_mode"),
            "\"driver\" is only for services of a task",
        ),
        (
            group(json!({"Name": "s", "AddressMode": "ipv6"})),
            &format!("{place} > address_mode"),
            "unknown: \"ipv6\"",
        ),
        (
            group(check_in("alloc_ipv6")),
            &format!("{place} > check \"c\" > address_mode"),
            "\"alloc_ipv6\" is only for services of a group, not for checks",
        ),
        (
            of_task(json!({"Services": [{"Name": "s", "AddressMode": "alloc_ipv6"}]})),
            &format!("{of_tasks} > address_mode"),
            "\"alloc_ipv6\" is only for services of a group",
        ),
        (
            of_task(json!({"Services": [{"Name": "s", "AddressMode": "alloc"}]})),
            &format!("{of_tasks} > address_mode"),
            "\"alloc\" is only for services of a group",
        ),
        (
            of_task(json!({"Services": [check_in("alloc")]})),
            &format!("{of_tasks} > check \"c\" > address_mode"),
            "\"alloc\" is only for checks of a group's service",
        ),
        (
            of_task(json!({"Services": [check_in("alloc_ipv6")]})),
            &format!("{of_tasks} > check \"c\" > address_mode"),
            "\"alloc_ipv6\" is only for services of a group, not for checks",
        ),
    ]);
}

#[test]
fn address_modes_of_group_and_task_services_are_valid() {
    for mode in ["", "auto", "alloc", "alloc_ipv6", "host"] {
        let job = of_group(json!({"Services": [{"Name": "s", "AddressMode": mode}]}));
        assert_eq!(errors(&job), [], "group: {mode}");
    }
    for mode in ["", "auto", "host", "driver"] {
        let job = of_task(json!({"Services": [{"Name": "s", "AddressMode": mode}]}));
        assert_eq!(errors(&job), [], "task: {mode}");
    }
}

#[test]
fn volumes_of_each_allocation_are_refused_in_nomad_s_words() {
    assert_refused(vec![
        (
            of_group(
                json!({"Volumes": {"v": {"Type": "host", "Source": "s", "PerAlloc": true,
                "Sticky": true}}}),
            ),
            "group \"web\" > volume \"v\"",
            "volume cannot be per_alloc and sticky",
        ),
        (
            of_group(
                json!({"Volumes": {"v": {"Type": "host", "Source": "s", "PerAlloc": true}},
                "Update": {"Canary": 1}}),
            ),
            "group \"web\" > volume \"v\"",
            "volume cannot be per_alloc when canaries are in use",
        ),
        (
            crate::fixtures::service(
                json!({"Type": "sysbatch"}),
                json!({"Volumes": {"v": {"Type": "host", "Source": "s", "PerAlloc": true}}}),
                json!({}),
            ),
            "group \"web\" > volume \"v\"",
            "volume cannot be per_alloc for system or sysbatch jobs",
        ),
        (
            crate::fixtures::service(
                json!({"Type": "system"}),
                json!({"Volumes": {"v": {"Type": "host", "Source": "s", "PerAlloc": true}}}),
                json!({}),
            ),
            "group \"web\" > volume \"v\"",
            "volume cannot be per_alloc for system or sysbatch jobs",
        ),
    ]);
}

#[test]
fn mounts_of_volumes_may_be_interpolated_and_modes_are_known() {
    let with = |mount: serde_json::Value| {
        crate::fixtures::service(
            json!({}),
            json!({"Volumes": {"v": {"Type": "host", "Source": "s"}}}),
            json!({"VolumeMounts": [mount]}),
        )
    };
    for mode in [
        "",
        "private",
        "host-to-task",
        "bidirectional",
        "${meta.mode}",
    ] {
        let job = with(json!({"Volume": "v", "Destination": "/v", "PropagationMode": mode}));
        assert_eq!(errors(&job), [], "{mode}");
    }
    let named_later = json!({"Volume": "${meta.volume}", "Destination": "/${meta.place}"});
    assert_eq!(errors(&with(named_later)), []);
    assert_refused(vec![
        (
            with(json!({"Volume": "v", "Destination": "/v", "PropagationMode": "shared"})),
            "group \"web\" > task \"server\" > volume_mount 1 > propagation_mode",
            "unknown: \"shared\"",
        ),
        (
            with(json!({"Volume": "other", "Destination": "/v"})),
            "group \"web\" > task \"server\" > volume_mount 1 > volume",
            "the group has no volume \"other\"",
        ),
    ]);
}
