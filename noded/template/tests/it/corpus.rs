//! `NAME.tmpl` with `NAME.json` renders to `NAME.out`, fails with `NAME.err`, or misses what
//! `NAME.missing` lists.

use std::path::Path;

use noded_template::{Delimiters, Limits, MissingKey, Outcome, Template, render};

use crate::known::known;

/// Templates of which each outcome is written down.
const TEMPLATES_MIN: usize = 60;

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
fn outcome(directory: &Path, name: &str) -> (&'static str, String) {
    let read = |extension: &str| {
        std::fs::read_to_string(directory.join(format!("{name}.{extension}"))).unwrap()
    };
    let text = read("tmpl");
    let data: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    let left = data["delimiters"][0].as_str().unwrap_or_default();
    let template = Template {
        text: &text,
        delimiters: Delimiters::new(left, data["delimiters"][1].as_str()),
        missing_key: match data["missing_key"].as_str() {
            Some("error") => MissingKey::Error,
            _ => MissingKey::Zero,
        },
    };
    match render(&template, &known(&data), &Limits::default()) {
        Ok(Outcome::Rendered(text)) => ("out", text),
        Ok(Outcome::Missing(missing)) => {
            let lines = missing.iter().map(|dependency| format!("{dependency}\n"));
            let mut lines: Vec<String> = lines.collect();
            lines.sort_unstable();
            ("missing", lines.concat())
        }
        Err(error) => ("err", format!("{error}\n")),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
fn each_template_of_the_corpus_has_its_outcome() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(&directory).unwrap();
    let names = files.filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".tmpl").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    assert!(names.len() >= TEMPLATES_MIN, "{} templates", names.len());
    let mut differ = String::new();
    for name in &names {
        let (extension, found) = outcome(&directory, name);
        let path = directory.join(format!("{name}.{extension}"));
        let expected = std::fs::read_to_string(path).unwrap_or_default();
        if found != expected {
            differ +=
                &format!("{name}.{extension}\n  is       {found:?}\n  expected {expected:?}\n");
        }
    }
    assert!(differ.is_empty(), "{differ}");
}
