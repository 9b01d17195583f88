//! Flush heredocs: HCL2's rule, in examples and against a second implementation that works on the
//! lines of the source.

use crate::language::value;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// What `<<-E` with this body gives.
fn flush(body: &str) -> Json {
    value(&format!("<<-E\n{body}  E"))
}

#[test]
fn a_flush_heredoc_loses_common_blanks_and_nothing_else() {
    for (body, wanted) in [
        ("a${1}\n b\n", "a1\n b\n"),
        (
            "   #!/bin/env\n     x ${1}\n   y\n",
            "#!/bin/env\n  x 1\ny\n",
        ),
        ("    a\n  ${1} b\n", "  a\n1 b\n"),
        ("    a\n${1} b\n", "    a\n1 b\n"),
        ("  a\n\n \n    b\n", "a\n\n \n  b\n"),
        ("\t\ta\n  b\n", "a\nb\n"),
        ("  $${X}\n   %%{ y\n", "${X}\n %{ y\n"),
        ("  a\n  %{ if true }\n    b\n  %{ endif }\n", "a\n\n  b\n\n"),
        (
            "  %{ for x in [1, 2] ~}\n  ${x}\n  %{ endfor ~}\n",
            "  1\n  2\n",
        ),
        ("  a ${[\n5\n][0]}\n    b\n", "a 5\n  b\n"),
        ("  é\n   ß${1}ü\n", "é\n ß1ü\n"),
        ("  a\r\n    b\r\n", "a\r\n  b\r\n"),
    ] {
        assert_eq!(flush(body), json!(wanted), "{body:?}");
    }
}

#[test]
fn heredocs_within_heredocs_and_in_variables_are_flushed() {
    let nested = "<<-A\n    x ${upper(<<-B\n      y\n        z\n      B\n)}\n    A";
    assert_eq!(value(nested), json!("x Y\n  Z\n\n"));
    let mut inputs = crate::inputs();
    let text = "<<-E\n    a${1}\n     b\n    E\n".to_owned();
    inputs.variables.arguments.push(("v".to_owned(), text));
    let file = "variable \"v\" {\n  type = any\n}\njob \"x\" {\n  region = var.v\n}\n";
    let parsed = protocol_jobspec::parse("test.nomad", file, &mut inputs).expect("a good file");
    assert_eq!(parsed.job.region, "a1\n b\n");
}

/// The second implementation: the body with its common blanks cut, for a heredoc that is not
/// flush. It knows lines and their first and last characters only.
fn cut(body: &str) -> String {
    let blank = |line: &str| line.trim().is_empty();
    let joins_next = |line: &str| line.trim_end().ends_with("~}");
    let joins_before = |line: &str| line.starts_with("${~") || line.starts_with("%{~");
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    let mut counted: Vec<Option<usize>> = Vec::new();
    for (position, line) in lines.iter().enumerate() {
        let before = position.checked_sub(1).map(|before| lines[before]);
        let next = lines.get(position + 1).copied().unwrap_or_default();
        let follows_code = before.is_some_and(joins_next);
        let text = line.trim_start();
        let blanks = line.chars().count() - text.chars().count();
        counted.push(if follows_code {
            None
        } else if blank(line) {
            // `~` at the start of the next line takes the blank line's end.
            joins_before(next).then_some(0)
        } else if joins_before(line) && before.is_some() {
            None
        } else if joins_before(text) {
            Some(0)
        } else {
            Some(blanks)
        });
    }
    let least = counted.iter().flatten().min().copied().unwrap_or(0);
    let cut_line = |(line, counted): (&&str, &Option<usize>)| {
        let skipped = counted.map_or(0, |_| least);
        line.chars().skip(skipped).collect::<String>()
    };
    lines.iter().zip(&counted).map(cut_line).collect()
}

fn blanks() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ ]{0,6}",
        1 => "[ \t]{0,4}",
        1 => "[ \u{a0}\u{2003}]{0,3}",
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "#!/bin/sh ",
        " x",
        "é",
        "$${X}",
        "%%{",
        "$a",
        "}",
        "${1}",
        "${~ 2}",
        "${3 ~}",
        "${~ 4 ~}",
        "${\"  s\"}",
    ])
    .prop_map(str::to_owned)
}

fn line() -> impl Strategy<Value = String> {
    let text = (blanks(), prop::collection::vec(word(), 1..4))
        .prop_map(|(blanks, words)| format!("{blanks}{}", words.concat()));
    prop_oneof![6 => text, 2 => blanks()]
}

fn strip() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "~"])
}

/// Lines, of which some are within directives.
fn body() -> impl Strategy<Value = Vec<String>> {
    let lines = prop::collection::vec(line(), 0..4).boxed();
    let heads = prop::sample::select(vec![
        ("if true", None, "endif"),
        ("if false", Some("else"), "endif"),
        ("for v in [1, 2]", None, "endfor"),
    ]);
    lines.prop_recursive(3, 24, 3, move |inner| {
        let edges = prop::collection::vec((blanks(), strip(), strip(), blanks()), 3);
        (inner.clone(), heads.clone(), inner.clone(), edges, inner).prop_map(
            |(before, (head, other, tail), within, edges, after)| {
                let edge = |at: usize, word: &str| {
                    let (blanks, left, right, rest) = &edges[at];
                    format!("{blanks}%{{{left} {word} {right}}}{rest}")
                };
                let mut lines = before;
                lines.push(edge(0, head));
                lines.extend(within.clone());
                if let Some(other) = other {
                    lines.push(edge(1, other));
                    lines.extend(within);
                }
                lines.push(edge(2, tail));
                lines.extend(after);
                lines
            },
        )
    })
}

proptest! {
    #[test]
    fn flush_heredocs_agree_with_a_naive_implementation(
        lines in body(),
        ending in prop::sample::select(vec!["\n", "\n", "\r\n"]),
    ) {
        let body: String = lines.iter().map(|line| format!("{line}{ending}")).collect();
        // An empty heredoc is another test's.
        prop_assume!(!body.is_empty());
        let plain = value(&format!("<<E\n{}E", cut(&body)));
        prop_assert_eq!(value(&format!("<<-E\n{body}E")), plain, "{}", body);
    }
}
