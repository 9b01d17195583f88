//! What has no end: strings, heredocs, lists, comments.

use crate::complaints;

#[test]
fn what_has_no_end_is_told_at_its_start() {
    let open = |value: &str| {
        complaints(&format!(
            "job \"web\" {{\n  meta {{\n    a = {value}\n    b = c(\"d\")\n  }}\n}}\n"
        ))
    };
    let all: Vec<String> = [
        "<<EOT\n  text",
        "/* 1",
        "\"${upper(\"x\")",
        "upper(\"x\"",
        "{ x = 1",
        "\"a\\q\"",
        "1 +",
        "\"%{ if true }x\"",
        "[for x in : x]",
        "a ? b",
        "nul::l(",
    ]
    .into_iter()
    .map(open)
    .collect();
    insta::assert_snapshot!(all.join("\n----\n"), @r##"
    test.nomad:3:9: this text has no end
       |
     3 |     a = <<EOT
       |         ^^
      hint: it ends with a line that holds `EOT` alone

    The rest is looked at once these are mended.
    ----
    test.nomad:3:9: this comment has no `*/`
       |
     3 |     a = /* 1
       |         ^^

    The rest is looked at once these are mended.
    ----
    test.nomad:3:9: this string has no closing `"`
       |
     3 |     a = "${upper("x")
       |         ^
      hint: a text of several lines is written as <<EOT ... EOT

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:14: this `(` has no `)`
       |
     3 |     a = upper("x"
       |              ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:2:3: this block has no `}`
       |
     2 |   meta {
       |   ^^^^^
      hint: the `}` in line 6, which closes it now, stands further left

    The rest is looked at once these are mended.
    ----
    test.nomad:3:13: invalid escape sequence; expected `n`, `r`, `t`, `u`, `U`, `\` or `"`
       |
     3 |     a = "a\q"
       |             ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:12: a value is expected here
       |
     3 |     a = 1 +
       |            ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:5: this cannot be read
       |
     3 |     a = "%{ if true }x"
       |     ^
      hint: `%{ if }` ends with `%{ endif }`, `%{ for }` with `%{ endfor }`

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:19: a value is expected here
       |
     3 |     a = [for x in : x]
       |                   ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:14: expected `:`
       |
     3 |     a = a ? b
       |              ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    ----
    test.nomad:3:15: this `(` has no `)`
       |
     3 |     a = nul::l(
       |               ^

    test.nomad:4:9: there is no function `c`
       |
     4 |     b = c("d")
       |         ^^^^^^
    "##);
}
