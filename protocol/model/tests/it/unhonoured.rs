//! Warnings about what is stored without effect.

use protocol_model::Warning;
use serde_json::{Value, json};

use crate::fixtures::{canonical, sample, service};

fn paths(in_job: Value, in_group: Value, in_task: Value) -> Vec<String> {
    let warnings = service(in_job, in_group, in_task).unhonoured();
    warnings.into_iter().map(|warning| warning.path).collect()
}

#[test]
fn what_is_honoured_gives_no_warning() {
    for kind in ["service", "batch", "system", "sysbatch"] {
        let quiet = paths(
            json!({"Type": kind, "Constraints": [{"LTarget": "${attr.cpu.arch}", "RTarget": "x"}]}),
            json!({"Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}],
                "ShutdownDelay": "1s", "Meta": {"a": "b"}}),
            json!({"Driver": "raw_exec", "Leader": true, "Env": {"A": "b"},
                "LogConfig": {"Disabled": true}, "User": "nobody",
                "Templates": [{"EmbeddedTmpl": "plain", "DestPath": "local/x"}]}),
        );
        assert_eq!(quiet, Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn drivers_of_nodes_are_not_warned_of() {
    for driver in ["exec", "raw_exec", "mock_driver"] {
        let quiet = paths(json!({}), json!({}), json!({"Driver": driver}));
        assert_eq!(quiet, Vec::<String>::new(), "{driver}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_block_without_effect_is_named_with_its_place() {
    let group = "group \"web\" > ";
    let task = "group \"web\" > task \"server\" > ";
    let cases = [
        (
            json!({"Type": "batch", "Periodic": {"Enabled": false, "Spec": "61 * * * *"}}),
            json!({}),
            json!({}),
            "periodic > cron".to_owned(),
        ),
        (
            json!({"Type": "batch", "Periodic": {"Enabled": false, "Spec": "@daily",
                "TimeZone": "Mars/Olympus"}}),
            json!({}),
            json!({}),
            "periodic > time_zone".to_owned(),
        ),
        (
            json!({}),
            json!({"Services": [{}]}),
            json!({}),
            format!("{group}service"),
        ),
        (
            json!({}),
            json!({"Networks": [{"Mode": "cni/mine"}]}),
            json!({}),
            format!("{group}network mode \"mine\""),
        ),
        (
            json!({}),
            json!({"EphemeralDisk": {"Migrate": true}}),
            json!({}),
            format!("{group}ephemeral_disk migrate"),
        ),
        (
            json!({}),
            json!({"Volumes": {"v": {"Type": "csi"}}}),
            json!({}),
            format!("{group}volume"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Driver": "docker"}),
            format!("{task}driver \"docker\""),
        ),
        (
            json!({}),
            json!({}),
            json!({"Driver": "mock"}),
            format!("{task}driver \"mock\""),
        ),
        (
            json!({}),
            json!({}),
            json!({"Services": [{}]}),
            format!("{task}service"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Artifacts": [{"GetterSource": "s3::https://x/y"}]}),
            format!("{task}artifact source"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Vault": {}}),
            format!("{task}vault"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Resources": {"IOPS": 1}}),
            format!("{task}resources iops"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Resources": {"Devices": [{"Name": "gpu"}]}}),
            format!("{task}resources device"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Templates": [{"EmbeddedTmpl": "{{ key \"a\" }}"}]}),
            format!("{task}template functions"),
        ),
        (
            json!({}),
            json!({}),
            json!({"Templates": [{"EmbeddedTmpl": "{{ range nomadService \"a\" }}{{ end }}"}]}),
            format!("{task}template nomad functions"),
        ),
    ];
    for (in_job, in_group, in_task, path) in cases {
        assert_eq!(paths(in_job, in_group, in_task), [path]);
    }
}

#[test]
fn a_service_waits_for_health_and_a_system_job_for_time() {
    let of = |kind: &str, update: Value| {
        paths(json!({"Type": kind}), json!({"Update": update}), json!({}))
    };
    let stagger = || json!({"MaxParallel": 2, "Stagger": "7s"});
    let health = || json!({"MaxParallel": 2, "MinHealthyTime": "7s"});
    let quiet = Vec::<String>::new();
    assert_eq!(of("system", stagger()), quiet);
    assert_eq!(of("service", health()), quiet);
    assert_eq!(of("service", stagger()), ["group \"web\" > update stagger"]);
    assert_eq!(of("system", health()), ["group \"web\" > update"]);
    for one in [
        json!({"AutoRevert": true}),
        json!({"ProgressDeadline": 0}),
        json!({"HealthyDeadline": "8m"}),
    ] {
        assert_eq!(
            of("system", one.clone()),
            ["group \"web\" > update"],
            "{one}"
        );
    }
}

#[test]
fn a_group_that_stops_itself_and_is_never_replaced_is_warned_of() {
    let of = |group: Value| paths(json!({}), group, json!({}));
    let named = ["group \"web\" > disconnect"];
    let disconnect = |block: Value| of(json!({ "Disconnect": block }));
    let both = json!({"StopOnClientAfter": "1m", "Replace": false});
    assert_eq!(disconnect(both), named);
    let older = json!({"StopAfterClientDisconnect": "1m", "PreventRescheduleOnLost": true});
    assert_eq!(of(older), named);
    let quiet = Vec::<String>::new();
    assert_eq!(disconnect(json!({"StopOnClientAfter": "1m"})), quiet);
    assert_eq!(disconnect(json!({"Replace": false})), quiet);
    let window = json!({"LostAfter": "1m", "Replace": false});
    assert_eq!(disconnect(window), quiet);
    assert_eq!(of(json!({"PreventRescheduleOnLost": true})), quiet);
}

#[test]
fn a_template_with_its_own_delimiters_is_judged_by_them() {
    let of = |delimiter: &str| {
        paths(
            json!({}),
            json!({}),
            json!({"Templates": [
            {"EmbeddedTmpl": "{{ key \"a\" }}", "LeftDelim": delimiter, "DestPath": "local/x"}]}),
        )
    };
    assert_eq!(of("[[").len(), 0);
    assert_eq!(of("{{").len(), 1);
}

#[test]
fn a_template_is_warned_of_for_functions_of_the_cluster_alone() {
    let is_warned = |text: &str| {
        let templates = json!([{"EmbeddedTmpl": text, "DestPath": "local/x"}]);
        let warnings = paths(json!({}), json!({}), json!({"Templates": templates}));
        !warnings.is_empty()
    };
    for text in [
        "secret key",
        "{{ env \"key\" | toLower }}",
        "{{ .key }}{{ $key := 1 }}{{ $key }}",
        "{{/* key */}}",
        "{{ range file \"a\" | parseJSON }}{{ . }}{{ end }}",
    ] {
        assert!(!is_warned(text), "{text}");
    }
    for text in [
        "{{- range nomadService \"a\" }}{{ end }}",
        "{{ if eq (key `a`) \"b\" }}{{ end }}",
        "{{ range nomadServices }}{{ end }}",
    ] {
        assert!(is_warned(text), "{text}");
    }
}

#[test]
fn warnings_are_written_for_operators() {
    let warnings = service(json!({}), json!({"Services": [{}]}), json!({})).unhonoured();
    let expected = Warning {
        path: "group \"web\" > service".to_owned(),
        message: "service: parsed and stored, but not registered anywhere by this release"
            .to_owned(),
    };
    assert_eq!(warnings, [expected]);
    assert_eq!(
        warnings[0].to_string(),
        "group \"web\" > service: parsed and stored, but not registered anywhere by this release"
    );
}

#[test]
fn a_crowded_real_job_is_warned_about_in_full() {
    let Some(expected) = sample("parser/expected.json") else {
        return;
    };
    let messages: Vec<_> = canonical(expected[0]["expect"].clone())
        .unhonoured()
        .into_iter()
        .map(|warning| warning.message)
        .collect();
    for block in [
        "driver \"docker\"",
        "driver \"java\"",
        "volume",
        "volume_mount",
        "vault",
        "service",
        "check",
        "resources device",
        "resources network",
    ] {
        let named = messages.iter().any(|message| message.starts_with(block));
        assert!(named, "{block} is missing in {messages:#?}");
    }
}

#[test]
fn what_a_group_says_of_silent_nodes_and_undoes_in_another_place_is_warned_of() {
    let never = json!({"Attempts": 0, "Unlimited": false});
    let always = json!({"Unlimited": true});
    for (disconnect, reschedule, words) in [
        (json!({"LostAfter": "1h"}), &never, "rescheduling is off"),
        (json!({"LostAfter": "1h", "Replace": false}), &never, ""),
        (json!({"LostAfter": "1h"}), &always, ""),
        (Value::Null, &never, ""),
        (
            json!({"StopOnClientAfter": "1h", "Replace": false}),
            &always,
            "nothing of the group runs",
        ),
    ] {
        let group = json!({"Disconnect": disconnect, "ReschedulePolicy": reschedule});
        let warnings = service(json!({}), group.clone(), json!({})).unhonoured();
        let said: Vec<_> = warnings.into_iter().map(|it| it.message).collect();
        assert_eq!(said.is_empty(), words.is_empty(), "{group}: {said:?}");
        assert!(
            said.iter().all(|it| it.contains(words)),
            "{group}: {said:?}"
        );
    }
}

#[test]
fn identities_that_expire_early_or_lie_open_are_warned_of() {
    let s = 1_000_000_000_i64;
    for (identity, words) in [
        (
            json!({"Env": true, "TTL": 19 * s}),
            "ttl is 19s, less than 20s",
        ),
        (json!({"Env": true, "TTL": 20 * s}), ""),
        (json!({"Env": true, "TTL": 0}), ""),
        (json!({"TTL": s}), ""),
        (
            json!({"File": true, "Filepath": "local/t.jwt"}),
            "outside secrets/",
        ),
        (
            json!({"File": true, "Filepath": "secretsx/t"}),
            "outside secrets/",
        ),
        (json!({"File": true, "Filepath": "./secrets//t.jwt"}), ""),
        (json!({"File": true}), ""),
        (json!({"Env": true, "Filepath": "local/t.jwt"}), ""),
    ] {
        let mut named = identity.clone();
        named["Name"] = json!("cloud");
        let task = json!({"Identity": identity, "Identities": [named]});
        let warnings = service(json!({}), json!({}), task).unhonoured();
        let paths: Vec<_> = warnings.iter().map(|it| it.path.as_str()).collect();
        let expected = [
            "group \"web\" > task \"server\" > identity \"default\"",
            "group \"web\" > task \"server\" > identity \"cloud\"",
        ];
        match words {
            "" => assert!(paths.is_empty(), "{identity}: {warnings:?}"),
            _ => assert_eq!(paths, expected, "{identity}"),
        }
        let says_so = |it: &Warning| it.message.contains(words);
        assert!(warnings.iter().all(says_so), "{identity}: {warnings:?}");
    }
}
