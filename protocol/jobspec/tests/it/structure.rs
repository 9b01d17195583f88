//! Blocks and attributes: what of a job file goes where.

use crate::{job, read};
use serde_json::json;

#[test]
fn short_forms_of_constraints_become_operators() {
    let text = r#"
job "j" {
  constraint {
    distinct_hosts = true
  }
  constraint {
    distinct_hosts = false
  }
  constraint {
    attribute = "${attr.nomad.version}"
    version   = ">= 1.2"
  }
  constraint {
    distinct_property = "${meta.rack}"
    value             = 2
  }
  constraint {
    attribute    = "${meta.tags}"
    set_contains = "a,b"
  }
  constraint {
    attribute = "${meta.ssd}"
    is_set    = true
  }
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    regexp    = "^6"
  }
}
"#;
    let found: Vec<[String; 3]> = read(text)
        .unwrap()
        .job
        .constraints
        .into_iter()
        .map(|c| [c.l_target, c.operand, c.r_target])
        .collect();
    assert_eq!(
        found,
        [
            ["", "distinct_hosts", ""],
            ["${attr.nomad.version}", "version", ">= 1.2"],
            ["${meta.rack}", "distinct_property", "2"],
            ["${meta.tags}", "set_contains", "a,b"],
            ["${meta.ssd}", "is_set", ""],
            ["${attr.kernel.name}", "=", "linux"],
            ["${attr.kernel.version}", "regexp", "^6"],
        ]
    );
}

#[test]
fn a_task_outside_of_a_group_gets_a_group_of_its_name_in_front() {
    let job = job("job \"j\" {\n group \"g\" {}\n task \"t\" {\n driver = \"exec\"\n}\n}");
    assert_eq!(job["TaskGroups"][0]["Name"], "t");
    assert_eq!(job["TaskGroups"][0]["Tasks"][0]["Driver"], "exec");
    assert_eq!(job["TaskGroups"][1]["Name"], "g");
}

#[test]
fn vault_of_a_job_reaches_tasks_without_their_own() {
    let text = r#"
job "j" {
  vault {
    policies = ["job"]
  }
  group "a" {
    vault {
      policies = ["group"]
    }
    task "x" {}
    task "y" {
      vault {
        policies = ["task"]
      }
    }
  }
  group "b" {
    task "z" {}
  }
}
"#;
    let job = job(text);
    let policies = |group: usize, task: usize| {
        job["TaskGroups"][group]["Tasks"][task]["Vault"]["Policies"][0].clone()
    };
    assert_eq!(
        [policies(0, 0), policies(0, 1), policies(1, 0)],
        ["group", "task", "job"]
    );
}

#[test]
fn dynamic_blocks_repeat_their_content() {
    let text = r#"
variable "ports" {
  type    = map(number)
  default = { http = 80, admin = 0 }
}
job "j" {
  group "g" {
    network {
      dynamic "port" {
        for_each = var.ports
        labels   = [port.key]
        content {
          static = port.value > 0 ? port.value : null
          to     = 8080
        }
      }
    }
    dynamic "task" {
      for_each = ["a", "b"]
      iterator = each
      labels   = ["task-${each.value}"]
      content {
        driver = "exec"
        config {
          dynamic "mount" {
            for_each = toset(["x"])
            content {
              source = "${each.key}-${mount.key}-${mount.value}"
            }
          }
        }
      }
    }
  }
}
"#;
    let job = job(text);
    let group = &job["TaskGroups"][0];
    assert_eq!(group["Networks"][0]["ReservedPorts"][0]["Label"], "http");
    assert_eq!(group["Networks"][0]["ReservedPorts"][0]["Value"], 80);
    assert_eq!(group["Networks"][0]["DynamicPorts"][0]["Label"], "admin");
    assert_eq!(group["Tasks"][0]["Name"], "task-a");
    assert_eq!(
        group["Tasks"][1]["Config"],
        json!({ "mount": [{ "source": "1-x-x" }] })
    );
}

#[test]
fn metadata_may_be_a_block_or_a_map() {
    let text = r#"
job "j" {
  meta = {
    "dotted.key" = 1
    gone         = null
  }
  group "g" {
    meta {
      on = true
    }
    task "t" {
      env = merge({ A = "1" }, { B = 2 })
      config = {
        args = ["x"]
      }
    }
  }
}
"#;
    let job = job(text);
    assert_eq!(job["Meta"], json!({ "dotted.key": "1" }));
    assert_eq!(job["TaskGroups"][0]["Meta"], json!({ "on": "true" }));
    let task = &job["TaskGroups"][0]["Tasks"][0];
    assert_eq!(task["Env"], json!({ "A": "1", "B": "2" }));
    assert_eq!(task["Config"], json!({ "args": ["x"] }));
}

#[test]
fn check_headers_are_lists() {
    let text = r#"
job "j" {
  group "g" {
    service {
      check {
        header {
          Accept = ["a", "b"]
        }
      }
      connect {
        sidecar_service {
          proxy {
            transparent_proxy {
              exclude_outbound_ports = [53, "443"]
            }
          }
        }
      }
    }
  }
}
"#;
    let job = job(text);
    let service = &job["TaskGroups"][0]["Services"][0];
    assert_eq!(
        service["Checks"][0]["Header"],
        json!({ "Accept": ["a", "b"] })
    );
    let proxy = &service["Connect"]["SidecarService"]["Proxy"]["TransparentProxy"];
    assert_eq!(proxy["ExcludeOutboundPorts"], json!([53, 443]));
}

#[test]
fn identities_with_a_name_are_kept_apart_from_the_default_one() {
    let text = r#"
job "j" {
  task "t" {
    identity {
      env = true
    }
    identity {
      name = "aws"
      aud  = ["sts"]
      ttl  = "1h"
    }
  }
}
"#;
    let job = job(text);
    let task = &job["TaskGroups"][0]["Tasks"][0];
    assert_eq!(task["Identity"]["Env"], true);
    assert_eq!(task["Identities"][0]["Name"], "aws");
    assert_eq!(task["Identities"][0]["TTL"], 3_600_000_000_000_u64);
}

#[test]
fn id_and_name_may_differ_from_the_label() {
    let both = job("job \"label\" {\n id = \"the-id\"\n}");
    assert_eq!([&both["ID"], &both["Name"]], ["the-id", "the-id"]);
    let name = job("job \"label\" {\n name = \"shown\"\n}");
    assert_eq!([&name["ID"], &name["Name"]], ["label", "shown"]);
}

#[test]
fn a_name_that_nothing_defines_is_worth_a_warning() {
    let text = "job \"j\" {\n meta {\n a = \"${vars.image}\"\n b = \"${attr.x} ${HOME}\"\n}\n}";
    let warnings = read(text).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        warnings[0].message,
        "nothing defines `vars`: it stays in the text as `${vars.image}`"
    );
}

#[test]
fn a_name_that_env_defines_in_either_form_is_no_warning() {
    let task = |name: &str, inside: &str| format!("task \"{name}\" {{\n{inside}\n}}\n");
    let uses = "config {\n args = [\"${foo}\", \"${foo-bar}\", \"${a.b}\"]\n}";
    let block = "env {\n foo = 1\n foo-bar = 2\n}\nconfig {\n args = [\"${foo} ${foo-bar}\"]\n}";
    let attribute = format!("env = {{ foo = 1, foo-bar = 2, \"a.b\" = 3 }}\n{uses}");
    let template = format!("template {{\n data = \"\"\n env = true\n}}\n{uses}");
    let warned = |text: String| -> Vec<String> {
        let parsed = read(&text).expect("a good file");
        parsed.warnings.into_iter().map(|w| w.message).collect()
    };
    let job = |inside: String| format!("job \"j\" {{\n{inside}}}\n");
    for inside in [block, &attribute, &template] {
        assert_eq!(
            warned(job(task("t", inside))),
            Vec::<String>::new(),
            "{inside}"
        );
    }
    let elsewhere = job(task("t", &attribute) + &task("u", uses));
    assert_eq!(warned(elsewhere).len(), 3);
    let local = format!(
        "locals {{\n a = \"${{foo}}\"\n}}\n{}",
        job(task("t", block))
    );
    assert_eq!(warned(local), Vec::<String>::new());
}

#[test]
fn a_duration_without_unit_is_worth_a_warning() {
    let text = "job \"j\" {\n task \"t\" {\n kill_timeout = 30\n}\n}";
    let parsed = read(text).unwrap();
    assert_eq!(parsed.warnings.len(), 1);
    assert_eq!(
        parsed.job.task_groups[0].tasks[0].kill_timeout().as_nanos(),
        30
    );
}

#[test]
fn what_a_group_says_of_silent_nodes_is_read_in_either_spelling() {
    let text = r#"
job "j" {
  group "waits" {
    disconnect {
      lost_after = "6h"
      replace    = false
      reconcile  = "keep_original"
    }
    task "t" {
      driver = "exec"
    }
  }
  group "stops" {
    disconnect {
      stop_on_client_after = "90s"
    }
    task "t" {
      driver = "exec"
    }
  }
  group "older" {
    max_client_disconnect        = "6h"
    prevent_reschedule_on_lost   = true
    task "t" {
      driver = "exec"
    }
  }
  group "older-stops" {
    stop_after_client_disconnect = "90s"
    task "t" {
      driver = "exec"
    }
  }
}
"#;
    let job = read(text).unwrap().job;
    let said = job.task_groups.iter().map(|group| {
        (
            group.disconnect_window().map(|it| it.as_secs()),
            group.stop_on_client_after().map(|it| it.as_secs()),
            group.replaces_on_disconnect(),
        )
    });
    let wanted = [
        (Some(21_600), None, false),
        (None, Some(90), true),
        (Some(21_600), None, false),
        (None, Some(90), true),
    ];
    assert_eq!(said.collect::<Vec<_>>(), wanted);
    let block = job.task_groups[0].disconnect.as_ref().unwrap();
    assert_eq!(block.reconcile.as_deref(), Some("keep_original"));
}

#[test]
fn artifact_has_all_of_its_keys() {
    let text = r#"
job "j" {
  group "g" {
    task "t" {
      driver = "exec"
      artifact {
        source      = "git::https://example.org/a.git//sub"
        destination = "local/a"
        mode        = "dir"
        insecure    = true
        chown       = true
        options {
          ref   = "v1"
          depth = 1
        }
        headers {
          X-Token = "t"
        }
      }
      artifact {
        source  = "https://example.org/a"
        options = { checksum = "md5:x" }
        headers = { Accept = "*/*" }
      }
    }
  }
}
"#;
    let found = &job(text)["TaskGroups"][0]["Tasks"][0]["Artifacts"];
    assert_eq!(
        found[0],
        json!({
            "GetterSource": "git::https://example.org/a.git//sub",
            "GetterOptions": { "ref": "v1", "depth": "1" },
            "GetterHeaders": { "X-Token": "t" },
            "GetterMode": "dir",
            "GetterInsecure": true,
            "RelativeDest": "local/a",
            "Chown": true,
        })
    );
    assert_eq!(found[1]["GetterOptions"], json!({ "checksum": "md5:x" }));
    assert_eq!(found[1]["GetterHeaders"], json!({ "Accept": "*/*" }));
}
