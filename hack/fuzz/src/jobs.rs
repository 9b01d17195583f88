//! Jobs as users send them: job files, and the API's own form.

use protocol_jobspec::{NoFiles, Variables, parse};
use protocol_model::{Job, json};

use crate::Verdict;

/// A job file, HCL or JSON, without any file beside it.
pub fn job_file(data: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(data);
    let mut inputs = NoFiles {
        variables: Variables::default(),
        now: "2026-01-02T03:04:05Z".parse().expect("a valid time"),
        seed: 7,
    };
    match parse("fuzz.nomad", &text, &mut inputs) {
        Ok(parsed) => {
            for warning in &parsed.warnings {
                assert!(!warning.to_string().is_empty());
            }
            judge(&parsed.job);
            Verdict::Understood
        }
        Err(problems) => Verdict::refused_with(problems.to_string()),
    }
}

/// A job in the API's JSON.
pub fn job_document(data: &[u8]) -> Verdict {
    // As servers read it, its keys in any case; `read_again` reads the exact ones with the library.
    match json::from_slice::<Job>(data) {
        Ok(job) => {
            judge(&job);
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}

/// What holds for every job, however wrong: it can be written, completed and judged.
fn judge(job: &Job) {
    assert_eq!(read_again(job), *job);
    let mut once = job.clone();
    once.canonicalize();
    let mut twice = once.clone();
    twice.canonicalize();
    assert_eq!(once, twice, "the canonical form is stable");
    assert_eq!(read_again(&once), once);
    assert_eq!(job.spec_hash(), once.spec_hash());
    for judged in [job, &once] {
        if let Err(mistakes) = judged.validate() {
            assert!(!mistakes.to_string().is_empty());
        }
        for warning in judged.unhonoured() {
            assert!(!warning.to_string().is_empty());
        }
    }
}

fn read_again(job: &Job) -> Job {
    let text = serde_json::to_vec(job).expect("a job has a form in JSON");
    serde_json::from_slice(&text).expect("what was written is read")
}
