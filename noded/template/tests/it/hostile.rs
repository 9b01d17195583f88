//! Templates that loop, recurse, grow or search without end are refused, in seconds and bytes.

use std::time::{Duration, Instant};

use noded_template::{Delimiters, Known, Limits, MissingKey, Outcome, Template, render};

/// Five seconds are the goal of a release build; a debug build on a busy machine gets more.
const PATIENCE: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a test may measure time")]
fn refused(text: &str) -> String {
    let template = Template {
        text,
        delimiters: Delimiters::new("", None),
        missing_key: MissingKey::Zero,
    };
    let begin = Instant::now();
    let result = render(&template, &Known::default(), &Limits::default());
    let took = begin.elapsed();
    assert!(took < PATIENCE, "{took:?}: {text:.200}");
    match result {
        Err(error) => error.to_string(),
        Ok(Outcome::Rendered(text)) => panic!("rendered {} bytes", text.len()),
        Ok(missing) => panic!("{missing:?}"),
    }
}

#[test]
fn endless_loops_are_refused() {
    for (text, problem) in [
        ("{{range 10000000000}}{{end}}", "200000 iterations"),
        (
            "{{range 100000}}{{range 100000}}{{end}}{{end}}",
            "200000 iterations",
        ),
        ("{{range loop 10000000000}}{{end}}", "250000 elements"),
        (
            "{{range sprig_untilStep 0 9000000000000000000 1}}{{end}}",
            "250000 elements",
        ),
        ("{{ sprig_seq 1 900000000000000000 }}", "250000 elements"),
        (
            "{{define \"a\"}}{{range 1000}}{{end}}{{end}}{{range 10000}}{{executeTemplate \"a\"}}{{end}}",
            "200000 iterations",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn endless_recursion_is_refused() {
    for text in [
        "{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}",
        "{{define \"a\"}}{{if true}}{{with 1}}{{range 1}}{{template \"a\" .}}{{end}}{{end}}{{end}}{{end}}{{template \"a\" .}}",
        "{{define \"a\"}}{{executeTemplate \"a\" .}}{{end}}{{executeTemplate \"a\"}}",
        "{{define \"a\"}}{{template \"b\"}}{{end}}{{define \"b\"}}{{executeTemplate \"a\"}}{{end}}{{template \"a\"}}",
    ] {
        let error = refused(text);
        assert!(error.contains("deeper than"), "{text}: {error}");
    }
    let nested = "(".repeat(60) + "executeTemplate \"a\"" + &")".repeat(60);
    let error = refused(&format!(
        "{{{{define \"a\"}}}}{{{{{nested}}}}}{{{{end}}}}{{{{template \"a\"}}}}"
    ));
    assert!(error.contains("deeper than"), "{error}");
}

#[test]
fn deep_nesting_is_refused_by_the_parser() {
    let parentheses = "{{".to_owned() + &"(".repeat(100_000) + "1" + &")".repeat(100_000) + "}}";
    let blocks = "{{if 1}}".repeat(50_000) + &"{{end}}".repeat(50_000);
    let else_ifs = "{{if 0}}".to_owned() + &"{{else if 0}}".repeat(50_000) + "{{end}}";
    for text in [parentheses, blocks, else_ifs] {
        let error = refused(&text);
        assert!(error.contains("nest"), "{error}");
    }
}

#[test]
fn calls_that_double_at_each_level_are_refused() {
    let mut text = String::new();
    for level in 0..60 {
        let next = level + 1;
        text += &format!(
            "{{{{define \"t{level}\"}}}}{{{{template \"t{next}\"}}}}{{{{template \"t{next}\"}}}}{{{{end}}}}"
        );
    }
    text += "{{define \"t60\"}}{{end}}{{template \"t0\"}}";
    let error = refused(&text);
    assert!(error.contains("1000000 steps"), "{error}");
}

#[test]
fn output_and_texts_without_end_are_refused() {
    for (text, problem) in [
        (
            "{{range 190000}}0123456789012345678901234567890123456789{{end}}",
            "the result is larger than 4194304 bytes",
        ),
        (
            "{{$x := \"ab\"}}{{range 100}}{{$x = print $x $x}}{{end}}",
            "a text is larger than",
        ),
        (
            "{{$x := sprig_repeat 4000000 \"a\"}}{{range 1000}}{{$x = printf \"%s\" $x}}{{end}}",
            "bytes of text",
        ),
        ("{{sprig_repeat 9000000000 \"a\"}}", "a text is larger than"),
        ("{{indent 9000000000 \"a\"}}", "a text is larger than"),
        (
            "{{$x := sprig_repeat 4000 \"a\"}}{{$x | replaceAll \"a\" $x}}",
            "a text is larger than",
        ),
        (
            "{{$x := sprig_repeat 4000 \"a\"}}{{regexReplaceAll \"a\" $x $x | len}}",
            "a text is larger than",
        ),
        (
            "{{$x := sprig_repeat 4000 \"a\"}}{{join $x (loop 9000 | sprig_toStrings)}}",
            "a text is larger than",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn wide_formats_are_refused() {
    for text in [
        "{{printf \"%99999999d\" 1}}",
        "{{printf \"%.99999999f\" 1.0}}",
        "{{printf \"%*d\" 99999999 1}}",
        "{{printf \"%[1]*d\" 99999999}}",
        "{{printf \"%99999999999999999999999d\" 1}}",
    ] {
        let error = refused(text);
        assert!(error.contains("is over 10000"), "{text}: {error}");
    }
    let many = "%9999d".repeat(1_000);
    let error = refused(&format!("{{{{printf \"{many}\" 1}}}}"));
    assert!(error.contains("a text is larger than"), "{error}");
}

#[test]
fn values_that_nest_or_double_are_refused() {
    for text in [
        "{{$l := sprig_list 1}}{{range 100000}}{{$l = sprig_list $l}}{{end}}",
        "{{$l := sprig_list 1}}{{range 100}}{{$l = sprig_list $l $l}}{{end}}",
        "{{scratch.Set \"a\" 1}}{{range 1000}}{{scratch.MapSet \"m\" \"k\" (scratch.Get \"m\")}}{{end}}",
        "{{$d := sprig_dict}}{{range 100000}}{{$d = sprig_dict \"a\" $d}}{{end}}",
    ] {
        let error = refused(text);
        assert!(error.contains("a value has more than"), "{text}: {error}");
    }
    let json = "[".repeat(100_000);
    assert!(refused(&format!("{{{{parseJSON `{json}`}}}}")).contains("recursion limit"));
    assert!(refused(&format!("{{{{parseYAML `{json}`}}}}")).contains("\"parseYAML\""));
    let mut bomb = "a0: &a0 [x,x]\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        bomb += &format!("a{level}: &a{level} [*a{below},*a{below},*a{below},*a{below}]\n");
    }
    let error = refused(&format!("{{{{parseYAML `{bomb}`}}}}"));
    assert!(error.contains("a value has more than"), "{error}");
}

#[test]
fn large_regular_expressions_are_refused() {
    let error = refused("{{regexMatch \"(((a{100}){100}){100}){100}\" \"a\"}}");
    assert!(error.contains("when compiled"), "{error}");
    let error =
        refused("{{range $i := loop 9000}}{{regexMatch (print \"a{100}b\" $i) \"a\"}}{{end}}");
    assert!(error.contains("steps"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may measure time")]
fn a_backtracking_expression_ends_in_linear_time() {
    let text = "{{$x := sprig_repeat 30000 \"a\"}}{{regexMatch \"^(a+)+$\" (print $x \"b\")}}";
    let template = Template {
        text,
        delimiters: Delimiters::new("", None),
        missing_key: MissingKey::Zero,
    };
    let begin = Instant::now();
    let outcome = render(&template, &Known::default(), &Limits::default());
    assert_eq!(outcome, Ok(Outcome::Rendered("false".to_owned())));
    assert!(begin.elapsed() < PATIENCE);
}
