//! Texts that mean harm or nothing at all: an answer in bounded time and memory, never a panic.

use crate::{complaints, inputs, read};
use proptest::prelude::*;
use protocol_jobspec::{DIAGNOSTICS_MAX, SOURCE_BYTES_MAX, VariableFile, Variables, parse};

fn config(expression: &str) -> String {
    format!("job \"j\" {{\n task \"t\" {{\n config {{\n v = {expression}\n}}\n}}\n}}")
}

const TOO_MUCH: &str = "this file expands to more than a job file may";

#[test]
fn a_file_over_the_size_limit_is_refused_unread() {
    let text = "#".repeat(SOURCE_BYTES_MAX + 1);
    assert!(complaints(&text).contains("the limit is 1048576"));
}

#[test]
fn locals_that_double_each_other_run_out_of_budget() {
    let mut locals = "locals {\n l0 = [\"0123456789\"]\n".to_owned();
    for i in 1..60 {
        locals.push_str(&format!(
            " l{i} = concat(local.l{}, local.l{})\n",
            i - 1,
            i - 1
        ));
    }
    let text = format!("{locals}}}\n{}", config("local.l59"));
    assert!(complaints(&text).contains(TOO_MUCH));
}

#[test]
fn nested_loops_run_out_of_budget() {
    let loops = "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]]";
    assert!(complaints(&config(loops)).contains(TOO_MUCH));
}

#[test]
fn try_cannot_hide_an_empty_budget() {
    let loops =
        "try([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]], 1)";
    assert!(complaints(&config(loops)).contains(TOO_MUCH));
}

#[test]
fn functions_that_multiply_run_out_of_budget() {
    let list = "range(1000)";
    for expression in [
        format!("setproduct({list}, {list}, {list})"),
        "indent(1024, join(\"\\n\", [for i in range(1000) : join(\"\\n\", range(1000))]))"
            .to_owned(),
        format!(
            "replace(\"{}\", \"\", \"{}\")",
            "a".repeat(20_000),
            "b".repeat(20_000)
        ),
        "[for i in range(1000) : [for j in range(1000) : regex(\"a{1,500}${i}${j}|a\", \"a\")]]"
            .to_owned(),
    ] {
        let problems = complaints(&config(&expression));
        assert!(
            problems.contains(TOO_MUCH),
            "{}",
            problems.chars().take(300).collect::<String>()
        );
    }
}

#[test]
fn dynamic_blocks_within_each_other_run_out_of_budget() {
    let text = r#"
job "j" {
  task "t" {
    config {
      dynamic "a" {
        for_each = range(1000)
        content {
          dynamic "b" {
            for_each = range(1000)
            content {}
          }
        }
      }
    }
  }
}
"#;
    assert!(complaints(text).contains(TOO_MUCH));
}

#[test]
fn values_cannot_nest_without_end() {
    let mut locals = "locals {\n l0 = 1\n".to_owned();
    for i in 1..3000 {
        locals.push_str(&format!(" l{i} = [local.l{}]\n", i - 1));
    }
    let text = format!("{locals}}}\n{}", config("local.l2999"));
    assert!(complaints(&text).contains("values nest deeper than 64 levels"));
}

#[test]
fn long_chains_of_locals_do_not_exhaust_the_stack() {
    let mut locals = "locals {\n l0 = 1\n".to_owned();
    for i in 1..20_000 {
        locals.push_str(&format!(" l{i} = local.l{} + 1\n", i - 1));
    }
    let text = format!("{locals}}}\n{}", config("local.l19999"));
    let parsed = read(&text).unwrap();
    assert_eq!(parsed.job.task_groups[0].tasks[0].config["v"], 20_000);
}

#[test]
fn deep_nesting_is_a_syntax_error() {
    const DEEP: usize = 100_000;
    let around =
        |open: &str, close: &str| config(&format!("{}1{}", open.repeat(DEEP), close.repeat(DEEP)));
    for text in [
        around("[", "]"),
        around("(", ")"),
        around("{ a = ", "}"),
        around("-", ""),
        around("!", ""),
        around("\"${", "}\""),
        around("\"%{ if true }", "%{ endif }\""),
        around("f(", ")"),
        around("[for x in [] : ", "]"),
        around("true ? 1 : ", ""),
        around("a[", "]"),
        config(&format!("<<E\n{}\nE", "${\"".repeat(DEEP))),
        config(&format!("1{}", " + 1".repeat(DEEP))),
        format!("{}{}", "a {\n".repeat(DEEP), "}\n".repeat(DEEP)),
        format!("job \"j\" {{{}", "\"".repeat(DEEP)),
    ] {
        let shown: String = text.chars().skip(30).take(40).collect();
        let problems = read(&text).unwrap_err();
        assert!(
            !problems.is_empty() && problems.list().len() <= 20,
            "{shown}: {problems}"
        );
    }
}

#[test]
fn deep_documents_are_refused_wherever_they_come_in() {
    const DEEP: usize = 100_000;
    let nested = format!("{}1{}", "[".repeat(DEEP), "]".repeat(DEEP));
    assert_eq!(
        read(&format!("{{\"Job\":{nested}}}"))
            .unwrap_err()
            .list()
            .len(),
        1
    );
    let text = "variable \"x\" {\n type = any\n}\njob \"j\" {}\n";
    for variables in [
        Variables {
            arguments: vec![("x".to_owned(), nested.clone())],
            ..Variables::default()
        },
        Variables {
            files: vec![file(format!("{{\"x\":{nested}}}"))],
            ..Variables::default()
        },
        Variables {
            files: vec![file(format!("x = {nested}\n"))],
            ..Variables::default()
        },
    ] {
        let mut inputs = inputs();
        inputs.variables = variables;
        assert_eq!(parse("any", text, &mut inputs).unwrap_err().list().len(), 1);
    }
    for function in ["jsondecode", "yamldecode", "csvdecode", "base64decode"] {
        let problems = read(&config(&format!("{function}({nested:?})")));
        assert!(problems.is_err() || function == "csvdecode", "{function}");
    }
    let wanted = format!(
        "variable \"x\" {{\n type = {}any{}\n}}\njob \"j\" {{}}\n",
        "list(".repeat(DEEP),
        ")".repeat(DEEP)
    );
    assert!(complaints(&wanted).contains("nests deeper than 64 levels"));
}

fn file(text: String) -> VariableFile {
    VariableFile {
        name: "deep.vars".to_owned(),
        text,
    }
}

#[test]
fn functions_refuse_what_would_be_huge() {
    for (expression, wanted) in [
        ("format(\"%999999999d\", 1)", "widths end at 1024"),
        ("format(\"%.999999999f\", 1)", "widths end at 1024"),
        ("range(1000000000)", "more than 1024 numbers would be made"),
        (
            "range(0, 1, 0.0000001)",
            "more than 1024 numbers would be made",
        ),
        ("indent(100000, \"a\\nb\")", "between 0 and 1024"),
        ("pow(10, 400)", "not a finite number"),
        (
            "regex(\"((a{0,1000}){0,1000}){0,1000}\", \"a\")",
            "Compiled regex exceeds size limit",
        ),
        (
            "join(join(\"\", range(1000)), flatten([for i in range(30) : range(1000)]))",
            TOO_MUCH,
        ),
        ("cidrsubnets(\"10.0.0.0/8\", 129)", "between 1 and 128"),
        ("chunklist([1], 0)", "between 1 and"),
        (
            "substr(\"a\", 0, 99999999999999999999999999999999999999)",
            "",
        ),
    ] {
        let found = match read(&config(expression)) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        };
        assert!(found.contains(wanted), "{expression}: {found}");
    }
}

#[test]
fn a_torn_file_of_the_largest_size_is_given_up_in_time() {
    for (first, line) in [
        ("job \"j\" {\n", "  a = = [1\n  b \"c {\n"),
        ("}\n", "a {\n"),
        ("a {\n", "}\n"),
        ("a = \"\n", "b = <<X\n"),
        ("job \"j\" {\n", "a {\n}}\n"),
    ] {
        let count = (SOURCE_BYTES_MAX - first.len()) / line.len();
        let problems = read(&format!("{first}{}", line.repeat(count))).unwrap_err();
        assert!(
            (1..=20).contains(&problems.list().len()),
            "{line}: {problems}"
        );
    }
}

#[test]
fn the_deepest_accepted_nesting_fits_the_stack() {
    // Test threads have two megabytes of stack, like the workers of a server.
    let deep = |open: &str, close: &str, levels: usize| {
        config(&format!("{}1{}", open.repeat(levels), close.repeat(levels)))
    };
    for text in [
        deep("(", ")", 60),
        deep("[", "]", 60),
        deep("\"${", "}\"", 30),
        deep("upper(", ")", 60),
        deep("[for x in [1] : ", "]", 30),
        deep("try(", ")", 60),
        config(&format!("1{}", " + 1".repeat(127))),
        config(&format!(
            "{}true{}",
            "(true ? ".repeat(20),
            " : false)".repeat(20)
        )),
    ] {
        read(&text).unwrap();
    }
}

#[test]
fn a_job_that_no_json_reader_would_take_back_is_refused() {
    let nested = format!("{}{}", "a {\n".repeat(58), "}\n".repeat(58));
    let text = format!("job \"j\" {{\n task \"t\" {{\n config {{\n{nested}}}\n}}\n}}");
    assert!(complaints(&text).contains("the job nests deeper than 100 levels"));
}

#[test]
fn catching_errors_for_ever_runs_out_of_budget() {
    let expression = "[for a in range(1000) : [for b in range(1000) : can({ key = 1 }.kye)]]";
    assert!(complaints(&config(expression)).contains(TOO_MUCH));
}

#[test]
fn the_largest_honest_file_is_read() {
    let mut text = String::from("job \"j\" {\n");
    for i in 0..8_800 {
        text.push_str(&format!(
            "  group \"g{i}\" {{\n    task \"t\" {{\n      driver = \"exec\"\n      config {{\n        command = \"${{attr.x}}\"\n      }}\n    }}\n  }}\n"
        ));
    }
    text.push_str("}\n");
    assert!(
        (SOURCE_BYTES_MAX * 9 / 10..=SOURCE_BYTES_MAX).contains(&text.len()),
        "{}",
        text.len()
    );
    assert_eq!(read(&text).unwrap().job.task_groups.len(), 8_800);
}

#[test]
fn ten_thousand_problems_are_counted_not_kept() {
    let text = format!("job \"j\" {{\n{}}}", "  wrong {}\n".repeat(10_000));
    let problems = read(&text).unwrap_err();
    assert!(problems.list().len() <= DIAGNOSTICS_MAX);
}

/// Fragments that make a random text reach deep into the parser.
fn fragment() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "job",
        "group",
        "task",
        "\"a\"",
        "{",
        "}",
        "=",
        "\n",
        "${",
        "%{ if",
        "%{ for",
        "endif",
        "}",
        "[",
        "]",
        "(",
        ")",
        "variable",
        "locals",
        "dynamic",
        "content",
        "for_each",
        "local.a",
        "var.x",
        "attr.b",
        "1",
        "-1.5e3",
        "<<EOT\n",
        "EOT\n",
        "\"",
        "null",
        "true",
        "...",
        "=>",
        "for",
        "in",
        "if",
        ":",
        ",",
        ".",
        "*",
        "?",
        "file(",
        "format(\"%d\",",
        "é",
        "\\u00",
        "port",
        "network",
        "config",
        "service",
        "constraint",
        "'",
        "~",
        "!",
        "&&",
        "#",
        "/*",
        "*/",
    ]);
    prop::collection::vec(words, 0..60).prop_map(|words| words.join(" "))
}

/// Any expression text in a well-formed job.
fn expression() -> impl Strategy<Value = String> {
    fragment().prop_map(|text| config(&text))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_gets_an_answer(text in ".{0,400}") {
        let _ = parse("any", &text, &mut inputs()).map_err(|problems| problems.to_string());
    }

    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse("any", &text, &mut inputs()).map_err(|problems| problems.to_string());
    }

    #[test]
    fn any_words_get_an_answer(text in fragment()) {
        let _ = parse("any", &text, &mut inputs()).map_err(|problems| problems.to_string());
    }

    #[test]
    fn any_expression_gets_an_answer(text in expression()) {
        let _ = parse("any", &text, &mut inputs()).map_err(|problems| problems.to_string());
    }
}
