//! `operator snapshot`: what a file holds, and what is never left behind.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use controlplane_state::{Command as StateCommand, Stamped, State};
use protocol_model::{Incarnation, UnixNanos};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// A state that was begun and nothing else.
fn checkpoint() -> Vec<u8> {
    let mut state = State::new();
    let incarnation = Incarnation::from_u128(0xc1);
    let stamped = Stamped {
        now: UnixNanos(1_700_000_000_000_000_000),
        seed: [0; 16],
        command: StateCommand::ClusterInit { incarnation },
    };
    state.apply(7, stamped);
    let mut bytes = Vec::new();
    let snapshot = state.snapshot();
    snapshot.write_checkpoint(&mut bytes).expect("written");
    bytes
}

/// Answers one request with these bytes.
fn answering(body: Vec<u8>) -> std::io::Result<String> {
    let whole = body.len();
    answering_with(body, whole)
}

/// Answers one request with the first `sent` of these bytes, and holds the connection until the
/// other end closes it.
fn answering_with(body: Vec<u8>, sent: usize) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body[..sent]);
        let _ = stream.read(&mut request);
    });
    Ok(address)
}

#[test]
fn a_file_is_looked_into_without_a_server() -> Result {
    let folder = tempfile::tempdir()?;
    let bytes = checkpoint();
    std::fs::write(folder.path().join("state.snap"), &bytes)?;
    let inspect = ["operator", "snapshot", "inspect", "state.snap"];
    let shown = drover(folder.path(), &inspect);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let text = stdout(&shown);
    for wanted in [
        "ID      = 00000000-0000-0000-0000-0000000000c1-7",
        "Index   = 7",
        "Version = 3",
        "Taken   = 2023-11-14T22:13:20Z",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    let row = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.map(|line| line.split_whitespace().nth(1).map(str::to_owned))
    };
    assert_eq!(row("namespaces"), Some(Some("1".to_owned())), "{text}");
    assert_eq!(row("total"), Some(Some("4".to_owned())), "{text}");
    let json = drover(folder.path(), &[&inspect[..], &["-json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&stdout(&json))?;
    assert_eq!(json["Index"], 7);
    assert_eq!(json["Size"], bytes.len());
    assert_eq!(json["Types"][1]["Name"], "namespaces");
    Ok(())
}

#[test]
fn a_damaged_file_is_neither_shown_nor_sent() -> Result {
    let folder = tempfile::tempdir()?;
    let server = FakeServer::start(Vec::new())?;
    let mut bytes = checkpoint();
    bytes[30] ^= 1;
    std::fs::write(folder.path().join("state.snap"), &bytes)?;
    for action in ["inspect", "restore"] {
        let arguments = ["operator", "snapshot", action, "state.snap", "-address"];
        let refused = drover(
            folder.path(),
            &[&arguments[..], &[&server.address]].concat(),
        );
        assert_eq!(refused.status.code(), Some(1));
        let words = stderr(&refused);
        assert!(words.contains("checksum does not match"), "{words}");
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_saved_file_is_whole_or_not_there() -> Result {
    let folder = tempfile::tempdir()?;
    let bytes = checkpoint();
    let save = |body: &[u8]| -> std::io::Result<_> {
        let address = answering(body.to_vec())?;
        let arguments = ["operator", "snapshot", "save", "a.snap", "-address"];
        Ok(drover(
            folder.path(),
            &[&arguments[..], &[&address]].concat(),
        ))
    };
    let half = save(&bytes[..bytes.len() - 3])?;
    assert_eq!(half.status.code(), Some(1), "{}", stderr(&half));
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    let whole = save(&bytes)?;
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(stdout(&whole), "State file written to: a.snap\n");
    assert_eq!(std::fs::read(folder.path().join("a.snap"))?, bytes);
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
    let mode = std::fs::metadata(folder.path().join("a.snap"))?.permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    let again = save(&bytes)?;
    assert_eq!(again.status.code(), Some(1), "nothing is replaced");
    Ok(())
}

#[test]
fn nothing_is_left_of_a_snapshot_that_its_user_interrupts() -> Result {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let folder = tempfile::tempdir()?;
        let snapshot = checkpoint();
        let half = snapshot.len() / 2;
        let address = answering_with(snapshot, half)?;
        // What whoever runs this ignores (nohup, a shell's background job), the program would, too.
        let mut saving = Command::new("env")
            .args([
                "--default-signal=INT,TERM,HUP",
                env!("CARGO_BIN_EXE_drover"),
            ])
            .args(["operator", "snapshot", "save", "-address", &address])
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()?;
        while std::fs::read_dir(folder.path())?.count() == 0 {
            assert!(saving.try_wait()?.is_none(), "it ends before it is told to");
            std::thread::sleep(Duration::from_millis(5));
        }
        let id = saving.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status()?;
        assert!(sent.success());
        let mut words = String::new();
        let mut errors = saving.stderr.take().ok_or("it is piped")?;
        errors.read_to_string(&mut words)?;
        assert_eq!(saving.wait()?.code(), Some(code), "{words}");
        assert!(words.contains("nothing is left"), "{words}");
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "{signal}");
    }
    Ok(())
}

#[test]
fn a_snapshot_without_a_name_is_called_by_its_time() -> Result {
    let folder = tempfile::tempdir()?;
    let address = answering(checkpoint())?;
    let save = ["operator", "snapshot", "save", "-address", &address];
    let saved = drover(folder.path(), &save);
    assert!(saved.status.success(), "{}", stderr(&saved));
    let told = stdout(&saved);
    let name = told.trim().strip_prefix("State file written to: ");
    let name = name.ok_or_else(|| told.clone())?;
    assert!(name.starts_with("drover-state-2"), "{told}");
    assert_eq!(std::fs::read(folder.path().join(name))?, checkpoint());
    Ok(())
}

#[test]
fn what_lies_where_a_snapshot_goes_is_not_touched() -> Result {
    let folder = tempfile::tempdir()?;
    let (bytes, precious) = (checkpoint(), folder.path().join("precious"));
    std::fs::write(&precious, "as it was")?;
    // Laid under the name that is easily guessed, for whoever saves as root.
    std::os::unix::fs::symlink(&precious, folder.path().join("a.snap.partial"))?;
    let save = ["operator", "snapshot", "save", "a.snap", "-address"];
    let saved = drover(
        folder.path(),
        &[&save[..], &[&answering(bytes.clone())?]].concat(),
    );
    assert!(saved.status.success(), "{}", stderr(&saved));
    assert_eq!(std::fs::read(folder.path().join("a.snap"))?, bytes);
    assert_eq!(std::fs::read_to_string(&precious)?, "as it was");
    Ok(())
}

#[test]
fn a_file_that_was_made_while_a_snapshot_came_is_not_replaced() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.snap");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let (bytes, meanwhile) = (checkpoint(), path.clone());
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let _ = stream.read(&mut [0; 4096])?;
        std::fs::write(meanwhile, "another's")?;
        let length = bytes.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(&bytes)
    });
    let save = ["operator", "snapshot", "save", "a.snap", "-address"];
    let saved = drover(folder.path(), &[&save[..], &[&address]].concat());
    server.join().expect("it does not panic")?;
    assert_eq!(saved.status.code(), Some(1), "{}", stderr(&saved));
    assert_eq!(std::fs::read_to_string(&path)?, "another's");
    let left = std::fs::read_dir(folder.path())?.count();
    assert_eq!(left, 1, "nothing else is left");
    Ok(())
}

#[test]
fn a_restore_asks_for_force_and_leaves_tokens_out_as_it_is_told() -> Result {
    let folder = tempfile::tempdir()?;
    let server = FakeServer::start(vec![Canned {
        request: "PUT /v1/operator/snapshot",
        status: 200,
        body: String::new(),
    }])?;
    std::fs::write(folder.path().join("state.snap"), checkpoint())?;
    let arguments = [
        "operator",
        "snapshot",
        "restore",
        "-force",
        "-without-tokens",
    ];
    let rest = ["-address", &server.address, "state.snap"];
    let restored = drover(folder.path(), &[&arguments[..], &rest].concat());
    assert!(restored.status.success(), "{}", stderr(&restored));
    let asked = server.asked();
    let wanted = "PUT /v1/operator/snapshot?force=true&without_tokens=true";
    assert!(asked[0].starts_with(wanted), "{}", asked[0]);
    Ok(())
}

#[test]
fn a_restore_sends_the_file_and_says_what_follows() -> Result {
    let folder = tempfile::tempdir()?;
    let server = FakeServer::start(vec![Canned {
        request: "PUT /v1/operator/snapshot",
        status: 200,
        body: String::new(),
    }])?;
    let bytes = checkpoint();
    std::fs::write(folder.path().join("state.snap"), &bytes)?;
    let arguments = ["operator", "snapshot", "restore", "state.snap", "-address"];
    let restored = drover(
        folder.path(),
        &[&arguments[..], &[&server.address]].concat(),
    );
    assert!(restored.status.success(), "{}", stderr(&restored));
    assert_eq!(stdout(&restored), "Snapshot restored\n");
    let notes = stderr(&restored);
    for wanted in [
        "sending state.snap",
        "index 9",
        "drover node status",
        "join token",
    ] {
        assert!(notes.contains(wanted), "{notes}");
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    let body = asked[0].split_once('\n').map(|(_, body)| body);
    assert_eq!(body, Some(String::from_utf8_lossy(&bytes).as_ref()));
    Ok(())
}
