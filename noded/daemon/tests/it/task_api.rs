//! Requests of tasks on the node: tokens that it refuses alone, floods, lost servers.

use std::path::PathBuf;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use protocol_access::identity::OWN_AUDIENCE;
use protocol_access::jwt::{SigningAlgorithm, SigningInput};
use protocol_access::published_keys::{PublishedKey, key_set};
use protocol_model::{AllocId, ClientStatus};
use protocol_wire::QUERIES_MIN;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::fake_server::PATIENCE;
use crate::jobs::{alloc, eventually, is, job, sh};
use crate::scene::{Scene, can_run};

const KEY: &str = "11111111-2222-4333-8444-555555555555";
const OTHER_KEY: &str = "11111111-2222-4333-8444-666666666666";
/// A secret that the server takes.
const SECRET: &str = "11111111-2222-3333-4444-555555555555";
const REFUSED: (u16, &str) = (403, "Forbidden");

/// A node whose server has published a key, and a task with a socket that anybody may connect to.
async fn with_task() -> (Scene, PathBuf) {
    let mut scene = Scene::new();
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let set = key_set([PublishedKey {
        id: KEY,
        ed25519: key.public_key().as_ref(),
        rsa: &[],
    }]);
    scene.server.publish(serde_json::from_slice(&set).unwrap());
    let file = scene.data().join("node/keys.json");
    eventually(|| std::fs::read_to_string(&file).is_ok_and(|text| text.contains(KEY))).await;
    assert!(scene.stop());
    scene.configure("task_api {\n peers = \"any\"\n}");
    scene.start();
    let job = job("asks", "raw_exec", &sh("sleep 1000"), json!({}));
    let alloc = alloc(&job, 300);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("it runs", |known| is(known, id, ClientStatus::Running))
        .await;
    let socket = scene.alloc_path(id).join("main/secrets/api.sock");
    (scene, socket)
}

/// A token of this allocation.
fn token(kid: &str, alloc: AllocId, audience: &str, exp: u64) -> String {
    let claims = json!({
        "nomad_namespace": "default", "nomad_job_id": "asks", "nomad_task": "main",
        "nomad_allocation_id": alloc.to_string(), "sub": "global:default:asks:group:main:default",
        "aud": audience, "iat": 1, "nbf": 1, "exp": exp, "jti": OTHER_KEY,
    });
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let input = SigningInput::new(SigningAlgorithm::EdDsa, kid, &claims);
    let signature = key.sign(input.as_bytes());
    input.with_signature(signature.as_ref())
}

/// The status, the text and the head of an answer, on a connection of its own.
async fn ask(socket: &PathBuf, method: &str, target: &str, token: &str) -> (u16, String, String) {
    let asked = async {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let token = match token {
            "" => String::new(),
            token => format!("X-Nomad-Token: {token}\r\n"),
        };
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    // An answer in chunks has one.
    let body = match body.split_once("\r\n") {
        Some((_, rest)) => rest.split("\r\n").next().unwrap(),
        None => body,
    };
    (status, body.to_owned(), head.to_lowercase())
}

async fn get(socket: &PathBuf, token: &str) -> (u16, String) {
    let (status, text, _) = ask(socket, "GET", "/v1/jobs", token).await;
    (status, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_no_server_takes_are_refused_without_a_forward() {
    if !can_run() {
        return;
    }
    let (scene, socket) = with_task().await;
    let job = job("short", "raw_exec", &sh("exit 0"), json!({}));
    let short = alloc(&job, 301);
    let ended = short.id;
    scene.server.want(short, &job);
    scene
        .server
        .until("it ends", |known| is(known, ended, ClientStatus::Failed))
        .await;
    let (own, elsewhere) = (AllocId::from_u128(300), AllocId::from_u128(900));
    let never = u64::MAX;
    let forged = token(KEY, own, OWN_AUDIENCE, never).replace('.', ".A");
    let refused = [
        forged,
        token(KEY, own, "vault", never),
        "made-up".to_owned(),
    ];
    for token in &refused {
        let (status, text) = get(&socket, token).await;
        assert_eq!((status, text.as_str()), REFUSED, "{token}");
    }
    assert_eq!(get(&socket, "").await, (401, "Unauthorized".to_owned()));
    assert_eq!(scene.server.known().requests.len(), 0);
    // The allocation retires a moment after its last report.
    let dead = token(KEY, ended, OWN_AUDIENCE, never);
    let refusal = async {
        while get(&socket, &dead).await.0 != 403 {
            tokio::time::sleep(crate::jobs::PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, refusal).await.unwrap();
    let before = scene.server.known().requests.len();
    assert_eq!(get(&socket, &dead).await.0, 403);
    assert_eq!(scene.server.known().requests.len(), before);
    // Servers know of other keys, of allocations of other nodes, and of the time.
    for token in [
        token(KEY, own, OWN_AUDIENCE, never),
        token(KEY, own, OWN_AUDIENCE, 1_000),
        token(OTHER_KEY, own, OWN_AUDIENCE, never),
        token(KEY, elsewhere, OWN_AUDIENCE, never),
        SECRET.to_owned(),
    ] {
        let answer = get(&socket, &token).await;
        assert_eq!(answer, (200, "GET /v1/jobs".to_owned()), "{token}");
    }
    assert_eq!(scene.server.known().requests.len(), before + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_connection_share_a_stream_and_short_answers_one_write() {
    if !can_run() {
        return;
    }
    let (scene, socket) = with_task().await;
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let mut answers = Vec::new();
    for (method, target) in [("GET", "/sized"), ("HEAD", "/sized"), ("GET", "/long")] {
        let request = format!("{method} {target} HTTP/1.1\r\nX-Nomad-Token: {SECRET}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let is_whole = |answer: &[u8]| match target {
            "/long" => answer.ends_with(b"0\r\n\r\n"),
            _ => method == "HEAD" || answer.ends_with(b"GET /sized"),
        };
        let mut reads = 0;
        while reads == 0 || !is_whole(&answer) {
            let mut buffer = [0; 4096];
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await;
            let count = read.expect("in time").unwrap();
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..count]);
            reads += 1;
        }
        answers.push((String::from_utf8(answer).unwrap().to_lowercase(), reads));
    }
    let [(get, reads), (head, _), (long, _)] = answers.try_into().unwrap();
    assert_eq!(reads, 1, "{get}");
    assert!(get.contains("content-length: 10\r\n"), "{get}");
    assert!(!get.contains("chunked"), "{get}");
    assert!(
        head.contains("content-length: 11\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert!(long.contains("chunked"), "{long}");
    assert_eq!(scene.server.known().task_streams, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_unknown_tokens_reaches_the_servers_within_its_budget() {
    if !can_run() {
        return;
    }
    let (scene, socket) = with_task().await;
    let own = token(KEY, AllocId::from_u128(300), OWN_AUDIENCE, u64::MAX);
    // A token that is new while the failures are spent is not verified.
    assert_eq!(get(&socket, SECRET).await.0, 200);
    assert_eq!(get(&socket, &own).await.0, 200);
    let start = std::time::Instant::now();
    let mut statuses = std::collections::BTreeMap::new();
    for number in 0..150_u32 {
        let secret = format!("00000000-2222-3333-4444-{number:012}");
        let forged = format!("{}{number}", own.replace('.', ".A"));
        for token in [secret, forged] {
            *statuses.entry(get(&socket, &token).await.0).or_insert(0) += 1;
        }
        // Known tokens, and those that the node verifies, pass all the same.
        if number % 50 == 49 {
            assert_eq!(get(&socket, SECRET).await.0, 200);
            assert_eq!(get(&socket, &own).await.0, 200);
        }
    }
    assert!(
        statuses.get(&429).is_some_and(|count| *count > 0),
        "{statuses:?}"
    );
    let known = scene.server.known();
    let rejected = known.requests.iter().filter(|request| {
        let mut headers = request.headers.iter();
        headers.any(|header| header.value.starts_with(b"0"))
    });
    let forged = known.requests.iter().filter(|request| {
        let mut headers = request.headers.iter();
        headers.any(|header| header.value.starts_with(b"ey") && header.value != own)
    });
    assert_eq!(forged.count(), 0);
    // 20 at once and 5 a second.
    let budget = 20 + 5 * (start.elapsed().as_secs() + 1);
    let rejected = u64::try_from(rejected.count()).unwrap();
    assert!(rejected <= budget, "{rejected} of at most {budget}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_get_is_asked_again_and_the_outcome_of_a_put_is_not_known() {
    if !can_run() {
        return;
    }
    let (scene, socket) = with_task().await;
    scene.server.answer_tasks(false);
    let [reads, writes] = ["GET", "PUT"].map(|method| {
        let socket = socket.clone();
        tokio::spawn(async move { ask(&socket, method, "/v1/jobs", SECRET).await })
    });
    scene
        .server
        .until("both are asked", |known| known.requests.len() == 2)
        .await;
    scene.server.answer_tasks(true);
    scene.server.cut();
    let (status, text, _) = reads.await.unwrap();
    assert_eq!((status, text.as_str()), (200, "GET /v1/jobs"));
    let (status, text, _) = writes.await.unwrap();
    assert_eq!(status, 502);
    let unknown = "the outcome is not known: the server was lost; look before retrying";
    assert_eq!(text, unknown);
    let methods = scene.server.known().requests.into_iter();
    let puts = methods.filter(|request| request.method == "PUT");
    assert_eq!(puts.count(), 1);
    // Between two sessions a request waits.
    scene.server.cut();
    let answer = get(&socket, SECRET).await;
    assert_eq!(answer, (200, "GET /v1/jobs".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_for_tasks_tokens_are_judged_and_good_ones_get_503() {
    if !can_run() {
        return;
    }
    let (scene, socket) = with_task().await;
    let own = token(KEY, AllocId::from_u128(300), OWN_AUDIENCE, u64::MAX);
    // A server of the release before, then none.
    for old in [true, false] {
        if old {
            let before = scene.server.known().hellos.len();
            scene.server.set_protocol_max(QUERIES_MIN - 1);
            scene.server.cut();
            scene
                .server
                .until("another session", |known| {
                    known.hellos.len() > before && known.synced.len() > before
                })
                .await;
        } else {
            scene.server.close();
        }
        let forwarded = scene.server.known().requests.len();
        for method in ["GET", "PUT"] {
            let (status, _, head) = ask(&socket, method, "/v1/jobs", &own).await;
            assert_eq!(status, 503, "{method} {old}");
            assert!(head.contains("retry-after: 1"), "{head}");
        }
        assert_eq!(get(&socket, "").await, (401, "Unauthorized".to_owned()));
        let forged = own.replace('.', ".A");
        assert_eq!(get(&socket, &forged).await, (403, "Forbidden".to_owned()));
        assert_eq!(scene.server.known().requests.len(), forwarded);
    }
}
