//! `job history`: versions, and with `-p` what each changed.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn version(number: u64) -> Value {
    json!({ "ID": "web", "Name": "web", "Version": number, "SubmitTime": 0,
            "JobModifyIndex": 10 + number })
}

fn history(flags: &[&str]) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let edited = |old: &str, new: &str| {
        json!({ "Type": "Edited", "ID": "web", "TaskGroups": [{
            "Type": "Edited", "Name": "web",
            "Fields": [{ "Type": "Edited", "Name": "Count", "Old": old, "New": new }],
        }]})
    };
    let versions = json!({
        "Versions": [version(2), version(1), version(0)],
        "Diffs": [edited("2", "3"), edited("1", "2")],
    });
    let server = FakeServer::start(vec![
        Canned {
            request: "GET /v1/jobs",
            status: 200,
            body: json!([{ "ID": "web", "Namespace": "default" }]).to_string(),
        },
        Canned {
            request: "GET /v1/job/web/versions",
            status: 200,
            body: versions.to_string(),
        },
    ])?;
    let folder = tempfile::tempdir()?;
    let base = ["job", "history", "-address", server.address.as_str()];
    let output = drover(folder.path(), &[&base, flags, &["web"]].concat());
    let code = output.status.code().unwrap_or(-1);
    Ok((code, stdout(&output), stderr(&output), server.asked()))
}

#[test]
fn each_version_shows_what_it_changed() -> std::io::Result<()> {
    let (code, out, err, asked) = history(&["-p"])?;
    assert_eq!(code, 0, "{err}");
    assert!(asked[1].contains("diffs=true"), "{asked:?}");
    insta::assert_snapshot!("history_p", out);
    Ok(())
}

#[test]
fn one_version_shows_its_own_change() -> std::io::Result<()> {
    let (_, out, _, _) = history(&["-p", "-version", "1"])?;
    assert!(
        out.contains("\"1\" => \"2\"") && !out.contains("\"2\" => \"3\""),
        "{out}"
    );
    let (_, out, _, _) = history(&["-p", "-version", "0"])?;
    assert!(
        out.contains("Version      = 0") && !out.contains("Diff"),
        "{out}"
    );
    let (code, _, err, _) = history(&["-version", "9"])?;
    assert_eq!(code, 1);
    assert!(err.contains("no version 9"), "{err}");
    Ok(())
}
