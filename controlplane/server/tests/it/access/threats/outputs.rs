//! Secrets are in no log line, panic, answer that refuses, or metric: they are planted, and all
//! outputs of a process are searched for them. Files are searched by `keyring` and `login`.
//!
//! The test starts itself once more as a process of its own, whose standard error holds the log at
//! the level `trace` and the panics.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use controlplane_keyring::{FileKeks, Kek, KekStore as _, Keyring};
use controlplane_server::config::LogConfig;
use controlplane_server::logging::Logging;
use hack_testkit::{CLIENT_ID, Provider, now_s};
use protocol_access::method::MethodSecrets;
use protocol_access::oidc::PendingLogin;
use protocol_api::acl;
use protocol_client::{Client, ClientError, Query};
use protocol_model::{AllocId, SecretText, UnixNanos};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fake_node::FakeNode;
use crate::identities::{ask, forwarded_with, variable};
use crate::login::setup::{NONCE, REDIRECT, provider};
use crate::world::World;

/// Says to the process that is started below that it is that process: where it writes the secrets.
const PLANTED: &str = "DROVER_TEST_PLANTED";
const NAME: &str = "access::threats::outputs::planted_secrets_are_in_no_output";
/// A text that the process writes last, so that a search of nothing is noticed.
const END: &str = "the end of the scene";

#[test]
fn planted_secrets_are_in_no_output() {
    if let Some(path) = std::env::var_os(PLANTED) {
        return scene(Path::new(&path));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("planted");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let child = child.args(["--exact", NAME, "--nocapture"]);
    let child = child.env(PLANTED, &path).env("DROVER_LOG", "trace");
    let output = child.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{}", tail(&said));
    for wanted in [
        END,
        "TRACE",
        "audit",
        "panicked at",
        "MethodSecrets",
        "login",
    ] {
        assert!(
            said.contains(wanted),
            "{wanted} is missing: {}",
            tail(&said)
        );
    }
    for caller in ["caller=token:", "caller=alloc:"] {
        let refusal = ["audit: request", "status=403", caller];
        let mut lines = said.lines();
        let is_audited = lines.any(|line| refusal.iter().all(|it| line.contains(it)));
        assert!(is_audited, "no refusal has {caller}: {}", tail(&said));
    }
    let planted = std::fs::read_to_string(&path).expect("the secrets");
    assert!(planted.lines().count() > 10, "{planted}");
    for line in planted.lines() {
        let (name, secret) = line.split_once('\t').expect("a name and a secret");
        if let Some(at) = said.find(secret) {
            let line = said[..at].matches('\n').count();
            let line = said.lines().nth(line).unwrap_or_default();
            panic!("{name} is in the output: {line}");
        }
    }
}

/// The end of an output without its lines of the log.
fn tail(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("20"));
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Secrets by their names.
#[derive(Default)]
struct Planted(Vec<(&'static str, String)>);

impl Planted {
    fn add(&mut self, name: &'static str, secret: &str) -> String {
        assert!(secret.len() > 8, "{name} is too short to be searched for");
        self.0.push((name, secret.to_owned()));
        secret.to_owned()
    }

    /// Bytes in every form that an output could show them in.
    fn add_bytes(&mut self, name: &'static str, bytes: &[u8]) {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let numbers = format!("{:?}", &bytes[..8]);
        self.add(name, &hex);
        self.add(name, &hex.to_uppercase());
        self.add(name, &STANDARD_NO_PAD.encode(&bytes[..30]));
        self.add(name, &URL_SAFE_NO_PAD.encode(&bytes[..30]));
        self.add(name, numbers.trim_end_matches(']'));
    }

    /// An answer that is not meant to show a secret.
    fn is_not_in(&self, answer: &str) {
        for (name, secret) in &self.0 {
            assert!(!answer.contains(secret), "{name} is in an answer: {answer}");
        }
    }

    fn write(&self, path: &Path) {
        let lines = self.0.iter();
        let lines: String = lines.map(|(name, it)| format!("{name}\t{it}\n")).collect();
        std::fs::write(path, lines).expect("is written");
    }
}

/// All that is done with secrets, in a process that logs everything.
fn scene(planted_file: &Path) {
    let log = LogConfig {
        level: tracing::Level::TRACE,
        json: false,
    };
    let _logging = Logging::start(log).expect("the log");
    let mut planted = Planted::default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(requests(&mut planted));
    panics(&mut planted);
    planted.write(planted_file);
    let mut out = std::io::stdout();
    writeln!(out, "{END}").expect("the end is written");
}

async fn put(client: &Client, path: &str, body: Value) -> Result<Value, ClientError> {
    Ok(client.put(path, &Query::new(), &body).await?.value)
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().expect("a text").to_owned()
}

async fn requests(planted: &mut Planted) {
    let provider = provider();
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        let keks = FileKeks::new(config.kek_dir.clone());
        keks.store(&Kek::generate()).expect("it is stored");
    })
    .await;
    let kek = FileKeks::new(world.data_dir().join("keyring")).load();
    let kek = kek.expect("the directory is listed").keks.remove(0);
    planted.add_bytes("the KEK", kek.reveal());

    let first = planted.add("the bootstrap secret", &Uuid::new_v4().to_string());
    let body = json!({ "BootstrapSecret": first });
    let made = put(&world.client, "/v1/acl/bootstrap", body).await;
    assert_eq!(text(&made.expect("bootstrapped"), "SecretID"), first);
    let manager = world.client.clone().with_token(Some(first));
    methods(&manager, &provider, planted).await;
    tokens(&world, &manager, planted).await;
    logins(&world, &provider, planted).await;
    refusals(&world, &manager, planted).await;
    variables(&world, &manager, planted).await;
    outputs(&manager, planted).await;
}

async fn methods(manager: &Client, provider: &Provider, planted: &mut Planted) {
    let client_secret = planted.add("the client secret", hack_testkit::CLIENT_SECRET);
    let policy = json!({ "Name": "readers", "Rules": "namespace \"*\" { policy = \"read\" }" });
    let put = async |path: &str, body: Value| put(manager, path, body).await.expect("written");
    put("/v1/acl/policy/readers", policy).await;
    for (name, kind, source) in [
        ("ci", "JWT", json!({ "JWKSURL": provider.jwks_url() })),
        (
            "sso",
            "OIDC",
            json!({
                "OIDCDiscoveryURL": provider.issuer(), "OIDCClientID": CLIENT_ID,
                "OIDCClientSecret": client_secret, "AllowedRedirectURIs": [REDIRECT],
            }),
        ),
    ] {
        let mut config = source;
        config["SigningAlgs"] = json!(["ES256"]);
        config["BoundAudiences"] = json!([CLIENT_ID]);
        config["VerboseLogging"] = json!(true);
        let method = json!({ "Name": name, "Type": kind, "TokenLocality": "local",
            "MaxTokenTTL": "10m", "Config": config });
        let shown = put("/v1/acl/auth-method", method).await;
        planted.is_not_in(&shown.to_string());
        let rule = json!({ "AuthMethod": name, "BindType": "policy", "BindName": "readers" });
        put("/v1/acl/binding-rule", rule).await;
    }
}

/// Tokens that are made, shown, exchanged and used in the wrong place.
async fn tokens(world: &World, manager: &Client, planted: &mut Planted) {
    let secret = planted.add("a token's secret", &Uuid::new_v4().to_string());
    let token = json!({ "AccessorID": Uuid::new_v4().to_string(), "SecretID": secret,
        "Name": "planted", "Type": "client", "Policies": ["readers"] });
    let made = put(manager, "/v1/acl/token", token).await.expect("made");
    assert_eq!(text(&made, "SecretID"), secret);
    let holder = world.client.clone().with_token(Some(secret.clone()));
    let own = holder
        .get::<Value>("/v1/acl/token/self", &Query::new())
        .await;
    assert_eq!(text(&own.expect("its own").value, "SecretID"), secret);
    let whoami = holder.get::<Value>("/v1/acl/whoami", &Query::new()).await;
    planted.is_not_in(&whoami.expect("it is told").value.to_string());
    let once = put(&holder, "/v1/acl/token/onetime", json!({})).await;
    let once = text(&once.expect("made")["OneTimeToken"], "OneTimeSecretID");
    let once = planted.add("a one-time secret", &once);
    let body = json!({ "OneTimeSecretID": once });
    let path = "/v1/acl/token/onetime/exchange";
    put(&world.client, path, body.clone()).await.expect("used");
    let again = put(&world.client, path, body).await.expect_err("used up");
    planted.is_not_in(&again.to_string());
    // A secret in the place of an accessor.
    let path = format!("/v1/acl/token/{secret}");
    let none = Query::new();
    manager.get::<Value>(&path, &none).await.expect_err("none");
    manager
        .delete::<Value>(&path, &none)
        .await
        .expect_err("none");
    let policy = json!({ "Name": "own", "Rules": "" });
    let refused = put(&holder, "/v1/acl/policy/own", policy).await;
    refused.expect_err("it may not write policies");
    let accessor = text(&made, "AccessorID");
    let path = format!("/v1/acl/token/{accessor}");
    manager
        .delete::<Value>(&path, &none)
        .await
        .expect("deleted");
    holder
        .get::<Value>("/v1/jobs", &none)
        .await
        .expect_err("gone");
}

async fn logins(world: &World, provider: &Provider, planted: &mut Planted) {
    let anyone = &world.client;
    for (audience, name) in [(CLIENT_ID, "a login's token"), ("other", "a refused one")] {
        let claims = json!({ "sub": "robot", "aud": audience, "exp": now_s() + 600,
            "email": "planted-claim@example.com" });
        let token = planted.add(name, &provider.token(claims));
        let body = json!({ "AuthMethodName": "ci", "LoginToken": token });
        match put(anyone, "/v1/acl/login", body).await {
            Ok(made) => drop(planted.add("a login's secret", &text(&made, "SecretID"))),
            Err(refused) => planted.is_not_in(&refused.to_string()),
        }
    }
    planted.add("a claim", "planted-claim@example.com");
    let nonce = planted.add("the client's nonce", NONCE);
    let body = json!({ "AuthMethodName": "sso", "RedirectURI": REDIRECT, "ClientNonce": nonce });
    let begun = put(anyone, "/v1/acl/oidc/auth-url", body).await;
    let url = text(&begun.expect("begun"), "AuthURL");
    let back = provider.log_in(&url);
    let code = planted.add("the provider's code", &back.code);
    let mut body = json!({ "AuthMethodName": "sso", "ClientNonce": nonce, "State": back.state,
        "RedirectURI": REDIRECT, "Code": code, "Iss": back.iss });
    let made = put(anyone, "/v1/acl/oidc/complete-auth", body.clone()).await;
    planted.add(
        "an OIDC login's secret",
        &text(&made.expect("made"), "SecretID"),
    );
    body["ClientNonce"] = json!("another nonce");
    let refused = put(anyone, "/v1/acl/oidc/complete-auth", body).await;
    planted.is_not_in(&refused.expect_err("another nonce").to_string());
}

/// Requests with a secret whose rest is wrong, and secrets that are no valid ones.
async fn refusals(world: &World, manager: &Client, planted: &mut Planted) {
    let wrong = planted.add("a wrong secret", "planted-wrong-secret-0123456789");
    let unknown = planted.add("an unknown secret", &Uuid::new_v4().to_string());
    for secret in [&wrong, &unknown] {
        let client = world.client.clone().with_token(Some(secret.clone()));
        for path in ["/v1/jobs", "/v1/acl/token/self", "/v1/acl/whoami"] {
            match client.get::<Value>(path, &Query::new()).await {
                Ok(answer) => planted.is_not_in(&answer.value.to_string()),
                Err(refused) => planted.is_not_in(&refused.to_string()),
            }
        }
    }
    for (path, body) in [
        ("/v1/acl/bootstrap", json!({ "BootstrapSecret": wrong })),
        ("/v1/acl/bootstrap", json!({ "BootstrapSecret": [wrong] })),
        ("/v1/acl/token", json!({ "SecretID": wrong })),
        (
            "/v1/acl/token",
            json!({ "SecretID": { wrong.as_str(): 1 } }),
        ),
        ("/v1/acl/token", json!({ "SecretID": wrong, "Policies": 7 })),
        ("/v1/acl/login", json!({ "LoginToken": wrong })),
        ("/v1/acl/login", json!({ "LoginToken": [wrong] })),
        (
            "/v1/acl/token/onetime/exchange",
            json!({ "OneTimeSecretID": wrong }),
        ),
        (
            "/v1/acl/auth-method",
            json!({ "Name": "bad", "Type": "OIDC", "Config": { "OIDCClientSecret": [wrong] } }),
        ),
        (
            "/v1/acl/auth-method",
            json!({ "Name": "bad", "Type": "x", "Config": { "OIDCClientSecret": wrong } }),
        ),
    ] {
        let refused = put(manager, path, body.clone()).await;
        planted.is_not_in(&refused.expect_err(&body.to_string()).to_string());
    }
    let truncated = format!("{{\"SecretID\": \"{wrong}\", \"Name\": ");
    let head = "PUT /v1/acl/token HTTP/1.1";
    let (_, _, answer) = world.raw(head, &truncated).await;
    planted.is_not_in(&answer);
}

/// Items of variables, and the tokens of a task, where they are used well and where they are not.
async fn variables(world: &World, manager: &Client, planted: &mut Planted) {
    let word = planted.add("an item of a variable", "planted-item-4711");
    let none = Query::new();
    let path = "/v1/var/nomad/jobs/web";
    let body = json!({ "Namespace": "default", "Path": "nomad/jobs/web", "Items": { "w": word } });
    let written = put(manager, path, body.clone()).await.expect("written");
    assert_eq!(written["Items"]["w"], word);
    let (node, alloc) = crate::identities::placed(world).await;
    let token = crate::identities::token(&node, alloc, "default").await;
    for part in token.split('.').skip(1) {
        planted.add("a part of a workload token", part);
    }
    through_the_node((&node, alloc), &token, &body.to_string()).await;
    let task = world.client.clone().with_token(Some(token.clone()));
    let read = task.get::<Value>(path, &none).await.expect("its own");
    assert_eq!(read.value["Items"]["w"], word);
    let whoami = task.get::<Value>("/v1/acl/whoami", &none).await;
    planted.is_not_in(&whoami.expect("it is told").value.to_string());
    let policy = json!({ "Name": "own", "Rules": "" });
    let refused = put(&task, "/v1/acl/policy/own", policy).await;
    planted.is_not_in(&refused.expect_err("no right").to_string());
    let bent = world.client.clone().with_token(Some(format!("{token}A")));
    for client in [&task, &bent, &world.client] {
        let refused = put(client, path, body.clone()).await;
        planted.is_not_in(&refused.expect_err("no right").to_string());
        let refused = client.get::<Value>("/v1/jobs", &none).await;
        planted.is_not_in(&refused.expect_err("no right").to_string());
    }
    let refused = bent.get::<Value>(path, &none).await;
    planted.is_not_in(&refused.expect_err("it is bent").to_string());
    for wrong in [
        json!({ "Namespace": "default", "Path": "nomad/jobs/web", "Items": { "w": [word] } }),
        json!({ "Path": "nomad/jobs/web", "Items": { "w": word.repeat(5000) } }),
        json!({ "Path": "nomad/jobs/web", "Items": word }),
    ] {
        let refused = put(manager, path, wrong).await;
        planted.is_not_in(&refused.expect_err("a mistake").to_string());
    }
    for path in ["/v1/vars", "/v1/vars?prefix=nomad"] {
        let listed = manager.get::<Value>(path, &none).await;
        planted.is_not_in(&listed.expect("a list").value.to_string());
    }
}

/// The task's variable and token, on the ways that its node has: forwarded requests, a template.
async fn through_the_node((node, alloc): (&FakeNode, AllocId), token: &str, body: &str) {
    let path = "/v1/var/nomad/jobs/web";
    for (method, body, expected) in [("GET", "", 200), ("PUT", body, 403)] {
        let request = (method, path, body);
        let (status, answer, _) = forwarded_with(node, alloc, token, request).await;
        assert_eq!(status, expected, "{method}: {answer}");
    }
    let reply = ask(node, 0, variable(alloc, "server")).await;
    assert!(matches!(reply, Reply::Template(_)), "{reply:?}");
}

/// Metrics, and what the agent says of itself.
async fn outputs(manager: &Client, planted: &Planted) {
    for (path, format) in [
        ("/v1/metrics", ""),
        ("/v1/metrics", "prometheus"),
        ("/v1/agent/self", ""),
        ("/v1/agent/health", ""),
        ("/v1/agent/members", ""),
        ("/v1/acl/tokens", ""),
        ("/v1/acl/auth-methods", ""),
        ("/v1/acl/auth-method/sso", ""),
        ("/v1/operator/raft/configuration", ""),
        ("/v1/jobs", ""),
    ] {
        let query = match format {
            "" => Query::new(),
            format => Query::new().with("format", format),
        };
        let answer = manager.text(path, &query).await;
        planted.is_not_in(&answer.expect(path).value);
    }
}

/// Values that hold secrets, in panics.
fn panics(planted: &mut Planted) {
    let bytes: Vec<u8> = (100..132).collect();
    planted.add_bytes("a KEK between servers", &bytes);
    let kek = bytes::Bytes::from(bytes.clone());
    let held = planted.add("a secret in a value", "planted-held-secret");
    let secret = SecretText::new(held.clone());
    let keyring = Keyring::default();
    keyring.add_kek(Kek::from_slice(&bytes).expect("a KEK"));
    let address = "http://127.0.0.1:1".parse().expect("an address");
    let client = Client::new(address, &protocol_client::TlsFiles::default());
    let client = client.expect("a client").with_token(Some(held));
    let values: Vec<Box<dyn std::fmt::Debug>> = vec![
        Box::new(v1::KekReply {
            keks: vec![kek.clone()],
            refused: String::new(),
        }),
        Box::new(v1::KekStore {
            kek,
            ..v1::KekStore::default()
        }),
        Box::new(keyring),
        Box::new(client),
        Box::new(acl::BootstrapRequest {
            bootstrap_secret: secret.clone(),
        }),
        Box::new(acl::TokenRequest {
            secret_id: secret.clone(),
            ..acl::TokenRequest::default()
        }),
        Box::new(acl::Token {
            secret_id: secret.clone(),
            ..acl::Token::default()
        }),
        Box::new(acl::OneTimeToken {
            one_time_secret_id: secret.clone(),
            ..acl::OneTimeToken::default()
        }),
        Box::new(acl::ExchangeRequest {
            one_time_secret_id: secret.clone(),
        }),
        Box::new(acl::LoginRequest {
            login_token: secret.clone(),
            ..acl::LoginRequest::default()
        }),
        Box::new(acl::CompleteAuthRequest {
            client_nonce: secret.clone(),
            code: secret.clone(),
            ..acl::CompleteAuthRequest::default()
        }),
        Box::new(MethodSecrets {
            client_secret: secret.clone(),
            ..MethodSecrets::default()
        }),
        Box::new(pending(&secret)),
    ];
    for value in values {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            panic!("a value in a panic: {value:?}");
        }));
        panicked.expect_err("it panics");
    }
}

fn pending(verifier: &SecretText) -> PendingLogin {
    PendingLogin {
        method: "sso".to_owned(),
        modify_index: 1,
        redirect_uri: REDIRECT.to_owned(),
        nonce_digest: [0; 32],
        verifier: Some(verifier.reveal().to_owned()),
        expires: UnixNanos::ZERO,
    }
}

/// Whether a type implements `Debug`: an inherent constant is found before that of a trait.
struct Shows<T>(std::marker::PhantomData<T>);

trait Hides {
    const SHOWN: bool = false;
}

impl<T> Hides for Shows<T> {}

impl<T: std::fmt::Debug> Shows<T> {
    const SHOWN: bool = true;
}

#[test]
fn key_material_has_no_debug() {
    const { assert!(Shows::<Keyring>::SHOWN, "the probe finds an implementation") };
    const { assert!(!Shows::<Kek>::SHOWN) };
}
