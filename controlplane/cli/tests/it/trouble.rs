//! What users are told when something is wrong between them and a server.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, drover_with, stderr, stdout};

/// The exit code and the words of `job status` at `address`.
fn told(address: &str, more: &[&str]) -> std::io::Result<(i32, String)> {
    let folder = tempfile::tempdir()?;
    let arguments = [&["job", "status", "-address", address], more].concat();
    let output = drover(folder.path(), &arguments);
    Ok((output.status.code().unwrap_or(-1), stderr(&output)))
}

fn refused(status: u16, words: &str) -> std::io::Result<(i32, String)> {
    let server = FakeServer::start(vec![Canned {
        request: "GET /v1/jobs",
        status,
        body: words.to_owned(),
    }])?;
    told(&server.address, &[])
}

/// A server that answers `answer` to whatever comes.
fn answering(answer: &'static [u8]) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut some = [0; 1024];
            let _ = stream.read(&mut some);
            let _ = stream.write_all(answer);
        }
    });
    Ok(address)
}

#[test]
fn nobody_at_the_address() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    drop(listener);
    let (code, words) = told(&address, &[])?;
    assert_eq!(code, 1);
    assert!(
        words.contains(&format!("cannot reach a server at {address}")),
        "{words}"
    );
    assert!(words.contains("-address or DROVER_ADDR"), "{words}");
    Ok(())
}

#[test]
fn an_address_that_is_none() -> std::io::Result<()> {
    let (code, words) = told("ftp://x", &[])?;
    assert_eq!(code, 1);
    assert!(words.contains("hint: for example: http://"), "{words}");
    Ok(())
}

#[test]
fn https_to_a_plain_server() -> std::io::Result<()> {
    let address = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
    let (code, words) = told(&format!("https://{address}"), &["-tls-skip-verify"])?;
    assert_eq!(code, 1);
    assert!(words.contains("cannot speak TLS with https://"), "{words}");
    assert!(words.contains("the address with http://"), "{words}");
    Ok(())
}

#[test]
fn plain_http_to_an_https_server() -> std::io::Result<()> {
    let (code, words) = refused(400, "Client sent an HTTP request to an HTTPS server.")?;
    assert_eq!(code, 1);
    assert!(words.contains("the address with https://"), "{words}");
    Ok(())
}

#[test]
fn no_leader_and_no_token() -> std::io::Result<()> {
    let (code, words) = refused(500, "No cluster leader")?;
    assert_eq!(code, 1);
    assert!(words.contains("a majority of the servers"), "{words}");
    let (code, words) = refused(403, "Permission denied")?;
    assert_eq!(code, 1);
    assert!(words.contains("-token or DROVER_TOKEN"), "{words}");
    Ok(())
}

#[test]
fn something_that_is_no_control_plane() -> std::io::Result<()> {
    let (code, words) = refused(200, "<html>hello</html>")?;
    assert_eq!(code, 1);
    assert!(words.contains("HTTP port"), "{words}");
    Ok(())
}

#[test]
fn a_template_and_half_a_pair_of_files() -> std::io::Result<()> {
    let (code, words) = told("http://127.0.0.1:1", &["-t", "{{.ID}}"])?;
    assert_eq!(code, 1);
    assert!(words.contains("-json prints the whole answer"), "{words}");
    let (code, words) = told("https://127.0.0.1:1", &["-client-cert", "x.pem"])?;
    assert_eq!(code, 1);
    assert!(words.contains("they belong together"), "{words}");
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy().into_owned();
    let (code, words) = told("https://127.0.0.1:1", &["-ca-path", &path])?;
    assert_eq!(code, 1);
    assert!(words.contains(".pem, .crt or .cer"), "{words}");
    Ok(())
}

#[test]
fn a_variable_that_is_set_to_nothing_hides_no_other() -> std::io::Result<()> {
    let server = FakeServer::start(vec![Canned {
        request: "GET /v1/jobs",
        status: 200,
        body: "[]".to_owned(),
    }])?;
    let folder = tempfile::tempdir()?;
    let environment = [("DROVER_ADDR", ""), ("NOMAD_ADDR", server.address.as_str())];
    let output = drover_with(&environment, folder.path(), &["job", "status", "-json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "[]\n");
    Ok(())
}

#[test]
fn counts_are_kept_by_whoever_asks() -> std::io::Result<()> {
    let answer = json!({ "EvalID": "e8b7cf53-0000-4000-8000-000000000001", "Warnings": "" });
    let server = FakeServer::start(vec![Canned {
        request: "PUT /v1/jobs",
        status: 200,
        body: answer.to_string(),
    }])?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), crate::JOB)?;
    let address = server.address.as_str();
    let arguments = [
        "job",
        "run",
        "-detach",
        "-preserve-counts",
        "-address",
        address,
        "web.hcl",
    ];
    let output = drover(folder.path(), &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let asked = server.asked();
    assert!(asked[0].contains("\"PreserveCounts\":true"), "{asked:?}");
    Ok(())
}

/// Refusals whose words are those of Nomad's API: the command adds what to do.
#[test]
fn known_refusals_have_a_hint() -> std::io::Result<()> {
    for (status, words, hint) in [
        (400, "cannot find policy x", "acl policy list"),
        (400, "invalid path \"a b\"", "letters, digits and -_~/"),
        (
            400,
            "variables of namespace \"q\" would take 9 bytes: at most 8 are kept",
            "purge",
        ),
        (400, "root key in use, cannot delete", "-force"),
        (
            400,
            "active root key cannot be deleted - call rotate first",
            "rotate -now",
        ),
        (
            400,
            "ACL bootstrap already done (reset index: 7)",
            "acl-bootstrap-reset",
        ),
        (
            503,
            "the keyring is not available on this server: KEK x is missing",
            "-address",
        ),
    ] {
        let (code, text) = refused(status, words)?;
        assert_eq!(code, 1);
        let (error, found) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        assert!(
            error.contains(words) && found.contains(hint),
            "{words}: {text}"
        );
    }
    Ok(())
}

/// A stream whose token was deleted: no hint may lead to certificates.
#[test]
fn stream_that_a_server_breaks_off_is_named() -> std::io::Result<()> {
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let address = answering(answer)?;
    let folder = tempfile::tempdir()?;
    let arguments = ["operator", "api", "/v1/x", "-address", &address];
    let output = drover(folder.path(), &arguments);
    assert_eq!(stdout(&output), "abc");
    let text = stderr(&output);
    assert!(text.contains("broke its answer off"), "{text}");
    assert!(text.contains("hint: a token that was deleted"), "{text}");
    Ok(())
}
