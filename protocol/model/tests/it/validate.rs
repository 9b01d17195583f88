//! What is refused, with its place; and what is not.

use protocol_model::validate::VALIDATION_ERRORS_MAX;
use protocol_model::{Job, ValidationErrors};
use serde_json::{Value, json};

use crate::fixtures::{canonical, sample, service};

fn errors(job: &Job) -> Vec<(String, String)> {
    match job.validate() {
        Ok(()) => Vec::new(),
        Err(ValidationErrors { errors, .. }) => errors
            .into_iter()
            .map(|error| (error.path, error.message))
            .collect(),
    }
}

/// Each case is refused for exactly one reason, at this place, in words that contain this text.
fn assert_refused(cases: Vec<(Job, &str, &str)>) {
    for (job, path, text) in cases {
        let errors = errors(&job);
        let [(found_path, message)] = &errors[..] else {
            panic!("wanted one error at {path:?} ({text:?}), got {errors:#?}");
        };
        assert_eq!(found_path, path, "{message}");
        assert!(message.contains(text), "{message:?} does not say {text:?}");
    }
}

fn of_job(fields: Value) -> Job {
    service(fields, json!({}), json!({}))
}

fn of_group(fields: Value) -> Job {
    service(json!({}), fields, json!({}))
}

fn of_task(fields: Value) -> Job {
    service(json!({}), json!({}), fields)
}

#[test]
fn a_plain_job_of_each_type_is_valid() {
    for kind in ["service", "batch", "system", "sysbatch"] {
        assert_eq!(of_job(json!({"Type": kind})).validate(), Ok(()), "{kind}");
    }
}

#[test]
fn what_real_servers_accepted_is_valid() {
    for name in [
        "full-scaling",
        "single-check",
        "minimum-valid-scaling",
        "empty-policy",
    ] {
        let Some(golden) = sample(&format!("registered/{name}.json.golden")) else {
            return;
        };
        assert_eq!(
            canonical(golden["Job"].clone()).validate(),
            Ok(()),
            "{name}"
        );
    }
}

#[test]
fn all_mistakes_are_listed_at_once_with_their_places() {
    let job = canonical(json!({"ID": "a b", "Priority": 101, "TaskGroups": [
        {"Name": "x", "Tasks": [
            {"Name": "t", "Driver": "", "Resources": {"MemoryMB": 1}},
            {"Name": "t", "Driver": "exec", "Templates": [
                {"EmbeddedTmpl": "x", "DestPath": "../../x", "ChangeMode": "foo"}]}]},
        {"Name": "x", "Tasks": []}]}));
    let paths: Vec<_> = errors(&job).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [
            "id",
            "priority",
            "group \"x\" > task \"t\" > driver",
            "group \"x\" > task \"t\" > resources > memory",
            "group \"x\"",
            "group \"x\" > task \"t\" > template 1 > destination",
            "group \"x\" > task \"t\" > template 1 > change_mode",
            "",
            "group \"x\"",
        ]
    );
    let text = job
        .validate()
        .expect_err("it is full of mistakes")
        .to_string();
    assert!(text.starts_with("9 errors in the job:\n  * id: "), "{text}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn jobs_are_refused_for() {
    let task = json!({"Name": "t", "Driver": "exec"});
    let groups: Vec<_> = (0..1001)
        .map(|n| json!({"Name": n.to_string(), "Tasks": [task]}))
        .collect();
    let group = |name: &str| json!({"Name": name, "Tasks": [task]});
    assert_refused(vec![
        (of_job(json!({"ID": ""})), "id", "missing"),
        (
            of_job(json!({"ID": "x".repeat(129), "Name": "x"})),
            "id",
            "longer than 128",
        ),
        (
            of_job(json!({"Name": "a\u{0}b"})),
            "name",
            "control character",
        ),
        (
            of_job(json!({"Namespace": "a b"})),
            "namespace",
            "no name for a namespace",
        ),
        (
            of_job(json!({"Priority": -1})),
            "priority",
            "1 to 100, is -1",
        ),
        (
            of_job(json!({"Datacenters": ["a", ""]})),
            "datacenters",
            "empty",
        ),
        (of_job(json!({"TaskGroups": []})), "", "no group"),
        (
            of_job(json!({"TaskGroups": [group("a"), group("a")]})),
            "",
            "two groups",
        ),
        (
            of_job(json!({"TaskGroups": [group("")]})),
            "",
            "group number 1 has no name",
        ),
        (of_job(json!({"TaskGroups": groups})), "", "1001 groups"),
        (
            of_job(json!({"Periodic": {"Spec": "@daily"}})),
            "periodic",
            "batch and sysbatch",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {"Spec": "*/5 * * *"}})),
            "periodic > cron",
            "4 fields",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {}})),
            "periodic > cron",
            "missing",
        ),
        (
            of_job(json!({"ParameterizedJob": {}})),
            "parameterized",
            "batch and sysbatch",
        ),
        (
            of_job(json!({"Type": "batch", "ParameterizedJob": {"Payload": "maybe"}})),
            "parameterized > payload",
            "maybe",
        ),
        (
            of_job(json!({"Type": "batch", "ParameterizedJob":
                {"MetaRequired": ["a"], "MetaOptional": ["a"]}})),
            "parameterized",
            "both",
        ),
        (
            of_job(json!({"Type": "system", "Affinities": [{"LTarget": "a", "RTarget": "b"}]})),
            "affinity",
            "every node",
        ),
    ]);
}

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
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn policies_are_refused_for() {
    let job_type = |kind: &str, group: Value| {
        crate::fixtures::service(json!({"Type": kind}), group, json!({}))
    };
    assert_refused(vec![
        (
            of_group(json!({"RestartPolicy": {"Mode": "retry"}})),
            "group \"web\" > restart > mode",
            "\"retry\" (allowed: fail, delay)",
        ),
        (
            of_group(json!({"RestartPolicy": {"Attempts": 0, "Mode": "delay"}})),
            "group \"web\" > restart",
            "wait for nothing",
        ),
        (
            of_group(json!({"RestartPolicy": {"Attempts": 100, "Delay": "1m"}})),
            "group \"web\" > restart",
            "do not fit into an interval of 30m0s",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"Attempts": 3, "Interval": "1h"}})),
            "group \"web\" > reschedule",
            "unlimited",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"Delay": "1s"}})),
            "group \"web\" > reschedule > delay",
            "at least 5s",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"DelayFunction": "linear"}})),
            "group \"web\" > reschedule > delay_function",
            "linear",
        ),
        (
            job_type(
                "batch",
                json!({"ReschedulePolicy": {"Attempts": 5, "Interval": "20s"}}),
            ),
            "group \"web\" > reschedule",
            "only 4 do",
        ),
        (
            job_type(
                "system",
                json!({"ReschedulePolicy": {"Attempts": 1, "Interval": "1h"}}),
            ),
            "group \"web\" > reschedule",
            "no other node",
        ),
        (
            job_type("batch", json!({"Update": {}})),
            "group \"web\" > update",
            "not updated",
        ),
        (
            of_group(json!({"Update": {"AutoPromote": true}})),
            "group \"web\" > update",
            "needs canaries",
        ),
        (
            of_group(json!({"Update": {"HealthCheck": "ping"}})),
            "group \"web\" > update > health_check",
            "ping",
        ),
        (
            of_group(json!({"Update": {"MinHealthyTime": "5m"}})),
            "group \"web\" > update > min_healthy_time",
            "less than healthy_deadline",
        ),
        (
            of_group(json!({"Update": {"ProgressDeadline": "1m"}})),
            "group \"web\" > update > progress_deadline",
            "more than healthy_deadline",
        ),
        (
            job_type("batch", json!({"Migrate": {}})),
            "group \"web\" > migrate",
            "only for service",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h", "StopOnClientAfter": "1h"}})),
            "group \"web\"",
            "exclude each other",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h"}, "MaxClientDisconnect": "1h"})),
            "group \"web\" > disconnect > lost_after",
            "given twice",
        ),
        (
            of_group(json!({"Disconnect": {"Reconcile": "coin"}})),
            "group \"web\" > disconnect > reconcile",
            "coin",
        ),
        (
            job_type("system", json!({"StopAfterClientDisconnect": "1h"})),
            "group \"web\" > stop_after_client_disconnect",
            "service and batch",
        ),
    ]);
}

#[test]
fn policies_with_a_meaning_are_not_refused() {
    for group in [
        json!({"ReschedulePolicy": {"Attempts": 0, "Unlimited": false}}),
        json!({"RestartPolicy": {"Attempts": 0}}),
        json!({"Update": {"MaxParallel": 0}}),
        json!({"Update": {"ProgressDeadline": 0}}),
        json!({"Update": {"Canary": 1, "AutoPromote": true, "AutoRevert": true}}),
        json!({"ReschedulePolicy": {"Unlimited": false, "Attempts": 3, "Interval": "6h",
            "Delay": "1m", "MaxDelay": "4m", "DelayFunction": "fibonacci"}}),
    ] {
        assert_eq!(errors(&of_group(group.clone())), [], "{group}");
    }
}

#[test]
fn placement_is_refused_for() {
    let constraint = |left: &str, operand: &str, right: &str| {
        of_group(json!({"Constraints":
            [{"LTarget": left, "Operand": operand, "RTarget": right}]}))
    };
    let affinity = |weight: i32| {
        of_group(json!({"Affinities": [{"LTarget": "a", "RTarget": "b", "Weight": weight}]}))
    };
    let spread = |spread: Value| of_group(json!({"Spreads": [spread]}));
    let place = "group \"web\" > constraint 1";
    assert_refused(vec![
        (
            constraint("a", "~", "b"),
            "group \"web\" > constraint 1 > operator",
            "\"~\"",
        ),
        (
            constraint("", "=", "b"),
            "group \"web\" > constraint 1 > attribute",
            "missing",
        ),
        (
            constraint("a", "regexp", ""),
            "group \"web\" > constraint 1 > value",
            "missing",
        ),
        (
            constraint("a", "is_set", "b"),
            "group \"web\" > constraint 1 > value",
            "no value",
        ),
        (
            constraint("a", "distinct_property", "0"),
            "group \"web\" > constraint 1 > value",
            "above zero",
        ),
        (
            of_task(json!({"Constraints": [{"Operand": "distinct_hosts"}]})),
            &format!("{} > task \"server\" > constraint 1", &place[..11]),
            "cannot stand in a task",
        ),
        (affinity(0), "group \"web\" > affinity 1 > weight", "not 0"),
        (
            affinity(101),
            "group \"web\" > affinity 1 > weight",
            "is 101",
        ),
        (
            of_group(json!({"Affinities": [{"Operand": "distinct_hosts"}]})),
            "group \"web\" > affinity 1",
            "no preference",
        ),
        (
            spread(json!({})),
            "group \"web\" > spread 1 > attribute",
            "missing",
        ),
        (
            spread(json!({"Attribute": "a", "Weight": 101})),
            "group \"web\" > spread 1 > weight",
            "1 to 100",
        ),
        (
            spread(json!({"Attribute": "a", "SpreadTarget":
                [{"Value": "x", "Percent": 60}, {"Value": "y", "Percent": 60}]})),
            "group \"web\" > spread 1",
            "sum to 120",
        ),
    ]);
}

#[test]
fn every_operator_may_be_written() {
    for operator in [
        "=",
        "==",
        "is",
        "!=",
        "not",
        "<",
        "<=",
        ">",
        ">=",
        "regexp",
        "version",
        "semver",
        "set_contains",
        "set_contains_all",
        "set_contains_any",
    ] {
        let constraint = json!({"LTarget": "a", "Operand": operator, "RTarget": "1"});
        let job = of_group(json!({"Constraints": [constraint], "Affinities": [constraint]}));
        assert_eq!(errors(&job), [], "{operator}");
    }
    for constraint in [
        json!({"LTarget": "a", "Operand": "is_set"}),
        json!({"LTarget": "a", "Operand": "is_not_set"}),
        json!({"LTarget": "a", "Operand": "distinct_property"}),
        json!({"Operand": "distinct_hosts", "RTarget": "true"}),
    ] {
        assert_eq!(errors(&of_group(json!({"Constraints": [constraint]}))), []);
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
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn tasks_are_refused_for() {
    let place = |rest: &str| format!("group \"web\" > task \"server\" > {rest}");
    let resources = |resources: Value| of_task(json!({"Resources": resources}));
    assert_refused(vec![
        (of_task(json!({"Driver": ""})), &place("driver"), "missing"),
        (
            of_task(json!({"Name": "a/b"})),
            "group \"web\" > task \"a/b\" > name",
            "directory",
        ),
        (
            of_task(json!({"Name": ".."})),
            "group \"web\" > task \"..\" > name",
            "directory",
        ),
        (
            resources(json!({"CPU": 0})),
            &place("resources > cpu"),
            "at least 1 MHz",
        ),
        (
            resources(json!({"CPU": 5, "Cores": 1})),
            &place("resources"),
            "exclude each other",
        ),
        (
            resources(json!({"MemoryMB": 300, "MemoryMaxMB": 200})),
            &place("resources > memory_max"),
            "less than memory",
        ),
        (
            of_task(json!({"Lifecycle": {"Hook": "midway"}})),
            &place("lifecycle > hook"),
            "midway",
        ),
        (
            of_task(json!({"Lifecycle": {}})),
            &place("lifecycle > hook"),
            "missing",
        ),
        (
            of_task(json!({"LogConfig": {"MaxFiles": 40}})),
            &place("logs"),
            "up to 400 MB do not fit",
        ),
        (
            of_task(json!({"LogConfig": {"MaxFiles": 0}})),
            &place("logs > max_files"),
            "at least 1",
        ),
        (
            of_task(json!({"Env": {"A=B": "c"}})),
            &place("env"),
            "\"A=B\"",
        ),
        (
            of_task(json!({"Vault": {"ChangeMode": "script"}})),
            &place("vault > change_mode"),
            "\"script\"",
        ),
        (
            of_task(json!({"Identities": [{"Name": "a"}, {"Name": "a"}]})),
            &place("identity \"a\""),
            "twice",
        ),
        (
            of_task(json!({"Actions": [{"Name": "a"}]})),
            &place("action \"a\" > command"),
            "missing",
        ),
        (
            of_task(json!({"RestartPolicy": {"Mode": "x"}})),
            &place("restart > mode"),
            "\"x\"",
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn files_of_a_task_are_refused_for() {
    let place = |rest: &str| format!("group \"web\" > task \"server\" > {rest}");
    let template = |extra: Value| {
        let mut template = json!({"EmbeddedTmpl": "x", "DestPath": "local/x"});
        template
            .as_object_mut()
            .expect("it is one")
            .extend(extra.as_object().expect("too").clone());
        of_task(json!({"Templates": [template]}))
    };
    let artifact = |extra: Value| of_task(json!({"Artifacts": [extra]}));
    let twice = json!({"EmbeddedTmpl": "x", "DestPath": "local/x"});
    assert_refused(vec![
        (
            template(json!({"EmbeddedTmpl": ""})),
            &place("template 1"),
            "data or source",
        ),
        (
            template(json!({"SourcePath": "local/y"})),
            &place("template 1"),
            "exclude",
        ),
        (
            template(json!({"DestPath": ""})),
            &place("template 1 > destination"),
            "missing",
        ),
        (
            template(json!({"DestPath": "local/../../x"})),
            &place("template 1 > destination"),
            "leads out",
        ),
        (
            template(json!({"Perms": "rw"})),
            &place("template 1 > perms"),
            "\"rw\"",
        ),
        (
            template(json!({"ChangeMode": "foo"})),
            &place("template 1 > change_mode"),
            "\"foo\" (allowed: noop, signal, restart, script)",
        ),
        (
            template(json!({"ChangeMode": "signal", "Envvars": true})),
            &place("template 1 > change_mode"),
            "env variables",
        ),
        (
            template(json!({"ChangeMode": "script"})),
            &place("template 1 > change_script > command"),
            "missing",
        ),
        (
            of_task(json!({"Templates": [twice, twice]})),
            &place("template 2 > destination"),
            "template 1's already",
        ),
        (
            artifact(json!({})),
            &place("artifact 1 > source"),
            "missing",
        ),
        (
            artifact(json!({"GetterSource": "x", "GetterMode": "tree"})),
            &place("artifact 1 > mode"),
            "\"tree\"",
        ),
        (
            artifact(json!({"GetterSource": "x", "RelativeDest": ".."})),
            &place("artifact 1 > destination"),
            "leads out",
        ),
        (
            artifact(json!({"GetterSource": "x", "GetterOptions": {"checksum": "md5:12"}})),
            &place("artifact 1 > options > checksum"),
            "32 hexadecimal digits",
        ),
        (
            of_task(json!({"DispatchPayload": {"File": "../x"}})),
            &place("dispatch_payload > file"),
            "leads out",
        ),
    ]);
}

#[test]
fn the_list_of_mistakes_is_bounded() {
    let tasks: Vec<_> = (0..200)
        .map(|n| json!({"Name": n.to_string(), "Driver": ""}))
        .collect();
    let group = |name: &str| json!({"Name": name, "Tasks": tasks});
    let job = canonical(json!({"ID": "x", "TaskGroups": [group("a"), group("b")]}));
    let found = job.validate().expect_err("no task has a driver");
    assert_eq!(
        (found.errors.len(), found.omitted),
        (VALIDATION_ERRORS_MAX, 144)
    );
    assert!(found.to_string().ends_with("and 144 more"));
}

#[test]
fn a_job_that_was_never_canonical_is_validated_without_panic() {
    let found = Job::default().validate().expect_err("it is empty");
    assert!(found.errors.iter().any(|error| error.path == "id"));
}
