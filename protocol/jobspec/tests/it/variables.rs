//! Variables: what they may be, where their values come from, and what is said of wrong ones.

#![expect(clippy::too_many_lines, reason = "the lines are the messages")]

use crate::{complaints, inputs};
use protocol_jobspec::{Diagnostics, VariableFile, Variables, parse};
use serde_json::{Value as Json, json};

fn with_variables(declarations: &str, variables: Variables) -> Result<Json, Diagnostics> {
    let text = format!(
        "{declarations}\njob \"j\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n value = var.x\n}}\n}}\n}}\n}}"
    );
    let mut inputs = inputs();
    inputs.variables = variables;
    let job = serde_json::to_value(parse("v.nomad", &text, &mut inputs)?.job).expect("JSON");
    Ok(job["TaskGroups"][0]["Tasks"][0]["Config"]["value"].clone())
}

fn argument(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_variable_takes_the_strongest_of_default_environment_files_and_arguments() {
    let declaration = "variable \"x\" {\n type = string\n default = \"default\"\n}";
    let mut variables = Variables::default();
    let mut found = vec![with_variables(declaration, variables.clone()).unwrap()];
    variables
        .environment
        .push(argument("NOMAD_VAR_x", "environment"));
    variables
        .environment
        .push(argument("NOMAD_VAR_other", "ignored"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.environment.push(argument("DROVER_VAR_x", "own"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    let file = |text: &str| VariableFile {
        name: "v.vars".to_owned(),
        text: text.to_owned(),
    };
    variables.files.push(file("x = \"file\""));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.files.push(file("{\"x\": \"json file\"}"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.arguments.push(argument("x", "argument"));
    found.push(with_variables(declaration, variables).unwrap());
    assert_eq!(
        found,
        [
            "default",
            "environment",
            "own",
            "file",
            "json file",
            "argument"
        ]
        .map(Json::from)
    );
}

#[test]
fn variables_are_converted_to_their_types() {
    for (kind, given, wanted) in [
        ("number", "3", json!(3)),
        ("bool", "true", json!(true)),
        ("string", "[1]", json!("[1]")),
        ("list(string)", "[1, \"a\"]", json!(["1", "a"])),
        ("set(number)", "[2, 1, 2]", json!([1, 2])),
        ("map(string)", "{ a = 1 }", json!({ "a": "1" })),
        (
            "object({ n = number, l = list(any) })",
            "{ n = \"5\", l = [true], more = 1 }",
            json!({ "n": 5, "l": [true] }),
        ),
        ("tuple([string, number])", "[1, \"2\"]", json!(["1", 2])),
    ] {
        let declaration = format!("variable \"x\" {{\n type = {kind}\n}}");
        let variables = Variables {
            arguments: vec![argument("x", given)],
            ..Variables::default()
        };
        assert_eq!(
            with_variables(&declaration, variables).unwrap(),
            wanted,
            "{kind}"
        );
    }
}

#[test]
fn a_default_gives_a_variable_without_type_its_kind() {
    let declaration = "variables {\n x = [1]\n}";
    let variables = Variables {
        arguments: vec![argument("x", "[2]")],
        ..Variables::default()
    };
    assert_eq!(with_variables(declaration, variables).unwrap(), json!([2]));
}

#[test]
fn variables_say_where_a_bad_value_came_from() {
    let text = r#"variable "count" {
  type = number
  validation {
    condition     = var.count > 0
    error_message = "The count must be positive."
  }
}
variable "names" {
  type = list(string)
}
variable "small" {
  type    = number
  default = 0
  validation {
    condition     = var.small > 0
    error_message = "Too small: ${var.small}."
  }
}
variable "kind" {
  type = strnig
  defualt = 1
}
variable "later" {
  default = "${var.count}"
}
variable "lacking" {}
job "web" {
  group "g" {
    count = var.count
  }
}
"#;
    let variables = Variables {
        environment: vec![("NOMAD_VAR_names".to_owned(), "[a, b]".to_owned())],
        files: vec![VariableFile {
            name: "prod.vars".to_owned(),
            text: "nmaes = [\"x\"]\n# more\ncount = \"many\"\n".to_owned(),
        }],
        arguments: vec![("cuont".to_owned(), "1".to_owned())],
    };
    let mut inputs = inputs();
    inputs.variables = variables;
    let problems = parse("web.nomad", text, &mut inputs).unwrap_err();
    insta::assert_snapshot!(problems.to_string(), @r##"
    -var:1:1: the job file declares no variable `cuont`
       |
     1 | cuont=1
       | ^^^^^
      hint: did you mean `count`?

    NOMAD_VAR_names:1:2: variable `names`: `a` cannot be used here
       |
     1 | [a, b]
       |  ^
      hint: values given to variables are constants

    prod.vars:1:1: the job file declares no variable `nmaes`
       |
     1 | nmaes = ["x"]
       | ^^^^^
      hint: did you mean `names`?

    prod.vars:3:9: variable `count`: number is required, this is a string
       |
     3 | count = "many"
       |         ^^^^^^

    web.nomad:11:10: variable `small`: Too small: 0.
        |
     11 | variable "small" {
        |          ^^^^^^^

    web.nomad:20:10: there is no type `strnig`
        |
     20 |   type = strnig
        |          ^^^^^^

    web.nomad:21:3: `variable` has no `defualt`
        |
     21 |   defualt = 1
        |   ^^^^^^^
      hint: did you mean `default`?

    web.nomad:24:16: `var` cannot be used here
        |
     24 |   default = "${var.count}"
        |                ^^^^^^^^^
      hint: values given to variables are constants

    web.nomad:26:10: the variable `lacking` has no value
        |
     26 | variable "lacking" {}
        |          ^^^^^^^^^
      hint: give it with -var lacking=VALUE, in a -var-file, or as NOMAD_VAR_lacking
    "##);
}

#[test]
fn only_a_variable_without_any_type_takes_its_text_as_it_is() {
    let given = |declaration: &str, text: &str| {
        let variables = Variables {
            arguments: vec![argument("x", text)],
            ..Variables::default()
        };
        with_variables(declaration, variables)
            .map_err(|problems| problems.list()[0].message.clone())
    };
    assert_eq!(given("variable \"x\" {}", "[1]"), Ok(json!("[1]")));
    let any = "variable \"x\" {\n type = any\n}";
    assert_eq!(given(any, "[1]"), Ok(json!([1])));
    assert_eq!(
        given(any, "word"),
        Err("variable `x`: `word` cannot be used here".to_owned())
    );
}

#[test]
fn declarations_are_held_to_their_form() {
    let text = r#"variable "a b" {
  default = 1
}
variable "shape" {
  type = object({ name = string, port = optional(number, 80) })
  nullable = false
}
variable "checked" {
  default = 1
  validation {
    condition = true
  }
  validation {
    condition = var.checked > 0
  }
  validation {
    condition = var.checked > local.low
    error_mesage = "x"
  }
  validation {
    error_message = "x"
  }
}
job "web" {}
"#;
    insta::assert_snapshot!(complaints(text), @r##"
    test.nomad:1:10: `a b` cannot name a variable
       |
     1 | variable "a b" {
       |          ^^^^^
      hint: use letters, digits, `_` and `-`, a letter first

    test.nomad:5:41: the attributes of an object are all required
       |
     5 |   type = object({ name = string, port = optional(number, 80) })
       |                                         ^^^^^^^^^^^^^^^^^^^^
      hint: write map(..) or any, and lookup() or try() where the value is used

    test.nomad:6:3: `variable` has no `nullable`
       |
     6 |   nullable = false
       |   ^^^^^^^^

    test.nomad:11:17: a rule for `checked` looks at `var.checked` and no other variable
        |
     11 |     condition = true
        |                 ^^^^

    test.nomad:13:3: `validation` needs `error_message`
        |
     13 |   validation {
        |   ^^^^^^^^^^

    test.nomad:18:5: `validation` has no `error_mesage`
        |
     18 |     error_mesage = "x"
        |     ^^^^^^^^^^^^

    test.nomad:20:3: `validation` needs `condition`
        |
     20 |   validation {
        |   ^^^^^^^^^^
    "##);
}

#[test]
fn a_sensitive_value_is_kept_out_of_messages() {
    let text = "variable \"password\" {\n  type = number\n  sensitive = true\n}\njob \"web\" {}\n";
    let mut inputs = inputs();
    inputs.variables.arguments = vec![argument("password", "hunter2")];
    let problems = parse("web.nomad", text, &mut inputs)
        .unwrap_err()
        .to_string();
    inputs.variables = Variables {
        files: vec![VariableFile {
            name: "prod.vars".to_owned(),
            text: "password = \"hunter2\"\n".to_owned(),
        }],
        ..Variables::default()
    };
    let more = parse("web.nomad", text, &mut inputs)
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(format!("{problems}\n----\n{more}"), @r##"
    -var password:1:1: variable `password`: number is required; the value is not shown
    ----
    prod.vars:1:12: variable `password`: number is required; the value is not shown
    "##);
    inputs.variables.files.clear();
    inputs.variables.arguments = vec![argument("password", "7")];
    let parsed = parse("web.nomad", text, &mut inputs).unwrap();
    insta::assert_snapshot!(parsed.warnings[0].to_string(), @r##"
    web.nomad:3:15: `sensitive` keeps the value out of messages, not out of the job
       |
     3 |   sensitive = true
       |               ^^^^
    "##);
}

#[test]
fn a_secret_in_the_file_is_warned_of_without_being_shown() {
    for text in [
        "job \"web\" {\n  vault_token = \"hunter2\"\n}\n",
        "{\"ID\": \"web\",\n\"VaultToken\": \"hunter2\", \"TaskGroups\": []}",
    ] {
        let parsed = crate::read(text).unwrap();
        let shown = parsed.warnings[0].to_string();
        assert!(
            shown.contains(":2:") && shown.contains("`vault_token`"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
