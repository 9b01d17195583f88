//! Texts at the edge of the language: heredocs, line ends, marks, numbers, circles.

use crate::{complaints, inputs, job, read};
use protocol_jobspec::{VariableFile, parse};
use serde_json::{Value as Json, json};

/// What `meta` holds in a job whose `meta` block has these lines.
fn meta(lines: &str) -> Json {
    job(&format!("job \"x\" {{\n  meta {{\n{lines}\n  }}\n}}\n"))["Meta"].clone()
}

#[test]
fn an_empty_heredoc_ends_at_once_and_leaves_the_next_one_alone() {
    let found = meta(
        "a = <<EOT\nEOT\nb = <<-EOT\n  EOT\nc = <<EOT\ntext\nEOT\n\
         d = upper(<<EOT\nEOT\n)\ne = \"<<EOT\"\n# <<EOT\nf = 1",
    );
    let wanted = json!({"a": "", "b": "", "c": "text\n", "d": "", "e": "<<EOT", "f": "1"});
    assert_eq!(found, wanted);
}

#[test]
fn what_looks_like_an_empty_heredoc_within_another_is_text() {
    let found = meta("a = <<SH\ncat <<EOT\nEOT\nSH\nb = <<EOT\nx\nEOT\n");
    assert_eq!(found, json!({"a": "cat <<EOT\nEOT\n", "b": "x\n"}));
}

#[test]
fn an_empty_heredoc_moves_no_message() {
    let text = "job \"x\" {\n  region = <<EOT\nEOT\n  regoin = <<EOT\nEOT\n  name = \n}\n";
    let problems = read(text).expect_err("a misspelt attribute");
    let places = problems.list().iter().map(|p| (p.line, p.column));
    assert_eq!(places.collect::<Vec<_>>(), [(4, 3), (6, 10)], "{problems}");
    assert_eq!(problems.list()[0].snippet, "  regoin = <<EOT");
}

#[test]
fn a_tilde_takes_the_line_end_in_a_heredoc_and_leaves_the_next_indentation() {
    let found = meta(concat!(
        "a = <<EOT\nfirst\n  %{~ for x in [1, 2] ~}\n  line ${x}\n  %{~ endfor ~}\n  last\nEOT\n",
        "b = <<EOT\n%{ for x in [1, 2] ~}\nline ${x}\n%{ endfor ~}\nEOT\n",
        "c = <<EOT\none\n%{~ if true }two%{ endif ~}\nthree\nEOT\n",
        "d = \"x \\n ${~ 1 ~} \\n y\"",
    ));
    assert_eq!(
        found,
        json!({
            "a": "first\n  line 1\n  line 2\n  last\n",
            "b": "line 1\nline 2\n",
            "c": "onetwothree\n",
            "d": "x1y",
        })
    );
}

#[test]
fn files_of_other_systems_are_read_the_same() {
    let text = "job \"x\" {\n  region = \"a\"\n  name = <<EOT\nb\nEOT\n  bad = 1\n}\n";
    let crlf = text.replace('\n', "\r\n");
    let marked = format!("\u{feff}{text}");
    assert_eq!(complaints(&crlf), complaints(text));
    assert_eq!(complaints(&marked), complaints(text));
}

#[test]
fn a_variable_file_may_begin_with_a_mark() {
    for text in ["\u{feff}a = \"b\"\r\n", "\u{feff}{\"a\": \"b\"}"] {
        let mut inputs = inputs();
        inputs.variables.files.push(VariableFile {
            name: "marked".to_owned(),
            text: text.to_owned(),
        });
        let file = "variable \"a\" {\n}\njob \"x\" {\n  region = var.a\n}\n";
        let parsed = parse("test.nomad", file, &mut inputs).expect("a value in a marked file");
        assert_eq!(parsed.job.region, "b", "{text:?}");
    }
}

#[test]
fn what_steers_a_terminal_is_not_shown() {
    let shown = complaints("job \"x\" {\n  \u{1b}[2J = 1\n  region = [\"\u{7}\"]\n}\n");
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    assert!(shown.contains("\u{fffd}[2J = 1"), "{shown}");
}

#[test]
fn every_circle_of_locals_is_told() {
    let text = "locals {\n  a = local.b\n  b = local.a\n  c = local.c\n  d = local.a\n  e = 1\n}\n\
                job \"x\" {\n  region = \"${local.d}${local.e}\"\n}\n";
    insta::assert_snapshot!(complaints(text), @r"
    test.nomad:2:3: locals use each other in a circle: local.a -> local.b -> local.a
       |
     2 |   a = local.b
       |   ^

    test.nomad:4:3: locals use each other in a circle: local.c -> local.c
       |
     4 |   c = local.c
       |   ^
    ");
}

#[test]
fn numbers_out_of_range_say_which_end_they_passed() {
    let text = "job \"x\" {\n  group \"g\" {\n    count = -1\n    task \"t\" {\n      resources {\n        \
                cpu    = -1\n        memory = 9223372036854775808\n      }\n    }\n  }\n  \
                meta {\n    a = 1e999\n  }\n}\n";
    insta::assert_snapshot!(complaints(text), @r"
    test.nomad:3:13: this must be between 0 and 4294967295, it is -1
       |
     3 |     count = -1
       |             ^^

    test.nomad:6:18: this must be at least 0, it is -1
       |
     6 |         cpu    = -1
       |                  ^^

    test.nomad:7:18: this must be at most 9223372036854775807, it is 9223372036854775808
       |
     7 |         memory = 9223372036854775808
       |                  ^^^^^^^^^^^^^^^^^^^

    test.nomad:12:10: this number is out of range
        |
     12 |     a = 1e999
        |          ^
    ");
}

#[test]
fn blocks_in_one_line_and_makers_without_a_label_are_told() {
    let text = "job \"x\" {\n  group \"g\" { task \"t\" { driver = \"exec\" } }\n  dynamic {\n    \
                for_each = []\n  }\n}\n";
    insta::assert_snapshot!(complaints(text), @r#"
    test.nomad:2:20: `=` is expected here
       |
     2 |   group "g" { task "t" { driver = "exec" } }
       |                    ^
      hint: on one line a block holds one attribute at most, and no block

    test.nomad:3:3: `dynamic` takes one label: the block to make
       |
     3 |   dynamic {
       |   ^^^^^^^
    "#);
}

#[test]
fn comparing_what_only_the_node_knows_is_worth_a_warning() {
    let text = "job \"x\" {\n  region = attr.os.name == \"debian\" ? \"a\" : \"b\"\n  \
                name = \"a-${node.class}\"\n}\n";
    let parsed = read(text).expect("a good file");
    let told: Vec<_> = parsed
        .warnings
        .iter()
        .map(|w| (w.line, w.message.as_str()))
        .collect();
    let wanted = "`attr.os.name` is known on the node only: here it is a mere text";
    assert_eq!(told, [(2, wanted)]);
}

#[test]
fn a_text_spells_a_boolean_in_four_ways() {
    let text =
        "job \"x\" {\n  all_at_once = \"1\"\n  meta {\n    a = \"0\" ? \"yes\" : \"no\"\n  }\n}\n";
    let job = job(text);
    assert_eq!(job["AllAtOnce"], json!(true));
    assert_eq!(job["Meta"]["a"], json!("no"));
    let number = complaints("job \"x\" {\n  all_at_once = 1\n}\n");
    assert!(number.contains("this must be true or false"), "{number}");
}
