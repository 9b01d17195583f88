//! Tasks and their files.

use serde_json::{Value, json};

use super::{assert_refused, of_task};

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
            of_task(json!({"Identity": {"Env": true}, "Identities": [{"Name": "default"}]})),
            &place("identity \"default\""),
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
        (
            of_task(json!({"ScalingPolicies": [{"Max": 1, "Type": "horizontal"}]})),
            &place("scaling 1 > type"),
            "\"horizontal\"",
        ),
        (
            of_task(json!({"ScalingPolicies": [
                {"Type": "vertical_cpu"}, {"Type": "vertical_mem"}, {"Type": "vertical_cpu"}
            ]})),
            &place("scaling 3"),
            "already",
        ),
    ]);
}

#[test]
fn what_nomad_accepts_of_a_task_is_accepted() {
    for task in [
        json!({"Artifacts": [{"GetterSource": "x", "RelativeDest": "../alloc/x"}]}),
        json!({"Artifacts": [{"GetterSource": "x", "RelativeDest": ".."}]}),
        json!({"Templates": [{"EmbeddedTmpl": "x", "DestPath": "../alloc/x"}]}),
        json!({"DispatchPayload": {"File": "../x"}}),
        json!({"RestartPolicy": {"Attempts": 100, "Delay": "1m", "Interval": "1s"}}),
        json!({"Identities": [{"Name": "a"}, {"Name": "a"}]}),
        json!({"ScalingPolicies": [{"Type": "vertical_cpu"}, {"Type": "vertical_mem"}]}),
    ] {
        assert_eq!(of_task(task.clone()).validate(), Ok(()), "{task}");
    }
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
            template(json!({"DestPath": "local/../../../x"})),
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
            template(json!({"ChangeMode": "signal", "ChangeSignal": "SIGNOPE"})),
            &place("template 1 > change_signal"),
            "\"SIGNOPE\" is no signal",
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
            artifact(json!({"GetterSource": "x", "RelativeDest": "../.."})),
            &place("artifact 1 > destination"),
            "leads out",
        ),
        (
            artifact(json!({"GetterSource": "x", "GetterOptions": {"checksum": "md5:12"}})),
            &place("artifact 1 > options > checksum"),
            "32 hexadecimal digits",
        ),
        (
            of_task(json!({"DispatchPayload": {"File": "../../../x"}})),
            &place("dispatch_payload > file"),
            "leads out",
        ),
    ]);
}
