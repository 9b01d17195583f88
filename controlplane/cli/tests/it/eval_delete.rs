//! `eval delete`: by ids and by a filter.

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const ID: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

fn run(arguments: &[&str], count: u64) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let canned = |request, body: serde_json::Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    let deleted = json!({ "Count": count, "Kept": 2, "Open": 1, "Index": 9 });
    let server = FakeServer::start(vec![
        canned("GET /v1/evaluations/count", json!({ "Count": count })),
        canned("DELETE /v1/evaluations", deleted),
    ])?;
    let folder = tempfile::tempdir()?;
    let all = [&["eval", "delete", "-address", &server.address], arguments];
    let output = drover(folder.path(), &all.concat());
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
        server.asked(),
    ))
}

#[test]
fn a_filter_is_counted_first_and_deleted_with_yes() -> std::io::Result<()> {
    let filter = "Status == \"pending\"";
    let (code, out, err, asked) = run(&["-filter", filter, "-yes"], 3)?;
    assert_eq!(
        (code, out.as_str()),
        (0, "Successfully deleted 3 evaluations\n")
    );
    assert!(err.contains("1 of them were pending or blocked"), "{err}");
    assert!(err.contains("2 more match and stay"), "{err}");
    assert!(
        asked[0].starts_with("GET /v1/evaluations/count?filter="),
        "{asked:?}"
    );
    let body = asked[1].split_once('\n').map(|(_, body)| body.to_owned());
    let body: serde_json::Value = serde_json::from_str(&body.unwrap_or_default())?;
    assert_eq!(body["Filter"], filter);
    Ok(())
}

#[test]
fn without_a_terminal_and_yes_nothing_is_deleted() -> std::io::Result<()> {
    let (code, _, err, asked) = run(&["-filter", "Status == pending"], 3)?;
    assert_eq!(code, 1);
    assert!(
        err.contains("3 evals would be deleted") && err.contains("-yes"),
        "{err}"
    );
    assert_eq!(asked.len(), 1, "{asked:?}");
    Ok(())
}

#[test]
fn a_filter_that_nothing_matches_fails() -> std::io::Result<()> {
    let (code, _, err, asked) = run(&["-filter", "Status == x", "-yes"], 0)?;
    assert_eq!(code, 1);
    assert!(
        err.contains("failed to find any evals that matched filter criteria"),
        "{err}"
    );
    assert_eq!(asked.len(), 1, "{asked:?}");
    Ok(())
}

#[test]
fn an_evaluation_is_deleted_by_its_id_without_a_question() -> std::io::Result<()> {
    let (code, out, _, asked) = run(&[ID], 1)?;
    assert_eq!(
        (code, out.as_str()),
        (0, "Successfully deleted 1 evaluation\n")
    );
    assert!(asked[0].starts_with("DELETE /v1/evaluations"), "{asked:?}");
    assert!(asked[0].contains(ID), "{asked:?}");
    Ok(())
}

#[test]
fn an_id_and_a_filter_are_not_taken_together() -> std::io::Result<()> {
    for arguments in [&[ID, "-filter", "Status == x"][..], &[]] {
        let (code, _, err, asked) = run(arguments, 1)?;
        assert_ne!(code, 0, "{err}");
        assert_eq!(asked.len(), 0);
    }
    Ok(())
}
