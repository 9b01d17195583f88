//! Job files as the program reads them: from files, stdin and JSON, with variables from everywhere,
//! and what it says of bad ones. Nothing here needs a server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{JOB, drover, stderr, stdout};

/// A file with mistakes of every sort.
const BAD: &str = r#"variable "count" {
  type = number
}
job "web" {
  datacentres = ["dc1"]
  group "g" {
    count = [1, 2
    task "t" {
      driver = "exec
      config {
        command = missing("x")
      }
    }
  }
}
"#;

/// A group as large as a variable says.
const COUNTED: &str = "variable \"count\" {\n  type = number\n}\njob \"web\" {\n  group \"g\" {\n    \
    count = var.count\n    task \"t\" {\n      driver = \"raw_exec\"\n    }\n  }\n}\n";

fn with_input(folder: &Path, arguments: &[&str], input: &str) -> std::io::Result<Output> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())?;
    child.wait_with_output()
}

/// The count of the only group of a job that was put out.
fn count(output: &Output) -> serde_json::Value {
    let text = stdout(output);
    let whole: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", stderr(output)));
    whole["Job"]["TaskGroups"][0]["Count"].clone()
}

#[test]
fn all_mistakes_of_a_file_are_shown_by_every_command_that_reads_one() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("bad.hcl"), BAD)?;
    let mut shown = Vec::new();
    for (command, code) in [("validate", 1), ("run", 1), ("plan", 255)] {
        let output = drover(folder.path(), &["job", command, "-var=cuont=1", "bad.hcl"]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{command}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "", "{command}");
        shown.push(stderr(&output));
    }
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[1], shown[2]);
    for place in [
        "-var:1:1: the job file declares no variable `cuont`",
        "bad.hcl:1:10: the variable `count` has no value",
        "bad.hcl:5:3: `job` has no attribute `datacentres`",
        "bad.hcl:7:13: this `[` has no `]`\n",
        " 7 |     count = [1, 2\n   |             ^",
        "bad.hcl:9:16: this string has no closing `\"`",
        "bad.hcl:11:19: there is no function `missing`",
    ] {
        assert!(
            shown[0].contains(place),
            "{place} is missing in {}",
            shown[0]
        );
    }
    Ok(())
}

#[test]
fn a_variable_takes_the_strongest_of_all_its_values() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), COUNTED)?;
    std::fs::write(folder.path().join("prod.vars"), "count = 5\n")?;
    std::fs::write(folder.path().join("prod.json"), "{\"count\": 6}")?;
    let run = |environment: &[(&str, &str)], flags: &[&str]| {
        let arguments = [&["job", "run", "-output"], flags, &["web.hcl"]].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command.args(arguments).current_dir(folder.path());
        for (name, value) in environment {
            command.env(name, value);
        }
        command.output().map(|output| count(&output))
    };
    let nomad = ("NOMAD_VAR_count", "3");
    let own = ("DROVER_VAR_count", "4");
    assert_eq!(run(&[nomad], &[])?, 3);
    assert_eq!(run(&[nomad, own], &[])?, 4);
    assert_eq!(run(&[own], &["-var-file=prod.vars"])?, 5);
    assert_eq!(
        run(&[own], &["-var-file=prod.vars", "-var-file=prod.json"])?,
        6
    );
    assert_eq!(
        run(&[own], &["-var", "count=7", "-var-file", "prod.vars"])?,
        7
    );
    let unset = drover(folder.path(), &["job", "run", "-output", "web.hcl"]);
    assert_eq!(unset.status.code(), Some(1));
    assert!(
        stderr(&unset).contains("-var count=VALUE"),
        "{}",
        stderr(&unset)
    );
    let absent = drover(
        folder.path(),
        &["job", "validate", "-var-file=none.vars", "web.hcl"],
    );
    assert_eq!(absent.status.code(), Some(1));
    assert!(stderr(&absent).contains("none.vars"), "{}", stderr(&absent));
    Ok(())
}

#[test]
fn stdin_holds_a_job_file_in_either_form() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let arguments = ["job", "run", "-output", "-var=count=2", "-"];
    let hcl = with_input(folder.path(), &arguments, COUNTED)?;
    assert_eq!(count(&hcl), 2);
    let json = with_input(
        folder.path(),
        &["job", "run", "-output", "-json", "-"],
        &stdout(&hcl),
    )?;
    assert_eq!(stdout(&json), stdout(&hcl), "{}", stderr(&json));
    let torn = with_input(folder.path(), &["job", "validate", "-"], "{\n \"Job\": {\n")?;
    assert_eq!(torn.status.code(), Some(1));
    assert!(stderr(&torn).contains("stdin:3:"), "{}", stderr(&torn));
    Ok(())
}

#[test]
fn what_scripts_say_of_consul_and_vault_is_taken_or_named() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), JOB)?;
    let flags = [
        "-consul-namespace",
        "east",
        "-vault-namespace=west",
        "-vault-token",
        "s.secret",
    ];
    let words = [&["job", "run", "-output"], &flags[..], &["web.hcl"]].concat();
    let output = drover(folder.path(), &words);
    let job: serde_json::Value = serde_json::from_str(&stdout(&output))?;
    assert_eq!(job["Job"]["ConsulNamespace"], "east");
    assert_eq!(job["Job"]["VaultNamespace"], "west");
    let notes = stderr(&output);
    assert!(notes.contains("-vault-token is dropped"), "{notes}");
    assert!(!notes.contains("s.secret"), "{notes}");
    Ok(())
}

#[test]
fn hcl1_is_refused_in_so_many_words() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), COUNTED)?;
    let output = drover(folder.path(), &["job", "run", "-hcl1", "web.hcl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("job files in HCL1 are not read"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn a_job_with_mistakes_is_shown_line_by_line() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let text =
        "job \"web\" {\n  priority = 101\n  group \"g\" {\n    task \"t\" {\n    }\n  }\n}\n";
    std::fs::write(folder.path().join("web.hcl"), text)?;
    for (command, code) in [("validate", 1), ("run", 1), ("plan", 255)] {
        let output = drover(folder.path(), &["job", command, "web.hcl"]);
        assert_eq!(output.status.code(), Some(code), "{command}");
        let shown = stderr(&output);
        for place in [
            "error: the job is not valid:\n\nweb.hcl:2:14: priority: must be 1 to 100, is 101",
            "web.hcl:4:5: group \"g\" > task \"t\" > driver: missing",
        ] {
            assert!(
                shown.contains(place),
                "{command}: {place} is missing in {shown}"
            );
        }
    }
    Ok(())
}

#[test]
fn bytes_that_are_no_text_are_located() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(
        folder.path().join("web.hcl"),
        b"job \"web\" {\n  region = \"\xff\"\n}\n",
    )?;
    let output = drover(folder.path(), &["job", "validate", "web.hcl"]);
    let shown = stderr(&output);
    assert!(
        shown.contains("web.hcl:2:13: this is not UTF-8: 0xff"),
        "{shown}"
    );
    Ok(())
}

#[test]
fn without_a_server_a_job_file_is_checked_as_far_as_possible_and_that_is_said()
-> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let text = "job \"web\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"exec\"\n      \
                schedule {\n      }\n    }\n  }\n}\n";
    std::fs::write(folder.path().join("web.hcl"), text)?;
    // A port that nobody can listen on.
    let nobody = "-address=http://127.0.0.1:1";
    let output = drover(folder.path(), &["job", "validate", nobody, "web.hcl"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "Job validation successful\n");
    let shown = stderr(&output);
    for part in [
        "schedule",
        "warning: no server was asked: cannot reach a server at",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    let run = drover(folder.path(), &["job", "run", nobody, "web.hcl"]);
    assert_eq!(run.status.code(), Some(1));
    Ok(())
}

#[test]
fn a_job_in_json_is_shown_line_by_line_too() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let text = r#"{"Job": {
  "ID": "web",
  "Priority": 101,
  "TaskGroups": [
    { "Name": "g", "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }
  ]
}}"#;
    std::fs::write(folder.path().join("web.json"), text)?;
    for command in [["job", "validate"], ["job", "run"], ["job", "plan"]] {
        let output = drover(folder.path(), &[&command[..], &["web.json"]].concat());
        let words = stderr(&output);
        assert!(
            words.contains("web.json:3:15: priority: must be 1 to 100, is 101"),
            "{words}"
        );
    }
    Ok(())
}

/// A job with a block that nobody honours, in both languages.
const UNHONOURED: [(&str, &str, &str); 2] = [
    (
        "web.hcl",
        "job \"web\" {\n  group \"g\" {\n    service {\n      name = \"a\"\n    }\n    task \"t\" \
         {\n      driver = \"raw_exec\"\n    }\n  }\n}\n",
        "3:5",
    ),
    (
        "web.json",
        "{\"ID\": \"web\", \"TaskGroups\": [{\"Name\": \"g\",\n  \"Services\": [{\"Name\": \"a\"}],\n  \
         \"Tasks\": [{\"Name\": \"t\", \"Driver\": \"raw_exec\"}]}]}",
        "2:25",
    ),
];

#[test]
fn what_is_not_honoured_is_shown_where_the_file_says_it() -> std::io::Result<()> {
    let said = "group \"g\" > service: parsed and stored, but not registered anywhere by this \
                release";
    let warnings = format!("2 warnings:\n\n* {said}\n* something that only a server knows");
    let answers = [
        (
            "PUT /v1/validate/job",
            json!({ "Error": "", "Warnings": warnings }),
        ),
        (
            "PUT /v1/jobs",
            json!({ "EvalID": "", "Warnings": warnings }),
        ),
        (
            "PUT /v1/job/web/plan",
            json!({ "Warnings": warnings, "JobModifyIndex": 0 }),
        ),
    ];
    let server = FakeServer::start(
        answers
            .into_iter()
            .map(|(request, body)| Canned {
                request,
                status: 200,
                body: body.to_string(),
            })
            .collect(),
    )?;
    let folder = tempfile::tempdir()?;
    for (name, text, place) in UNHONOURED {
        std::fs::write(folder.path().join(name), text)?;
        let located = format!("warning: {name}:{place}: {said}");
        for command in ["validate", "run", "plan"] {
            let arguments = ["job", command, "-address", &server.address, name];
            let words = stderr(&drover(folder.path(), &arguments));
            assert!(words.contains(&located), "{command}: {words}");
            assert!(!words.contains("2 warnings"), "{command}: {words}");
            assert!(
                words.contains("warning: something that only a server knows"),
                "{command}: {words}"
            );
        }
        // Without a server, too.
        let arguments = ["job", "validate", "-address", "http://127.0.0.1:1", name];
        let words = stderr(&drover(folder.path(), &arguments));
        assert!(words.contains(&located), "{words}");
    }
    Ok(())
}
