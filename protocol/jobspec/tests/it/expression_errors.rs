//! What is said of expressions that cannot be evaluated, and of what `dynamic` makes.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::complaints;

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
      hint: put the contents of the generated block into `content`

    test.nomad:26:23: there is no attribute `wrong`
        |
     26 |         driver = task.wrong
        |                       ^^^^^
    "##);
}
