//! What validation finds is shown in the job file.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::read;
use protocol_jobspec::{Diagnostics, located};

fn mistakes(text: &str) -> Option<Diagnostics> {
    let mut job = read(text).expect("a file that can be read").job;
    job.canonicalize();
    let errors = job.validate().expect_err("a job with mistakes");
    located("test.nomad", text, &errors)
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

    test.nomad:37:25: group "web" > task "t" > template 1 > destination: "../../a" leads out of the task's directory
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
fn a_job_in_json_has_no_lines_to_show() {
    assert_eq!(mistakes(r#"{"ID": "a b"}"#), None);
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
