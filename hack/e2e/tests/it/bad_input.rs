//! What must not crash a server: nonsense in every place where somebody can put it.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use hack_cluster::{Cluster, Ledger, Settings};
use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};

/// The largest body that a server takes unless its configuration says otherwise.
const BODY_BYTES_MAX: usize = 8 << 20;
const SOCKET_MAX: Duration = Duration::from_secs(5);

/// A refused write: its status and words.
async fn refusal(client: &Client, path: &str, body: Vec<u8>) -> anyhow::Result<(u16, String)> {
    let answer = client
        .put_bytes::<Value>(path, &Query::new(), body.into())
        .await;
    match answer {
        Err(ClientError::Status { code, message }) => Ok((code, message)),
        Err(error) => Err(error.into()),
        Ok(answer) => anyhow::bail!("{path} accepted nonsense: {}", answer.value),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_make_no_sense_are_refused_with_a_reason() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(1)).await?;
    let client = cluster.client(0)?;
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let hcl = |text: &str| json!({ "JobHCL": text }).to_string();
    let nested = format!("job \"a\" {{ meta {{ k = {} }} }}", "[".repeat(20_000));
    let cases = [
        ("/v1/jobs", "{\"Job\": {", "EOF"),
        ("/v1/jobs", "\u{0}\u{1}\u{2}", "expected value"),
        ("/v1/jobs", "{\"Job\": 7}", "invalid type"),
        ("/v1/jobs", "{}", "Job must be specified"),
        ("/v1/jobs", "{\"Job\": {\"ID\": \"a b\"}}", ""),
        ("/v1/jobs", &deep, ""),
        ("/v1/jobs/parse", &hcl("job \"a\" {"), ""),
        (
            "/v1/jobs/parse",
            &hcl("job \"a\" { group \"g\" { count = \"many\" } }"),
            "",
        ),
        ("/v1/jobs/parse", &hcl(&nested), ""),
        ("/v1/jobs/parse", "{\"JobHCL\": 7}", "invalid type"),
    ];
    for (path, body, words) in cases {
        let (code, message) = refusal(&client, path, body.as_bytes().to_vec()).await?;
        assert_eq!(code, 400, "{path} {message}");
        assert!(!message.is_empty() && message.contains(words), "{message}");
    }
    let none = cluster.jobs(0).await?;
    assert!(none.is_empty(), "nothing was changed: {none:?}");
    cluster.must_run()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_refused() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(1)).await?;
    // By hand: the server answers while the client still sends.
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.ports(0).http))?;
    stream.set_read_timeout(Some(SOCKET_MAX))?;
    stream.set_write_timeout(Some(SOCKET_MAX))?;
    let length = BODY_BYTES_MAX + 1;
    let head =
        format!("PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    // The connection may be closed before all of it is sent.
    let _ = stream.write_all(&vec![b' '; length]);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 413");
    // One byte less is read, and refused for what it is.
    let (code, _) = refusal(&cluster.client(0)?, "/v1/jobs", vec![b' '; BODY_BYTES_MAX]).await?;
    assert_eq!(code, 400);
    cluster.must_run()
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_the_ports_changes_nothing() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let mut ledger = Ledger::default();
    ledger.register(&cluster.client(0)?, "before").await?;
    let leader = cluster.leader().await?;
    for number in 0..3 {
        let ports = cluster.ports(number);
        datagrams(ports.quic)?;
        for garbage in [
            &b"\x00\xff\x00\xff\r\n\r\n"[..],
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /v1/jobs?index=-1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /v1/job/%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ] {
            segments(ports.http, garbage)?;
        }
    }
    ledger.register(&cluster.client(1)?, "after").await?;
    assert_eq!(cluster.leader().await?, leader, "nobody was unseated");
    cluster.must_run()?;
    cluster.must_hold(&ledger).await
}

/// Datagrams that begin like QUIC and go on like nothing: a linear congruence, for repeatability.
fn datagrams(port: u16) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut state = 1_u32;
    for length in (0..1500).step_by(7) {
        let mut datagram: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            })
            .collect();
        if length > 5 && length % 2 == 0 {
            // A long header of version 1 (RFC 9000, section 17.2).
            datagram[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        }
        socket.send_to(&datagram, ("127.0.0.1", port))?;
    }
    Ok(())
}

/// Sends bytes over TCP and reads until the other side closes or has nothing more to say.
fn segments(port: u16, bytes: &[u8]) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(SOCKET_MAX))?;
    stream.write_all(bytes)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // A reset is an answer too.
    let _ = stream.read_to_end(&mut Vec::new());
    Ok(())
}
