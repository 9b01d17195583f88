//! Functions that read files see what the caller gives them, and nothing else.

use crate::inputs;
use protocol_jobspec::{Directories, FileError, Inputs, Variables, parse};
use serde_json::json;

/// Inputs with two files.
struct Folder(protocol_jobspec::NoFiles);

impl Inputs for Folder {
    fn variables(&self) -> &Variables {
        self.0.variables()
    }

    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn file(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        match path {
            "a.txt" => Ok(b"content".to_vec()),
            "raw" => Ok(vec![0xff, 0xfe]),
            "../secret" => Err(FileError::Refused("outside of the job's folder".to_owned())),
            _ => Err(FileError::NotFound),
        }
    }

    fn matching_files(&mut self, _: &str, pattern: &str) -> Result<Vec<String>, FileError> {
        assert_eq!(pattern, "*.txt");
        Ok(vec!["b.txt".to_owned(), "a.txt".to_owned()])
    }

    fn directories(&self) -> Option<Directories> {
        Some(Directories {
            working: "/srv/jobs".to_owned(),
            home: "/users/me".to_owned(),
        })
    }
}

#[test]
fn file_functions_see_what_the_caller_gives() {
    let list = "[file(\"a.txt\"), filebase64(\"raw\"), fileexists(\"x\"), fileset(\".\", \"*.txt\"), \
        abspath(\"../b\"), pathexpand(\"~/c\")]";
    let text = format!("job \"j\" {{\n task \"t\" {{\n config {{\n v = {list}\n}}\n}}\n}}");
    let parsed = parse("f.nomad", &text, &mut Folder(inputs())).unwrap();
    let found = &parsed.job.task_groups[0].tasks[0].config["v"];
    assert_eq!(
        *found,
        json!([
            "content",
            "//4=",
            false,
            ["a.txt", "b.txt"],
            "/srv/b",
            "/users/me/c"
        ])
    );
}

#[test]
fn a_refused_file_says_why() {
    let text = "job \"j\" {\n meta {\n v = file(\"../secret\")\n}\n}";
    let problems = parse("f.nomad", text, &mut Folder(inputs())).unwrap_err();
    assert_eq!(
        problems.list()[0].message,
        "file(): outside of the job's folder"
    );
    assert_eq!(
        (problems.list()[0].line, problems.list()[0].column),
        (3, 11)
    );
}
