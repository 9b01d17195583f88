//! Torn texts: every error of a file is told, at its place, and nothing that only follows from
//! another.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::complaints;

#[test]
fn every_syntax_error_of_a_file_is_told_with_the_other_mistakes() {
    let text = r#"variable "image" {
  default = "a" "b"
}
job "web" {
  datacentres = ["dc1"]
  priority    = 50,
  group "g" {
    count = [1, 2
    meta {
      a = var.image
      'b' = "c"
    }
    task "t" {
      driver = "exec
      user   = nobody + * 2
      config {
        args = ["x", "y"]]
        "command" = "/bin/sh"
      }
      resources {
        cpu: 100
        memroy = 1
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:17: the line should end here
       |
     2 |   default = "a" "b"
       |                 ^
      hint: each attribute and each block begins on a line of its own

    test.nomad:5:3: `job` has no attribute `datacentres`
       |
     5 |   datacentres = ["dc1"]
       |   ^^^^^^^^^^^
      hint: did you mean `datacenters`?

    test.nomad:6:19: the line should end here
       |
     6 |   priority    = 50,
       |                   ^
      hint: attributes end with their line, without a comma

    test.nomad:8:13: this `[` has no `]`
       |
     8 |     count = [1, 2
       |             ^

    test.nomad:11:7: an attribute, a block or `}` is expected here
        |
     11 |       'b' = "c"
        |       ^
      hint: names of attributes stand without quotes

    test.nomad:14:16: this string has no closing `"`
        |
     14 |       driver = "exec
        |                ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:15:25: a value is expected here
        |
     15 |       user   = nobody + * 2
        |                         ^

    test.nomad:17:26: the line should end here
        |
     17 |         args = ["x", "y"]]
        |                          ^
      hint: each attribute and each block begins on a line of its own

    test.nomad:18:9: an attribute, a block or `}` is expected here
        |
     18 |         "command" = "/bin/sh"
        |         ^
      hint: names of attributes stand without quotes

    test.nomad:21:12: `=` or a block is expected here
        |
     21 |         cpu: 100
        |            ^
      hint: write `name = value`

    test.nomad:22:9: `resources` has no attribute `memroy`
        |
     22 |         memroy = 1
        |         ^^^^^^
      hint: did you mean `memory`?
    "##);
}

#[test]
fn a_block_without_an_end_is_found_by_its_indentation() {
    let text = r#"job "web" {
  group "g" {
    task "t" {
      config {
        x = 1
      resources {
        cpu = 1
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:4:7: this block has no `}`
       |
     4 |       config {
       |       ^^^^^^^
      hint: the `}` in line 9, which closes it now, stands further left

    The rest is looked at once these are mended.
    "##);
    insta::assert_snapshot!(complaints("job \"web\" {\n  group \"g\" {\n    count = 1\n"), @r##"
    test.nomad:2:3: this block has no `}`
       |
     2 |   group "g" {
       |   ^^^^^^^^^^

    The rest is looked at once these are mended.
    "##);
}

#[test]
fn a_brace_too_many_is_told_once() {
    let text = "job \"web\" {\n  group \"g\" {\n  }\n  }\n  task \"t\" {}\n}\n";
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:6:1: this `}` closes nothing
       |
     6 | }
       | ^
      hint: the one in line 4 stands further right than what it closes

    The rest is looked at once these are mended.
    "##);
}

#[test]
fn headers_that_are_wrong_do_not_hide_what_is_inside() {
    let text = r#"job "web" {
  group "g {
    count = = 1
  }
  group g.1 {
    task "t" {
      driver = exec"
    }
  }
  group "h" = {
    count = 1
  }
  meta { a = 1, b = 2 }
  update { canary = 1
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:9: this string has no closing `"`
       |
     2 |   group "g {
       |         ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:3:13: a value is expected here
       |
     3 |     count = = 1
       |             ^

    test.nomad:5:10: expected `{`
       |
     5 |   group g.1 {
       |          ^

    test.nomad:7:20: this string has no closing `"`
       |
     7 |       driver = exec"
       |                    ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:10:13: expected `{`
        |
     10 |   group "h" = {
        |             ^

    test.nomad:13:15: an attribute, a block or `}` is expected here
        |
     13 |   meta { a = 1, b = 2 }
        |               ^
      hint: on one line a block holds one attribute at most, and its `}`

    test.nomad:14:22: an attribute, a block or `}` is expected here
        |
     14 |   update { canary = 1
        |                      ^
      hint: on one line a block holds one attribute at most, and its `}`
    "##);
}

#[test]
fn a_torn_definition_does_not_make_its_users_wrong() {
    let text = r#"variable "a" {
  default = [1
}
variable "b {
  default = 1
}
variables {
  c = *
}
locals {
  d = "x
  e = local.d
}
job "web" {
  meta {
    a = var.a
    b = var.b
    c = var.c
    d = local.d
    e = local.e
  }
  dynamic "group" {
    for_each = [1,, 2]
    content {}
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:2:13: this `[` has no `]`
       |
     2 |   default = [1
       |             ^

    test.nomad:4:10: this string has no closing `"`
       |
     4 | variable "b {
       |          ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:8:7: a value is expected here
       |
     8 |   c = *
       |       ^

    test.nomad:11:7: this string has no closing `"`
        |
     11 |   d = "x
        |       ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:23:19: a value is expected here
        |
     23 |     for_each = [1,, 2]
        |                   ^
    "##);
}

#[test]
fn the_count_of_syntax_errors_is_bounded() {
    let lines = "  a = = 1\n".repeat(500);
    let problems = crate::read(&format!("job \"web\" {{\n{lines}}}\n")).unwrap_err();
    assert_eq!(problems.list().len(), 20);
    assert!(problems.to_string().ends_with("once these are mended."));
}

#[test]
fn variable_files_are_read_past_their_errors_too() {
    let mut inputs = crate::inputs();
    inputs.variables.files = vec![protocol_jobspec::VariableFile {
        name: "prod.vars".to_owned(),
        text: "a = [1\nb = 'x'\nc = true\nd = 1\n".to_owned(),
    }];
    let declared = "variable \"a\" {}\nvariable \"b\" {}\nvariable \"c\" {\n  type = number\n}\n";
    let text = format!("{declared}job \"web\" {{\n  meta {{\n    a = var.a\n  }}\n}}\n");
    let problems = protocol_jobspec::parse("web.nomad", &text, &mut inputs).unwrap_err();
    insta::assert_snapshot!(problems.to_string(), @r##"
    prod.vars:1:5: this `[` has no `]`
       |
     1 | a = [1
       |     ^

    prod.vars:2:5: a value is expected here
       |
     2 | b = 'x'
       |     ^
      hint: strings stand between double quotes

    prod.vars:3:5: variable `c`: number is required, this is a boolean
       |
     3 | c = true
       |     ^^^^

    prod.vars:4:1: the job file declares no variable `d`
       |
     4 | d = 1
       | ^
    "##);
}

#[test]
fn an_error_inside_a_wide_letter_is_told_at_the_letter() {
    insta::assert_snapshot!(complaints("variable   é"), @"
    test.nomad:1:12: expected `{`
       |
     1 | variable   é
       |            ^
    ");
}
