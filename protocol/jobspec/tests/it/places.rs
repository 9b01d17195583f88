//! What validation finds is shown in the job file.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::read;
use protocol_jobspec::{Diagnostics, Places};

fn mistakes(text: &str) -> Option<Diagnostics> {
    let mut job = read(text).expect("a file that can be read").job;
    job.canonicalize();
    let errors = job.validate().expect_err("a job with mistakes");
    Some(Places::of("test.nomad", text)?.mistakes(&errors))
}

#[test]
fn every_mistake_of_a_job_is_shown_where_the_file_makes_it() {
    let text = r#"job "a b" {
  priority = 101
  update {
    healthy_deadline = "20m"
  }
  group "web" {
    restart {
      interval = "1s"
      attempts = 0
    }
    network {
      port "http" {
        to = 80
      }
    }
    service {
      name = "one_two"
      port = "htpp"
    }
    task "t" {
      constraint {
        attribute = "${attr.os.name}"
        value     = "x"
      }
      constraint {
        attribute = "${attr.os.name}"
        operator  = "is"
        value     = "x"
      }
      resources {
        memory = 5
      }
      dynamic "template" {
        for_each = ["a"]
        content {
          data        = "x"
          destination = "../../${template.value}"
        }
      }
    }
  }
  task "alone" {
    driver = "exec"
    user   = "\u0000"
  }
}
"#;
    insta::assert_snapshot!(mistakes(text).expect("a file with lines"), @r##"
    test.nomad:1:5: id: "a b" contains a space
       |
     1 | job "a b" {
       |     ^^^^^

    test.nomad:2:14: priority: must be 1 to 100, is 101
       |
     2 |   priority = 101
       |              ^^^

    test.nomad:3:3: group "alone" > update > progress_deadline: 10m0s must be more than healthy_deadline (20m0s), or 0
       |
     3 |   update {
       |   ^^^^^^

    test.nomad:3:3: group "web" > update > progress_deadline: 10m0s must be more than healthy_deadline (20m0s), or 0
       |
     3 |   update {
       |   ^^^^^^

    test.nomad:8:18: group "web" > restart > interval: must be at least 5s, is 1s
       |
     8 |       interval = "1s"
       |                  ^^^^

    test.nomad:16:5: group "web" > service "one_two": is no name for a service
        |
     16 |     service {
        |     ^^^^^^^
      hint: 1 to 63 letters, digits and hyphens, no hyphen at the ends

    test.nomad:18:14: group "web" > service "one_two" > port: no port is labelled "htpp"
        |
     18 |       port = "htpp"
        |              ^^^^^^

    test.nomad:20:5: group "web" > task "t" > driver: missing
        |
     20 |     task "t" {
        |     ^^^^^^^^

    test.nomad:31:18: group "web" > task "t" > resources > memory: must be at least 10 MB, is 5
        |
     31 |         memory = 5
        |                  ^

    test.nomad:37:25: group "web" > task "t" > template 1 > destination: "../../a" leads out of the allocation's directory
        |
     37 |           destination = "../../${template.value}"
        |                         ^^^^^^^^^^^^^^^^^^^^^^^^^

    test.nomad:44:14: group "alone" > task "alone" > user: contains a null character
        |
     44 |     user   = "\u0000"
        |              ^^^^^^^^
    "##);
}

#[test]
fn every_mistake_of_a_job_in_json_is_shown_too() {
    let text = r##"{"Job": {
  "ID": "a b",
  "Priority": 101,
  "Update": { "HealthyDeadline": 1200000000000 },
  "TaskGroups": [
    { "Name": "other" },
    { "Name": "web",
      "RestartPolicy": {
        "Attempts": 0,
        "Interval": 1000000000 },
      "Networks": [{ "DynamicPorts": [{ "Label": "http", "To": 80 }] }],
      "Services": [{ "Name": "one_two", "PortLabel": "htpp" }],
      "Volumes": { "data": { "Type": "host", "Source": "" } },
      "Tasks": [
        { "Name": "t",
          "Constraints": [
            { "LTarget": "${attr.os.name}", "RTarget": "x" },
            { "LTarget": "${attr.os.name}", "RTarget": "x", "Operand": "is" }
          ],
          "Resources": {
            "MemoryMB": 5 },
          "Templates": [{ "EmbeddedTmpl": "x", "DestPath": "../../a" }]
        }
      ]
    }
  ]
}}"##;
    insta::assert_snapshot!(mistakes(text).expect("a file with lines"), @r##"
    test.nomad:2:9: id: "a b" contains a space
       |
     2 |   "ID": "a b",
       |         ^^^^^

    test.nomad:3:15: priority: must be 1 to 100, is 101
       |
     3 |   "Priority": 101,
       |               ^^^

    test.nomad:4:3: group "other" > update > progress_deadline: 10m0s must be more than healthy_deadline (20m0s), or 0
       |
     4 |   "Update": { "HealthyDeadline": 1200000000000 },
       |   ^^^^^^^^

    test.nomad:4:3: group "web" > update > progress_deadline: 10m0s must be more than healthy_deadline (20m0s), or 0
       |
     4 |   "Update": { "HealthyDeadline": 1200000000000 },
       |   ^^^^^^^^

    test.nomad:6:15: group "other": the group has no task
       |
     6 |     { "Name": "other" },
       |               ^^^^^^^

    test.nomad:10:21: group "web" > restart > interval: must be at least 5s, is 1s
        |
     10 |         "Interval": 1000000000 },
        |                     ^^^^^^^^^^

    test.nomad:12:30: group "web" > service "one_two": is no name for a service
        |
     12 |       "Services": [{ "Name": "one_two", "PortLabel": "htpp" }],
        |                              ^^^^^^^^^
      hint: 1 to 63 letters, digits and hyphens, no hyphen at the ends

    test.nomad:12:54: group "web" > service "one_two" > port: no port is labelled "htpp"
        |
     12 |       "Services": [{ "Name": "one_two", "PortLabel": "htpp" }],
        |                                                      ^^^^^^

    test.nomad:13:56: group "web" > volume "data" > source: missing
        |
     13 |       "Volumes": { "data": { "Type": "host", "Source": "" } },
        |                                                        ^^

    test.nomad:15:19: group "web" > task "t" > driver: missing
        |
     15 |         { "Name": "t",
        |                   ^^^

    test.nomad:21:25: group "web" > task "t" > resources > memory: must be at least 10 MB, is 5
        |
     21 |             "MemoryMB": 5 },
        |                         ^

    test.nomad:22:60: group "web" > task "t" > template 1 > destination: "../../a" leads out of the allocation's directory
        |
     22 |           "Templates": [{ "EmbeddedTmpl": "x", "DestPath": "../../a" }]
        |                                                            ^^^^^^^^^
    "##);
}

#[test]
fn warnings_are_shown_in_both_languages() {
    let hcl = r#"job "a" {
  group "g" {
    network {
      mode = "cni/mine"
      port "http" {
        ignore_collision = true
      }
    }
    service {
      name = "one"
    }
    service {
      name = "two"
      check {
        type = "tcp"
      }
    }
    task "t" {
      driver = "docker"
      template {
        data   = "{{ key \"a\" }}"
        destination = "x"
      }
    }
  }
}
"#;
    let job = serde_json::to_string_pretty(&crate::job(hcl)).expect("a job is JSON");
    let shown = |text: &str| {
        let places = Places::of("f", text).expect("a file with lines");
        let mut job = read(text).expect("a file that can be read").job;
        job.canonicalize();
        let lines = text.lines().collect::<Vec<_>>();
        let warnings = job.unhonoured();
        let shown = warnings.iter().map(|warning| {
            let place = places.warning(warning);
            format!("{} <- {}", lines[place.line - 1].trim(), warning.path)
        });
        shown.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown(hcl), @r##"
    service { <- group "g" > service
    check { <- group "g" > check
    mode = "cni/mine" <- group "g" > network mode "mine"
    ignore_collision = true <- group "g" > network port ignore_collision
    driver = "docker" <- group "g" > task "t" > driver "docker"
    template { <- group "g" > task "t" > template functions
    "##);
    insta::assert_snapshot!(shown(&job), @r##"
    "Name": "one", <- group "g" > service
    { <- group "g" > check
    "Mode": "cni/mine", <- group "g" > network mode "mine"
    "IgnoreCollision": true, <- group "g" > network port ignore_collision
    "Driver": "docker", <- group "g" > task "t" > driver "docker"
    { <- group "g" > task "t" > template functions
    "##);
}

#[test]
fn a_text_that_cannot_be_read_has_no_places() {
    for text in ["{", "{\"Job\": 1", "job {", "x = 1", ""] {
        assert!(Places::of("f", text).is_none(), "{text}");
    }
}

#[test]
fn mistakes_beyond_the_list_are_counted() {
    let task = |n: u32| format!("    task \"t{n}\" {{\n    }}\n");
    let tasks: String = (0..60).map(task).collect();
    let text = format!("job \"a\" {{\n  group \"g\" {{\n{tasks}  }}\n}}\n");
    let mistakes = mistakes(&text).expect("a file with lines");
    // Each task lacks a driver.
    assert_eq!((mistakes.list().len(), mistakes.dropped()), (50, 10));
}
