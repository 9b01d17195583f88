//! `job periodic force`, and `job run` of a periodic job.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const EVAL: &str = "0f3e6f2a-0000-4000-8000-000000000001";

fn canned(request: &'static str, status: u16, body: &Value) -> Canned {
    Canned {
        request,
        status,
        body: body.to_string(),
    }
}

/// A periodic job with a child, and one that is not periodic.
fn list() -> Canned {
    let job = |id: &str, periodic: bool| json!({ "ID": id, "Namespace": "default", "Periodic": periodic });
    let child = "backup/periodic-1700000000";
    let jobs = json!([job("backup", true), job(child, false), job("base", false)]);
    canned("GET /v1/jobs", 200, &jobs)
}

fn force(arguments: &[&str], answers: Vec<Canned>) -> std::io::Result<(i32, String, Vec<String>)> {
    let server = FakeServer::start(answers)?;
    let folder = tempfile::tempdir()?;
    let flags = ["job", "periodic", "force", "-address", &server.address];
    let output = drover(folder.path(), &[&flags, arguments].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    Ok((output.status.code().unwrap_or(-1), said, server.asked()))
}

#[test]
fn detached_force_prints_the_evaluation() -> std::io::Result<()> {
    let forced = json!({ "EvalID": EVAL, "EvalCreateIndex": 9, "Index": 9 });
    let answers = vec![
        list(),
        canned("PUT /v1/job/backup/periodic/force", 200, &forced),
    ];
    // The child, whose id begins so too, makes the name no less clear.
    let (code, said, asked) = force(&["-detach", "back"], answers)?;
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        said,
        format!("Force periodic successful\nEvaluation ID: {EVAL}\n")
    );
    let puts = asked.iter().filter(|line| line.starts_with("PUT")).count();
    assert_eq!(puts, 1, "{asked:?}");
    Ok(())
}

#[test]
fn force_of_another_kind_of_job_says_why_not() -> std::io::Result<()> {
    let answers = vec![
        list(),
        Canned {
            request: "PUT /v1/job/base/periodic/force",
            status: 400,
            body: "can't force launch non-periodic job".to_owned(),
        },
    ];
    let (code, said, _) = force(&["base"], answers.clone())?;
    assert_eq!(code, 1);
    assert!(
        said.contains("can't force launch non-periodic job"),
        "{said}"
    );
    let nothing = vec![canned("GET /v1/jobs", 200, &json!([]))];
    let (code, said, _) = force(&["other"], nothing)?;
    assert_eq!(code, 1);
    assert!(said.contains("periodic job"), "{said}");
    Ok(())
}

#[test]
fn run_of_a_periodic_job_prints_its_next_launch() -> std::io::Result<()> {
    let registered = json!({ "EvalID": "", "JobModifyIndex": 9, "Index": 9 });
    let server = FakeServer::start(vec![canned("PUT /v1/jobs", 200, &registered)])?;
    let folder = tempfile::tempdir()?;
    let job = r#"
        job "backup" {
          type = "batch"
          periodic {
            cron      = "0 12 1 1 * 2099"
            time_zone = "Europe/Berlin"
          }
          group "g" {
            task "t" {
              driver = "exec"
              config { command = "/bin/true" }
            }
          }
        }
    "#;
    let run = |text: &str| {
        std::fs::write(folder.path().join("backup.hcl"), text)?;
        let arguments = ["job", "run", "-address", &server.address, "backup.hcl"];
        std::io::Result::Ok(drover(folder.path(), &arguments))
    };
    let output = run(job)?;
    assert!(output.status.success(), "{}", stderr(&output));
    let never = "Job registration successful\n\
                 Approximate next launch time: none (no such time is to come)\n";
    assert_eq!(stdout(&output), never);
    let output = run(&job.replace("0 12 1 1 * 2099", "*/5 * * * *"))?;
    let text = stdout(&output);
    let time = text.lines().nth(1).unwrap_or_default();
    assert!(
        time.starts_with("Approximate next launch time: 2"),
        "{text}"
    );
    assert!(time.ends_with(" from now)"), "{text}");
    // The mistake is found before a server is asked.
    let output = run(&job.replace("0 12 1 1 * 2099", "61 * * * *"))?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("minute \"61\""),
        "{}",
        stderr(&output)
    );
    Ok(())
}
