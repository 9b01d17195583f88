//! Tasks ask the API through their sockets: blocking queries, a followed log, a shell, a body in
//! chunks; and processes that have no business at a socket are turned away.

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::access::Shell;
use crate::running::{PATIENCE, has_root};
use crate::socket_client;

const MANAGER: &str = "11111111-2222-3333-4444-555555555555";

/// Asks the API, and prints a line for each answer.
const COMMON: &str = r#"
import base64

alloc, operator = os.environ["NOMAD_ALLOC_ID"], os.environ["OPERATOR"]

def ask(name, path, token):
    answer = Api().ask("GET", path, token)
    print(name, answer.status, answer.read().decode().strip(), flush=True)

ask("none", "/v1/agent/health", None)
ask("made-up", "/v1/agent/health", "made-up")
ask("unknown", "/v1/agent/health", "99999999-2222-3333-4444-555555555555")
ask("own", "/v1/agent/health", token)
"#;

const WEB: &str = r#"
answer = Api().ask("GET", "/v1/vars?prefix=woken", operator)
index, _ = int(answer.headers["X-Nomad-Index"]), answer.read()
print("blocking", flush=True)
answer = Api().ask("GET", "/v1/vars?prefix=woken&wait=60s&index=%d" % index, operator)
found = [it["Path"] for it in json.load(answer)]
print("woke", answer.status, int(answer.headers["X-Nomad-Index"]) > index, found, flush=True)

logs = "/v1/client/fs/logs/%s?task=web&type=stdout&follow=true&plain=true" % alloc
api = Api()
answer = api.ask("GET", logs, operator)
text = b""
while b"blocking" not in text:
    text += answer.read1(65536)
print("needle", flush=True)
while b"needle" not in text:
    text += answer.read1(65536)
print("followed", answer.status, flush=True)
api.close()

def frame(message):
    text, mask = json.dumps(message).encode(), b"\1\2\3\4"
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text)]) + mask + bytes(
        byte ^ mask[at % 4] for at, byte in enumerate(text))

def messages(stream):
    while True:
        head = stream.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return
        length = head[1] & 127
        if length == 126:
            length = int.from_bytes(stream.read(2), "big")
        payload = stream.read(length)
        if head[0] & 15 == 1 and payload:
            yield json.loads(payload)

shell = socket.socket(socket.AF_UNIX)
shell.connect(secrets + "/api.sock")
shell.sendall((
    "GET /v1/client/allocation/%s/exec?task=web&tty=false&command=%%5B%%22/bin/cat%%22%%5D "
    "HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "X-Nomad-Token: %s\r\n\r\n" % (alloc, operator)).encode())
stream = shell.makefile("rb")
status = stream.readline().split()[1].decode()
while stream.readline() != b"\r\n":
    pass
shell.sendall(frame({"stdin": {"data": base64.b64encode(b"through the shell").decode()}}))
shell.sendall(frame({"stdin": {"close": True}}))
output, code = b"", None
for message in messages(stream):
    output += base64.b64decode((message.get("stdout") or {}).get("data") or "")
    if message.get("exited"):
        code = message["result"]["exit_code"]
print("shell", status, output.decode(), code, flush=True)

meta = "/v1/client/metadata"
answer = Api().ask("GET", meta, token)
print("metadata without a right", answer.status, answer.read().decode().strip(), flush=True)
answer = Api().ask("PUT", meta, operator, json.dumps({"Meta": {"set_by": "a-task"}}))
print("metadata set", answer.status, json.load(answer)["Dynamic"], flush=True)
answer = Api().ask("GET", meta, operator)
print("metadata read", answer.status, json.load(answer)["Meta"]["set_by"], flush=True)

job = 'job "parsed" {\n  group "g" {\n    task "t" {\n      driver = "raw_exec"\n    }\n  }\n}\n'
body = json.dumps({"JobHCL": job + "// padding\n" * 30000}).encode()
parts = (body[at:at + 7001] for at in range(0, len(body), 7001))
# A body without a length is sent in chunks.
answer = Api().ask("POST", "/v1/jobs/parse", operator, parts, {"Content-Type": "application/json"})
print("parsed", answer.status, json.load(answer).get("ID"), flush=True)
"#;

/// The task `web.1` connects to the socket of `web`: root may open any file of the host.
const STRANGER: &str = r#"
other = socket.socket(socket.AF_UNIX)
other.connect(os.path.dirname(os.environ["NOMAD_ALLOC_DIR"]) + "/web/secrets/api.sock")
try:
    other.sendall(("GET /v1/agent/health HTTP/1.1\r\nX-Nomad-Token: %s\r\n\r\n" % token).encode())
    answer = other.recv(1000)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
print("stranger", answer, flush=True)
"#;

/// A command of `alloc exec`.
const VISITOR: &str = "import os, socket; s = socket.socket(socket.AF_UNIX); \
     s.connect(os.environ['NOMAD_SECRETS_DIR'] + '/api.sock'); \
     s.sendall(b'GET /v1/jobs HTTP/1.1\\r\\n\\r\\n'); print(s.recv(1000).decode())";

fn task(name: &str, script: &str) -> Value {
    let script = format!("{COMMON}\n{script}\nprint('end', flush=True)\ntime.sleep(1000)\n");
    let script = socket_client::script(&script);
    json!({
        "Name": name, "Driver": "raw_exec",
        "Config": { "command": "/usr/bin/python3", "args": ["-c", script] },
        "Env": { "OPERATOR": MANAGER },
        "Identity": { "Name": "default", "Env": true },
        "KillTimeout": 2_000_000_000_u64,
        "Resources": { "CPU": 20, "MemoryMB": 64 },
    })
}

/// Registers a job of these tasks, and returns its allocation.
async fn start(cluster: &Cluster, tasks: &[Value]) -> anyhow::Result<String> {
    let body = json!({ "Job": {
        "ID": "speakers", "Name": "speakers", "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{ "Name": "group", "Count": 1, "Tasks": tasks }],
    }});
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &body)
        .await?;
    eventually("an allocation", PATIENCE, async || {
        let path = "/v1/job/speakers/allocations";
        let allocs = cluster.get(path, &Query::new()).await?;
        Ok(allocs[0]["ID"].as_str().map(str::to_owned))
    })
    .await
}

/// The log of a task, once it has this line.
async fn log(shell: &Shell<'_>, alloc: &str, task: &str, line: &str) -> anyhow::Result<String> {
    let what = format!("{line} of {task}");
    eventually(&what, PATIENCE, async || {
        let log = shell.works(&["alloc", "logs", alloc, task]);
        let log = log.unwrap_or_default();
        Ok(log.lines().any(|it| it.starts_with(line)).then_some(log))
    })
    .await
}

fn has(log: &str, lines: &[&str]) -> anyhow::Result<()> {
    for line in lines {
        ensure!(log.contains(line), "{line} is missing in: {log}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_stream_through_their_socket_and_strangers_are_turned_away() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1).with_access_control(MANAGER)).await?;
    let _node = Node::start(&cluster).await?;
    let shell = Shell {
        cluster: &cluster,
        server: 0,
        token: MANAGER,
    };
    let alloc = start(&cluster, &[task("web", WEB), task("web.1", STRANGER)]).await?;
    log(&shell, &alloc, "web", "blocking").await?;
    shell.works(&["var", "put", "woken/up", "word=any"])?;
    let web = log(&shell, &alloc, "web", "end").await?;
    has(
        &web,
        &[
            "none 401 Unauthorized\n",
            "made-up 403 Forbidden\n",
            "unknown 403 Forbidden\n",
            "own 200 ",
            "woke 200 True ['woken/up']\n",
            "followed 200\n",
            "shell 101 through the shell 0\n",
            "metadata without a right 403 Permission denied\n",
            "metadata set 200 {'set_by': 'a-task'}\n",
            "metadata read 200 a-task\n",
            "parsed 200 parsed\n",
        ],
    )?;
    eventually("the metadata at the servers", PATIENCE, async || {
        let nodes = cluster.get("/v1/nodes", &Query::new()).await?;
        let path = format!("/v1/node/{}", nodes[0]["ID"].as_str().context("no id")?);
        let shown = cluster.get(&path, &Query::new()).await?;
        Ok((shown["Meta"]["set_by"] == "a-task").then_some(()))
    })
    .await?;
    let stranger = log(&shell, &alloc, "web.1", "end").await?;
    has(&stranger, &["own 200 ", "stranger b''\n"])?;
    eventually("the event of the stranger", PATIENCE, async || {
        let path = format!("/v1/allocation/{alloc}");
        let shown = cluster.get(&path, &Query::new()).await?;
        let events = shown["TaskStates"]["web"]["Events"].as_array();
        let mut events = events.context("no events")?.iter();
        let text = "was turned away: it is not of the task";
        let is_told = events.any(|event| event["DisplayMessage"].to_string().contains(text));
        Ok(is_told.then_some(()))
    })
    .await?;
    let visit = [
        "alloc", "exec", "-i=false", "-t=false", "-task", "web", &alloc,
    ];
    let visit = [visit.as_slice(), &["/usr/bin/python3", "-c", VISITOR]].concat();
    has(&shell.works(&visit)?, &["HTTP/1.1 401"])
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_ask_for_a_workload_token_without_access_control() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let _node = Node::start(&cluster).await?;
    let shell = Shell {
        cluster: &cluster,
        server: 0,
        token: "",
    };
    let alloc = start(&cluster, &[task("web", "ask('jobs', '/v1/jobs', token)")]).await?;
    let web = log(&shell, &alloc, "web", "end").await?;
    has(
        &web,
        &[
            "none 401 Unauthorized\n",
            "made-up 403 Forbidden\n",
            "unknown 403 Forbidden\n",
            "own 200 ",
            "jobs 200 ",
        ],
    )
}
