//! `var`: what it sends and prints, and when `var lock` ends its command.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn variable() -> Value {
    json!({
        "Namespace": "default",
        "Path": "app/db",
        "CreateIndex": 7,
        "CreateTime": 1_700_000_000_000_000_000_u64,
        "ModifyIndex": 9,
        "ModifyTime": 1_700_000_000_000_000_000_u64,
        "Items": { "password": "secret", "user": "web" },
    })
}

/// The exit code, what is printed, and what was asked.
fn run(
    answers: &[(&'static str, u16, String)],
    arguments: &[&str],
) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let answers = answers.iter().map(|(request, status, body)| Canned {
        request,
        status: *status,
        body: body.clone(),
    });
    let server = FakeServer::start(answers.collect())?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("db.hcl"), SPEC)?;
    let mut all = vec!["var", "-address", &server.address];
    all.extend(arguments);
    let output = drover(folder.path(), &all);
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
        server.asked(),
    ))
}

const SPEC: &str = "path = \"app/db\"\nmodify_index = 9\nitems {\n  user = \"web\"\n}\n";
const PUT: &str = "PUT /v1/var/app%2Fdb";

fn asked_body(asked: &str) -> Value {
    let body = asked.split_once('\n').map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

#[test]
fn put_sends_items_and_the_index_that_the_specification_has() -> std::io::Result<()> {
    let answer = [(PUT, 200, variable().to_string())];
    let arguments = ["put", "-out=none", "@db.hcl", "password=secret"];
    let (code, out, err, asked) = run(&answer, &arguments)?;
    let words = "Updated variable \"app/db\" with modify index 9\n";
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    assert!(asked[0].contains("cas=9"), "{}", asked[0]);
    let items = json!({ "user": "web", "password": "secret" });
    assert_eq!(asked_body(&asked[0])["Items"], items);
    // Without one it creates only; -force writes whatever is there.
    let (_, _, _, asked) = run(&answer, &["put", "app/db", "a=b"])?;
    assert!(asked[0].contains("cas=0"), "{}", asked[0]);
    let (_, _, _, asked) = run(&answer, &["put", "-force", "app/db", "a=b"])?;
    assert!(!asked[0].contains("cas"), "{}", asked[0]);
    Ok(())
}

#[test]
fn a_conflict_names_both_indexes_and_exits_with_1() -> std::io::Result<()> {
    let answer = [(PUT, 409, variable().to_string())];
    let (code, out, err, _) = run(&answer, &["put", "app/db", "a=b"])?;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("check-index (0)") && err.contains("index (9)"),
        "{err}"
    );
    assert!(err.contains("-check-index=9"), "{err}");
    assert!(!err.contains("secret"), "{err}");
    Ok(())
}

#[test]
fn get_prints_a_table_one_item_or_a_specification() -> std::io::Result<()> {
    let answer = [("GET /v1/var/app%2Fdb", 200, variable().to_string())];
    let (code, out, err, _) = run(&answer, &["get", "-out=table", "app/db"])?;
    assert_eq!(code, 0, "{err}");
    let tail = "Check Index = 9\n\nItems\npassword = secret\nuser     = web\n";
    assert!(
        out.starts_with("Namespace   = default\n") && out.ends_with(tail),
        "{out}"
    );
    let (_, out, _, _) = run(&answer, &["get", "-item=user", "app/db"])?;
    assert_eq!(out, "web\n");
    let (code, _, err, _) = run(&answer, &["get", "-item=none", "app/db"])?;
    assert_eq!(code, 1);
    assert!(err.contains("does not contain \"none\" item"), "{err}");
    let missing = [("GET /v1/var/x", 404, "variable not found".to_owned())];
    let (code, _, err, _) = run(&missing, &["get", "x"])?;
    assert_eq!(code, 1);
    assert!(err.contains("Variable not found"), "{err}");
    Ok(())
}

#[test]
fn slashes_around_a_path_do_not_count() -> std::io::Result<()> {
    let answer = [("GET /v1/var/app%2Fdb", 200, variable().to_string())];
    let (code, out, err, _) = run(&answer, &["get", "-item=user", "/app/db/"])?;
    assert_eq!((code, out.as_str()), (0, "web\n"), "{err}");
    let answer = [(PUT, 200, variable().to_string())];
    let (code, _, err, asked) = run(&answer, &["put", "/app/db", "a=b"])?;
    assert_eq!(code, 0, "{err}");
    assert_eq!(asked_body(&asked[0])["Path"], "app/db");
    let list = [("GET /v1/vars", 200, "[]".to_owned())];
    let (_, _, _, asked) = run(&list, &["list", "/app"])?;
    assert!(asked[0].contains("prefix=app"), "{}", asked[0]);
    Ok(())
}

#[test]
fn a_mistake_names_its_place_and_no_value() -> std::io::Result<()> {
    for (arguments, words) in [
        (
            &["put", "app/db", "a=b", "hunter2"][..],
            "item 2 has no `=`",
        ),
        (&["put", "app/db", "=hunter2"], "item 1 has no key"),
        (&["put", "app/db"], "\"app/db\" would have no items"),
        (&["put", "app/db", "a=@none"], "cannot read none"),
        (&["init", "db.hcl"], "name another file"),
        (
            &["lock", "-ttl=5s", "app/db", "true"],
            "-ttl 5s: TTL must be",
        ),
        (&["lock", "@none.hcl", "true"], "cannot read none.hcl"),
    ] {
        let (code, out, err, asked) = run(&[], arguments)?;
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}");
        assert!(err.contains(words), "{arguments:?}: {err}");
        assert!(!err.contains("hunter2"), "{err}");
        assert!(asked.is_empty(), "{asked:?}");
    }
    let missing = [("GET /v1/var/x", 404, "variable not found".to_owned())];
    let (_, _, err, _) = run(&missing, &["get", "-namespace=dev", "x"])?;
    assert!(err.contains("\"x\" in the namespace \"dev\""), "{err}");
    let held = [("DELETE /v1/var/app%2Fdb", 409, variable().to_string())];
    let (_, _, err, _) = run(&held, &["purge", "-check-index=3", "app/db"])?;
    assert!(
        err.contains("-check-index=9") && !err.contains("-force"),
        "{err}"
    );
    Ok(())
}

#[test]
fn list_and_purge_print_what_nomad_prints() -> std::io::Result<()> {
    let list = [("GET /v1/vars", 200, json!([variable()]).to_string())];
    let (code, out, err, asked) = run(&list, &["list", "-out=terse", "app"])?;
    assert_eq!((code, out.as_str()), (0, "app/db\n"), "{err}");
    assert!(asked[0].contains("prefix=app"), "{}", asked[0]);
    let purge = [("DELETE /v1/var/app%2Fdb", 204, String::new())];
    let (code, out, err, _) = run(&purge, &["purge", "app/db"])?;
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "Successfully purged variable \"app/db\"!\n");
    Ok(())
}

fn locked(body: &str) -> String {
    let mut variable = variable();
    variable["Lock"] = json!({
        "ID": "11111111-2222-3333-4444-555555555555",
        "TTL": "10s",
        "LockDelay": "1s",
    });
    match body {
        "" => variable.to_string(),
        text => text.to_owned(),
    }
}

#[test]
fn lock_ends_with_the_code_of_its_command_and_releases() -> std::io::Result<()> {
    let answers = [(PUT, 200, locked(""))];
    let (code, out, err, asked) = run(&answers, &["lock", "app/db", "echo hello; exit 7"])?;
    assert_eq!((code, out.as_str()), (7, "hello\n"), "{err}");
    assert!(asked[0].contains("lock-acquire"), "{}", asked[0]);
    let last = asked.last().expect("a release");
    assert!(last.contains("lock-release"), "{last}");
    let lock = &asked_body(last)["Lock"]["ID"];
    assert_eq!(lock, "11111111-2222-3333-4444-555555555555");
    Ok(())
}

#[test]
fn lock_takes_path_and_items_of_a_specification() -> std::io::Result<()> {
    let answers = [(PUT, 200, locked(""))];
    let (code, out, err, asked) = run(&answers, &["lock", "@db.hcl", "echo hello"])?;
    assert_eq!((code, out.as_str()), (0, "hello\n"), "{err}");
    assert_eq!(asked_body(&asked[0])["Items"], json!({ "user": "web" }));
    let last = asked.last().expect("a release");
    assert!(last.contains("lock-release"), "{last}");
    assert_eq!(asked_body(last)["Items"], Value::Null);
    let words = ["lock", "-shell=false", "app/db", "none-such"];
    let (code, _, err, _) = run(&answers, &words)?;
    assert_eq!(code, 1);
    assert!(
        err.contains("cannot start the command \"none-such\""),
        "{err}"
    );
    Ok(())
}

#[test]
fn a_lost_lock_kills_the_whole_group_before_its_ttl() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let pid = folder.path().join("pid");
    // A command that ignores SIGTERM, with a child.
    let script = format!(
        "trap '' TERM; sleep 60 & echo $! > {}; sleep 60; sleep 60",
        pid.display()
    );
    let refused = "attempting to modify locked variable";
    let answers = [(PUT, 200, locked("")), (PUT, 409, locked(refused))];
    let begun = Instant::now();
    let (code, _, err, _) = run(&answers, &["lock", "-ttl=10s", "app/db", &script])?;
    let lasted = begun.elapsed();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("was lost"), "{err}");
    assert!(lasted < Duration::from_secs(60), "{lasted:?}");
    let child: i32 = std::fs::read_to_string(pid)?
        .trim()
        .parse()
        .expect("a number");
    let status = std::fs::read_to_string(format!("/proc/{child}/status"));
    let is_gone = status.map_or(true, |text| text.contains("State:\tZ"));
    assert!(is_gone, "process {child} goes on");
    Ok(())
}

/// Whether the process with this number is gone, or dead and not reaped yet.
fn is_dead(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |text| text.contains("State:\tZ"))
}

/// Waits for a condition, for a minute at most.
fn wait_until(condition: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn killed_drover_leaves_no_process_of_its_command() -> std::io::Result<()> {
    let answers = vec![Canned {
        request: PUT,
        status: 200,
        body: locked(""),
    }];
    let server = FakeServer::start(answers)?;
    let folder = tempfile::tempdir()?;
    let pids = folder.path().join("pids");
    // Neither the shell nor its child ends by SIGTERM.
    let script = format!(
        "trap '' TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait; sleep 600",
        pids.display()
    );
    let mut drover = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
        .args([
            "var",
            "-address",
            &server.address,
            "lock",
            "app/db",
            &script,
        ])
        .spawn()?;
    assert!(wait_until(|| pids.exists()), "the command does not run");
    let text = std::fs::read_to_string(pids)?;
    let pids: Vec<&str> = text.split_whitespace().collect();
    assert!(
        pids.len() == 2 && !pids.iter().any(|pid| is_dead(pid)),
        "{text}"
    );
    drover.kill()?;
    drover.wait()?;
    let all_are_dead = wait_until(|| pids.iter().all(|pid| is_dead(pid)));
    assert!(all_are_dead, "of {text} one goes on");
    Ok(())
}

#[test]
fn lock_ends_with_128_and_the_signal_of_its_command() -> std::io::Result<()> {
    let answers = [(PUT, 200, locked(""))];
    let (code, _, err, _) = run(&answers, &["lock", "app/db", "kill -9 $$"])?;
    assert_eq!(code, 128 + 9, "{err}");
    Ok(())
}
