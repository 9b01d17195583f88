//! Ids are found by their beginning.

use protocol_model::{Allocation, ListResources};
use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const FIRST: &str = "abc10000-0000-4000-8000-000000000001";
const SECOND: &str = "abc20000-0000-4000-8000-000000000002";

fn status(beginning: &str) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let alloc = |id: &str, name: &str| {
        let alloc: Allocation = serde_json::from_value(json!({
            "ID": id, "Name": name, "Namespace": "default", "EvalID": FIRST, "NodeID": FIRST,
            "JobID": "web", "TaskGroup": "front",
        }))
        .expect("an allocation");
        alloc.stub(None, ListResources::Omit)
    };
    let list = json!([alloc(FIRST, "a"), alloc(SECOND, "b")]);
    let server = FakeServer::start(vec![
        Canned {
            request: "GET /v1/allocations",
            status: 200,
            body: list.to_string(),
        },
        Canned {
            request: "GET /v1/allocation/abc20000-0000-4000-8000-000000000002",
            status: 200,
            body: json!({ "ID": SECOND }).to_string(),
        },
    ])?;
    let folder = tempfile::tempdir()?;
    let arguments = [
        "alloc",
        "status",
        "-json",
        "-address",
        &server.address,
        beginning,
    ];
    let output = drover(folder.path(), &arguments);
    let code = output.status.code().unwrap_or(-1);
    Ok((code, stdout(&output), stderr(&output), server.asked()))
}

#[test]
fn a_beginning_of_any_length_finds_its_object() -> std::io::Result<()> {
    for beginning in ["abc2", "ABC20", "abc20000-0"] {
        let (code, out, err, _) = status(beginning)?;
        assert_eq!(code, 0, "{beginning}: {err}");
        assert!(out.contains(SECOND), "{out}");
    }
    Ok(())
}

#[test]
fn a_beginning_of_two_objects_names_both() -> std::io::Result<()> {
    let (code, out, err, _) = status("abc")?;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(FIRST) && err.contains(SECOND), "{err}");
    assert!(err.contains("hint: give more of the id"), "{err}");
    Ok(())
}

#[test]
fn what_is_no_beginning_of_an_id_is_not_asked_for() -> std::io::Result<()> {
    let (code, _, err, asked) = status("zz")?;
    assert_eq!(code, 1);
    assert!(err.contains("hexadecimal"), "{err}");
    assert!(asked.is_empty(), "{asked:?}");
    Ok(())
}
