//! `alloc exec`: both streams arrive, and the command's exit code is the program's.

use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::fake_server::{Canned, serve};
use crate::{drover, stderr, stdout};

const ALLOC: &str = "abc10000-0000-4000-8000-000000000001";

/// Speaks the server's side of one command; answers what the client sent first.
fn converse(stream: TcpStream, last: &[Message]) -> Option<String> {
    let mut socket = tungstenite::accept(stream).ok()?;
    let said = socket.read().ok()?.into_text().ok()?.to_string();
    for message in last {
        socket.send(message.clone()).ok()?;
    }
    // Keeps the connection until the client has read everything.
    while socket.read().is_ok() {}
    Some(said)
}

fn exec(last: Vec<Message>) -> std::io::Result<(std::process::Output, Option<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let alloc = json!({
        "ID": ALLOC, "EvalID": ALLOC, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": ALLOC, "JobID": "web", "TaskGroup": "web", "TaskStates": { "server": {} },
    });
    let canned = Canned {
        request: "GET /v1/allocation/abc10000-0000-4000-8000-000000000001",
        status: 200,
        body: alloc.to_string(),
    };
    let server = std::thread::spawn(move || -> std::io::Result<Option<String>> {
        let (api, _) = listener.accept()?;
        std::thread::spawn(move || serve(&api, &[canned], &Mutex::new(Vec::new())));
        let (socket, _) = listener.accept()?;
        Ok(converse(socket, &last))
    });
    let folder = tempfile::tempdir()?;
    let arguments = [
        "-address", &address, "exec", "-i=false", "-t=false", ALLOC, "ls", "-la",
    ];
    let output = drover(folder.path(), &arguments);
    // A program that failed early has left the server waiting for it.
    for _ in 0..2 {
        let _ = TcpStream::connect(address.trim_start_matches("http://"));
    }
    let said = server.join().expect("the fake server does not panic")?;
    Ok((output, said))
}

#[test]
fn the_exit_code_is_the_commands() -> std::io::Result<()> {
    let (output, said) = exec(vec![
        Message::text(r#"{"stdout":{"data":"aGk="}}"#),
        Message::text(r#"{"stderr":{"data":"aG8="}}"#),
        Message::text("{}"),
        Message::text(r#"{"exited":true,"result":{"exit_code":7}}"#),
    ])?;
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(
        (stdout(&output), stderr(&output)),
        ("hi".to_owned(), "ho".to_owned())
    );
    assert_eq!(said.as_deref(), Some(r#"{"stdin":{"close":true}}"#));
    Ok(())
}

#[test]
fn a_command_that_is_cut_off_has_failed() -> std::io::Result<()> {
    let (output, _) = exec(vec![Message::Close(None)])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("ended before the command did"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn a_refusal_is_told_in_its_own_words() -> std::io::Result<()> {
    let frame = CloseFrame {
        code: 4404.into(),
        reason: "cannot execute nosuch".into(),
    };
    let (output, _) = exec(vec![Message::Close(Some(frame))])?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: cannot execute nosuch\n");
    Ok(())
}
