//! Bad input of functions: the error names the line, the function and the reason.

use noded_template::{Delimiters, Limits, MissingKey, Outcome, Template, functions, render};

use crate::known::known;

fn rendered(text: &str) -> Result<String, String> {
    let template = Template {
        text,
        delimiters: Delimiters::new("", None),
        missing_key: MissingKey::Zero,
    };
    let known = known(&serde_json::json!({"files": {"binary": "x"}}));
    match render(&template, &known, &Limits::default()) {
        Ok(Outcome::Rendered(text)) => Ok(text),
        Ok(missing) => Err(format!("{missing:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// An action, and a part of its error.
const BAD_INPUT: &[(&str, &str)] = &[
    ("env", "\"env\": it takes 1 argument, not 0"),
    ("env 1", "\"env\": argument 1 is a int; it takes a text"),
    (
        "envOrDefault \"a\"",
        "\"envOrDefault\": it takes 2 arguments, not 1",
    ),
    ("mustEnv \"A\"", "\"mustEnv\": A is not set, or empty"),
    ("file \"\"", "\"file\": the path is empty"),
    (
        "executeTemplate \"x\"",
        "\"executeTemplate\": template \"x\" is not defined",
    ),
    ("parseInt \"x\"", "\"parseInt\": \"x\" is no int of 64 bits"),
    (
        "parseUint \"-1\"",
        "\"parseUint\": \"-1\" is no unsigned int of 64 bits",
    ),
    ("parseBool \"yes\"", "\"parseBool\": \"yes\" is no bool"),
    ("parseFloat \"x\"", "\"parseFloat\": \"x\" is no float"),
    ("parseJSON \"{\"", "\"parseJSON\": this is not JSON: EOF"),
    (
        "parseYAML \"a: [\"",
        "\"parseYAML\": this is not YAML: line",
    ),
    (
        "parseYAML \"a: 1\\na: 2\"",
        "the key \"a\" is there already",
    ),
    ("base64Decode \"%\"", "\"base64Decode\": this is not base64"),
    ("base64Decode \"/w==\"", "not UTF-8"),
    (
        "base64URLDecode \"%\"",
        "\"base64URLDecode\": this is not URL-safe base64",
    ),
    ("sprig_b32dec \"1\"", "\"sprig_b32dec\": this is not base32"),
    (
        "regexMatch \"(\" \"a\"",
        "\"regexMatch\": \"(\" is no regular expression",
    ),
    (
        "split \",\" 1",
        "\"split\": argument 2 is a int; it takes a text",
    ),
    (
        "join \",\" \"a\"",
        "\"join\": argument 2 is a text; it takes a list",
    ),
    (
        "splitToMap \"\" \":\" \"a\"",
        "\"splitToMap\": a separator is empty",
    ),
    ("indent -1 \"a\"", "\"indent\": -1 is negative"),
    (
        "add \"1\" 1",
        "\"add\": argument 1 is a text; it takes a number",
    ),
    ("divide 0 1", "\"divide\": a division by zero"),
    ("modulo 0 1", "\"modulo\": a division by zero"),
    ("modulo 1.5 3", "\"modulo\": it takes ints"),
    (
        "multiply 9000000000000000000 9",
        "\"multiply\": 81000000000000000000 does not fit in 64 bits",
    ),
    ("loop \"x\"", "\"loop\": \"x\" is no int"),
    ("in 5 1", "\"in\": a int has no elements"),
    (
        "explode \"a\"",
        "\"explode\": argument 1 is a text; it takes a list",
    ),
    (
        "toTOML \"a\"",
        "\"toTOML\": argument 1 is a text; it takes a map",
    ),
    (
        "index \"abc\" 5",
        "\"index\": index 5 is out of range: the length is 3",
    ),
    ("index nil 1", "\"index\": nil has no index"),
    ("slice \"abc\" 2 1", "\"slice\": [2:1] is out of range"),
    (
        "len 5",
        "\"len\": argument 1 is a int; it takes a text, list or map",
    ),
    ("lt 1 \"a\"", "\"lt\": a int cannot be compared with a text"),
    ("eq 1 1.0", "\"eq\": a int cannot be compared with a float"),
    ("eq (loop 1) 1", "\"eq\": a list cannot be compared"),
    ("nomadVar \"\"", "\"nomadVar\": the path is empty"),
    ("nomadVar \"a b\"", "\"nomadVar\": invalid path \"a b\""),
    (
        "nomadVar \"a@default.eu\"",
        "\"nomadVar\": \"a\" names region \"eu\": a template reads variables of its \
         own region, \"global\", only; leave the region out",
    ),
    (
        "nomadVarExists \"a@.eu\"",
        "\"nomadVarExists\": \"a\" names region \"eu\": a template reads variables of its \
         own region, \"global\", only; leave the region out",
    ),
    (
        "nomadVarListSafe \"a@default.eu\"",
        "\"nomadVarListSafe\": \"a\" names region \"eu\": a template reads variables of its \
         own region, \"global\", only; leave the region out",
    ),
    (
        "nomadService 1 \"a\"",
        "\"nomadService\": it takes 1 or 3 arguments, not 2",
    ),
    (
        "nomadService 0 \"a\" \"b\"",
        "\"nomadService\": argument 1 is the number",
    ),
    ("scratch.Set \"a\"", "scratch.Set takes 2 arguments, not 1"),
    ("scratch.Nothing", "a scratch has no field \"Nothing\""),
    ("sprig_fail \"because\"", "\"sprig_fail\": because"),
    ("sprig_div 1 0", "\"sprig_div\": a division by zero"),
    (
        "sprig_ternary 1 2 3",
        "\"sprig_ternary\": argument 3 is a int; it takes a bool",
    ),
    ("sprig_chunk 0 (loop 3)", "\"sprig_chunk\": the size is 0"),
    (
        "sprig_slice (loop 3) 2 1",
        "\"sprig_slice\": [2:1] is out of range",
    ),
    (
        "sprig_dateModify \"1x\" sprig_now",
        "\"sprig_dateModify\": \"1x\" is no duration",
    ),
    (
        "sprig_dateInZone \"06\" sprig_now \"CET\"",
        "the zone \"CET\" is not known",
    ),
    ("(\"a\").b", "a text has no field \"b\""),
    ("range 1.5 }}{{ end", "cannot range over a float"),
    ("template \"x\"", "template \"x\" is not defined"),
    ("$x", "variable $x is not defined"),
    ("nil", "nil is not a command"),
    (
        "\"a\" \"b\"",
        "an argument is given to something that is not a function",
    ),
    ("18446744073709551615", "18446744073709551615 overflows int"),
];

#[test]
fn bad_input_is_named_with_line_and_function() {
    for (action, problem) in BAD_INPUT {
        let error = rendered(&format!("one\ntwo\n{{{{ {action} }}}}\n")).unwrap_err();
        assert!(error.starts_with("line 3: "), "{action}: {error}");
        assert!(error.contains(problem), "{action}: {error}");
    }
}

#[test]
fn each_function_refuses_arguments_that_it_does_not_take() {
    for name in functions() {
        let text = format!(
            "{{{{ {name} {} }}}}",
            "(sprig_list (sprig_dict)) ".repeat(9)
        );
        match rendered(&text) {
            Ok(_) => {}
            Err(error) if error.starts_with("Missing") => {}
            Err(error) if matches!(*name, "and" | "or") => panic!("{name}: {error}"),
            Err(error) => {
                assert!(error.starts_with(&format!("line 1: {name:?}: ")), "{error}");
                assert!(!error.contains("panicked"), "{error}");
            }
        }
        if let Err(error) = rendered(&format!("{{{{ {name} }}}}")) {
            let is_missing = error.starts_with("Missing");
            assert!(
                is_missing || error.starts_with("line 1: "),
                "{name}: {error}"
            );
            assert!(!error.contains("panicked"), "{name}: {error}");
        }
    }
}

#[test]
fn refused_functions_have_their_reason() {
    for (name, reason) in [
        ("key", "this cluster has no Consul"),
        ("service", "this cluster has no Consul"),
        ("secret", "this cluster has no Vault"),
        ("plugin", "runs no program"),
        ("writeToFile", "writes its destination and no other file"),
        ("sockaddr", "sees no network interfaces"),
        ("sprig_uuidv4", "draws nothing at random"),
        ("sprig_genPrivateKey", "makes no keys"),
        ("sprig_set", "does not change in place"),
        ("sprig_env", "does not look at the host"),
        ("sprig_semver", "not supported"),
        ("call", "function values are not supported"),
    ] {
        let error = rendered(&format!("\n{{{{ {name} \"a\" }}}}")).unwrap_err();
        assert!(error.starts_with(&format!("line 2: {name:?}: ")), "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(!functions().contains(&name), "{name}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
fn the_documentation_names_each_function() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/templates.md");
    let page = std::fs::read_to_string(path).unwrap();
    for name in functions() {
        let short = name.strip_prefix("sprig_").unwrap_or(name);
        let is_named = page.contains(&format!("`{name}`")) || page.contains(&format!("`{short}`"));
        assert!(is_named, "docs/templates.md does not name {name}");
    }
}
