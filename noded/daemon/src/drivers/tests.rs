//! What jobs may say to every driver, and what the registry holds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::config::{Config, ConfigFile};

/// A node's settings with all drivers on, and `more` in the block of `exec`.
fn config(more: &str) -> Config {
    let text = format!(
        "data_dir = \"/d\"\nservers = [\"a\"]\ntls {{\n ca_file = \"/a\"\n cert_file = \"/b\"\n \
         key_file = \"/c\"\n}}\ndriver \"exec\" {{\n{more}\n}}"
    );
    Config::from_file(ConfigFile::parse(&text).unwrap()).unwrap()
}

fn check(driver: &str, config_of_job: Value, more: &str) -> Result<Checked, String> {
    let Value::Object(fields) = config_of_job else {
        return Err("no object".to_owned());
    };
    let node = config(more);
    let checked = node.drivers.of(driver).and_then(|it| it.check(&fields));
    checked.map_err(|error| error.to_string())
}

/// What a task is started with.
fn sandbox(driver: &str, config_of_job: Value) -> SandboxSpec {
    let allow = "allow_host_pid_mode = true\nallow_host_ipc_mode = true";
    let Ok(Checked::Sandboxed(task)) = check(driver, config_of_job, allow) else {
        panic!("{driver} does not take it");
    };
    task.sandbox(TaskInputs {
        identity: Identity::Keeper,
        layout: TaskLayout {
            shared: PathBuf::from("/a/alloc"),
            task: PathBuf::from("/a/task"),
        },
        network: Network::Descriptor,
        view: HostPaths {
            paths: vec![PathBuf::from("/usr")],
            ..HostPaths::default()
        },
    })
}

#[test]
fn every_driver_has_a_name_of_its_own_in_order_and_is_found_by_it() {
    let names: Vec<&str> = ALL.iter().map(|driver| driver.name()).collect();
    assert!(names.is_sorted());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), ALL.len());
    for name in names {
        assert_eq!(find(name).unwrap().name(), name);
    }
    assert!(find("docker").is_none());
}

/// The model warns of jobs with drivers that it does not know.
#[test]
fn the_drivers_are_those_that_jobs_are_not_warned_of() {
    let names: Vec<&str> = ALL.iter().map(|driver| driver.name()).collect();
    for name in names {
        assert!(protocol_model::KNOWN_DRIVERS.contains(&name), "{name}");
    }
    assert_eq!(protocol_model::KNOWN_DRIVERS.len(), ALL.len());
}

#[test]
fn a_program_is_read_with_its_arguments() {
    let spec = sandbox(
        "raw_exec",
        json!({"command": "sh", "args": ["-c", 1, true], "oom_score_adj": 7, "work_dir": "/w"}),
    );
    assert_eq!(spec.args, ["-c", "1", "true"]);
    assert_eq!(spec.oom_score_adj, 7);
    assert_eq!(spec.working_directory, PathBuf::from("/w"));
    assert_eq!(spec.network, Network::Descriptor, "that of its group");
    assert!(
        matches!(spec.root, isolation::Root::Host { .. }),
        "{:?}",
        spec.root
    );
}

#[test]
fn a_task_with_a_root_of_its_own_sees_what_it_is_given() {
    let spec = sandbox("exec", json!({"command": "sh"}));
    assert_eq!(spec.network, Network::Descriptor);
    let isolation::Root::ReadOnlyHostView { paths, .. } = spec.root else {
        panic!("{:?}", spec.root);
    };
    assert_eq!(paths, [PathBuf::from("/usr")]);
}

#[test]
fn mistakes_name_their_field() {
    for (driver, config, expected) in [
        ("exec", json!({}), "config.command is missing"),
        ("exec", json!({"command": ""}), "config.command is missing"),
        ("exec", json!({"command": "a", "args": "b"}), "config.args"),
        (
            "exec",
            json!({"command": "a", "args": [{}]}),
            "config.args[0]",
        ),
        (
            "exec",
            json!({"command": "a", "image": "b"}),
            "no field \"image\"",
        ),
        (
            "exec",
            json!({"command": "a", "cap_add": ["sys_admin"]}),
            "config.cap_add",
        ),
        (
            "exec",
            json!({"command": "a", "cap_drop": ["nope"]}),
            "config.cap_drop",
        ),
        (
            "exec",
            json!({"command": "a", "pid_mode": "own"}),
            "config.pid_mode",
        ),
        (
            "exec",
            json!({"command": "a", "init": true, "pid_mode": "host"}),
            "config.init",
        ),
        (
            "raw_exec",
            json!({"command": "a", "init": true}),
            "no field \"init\"",
        ),
        (
            "raw_exec",
            json!({"command": "a", "work_dir": "b"}),
            "config.work_dir",
        ),
        (
            "raw_exec",
            json!({"command": "a", "cap_add": []}),
            "no field \"cap_add\"",
        ),
        ("mock_driver", json!({"run_for": "soon"}), "config.run_for"),
        (
            "mock_driver",
            json!({"exit_code": 1_u64 << 40}),
            "config.exit_code",
        ),
        (
            "mock_driver",
            json!({"command": "a"}),
            "no field \"command\"",
        ),
        ("docker", json!({}), "\"docker\" is not available"),
    ] {
        let Err(error) = check(driver, config, "") else {
            panic!("{driver}: {expected}");
        };
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn modes_of_the_host_are_off_until_the_node_allows_them() {
    for (field, key) in [
        ("pid_mode", "allow_host_pid_mode"),
        ("ipc_mode", "allow_host_ipc_mode"),
    ] {
        let asked = || json!({"command": "a", field: "host"});
        let Err(refused) = check("exec", asked(), "") else {
            panic!("{field}");
        };
        assert!(refused.contains(&format!("config.{field}")), "{refused}");
        assert!(
            refused.contains(&format!("driver \"exec\" {{ {key} = true }}")),
            "{refused}"
        );
        let allowed = check("exec", asked(), &format!("{key} = true"));
        allowed.unwrap();
        check("exec", json!({"command": "a", field: "private"}), "").unwrap();
    }
    let namespaces = |mode: &str| {
        let spec = sandbox(
            "exec",
            json!({"command": "a", "pid_mode": mode, "ipc_mode": mode}),
        );
        [isolation::Namespace::Pid, isolation::Namespace::Ipc]
            .map(|it| spec.namespaces.contains(&it))
    };
    assert_eq!(namespaces("private"), [true, true]);
    assert_eq!(namespaces("host"), [false, false]);
}

#[test]
fn a_task_is_its_own_first_process_unless_it_asks_for_another() {
    use isolation::FirstProcess;
    for (init, expected) in [
        (json!(null), FirstProcess::Program),
        (json!(false), FirstProcess::Program),
        (json!("true"), FirstProcess::Reaper),
    ] {
        let spec = sandbox("exec", json!({"command": "a", "init": init}));
        assert_eq!(spec.first_process, expected);
    }
}

#[test]
fn capabilities_are_dropped_before_some_come_back() {
    let spec = sandbox(
        "exec",
        json!({"command": "a", "cap_drop": ["all"], "cap_add": ["chown"]}),
    );
    let only = isolation::CapabilitySet::from_names(["chown"]).unwrap();
    assert_eq!(spec.capabilities, isolation::Capabilities::Only(only));
}

#[test]
fn limits_are_asked_for_by_exec_tasks_alone() {
    let asked = |driver: &str, more: Value| {
        let mut config = json!({"command": "a"});
        let (config, Value::Object(more)) = (config.as_object_mut().unwrap(), more) else {
            panic!("no object")
        };
        config.extend(more);
        match check(driver, Value::Object(config.clone()), "") {
            Ok(Checked::Sandboxed(task)) => task.asked_limits(),
            other => panic!("{other:?}"),
        }
    };
    let default = AskedLimits {
        cpu: CpuCeiling::NodeDecides,
        oom_group: false,
    };
    assert_eq!(asked("exec", json!({})), default);
    let more = json!({"cpu_hard_limit": "true", "oom_group": true});
    let expected = AskedLimits {
        cpu: CpuCeiling::Asked(Switch::On),
        oom_group: true,
    };
    assert_eq!(asked("exec", more), expected);
    let off = asked("exec", json!({"cpu_hard_limit": false}));
    assert_eq!(off.cpu, CpuCeiling::Asked(Switch::Off));
    assert_eq!(asked("raw_exec", json!({})), AskedLimits::default());
}

#[test]
fn mistakes_in_limits_name_their_field() {
    for (driver, config, expected) in [
        (
            "exec",
            json!({"command": "a", "cpu_hard_limit": "hard"}),
            "config.cpu_hard_limit",
        ),
        (
            "exec",
            json!({"command": "a", "oom_group": 2}),
            "config.oom_group",
        ),
        (
            "raw_exec",
            json!({"command": "a", "cpu_hard_limit": true}),
            "no field \"cpu_hard_limit\"",
        ),
    ] {
        let error = check(driver, config, "").expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
