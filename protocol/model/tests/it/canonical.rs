//! Canonical form against the answers of a real server.

use std::time::Duration;

use protocol_model::{Job, JobType};
use serde_json::{Value, json};

use crate::fixtures::{canonical, job, sample, service};

/// What a server decides for itself, and what depends on when and by whom a job was registered.
fn without_volatile(mut job: Value) -> Value {
    for key in [
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
        "SubmitTime",
        "Status",
    ] {
        job[key] = Value::Null;
    }
    for group in job["TaskGroups"].as_array_mut().expect("a job has groups") {
        for key in ["CreateIndex", "ModifyIndex", "ID"] {
            if group["Scaling"].is_object() {
                group["Scaling"][key] = Value::Null;
            }
        }
    }
    job
}

/// A job as a parser makes it from the sample of the same name: only what the file says.
fn as_parsed(name: &str) -> Value {
    let config = json!({"int_config": 2.0, "bool_config": true, "str_config": "str"});
    let scaling = match name {
        "full-scaling" => json!({"Min": 2, "Max": 10, "Enabled": false, "Policy": {
        "evaluation_interval": "5s", "cooldown": "5m", "cooldown_on_scale_up": "2m",
        "on_check_error": "fail", "target": [{"target": [config]}],
        "check": [
            {"check-1": [{"source": "source-1", "query": "query-1", "query_window": "1m",
                "query_window_offset": "2m", "on_error": "ignore",
                "strategy": [{"strategy-1": [config]}]}]},
            {"check-2": [{"source": "source-2", "query": "query-2", "group": "group-2",
                "strategy": [{"strategy-2": [config]}]}]},
        ]}}),
        "single-check" => json!({"Min": 0, "Max": 10, "Enabled": false, "Policy": {
            "check": [{"check": [{"source": "source", "query": "query",
                "strategy": [{"strategy": [config]}]}]}]}}),
        "minimum-valid-scaling" => json!({"Max": 10, "Policy": {
            "check": [{"check": [{"query": "query", "strategy": [{"strategy": [config]}]}]}]}}),
        "empty-policy" => json!({"Min": 0, "Max": 10, "Enabled": false, "Policy": {}}),
        other => panic!("no such sample: {other}"),
    };
    let kind = if name == "empty-policy" {
        "service"
    } else {
        "batch"
    };
    json!({"ID": name, "Type": kind, "TaskGroups": [{"Name": "test", "Scaling": scaling,
        "Tasks": [{"Name": "echo", "Driver": "raw_exec",
            "Config": {"command": "echo", "args": ["hi"]}}]}]})
}

const SAMPLES: [&str; 4] = [
    "full-scaling",
    "single-check",
    "minimum-valid-scaling",
    "empty-policy",
];

#[test]
fn a_parsed_job_becomes_what_a_real_server_answers() {
    for name in SAMPLES {
        let Some(golden) = sample(&format!("registered/{name}.json.golden")) else {
            return;
        };
        let ours = serde_json::to_value(canonical(as_parsed(name))).expect("a job is JSON");
        let theirs = without_volatile(golden["Job"].clone());
        assert_eq!(without_volatile(ours), theirs, "{name}");
    }
}

#[test]
fn a_server_s_answer_is_read_and_written_unchanged() {
    for name in SAMPLES {
        let Some(golden) = sample(&format!("registered/{name}.json.golden")) else {
            return;
        };
        let read = job(golden["Job"].clone());
        assert_eq!(
            serde_json::to_value(&read).expect("a job is JSON"),
            golden["Job"],
            "{name}"
        );
    }
}

#[test]
fn a_server_s_answer_is_canonical_already() {
    for name in SAMPLES {
        let Some(golden) = sample(&format!("registered/{name}.json.golden")) else {
            return;
        };
        let read = job(golden["Job"].clone());
        assert_eq!(canonical(golden["Job"].clone()), read, "{name}");
    }
}

#[test]
fn what_a_parser_yields_is_read_and_canonical_form_is_stable() {
    let Some(expected) = sample("parser/expected.json") else {
        return;
    };
    let mut jobs = 0;
    for entry in expected.as_array().expect("a list") {
        if entry["expect"].is_null() {
            continue;
        }
        let once = canonical(entry["expect"].clone());
        let mut twice = once.clone();
        twice.canonicalize();
        assert_eq!(once, twice, "{}", entry["file"]);
        jobs += 1;
    }
    assert!(jobs >= 8, "only {jobs} jobs in the sample");
}

#[test]
fn each_type_has_its_own_life_policies() {
    let of = |kind: &str| service(json!({"Type": kind}), json!({}), json!({}));
    let group = |job: &Job| job.task_groups[0].clone();

    let web = group(&of("service"));
    let restart = web.restart_policy.expect("filled in");
    assert_eq!(
        (restart.attempts(), restart.interval()),
        (2, Duration::from_secs(1800))
    );
    let reschedule = web.reschedule_policy.expect("filled in");
    assert!(reschedule.unlimited());
    assert_eq!(reschedule.delay_function.as_deref(), Some("exponential"));
    assert_eq!(web.update.expect("filled in").max_parallel(), 1);
    assert_eq!(
        web.migrate.expect("filled in").healthy_deadline(),
        Duration::from_secs(300)
    );

    for kind in ["batch", "sysbatch"] {
        let work = group(&of(kind));
        let restart = work.restart_policy.expect("filled in");
        assert_eq!(
            (restart.attempts(), restart.interval()),
            (3, Duration::from_secs(86_400))
        );
        assert_eq!((work.update, work.migrate), (None, None));
    }
    assert_eq!(
        group(&of("batch"))
            .reschedule_policy
            .expect("filled in")
            .attempts(),
        1
    );
    for kind in ["system", "sysbatch"] {
        assert_eq!(group(&of(kind)).reschedule_policy, None);
    }
}

#[test]
fn what_a_group_says_wins_over_its_job_which_wins_over_the_defaults() {
    let job = service(
        json!({"Update": {"MaxParallel": 7, "Canary": 2}, "Reschedule": {"Delay": "9s"}}),
        json!({"Update": {"MaxParallel": 3}, "RestartPolicy": {"Attempts": 9}}),
        json!({"RestartPolicy": {"Delay": "1s"}}),
    );
    let group = &job.task_groups[0];
    let update = group.update.as_ref().expect("filled in");
    assert_eq!((update.max_parallel(), update.canary()), (3, 2));
    assert_eq!(update.healthy_deadline(), Duration::from_secs(300));
    let reschedule = group.reschedule_policy.as_ref().expect("filled in");
    assert_eq!(reschedule.delay(), Duration::from_secs(9));
    let restart = group.tasks[0].restart_policy.as_ref().expect("filled in");
    assert_eq!(
        (restart.attempts(), restart.delay()),
        (9, Duration::from_secs(1))
    );
    assert_eq!(
        group.restart_policy.as_ref().expect("filled in").delay(),
        Duration::from_secs(15)
    );
    let of_job = job.update.as_ref().expect("filled in");
    assert_eq!((of_job.max_parallel(), of_job.canary()), (7, 0));
    assert_eq!(job.reschedule, None);
}

#[test]
fn a_group_added_to_a_server_s_answer_gets_defaults_not_zeros() {
    let mut job = service(json!({}), json!({}), json!({}));
    let mut added = job.task_groups[0].clone();
    "added".clone_into(&mut added.name);
    added.update = None;
    job.task_groups.push(added);
    job.canonicalize();
    assert_eq!(job.task_groups[1].update, job.task_groups[0].update);
    assert_eq!(job.validate(), Ok(()));
}

#[test]
fn a_batch_job_s_answer_gives_its_groups_no_update() {
    let mut job = service(json!({"Type": "batch"}), json!({}), json!({}));
    job.canonicalize();
    assert_eq!(job.task_groups[0].update, None);
}

#[test]
fn a_window_of_zero_is_none() {
    // Nomad answers `"LostAfter": 0` where a job says nothing of a window.
    let silent = |group: Value| {
        let job = canonical(
            json!({"ID": "a", "TaskGroups": [{"Name": "web", "Disconnect": group,
            "MaxClientDisconnect": 0, "Tasks": [{"Name": "t", "Driver": "mock"}]}]}),
        );
        let group = job.task_groups.into_iter().next().expect("a group");
        (group.disconnect_window(), group.stop_on_client_after())
    };
    assert_eq!(
        silent(json!({"LostAfter": 0, "Replace": false})),
        (None, None)
    );
    assert_eq!(silent(Value::Null), (None, None));
    let after = Duration::from_secs(60);
    assert_eq!(
        silent(json!({"LostAfter": 0, "StopOnClientAfter": "1m"})),
        (None, Some(after))
    );
    assert_eq!(silent(json!({"LostAfter": "1m"})), (Some(after), None));
}

#[test]
fn counts_come_from_the_file_then_from_scaling_then_are_one() {
    let count = |group: Value| service(json!({}), group, json!({})).task_groups[0].count;
    assert_eq!(count(json!({})), Some(1));
    assert_eq!(count(json!({"Count": 0})), Some(0));
    assert_eq!(count(json!({"Scaling": {"Min": 4, "Max": 9}})), Some(4));
    assert_eq!(
        count(json!({"Count": 5, "Scaling": {"Min": 4, "Max": 9}})),
        Some(5)
    );
}

#[test]
fn null_is_absent_for_every_field_a_client_may_send() {
    let job = canonical(json!({
        "ID": "example", "Name": null, "Region": null, "Namespace": null, "Type": null,
        "Priority": null, "AllAtOnce": null, "Datacenters": null, "Constraints": null,
        "Status": "", "Stop": null, "Version": null, "SubmitTime": null, "Meta": null,
        "TaskGroups": [{"Name": "web", "Count": null, "Networks": [{"DynamicPorts": [
            {"Label": "http", "Value": null, "To": null, "HostNetwork": null}]}],
            "Tasks": [{"Name": "server", "Driver": "exec", "Leader": null, "User": null,
                "ShutdownDelay": null, "KillTimeout": null, "Config": null}]}],
    }));
    assert_eq!((job.priority, job.region.as_str()), (50, "global"));
    assert_eq!(
        (job.name.as_str(), job.job_type),
        ("example", JobType::Service)
    );
    let group = &job.task_groups[0];
    assert_eq!(group.networks[0].dynamic_ports[0].host_network, "default");
    assert_eq!(group.tasks[0].kill_timeout(), Duration::from_secs(5));
    assert_eq!(job.validate(), Ok(()));
}

#[test]
fn secrets_of_older_clients_are_not_kept() {
    let job = service(
        json!({"ConsulToken": "abc", "VaultToken": "foo"}),
        json!({}),
        json!({}),
    );
    let text = serde_json::to_string(&job).expect("a job is JSON");
    assert!(
        !text.contains("ConsulToken") && !text.contains("foo"),
        "{text}"
    );
}

#[test]
fn services_are_named_after_where_they_stand() {
    let job = service(
        json!({}),
        json!({"Services": [{}, {"Name": "${JOB}-${TASKGROUP}-x"}]}),
        json!({"Services": [{"Checks": [{"Type": "tcp"}]}, {"Name": "${BASE}-y"}]}),
    );
    let group = &job.task_groups[0];
    let names = |services: &[protocol_model::Service]| {
        services
            .iter()
            .map(|service| service.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&group.services), ["example-web", "example-web-x"]);
    assert_eq!(
        names(&group.tasks[0].services),
        ["example-web-server", "example-web-server-y"]
    );
    assert_eq!(group.services[0].provider, "consul");
    assert_eq!(
        group.tasks[0].services[0].checks[0].name,
        "service: \"example-web-server\" check"
    );
}

#[test]
fn files_of_a_task_get_their_places_and_modes() {
    let job = service(
        json!({}),
        json!({}),
        json!({
            "Templates": [{"EmbeddedTmpl": "x", "DestPath": "local/x"},
                {"EmbeddedTmpl": "x", "DestPath": "local/y", "ChangeMode": "signal"}],
            "Artifacts": [{"GetterSource": "https://example.org/a/b.tar"},
                {"GetterSource": "https://example.org/a/b.txt", "GetterMode": "file"}],
        }),
    );
    let task = &job.task_groups[0].tasks[0];
    assert_eq!(task.templates[0].change_mode.as_deref(), Some("restart"));
    assert_eq!(task.templates[0].mode_bits(), Some(0o644));
    assert_eq!(task.templates[1].change_signal.as_deref(), Some("SIGHUP"));
    let owner = (task.templates[0].uid, task.templates[0].gid);
    assert_eq!(
        owner,
        (Some(-1), Some(-1)),
        "as a job file that says nothing"
    );
    assert_eq!(task.artifacts[0].relative_dest.as_deref(), Some("local/"));
    assert_eq!(
        task.artifacts[1].relative_dest.as_deref(),
        Some("local/b.txt")
    );
}

#[test]
fn cores_take_the_place_of_the_default_share() {
    let job = service(json!({}), json!({}), json!({"Resources": {"Cores": 2}}));
    let resources = job.task_groups[0].tasks[0]
        .resources
        .as_ref()
        .expect("filled in");
    assert_eq!(
        (resources.cpu(), resources.cores(), resources.memory_mb()),
        (0, 2, 300)
    );
    assert_eq!(job.validate(), Ok(()));
}

#[test]
fn a_storage_plugin_has_time_although_a_client_sends_none() {
    for sent in [json!(null), json!(0)] {
        let plugin = json!({"ID": "p", "Type": "node", "HealthTimeout": sent});
        let job = service(json!({}), json!({}), json!({"CSIPluginConfig": plugin}));
        let plugin = job.task_groups[0].tasks[0].csi_plugin_config.as_ref();
        let timeout = plugin.expect("it is kept").health_timeout;
        assert_eq!(timeout, Some(Duration::from_secs(30)));
    }
}

#[test]
fn a_default_identity_in_the_list_goes_to_its_place() {
    let job = service(
        json!({}),
        json!({}),
        json!({"Identities": [{"Name": "aws", "Audience": ["aws"]}, {"Env": true}]}),
    );
    let task = &job.task_groups[0].tasks[0];
    let identity = task.identity.as_ref().expect("filled in");
    assert_eq!((identity.name.as_str(), identity.env), ("default", true));
    assert_eq!(task.identities.len(), 1);
}
