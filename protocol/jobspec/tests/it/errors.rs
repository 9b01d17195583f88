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
fn failing_expressions_point_at_their_part() {
    let text = r#"variable "image" {
  type = string
}
locals {
  a = local.b
  b = local.c
  c = local.a
  d = 1
}
job "web" {
  meta {
    typo   = var.imgae
    used   = var.image
    circle = local.b
    list   = "x ${[1]}"
    number = 1 + "two"
    index  = [1, 2][5]
    absent = { key = 1 }.kye
    call   = uper("x")
    few    = replace("x")
    arg    = substr("x", "y", 1)
    file   = file("secret.txt")
    yaml   = yamldecode("a: [")
    cond   = "maybe" ? 1 : 2
    zero   = 1 / 0
    regex  = regex("(", "x")
    local  = local.dd
    dotted = { a.b = 1 }
    many   = range(5000)
    failed = try([1][3], tonumber("x"))
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:1:10: the variable `image` has no value
       |
     1 | variable "image" {
       |          ^^^^^^^
      hint: give it with -var image=VALUE, in a -var-file, or as NOMAD_VAR_image

    test.nomad:5:3: locals use each other in a circle: local.a -> local.b -> local.c -> local.a
       |
     5 |   a = local.b
       |   ^

    test.nomad:12:18: no variable `imgae` is declared
        |
     12 |     typo   = var.imgae
        |                  ^^^^^
      hint: did you mean `image`?

    test.nomad:15:19: a list cannot be part of a string
        |
     15 |     list   = "x ${[1]}"
        |                   ^^^
      hint: join() or jsonencode() make text of collections

    test.nomad:16:18: this must be a number, it is a string
        |
     16 |     number = 1 + "two"
        |                  ^^^^^

    test.nomad:17:21: index 5 is outside of a list of 2
        |
     17 |     index  = [1, 2][5]
        |                     ^

    test.nomad:18:26: there is no attribute `kye`
        |
     18 |     absent = { key = 1 }.kye
        |                          ^^^
      hint: did you mean `key`?

    test.nomad:19:14: there is no function `uper`
        |
     19 |     call   = uper("x")
        |              ^^^^^^^^^
      hint: did you mean `upper`?

    test.nomad:20:14: replace() takes 3 argument(s), not 1
        |
     20 |     few    = replace("x")
        |              ^^^^^^^^^^^^

    test.nomad:21:26: substr(): this must be a number, it is a string
        |
     21 |     arg    = substr("x", "y", 1)
        |                          ^^^

    test.nomad:22:19: file(): files cannot be read here
        |
     22 |     file   = file("secret.txt")
        |                   ^^^^^^^^^^^^
      hint: this job file is parsed by a server; parse it with the command line

    test.nomad:23:25: yamldecode(): this is not YAML: line 2, column 1: while parsing a node, did not find expected node content
        |
     23 |     yaml   = yamldecode("a: [")
        |                         ^^^^^^

    test.nomad:24:14: this must be true or false, it is a string
        |
     24 |     cond   = "maybe" ? 1 : 2
        |              ^^^^^^^

    test.nomad:25:18: division by zero
        |
     25 |     zero   = 1 / 0
        |                  ^

    test.nomad:26:20: regex(): unclosed group
        |
     26 |     regex  = regex("(", "x")
        |                    ^^^

    test.nomad:27:20: no local `dd` is defined
        |
     27 |     local  = local.dd
        |                    ^^
      hint: did you mean `d`?

    test.nomad:28:16: a key with dots or brackets is ambiguous
        |
     28 |     dotted = { a.b = 1 }
        |                ^^^
      hint: quote it, or wrap it in parentheses to use its value

    test.nomad:29:14: range(): more than 1024 numbers would be made
        |
     29 |     many   = range(5000)
        |              ^^^^^^^^^^^

    test.nomad:30:14: try(): no argument has a value: index 3 is outside of a list of 1; tonumber(): number is required, this is a string
        |
     30 |     failed = try([1][3], tonumber("x"))
        |              ^^^^^^^^^^^^^^^^^^^^^^^^^^
    "##);
}

#[test]
fn dynamic_blocks_say_what_they_lack() {
    let text = r#"job "web" {
  dynamic "meta" {}
  group "g" {
    dynamic "tsak" {
      for_each = [1]
      content {}
    }
    dynamic "task" {
      for_each = 5
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      labels   = [task.value]
      driver   = "exec"
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      labels   = [task.value]
      content {
        driver = task.wrong
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:3: `dynamic` needs `for_each`
       |
     2 |   dynamic "meta" {}
       |   ^^^^^^^

    test.nomad:4:13: `group` has no block `tsak`
       |
     4 |     dynamic "tsak" {
       |             ^^^^^^
      hint: did you mean `task`?

    test.nomad:9:18: only a list, a set or a map can be iterated, this is a number
       |
     9 |       for_each = 5
       |                  ^

    test.nomad:12:13: `task` needs a label
        |
     12 |     dynamic "task" {
        |             ^^^^^^
      hint: write `task "NAME" {`

    test.nomad:19:7: `dynamic` has no attribute `driver`
        |
     19 |       driver   = "exec"
        |       ^^^^^^
      hint: what belongs into the made block goes into `content`

    test.nomad:26:23: there is no attribute `wrong`
        |
     26 |         driver = task.wrong
        |                       ^^^^^
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
