//! Secrets are in no file, log line, metric or snapshot: they are planted, taken along every way
//! that values and tokens have, and then all that real servers and a node write is searched.
//!
//! The exceptions: the KEK's own file, the secrets directory of a task (a tmpfs), and a file that
//! a template renders elsewhere because the job asks for it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::access::Shell;
use crate::running::{PATIENCE, has_root};
use crate::socket_client;

const MANAGER: &str = "5ec4e700-d15c-4a11-8b0b-1a1e57ab0001";
/// The name of the job, which has to be found: a search of nothing would find no secret either.
const JOB: &str = "carrier-of-secrets";
const WRITERS: &str = "namespace \"default\" {
  variables { path \"*\" { capabilities = [\"write\", \"list\"] } }
}";
const DEBUG: &str = "log_level = \"debug\"\n";

/// Asks the API with good and bad tokens, and prints statuses alone. Its text is in the job: no
/// secret is in it as a whole.
const TASK: &str = r#"
def ask(method, path, token, body=None):
    return Api().ask(method, path, token, body).status

own = "/v1/var/nomad/jobs/" + os.environ["NOMAD_JOB_ID"]
planted = '{"Items": {"word": "%s"}}' % ("planted-by-" + "the-task-81c5e7")
unknown = "planted-unknown-" + "token-5d20"
print("asked", ask("GET", own, token), ask("PUT", own, token, planted),
      ask("GET", own, token + "x"), ask("GET", own, unknown),
      ask("GET", "/v1/jobs?index=1&wait=1s", token), flush=True)
time.sleep(1000)
"#;

fn job() -> Value {
    let word = format!("{{{{ with nomadVar \"nomad/jobs/{JOB}\" }}}}{{{{ .word }}}}{{{{ end }}}}");
    json!({ "Job": {
        "ID": JOB, "Name": JOB, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "task", "Driver": "raw_exec",
                "Config": { "command": "/usr/bin/python3", "args": ["-c", socket_client::script(TASK)] },
                "Identity": { "Name": "default", "Env": true, "File": true },
                "Identities": [{
                    "Name": "other", "Audience": ["other.example"], "File": true, "Env": true,
                    "TTL": 3_600_000_000_000_u64,
                }],
                "Templates": [
                    { "EmbeddedTmpl": word, "DestPath": "secrets/word", "ChangeMode": "noop" },
                    { "EmbeddedTmpl": format!("WORD={word}\n"), "DestPath": "secrets/word.env",
                      "Envvars": true, "ChangeMode": "noop" },
                ],
                "Resources": { "CPU": 20, "MemoryMB": 64 },
            }],
        }],
    }})
}

/// Secrets by their names.
#[derive(Default)]
struct Planted(Vec<(String, Vec<u8>)>);

impl Planted {
    fn add(&mut self, name: &str, secret: &str) -> String {
        self.0.push((name.to_owned(), secret.as_bytes().to_vec()));
        secret.to_owned()
    }

    /// The KEK of a file: its text, and its bytes in every form that an output could show.
    fn add_kek(&mut self, file: &Path) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(file)?;
        let hex = text.split_whitespace().find(|word| word.len() == 64);
        let hex = hex.context("64 digits in the KEK's file")?;
        self.add("the KEK", hex);
        self.add("the KEK", &hex.to_uppercase());
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16);
        let bytes: Vec<u8> = (0..64).step_by(2).map(digit).collect::<Result<_, _>>()?;
        let numbers = format!("{:?}", &bytes[..8]);
        self.add("the KEK", numbers.trim_end_matches(']'));
        self.add("the KEK", &base64(&bytes[..30], b"+/"));
        self.add("the KEK", &base64(&bytes[..30], b"-_"));
        self.0.push(("the KEK".to_owned(), bytes));
        Ok(())
    }

    /// A JWT: all of it, and its signature alone.
    fn add_jwt(&mut self, name: &str, file: &Path) -> anyhow::Result<()> {
        let jwt = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let signature = jwt.rsplit('.').next().context("three parts")?;
        ensure!(signature.len() > 40, "a signature: {}", signature.len());
        self.add(name, signature);
        Ok(())
    }

    /// The name of a secret that is in `bytes`.
    fn found_in(&self, bytes: &[u8]) -> Option<&str> {
        let found = self.0.iter().find(|(_, secret)| holds(bytes, secret));
        found.map(|(name, _)| name.as_str())
    }
}

/// Base64 of three bytes at a time, with these two last digits.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    let digits: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .chain(*last)
        .collect();
    let mut text = String::new();
    for three in bytes.chunks_exact(3) {
        let number = three
            .iter()
            .fold(0, |number, byte| (number << 8) | usize::from(*byte));
        for shift in [18, 12, 6, 0] {
            text.push(char::from(digits[(number >> shift) & 63]));
        }
    }
    text
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    let first = wanted[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(wanted) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// A file's bytes, and behind them all that it holds compressed.
fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    // A log is longer than what was written to it.
    let written = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(written.map_or(0, |last| last + 1));
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let mut unpacked = Vec::new();
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(&magic)
            && let Ok(mut decoder) = zstd::stream::read::Decoder::new(&bytes[at..])
        {
            // A frame that is none ends with an error; its beginning is searched all the same.
            let _ = decoder.by_ref().take(1 << 26).read_to_end(&mut unpacked);
        }
    }
    bytes.extend(unpacked);
    Ok(bytes)
}

/// The regular files below a directory, but for those in directories of this name.
fn files(directory: &Path, without: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let (path, kind) = entry.map(|it| (it.path(), it.file_type()))?;
            let kind = kind?;
            if kind.is_dir() && path.file_name().is_none_or(|name| name != without) {
                directories.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Values that are put, read, listed, refused and locked.
async fn variables(
    cluster: &Cluster,
    shell: &Shell<'_>,
    planted: &mut Planted,
) -> anyhow::Result<()> {
    let value = planted.add("a variable's value", "planted-value-4f1d9c27");
    let key = planted.add("a variable's key", "planted_key_a81e");
    let own = format!("nomad/jobs/{JOB}");
    shell.works(&["var", "put", &own, &format!("word={value}")])?;
    shell.works(&["var", "put", "app/db", &format!("{key}={value}")])?;
    let shown = shell.works(&["var", "get", "-out=json", "app/db"])?;
    ensure!(shown.contains(&value) && shown.contains(&key), "{shown}");
    let listed = shell.works(&["var", "list"])?;
    ensure!(
        listed.contains(&own) && !listed.contains(&value),
        "{listed}"
    );
    let locked = ["var", "lock", "app/lock", "--", "true"];
    shell.works(&locked)?;
    shell.works(&["var", "purge", "app/lock"])?;

    let client = cluster.client(0)?;
    let (wrong, none) = (
        planted.add("a refused value", "planted-refused-9be0"),
        Query::new(),
    );
    let long = wrong.repeat(5000);
    for (path, body) in [
        (
            "/v1/var/app/db?cas=0",
            json!({ "Items": { "word": wrong } }),
        ),
        (
            "/v1/var/app/db?cas=x",
            json!({ "Items": { "word": wrong } }),
        ),
        ("/v1/var/app/new", json!({ "Items": { "word": [wrong] } })),
        ("/v1/var/app/new", json!({ "Items": wrong })),
        ("/v1/var/app/new", json!({ "Items": { "word": long } })),
        ("/v1/var/nomad/other", json!({ "Items": { "word": wrong } })),
        (
            "/v1/var/app/db?lock-release",
            json!({ "Items": { "word": wrong }, "Lock": {} }),
        ),
        (
            "/v1/var/app/db?lock-acquire",
            json!({ "Items": { "word": wrong }, "Lock": "x" }),
        ),
    ] {
        let refused = client.put::<_, Value>(path, &none, &body).await;
        let refused = refused
            .err()
            .with_context(|| format!("{path} is accepted"))?;
        ensure!(!refused.to_string().contains(&wrong), "{path}: {refused}");
    }
    Ok(())
}

/// Tokens that are made, used, and shown where they are none.
async fn tokens(cluster: &Cluster, shell: &Shell<'_>, planted: &mut Planted) -> anyhow::Result<()> {
    planted.add("the management token", MANAGER);
    std::fs::write(cluster.folder().join("writers.hcl"), WRITERS)?;
    shell.works(&["acl", "policy", "apply", "writers", "writers.hcl"])?;
    let made = shell.works(&["acl", "token", "create", "-policy", "writers", "-json"])?;
    let made: Value = serde_json::from_str(&made)?;
    let secret = made["SecretID"].as_str().context("a secret")?;
    let secret = planted.add("a client token", secret);
    let none = Query::new();
    let written = planted.add("a client's value", "planted-by-a-client-77d2");
    let body = json!({ "Items": { "word": written } });
    for number in 0..cluster.len() {
        let client = cluster.client(number)?.with_token(Some(secret.clone()));
        client
            .put::<_, Value>("/v1/var/app/client", &none, &body)
            .await?;
        // It may not read: 403, and a conflict without items.
        ensure!(client.get::<Value>("/v1/var/app/db", &none).await.is_err());
        let conflict = client
            .put::<_, Value>("/v1/var/app/client?cas=0", &none, &body)
            .await;
        let conflict = conflict.err().context("a conflict")?;
        ensure!(conflict.status() == Some(409), "{conflict}");
        ensure!(!conflict.to_string().contains(&written), "{conflict}");
    }
    for (name, token) in [
        ("an unknown token", "7a11e5b0-4f5e-4b5f-9d5c-0badc0ffee00"),
        ("a word as a token", "planted-word-as-a-token-c0de"),
    ] {
        let token = planted.add(name, token);
        let client = cluster.client(0)?.with_token(Some(token));
        ensure!(
            client.get::<Value>("/v1/jobs", &none).await.is_err(),
            "{name}"
        );
    }
    planted.add("a value that a task wrote", "planted-by-the-task-81c5e7");
    planted.add("an unknown token of a task", "planted-unknown-token-5d20");
    Ok(())
}

/// Runs the job until it has asked all, and adds its tokens. Answers its allocation.
async fn task(
    (cluster, node): (&Cluster, &Node),
    shell: &Shell<'_>,
    planted: &mut Planted,
) -> anyhow::Result<String> {
    let client = cluster.client(1)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &job())
        .await?;
    let path = format!("/v1/job/{JOB}/allocations");
    let alloc = eventually("the task's requests", PATIENCE, async || {
        let allocs = cluster.get(&path, &Query::new()).await?;
        let Some(alloc) = allocs[0]["ID"].as_str() else {
            return Ok(None);
        };
        let log = shell.works(&["alloc", "logs", alloc]).unwrap_or_default();
        let asked = log.contains("asked 200 403 403 403 403");
        ensure!(asked || log.is_empty(), "{log}");
        Ok(asked.then(|| alloc.to_owned()))
    })
    .await?;
    let secrets = node.alloc_dir(&alloc).join("task/secrets");
    planted.add_jwt("a workload's token", &secrets.join("nomad_token"))?;
    planted.add_jwt("a token for another", &secrets.join("nomad_other.jwt"))?;
    let rendered = std::fs::read_to_string(secrets.join("word"))?;
    ensure!(
        rendered == "planted-value-4f1d9c27",
        "the template: {rendered}"
    );
    Ok(alloc)
}

/// Moves all values to another key, and reads one of them.
async fn rotate(shell: &Shell<'_>) -> anyhow::Result<()> {
    shell.works(&["operator", "root", "keyring", "rotate", "-now", "-full"])?;
    eventually("the end of the rotation", PATIENCE, async || {
        let keys = shell.works(&["operator", "root", "keyring", "list"])?;
        ensure!(
            !keys.contains("rekeying") && keys.contains("inactive"),
            "{keys}"
        );
        Ok(Some(()))
    })
    .await?;
    let shown = shell.works(&["var", "get", "-out=json", "app/db"])?;
    ensure!(shown.contains("planted-value-4f1d9c27"), "it still opens");
    Ok(())
}

/// The KEK files are the one place of a KEK.
fn add_keks(cluster: &Cluster, planted: &mut Planted) -> anyhow::Result<()> {
    let mut keks = Vec::new();
    for number in 0..cluster.len() {
        let keyring = cluster.data_dir(number).join("keyring");
        keks.extend(files(&keyring, "")?);
    }
    ensure!(
        keks.len() >= cluster.len(),
        "each server has the KEK: {keks:?}"
    );
    keks.iter().try_for_each(|kek| planted.add_kek(kek))
}

/// Searches a file; answers whether it names the job, which it may.
fn search(planted: &Planted, path: &Path) -> anyhow::Result<bool> {
    let content = content(path)?;
    if let Some(name) = planted.found_in(&content) {
        bail!("{name} is in {}", path.display());
    }
    Ok(holds(&content, JOB.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_are_in_no_file_log_metric_or_snapshot() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut settings = Settings::of(3).with_access_control(MANAGER);
    settings.server_lines.push_str(DEBUG);
    settings.node_lines.push_str(DEBUG);
    let cluster = Cluster::start(settings).await?;
    let node = Node::start(&cluster).await?;
    let shell = Shell {
        cluster: &cluster,
        server: 0,
        token: MANAGER,
    };
    let mut planted = Planted::default();
    variables(&cluster, &shell, &mut planted).await?;
    tokens(&cluster, &shell, &mut planted).await?;
    let alloc = task((&cluster, &node), &shell, &mut planted).await?;
    rotate(&shell).await?;
    let snapshot = cluster.folder().join("saved.snap");
    let saved = snapshot.to_str().context("a path")?;
    shell.works(&["operator", "snapshot", "save", saved])?;
    shell.works(&["operator", "snapshot", "inspect", saved])?;
    let status = shell
        .command(&["alloc", "status", &alloc])?
        .stdout(Stdio::piped())
        .output()?;
    ensure!(planted.found_in(&status.stdout).is_none(), "alloc status");

    add_keks(&cluster, &mut planted)?;
    let mut searched = vec![snapshot];
    for number in 0..cluster.len() {
        searched.extend(files(&cluster.data_dir(number), "keyring")?);
        for format in ["", "?format=prometheus"] {
            let path = format!("/v1/metrics{format}");
            let metrics = cluster
                .client(number)?
                .text(&path, &Query::new())
                .await?
                .value;
            let found = planted.found_in(metrics.as_bytes());
            ensure!(found.is_none(), "{path} of server {number}: {found:?}");
        }
        let log = cluster.log(number)?;
        ensure!(
            log.contains("DEBUG") && log.contains("audit"),
            "the log is there"
        );
        let found = planted.found_in(log.as_bytes());
        ensure!(found.is_none(), "the log of server {number}: {found:?}");
    }
    searched.extend(files(&cluster.folder().join("node-0"), "secrets")?);
    let log = cluster.folder().join("node-0.log");
    ensure!(holds(&content(&log)?, b"DEBUG"), "the node's log is there");
    searched.push(log);
    let mut named = 0;
    for path in &searched {
        named += usize::from(search(&planted, path)?);
    }
    // The snapshot and the log of each server; the node's journal besides.
    ensure!(
        named > cluster.len(),
        "the job is found in {named} of {searched:?}"
    );
    Ok(())
}
