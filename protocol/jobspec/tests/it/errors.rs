//! Messages, exactly as users see them.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::complaints;

#[test]
fn misspelt_words_are_named_with_a_suggestion() {
    let text = r#"job "web" {
  datacentres = ["dc1"]

  group "g" {
    task "t" {
      dirver = "exec"

      resorces {
        cpu = 100
      }
      resources {
        memroy = 100
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:3: `job` has no attribute `datacentres`
       |
     2 |   datacentres = ["dc1"]
       |   ^^^^^^^^^^^
      hint: did you mean `datacenters`?

    test.nomad:6:7: `task` has no attribute `dirver`
       |
     6 |       dirver = "exec"
       |       ^^^^^^
      hint: did you mean `driver`?

    test.nomad:8:7: `task` has no block `resorces`
       |
     8 |       resorces {
       |       ^^^^^^^^
      hint: did you mean `resources`?

    test.nomad:12:9: `resources` has no attribute `memroy`
        |
     12 |         memroy = 100
        |         ^^^^^^
      hint: did you mean `memory`?
    "##);
}

#[test]
fn values_of_the_wrong_kind_are_shown() {
    let text = r#"job "web" {
  type        = "bacth"
  datacenters = "dc1"
  priority    = "high"

  group "g" {
    count          = -1
    shutdown_delay = "10"

    restart {
      attempts = 1.5
      delay    = "-5s"
    }
    network {
      port "http" {
        static = 70000
      }
    }
    task "t" {
      leader = "yes"
      driver = ["exec"]
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:17: `bacth` is not one of service, batch, system, sysbatch
       |
     2 |   type        = "bacth"
       |                 ^^^^^^^
      hint: did you mean `batch`?

    test.nomad:3:17: this must be a list, it is a string
       |
     3 |   datacenters = "dc1"
       |                 ^^^^^
      hint: put brackets around it: ["..."]

    test.nomad:4:17: this must be a whole number, it is a string
       |
     4 |   priority    = "high"
       |                 ^^^^^^

    test.nomad:7:22: this must be between 0 and 4294967295, it is -1
       |
     7 |     count          = -1
       |                      ^^

    test.nomad:8:22: not a duration: "10" (expected one like "30s", "1h30m" or "500ms")
       |
     8 |     shutdown_delay = "10"
       |                      ^^^^

    test.nomad:11:18: this must be a whole number, it is 1.5
        |
     11 |       attempts = 1.5
        |                  ^^^

    test.nomad:12:18: a duration cannot be negative: "-5s"
        |
     12 |       delay    = "-5s"
        |                  ^^^^^

    test.nomad:16:18: this must be between 0 and 65535, it is 70000
        |
     16 |         static = 70000
        |                  ^^^^^

    test.nomad:20:16: this must be true or false, it is a string
        |
     20 |       leader = "yes"
        |                ^^^^^

    test.nomad:21:16: this must be a string, it is a list
        |
     21 |       driver = ["exec"]
        |                ^^^^^^^^
    "##);
}

#[test]
fn blocks_in_the_wrong_form_say_the_right_one() {
    let text = r#"job "web" {
  group {
    resources = { cpu = 1 }
    update = { canary = 1 }
    count {
      x = 1
    }
    restart "always" {}
    restart {}
    restart {}
    ephemeral_disk "x" "y" {}
    volume "data" {}
    volume "data" {}
    network {
      port "a b" {}
      port "x" {}
      port "x" {}
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:3: `group` needs a label
       |
     2 |   group {
       |   ^^^^^
      hint: write `group "NAME" {`

    test.nomad:3:5: `group` has no attribute `resources`
       |
     3 |     resources = { cpu = 1 }
       |     ^^^^^^^^^
      hint: `resources` belongs into `task`

    test.nomad:4:5: `update` is a block
       |
     4 |     update = { canary = 1 }
       |     ^^^^^^
      hint: write `update { ... }`, without `=`

    test.nomad:5:5: `count` is an attribute
       |
     5 |     count {
       |     ^^^^^
      hint: write `count = ...`

    test.nomad:8:13: `restart` takes no label
       |
     8 |     restart "always" {}
       |             ^^^^^^^^

    test.nomad:9:5: `restart` is there already
       |
     9 |     restart {}
       |     ^^^^^^^
      hint: the first one is in line 8

    test.nomad:10:5: `restart` is there already
        |
     10 |     restart {}
        |     ^^^^^^^
      hint: the first one is in line 8

    test.nomad:11:20: `ephemeral_disk` takes no label
        |
     11 |     ephemeral_disk "x" "y" {}
        |                    ^^^

    test.nomad:13:12: there are two `volume` blocks named `data`
        |
     13 |     volume "data" {}
        |            ^^^^^^

    test.nomad:14:5: two ports are named `x`
        |
     14 |     network {
        |     ^^^^^^^

    test.nomad:15:7: `a b` cannot name a port
        |
     15 |       port "a b" {}
        |       ^^^^^^^^^^
      hint: use letters, digits, `_` and `-`
    "##);
}

#[test]
fn syntax_errors_are_located() {
    let text = "job \"web\" {\n  group \"g\" {\n    count = [1, 2\n  }\n}\n";
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:3:13: this `[` has no `]`
       |
     3 |     count = [1, 2
       |             ^
    "##);
}

#[test]
fn a_file_without_a_job_and_one_with_too_much_are_refused() {
    let two = "job \"a\" {}\njob \"b\" {}\nx = 1\ntask \"t\" {}\n";
    let both = format!("{}\n----\n{}", complaints("# nothing\n"), complaints(two));
    insta::assert_snapshot!(both, @r##"
    test.nomad:1:1: there is no `job` in this file
       |
     1 | # nothing
       | ^
      hint: it begins with `job "NAME" {`
    ----
    test.nomad:2:1: a file holds one job
       |
     2 | job "b" {}
       | ^^^

    test.nomad:3:1: `x` does not belong here
       |
     3 | x = 1
       | ^
      hint: a job file holds `job`, `variable` and `locals` blocks

    test.nomad:4:1: `task` does not belong here
       |
     4 | task "t" {}
       | ^^^^
      hint: a job file holds `job`, `variable` and `locals` blocks
    "##);
}
