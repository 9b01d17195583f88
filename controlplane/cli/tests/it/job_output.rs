//! `job run -output`: the job as it would be submitted, without a server.

use crate::{JOB, drover, stderr, stdout};

#[test]
fn a_job_file_becomes_the_job_that_is_submitted() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), JOB)?;
    let output = drover(
        folder.path(),
        &["job", "run", "-output", "-var=count=3", "web.hcl"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("job_output", stdout(&output));
    // What was written can be read again, and says the same.
    std::fs::write(folder.path().join("web.json"), &output.stdout)?;
    let again = drover(folder.path(), &["run", "-output", "-json", "web.json"]);
    assert_eq!(stdout(&again), stdout(&output), "{}", stderr(&again));
    Ok(())
}

#[test]
fn a_mistake_is_shown_with_its_place() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(
        folder.path().join("bad.hcl"),
        "job \"x\" {\n  grup \"y\" {}\n}\n",
    )?;
    let output = drover(folder.path(), &["job", "run", "bad.hcl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("bad.hcl:2:3"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
    Ok(())
}
