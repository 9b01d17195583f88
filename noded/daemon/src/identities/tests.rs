//! The service beside a machine's decisions: waits that end, tokens that are told once whatever
//! daemon delivers them, files that cannot be written.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use noded_core::effect::PreparedIdentity;
use noded_core::event::RunEvent;
use noded_core::key::RunEpoch;
use noded_core::{AllocSpec, BootId, Event, Moment};
use protocol_model::{NodeId, UnixNanos};
use serde_json::json;

use super::*;

const ALLOC: AllocId = AllocId::from_u128(7);

/// A clock that stands, long after all tokens of these tests came.
#[derive(Debug)]
struct Late;

impl Clock for Late {
    fn moment(&self) -> Moment {
        Moment(Duration::from_secs(1_000))
    }

    fn wall(&self) -> UnixNanos {
        UnixNanos(0)
    }
}

/// Files that can be written, or not.
#[derive(Debug)]
struct Files {
    full: AtomicBool,
}

impl IdentityFiles for Files {
    fn write_files(
        self: Arc<Self>,
        _prepare: Arc<PrepareTask>,
        tokens: BTreeMap<String, Jwt>,
    ) -> BoxFuture<'static, TokenFile> {
        let full = |name: String| (name, "no room".to_owned());
        let problems = match self.full.load(Ordering::Relaxed) {
            true => tokens.into_keys().map(full).collect(),
            false => BTreeMap::new(),
        };
        let replaced = BTreeSet::new();
        Box::pin(async { TokenFile { replaced, problems } })
    }
}

fn files() -> Arc<Files> {
    Arc::new(Files {
        full: AtomicBool::new(false),
    })
}

fn prepare() -> Arc<PrepareTask> {
    let job = json!({ "ID": "web", "TaskGroups": [{ "Name": "web", "Tasks": [{
        "Name": "main", "Driver": "raw_exec",
    }] }] });
    let alloc = json!({
        "ID": ALLOC, "Namespace": "default", "EvalID": uuid::Uuid::nil(), "Name": "web.web[0]",
        "NodeID": uuid::Uuid::nil(), "JobID": "web", "TaskGroup": "web",
        "SpecHash": protocol_model::SpecHash([1; 32]),
    });
    let [job, alloc] = [job, alloc].map(|it| it.to_string());
    let job = serde_json::from_str(&job).expect("a job");
    let alloc = serde_json::from_str(&alloc).expect("an allocation");
    let spec = Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("both"));
    Arc::new(PrepareTask {
        run: RunKey::new(ALLOC, "main", RunEpoch(1)),
        spec,
        user: String::new(),
        hooks: Vec::new(),
        environment: BTreeMap::new(),
        templates: Vec::new(),
        artifacts: Vec::new(),
        identities: vec![PreparedIdentity {
            name: "cloud".to_owned(),
            file: None,
            variable: None,
        }],
        dispatch_payload_file: None,
    })
}

fn token(ttl: Option<Duration>, undelivered: bool) -> KeptToken {
    let token = HeldToken {
        jwt: Jwt::new("a.b.c"),
        ttl,
        root_key: 1,
        came: Moment(Duration::from_secs(1)),
        expiry_told: false,
    };
    KeptToken {
        key: key_of(&prepare().run, "cloud"),
        token,
        undelivered,
    }
}

fn kept(directory: &Path, tokens: Vec<KeptToken>) -> KeptFiles {
    let kept = KeptFiles::open(directory, BootId([1; 16])).expect("a directory");
    kept.write(ALLOC, tokens, Keeping::Memory);
    kept
}

/// The service of a daemon that begins, and what its loop would get.
fn daemon(kept: Option<KeptFiles>) -> (Arc<IdentityService>, mpsc::Receiver<Input>) {
    let (inputs, events) = mpsc::channel(64);
    let queries = Arc::new(Queries::new(NodeId::from_u128(1)));
    let service = IdentityService::new(queries, Arc::new(Late), inputs, kept, 1);
    (Arc::new(service), events)
}

/// The texts of events, and the names of renewed identities, until there is silence.
async fn told(events: &mut mpsc::Receiver<Input>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Some(input)) = tokio::time::timeout(Duration::from_secs(3), events.recv()).await {
        match input {
            Input::Event(Event::Run { event, .. }) => match event {
                RunEvent::IdentitiesRenewed { names } => all.extend(names),
                RunEvent::Message { message, .. } => all.push(message),
                other => panic!("{other:?}"),
            },
            _ => panic!("no event"),
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn attempt_without_a_signed_identity_fails_after_a_minute() {
    let (service, _events) = daemon(None);
    tokio::spawn(Arc::clone(&service).run(files()));
    let begun = tokio::time::Instant::now();
    let obtained = service.obtain(&prepare(), &CancellationToken::new()).await;
    let error = obtained.expect_err("no server").to_string();
    let text = "no server signed \"cloud\" within 1m: the node has no session with a server";
    assert_eq!(error, text);
    assert_eq!(begun.elapsed().as_secs(), 60);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let cancelled = service.obtain(&prepare(), &cancel).await;
    assert_eq!(cancelled.err(), Some(ObtainError::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn renewal_that_a_killed_daemon_did_not_tell_is_told_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = kept(directory.path(), vec![token(None, true)]);
    for expected in [vec!["cloud".to_owned()], Vec::new()] {
        let (service, mut events) = daemon(Some(kept.clone()));
        service.follow(prepare());
        service.catch_up(files(), prepare()).await;
        assert_eq!(told(&mut events).await, expected);
    }
    assert_eq!(kept.read_all(), [token(None, false)]);
}

#[tokio::test(start_paused = true)]
async fn renewal_is_told_once_its_file_can_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = kept(directory.path(), vec![token(None, true)]);
    let (service, mut events) = daemon(Some(kept.clone()));
    let files = files();
    files.full.store(true, Ordering::Relaxed);
    service.follow(prepare());
    service
        .catch_up(Arc::<Files>::clone(&files), prepare())
        .await;
    let text = "Identity[cloud]: no room; the token of before stays";
    assert_eq!(told(&mut events).await, [text]);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(told(&mut events).await.is_empty(), "one event is enough");
    assert_eq!(kept.read_all(), [token(None, true)]);
    files.full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(told(&mut events).await, ["cloud"]);
    assert_eq!(kept.read_all(), [token(None, false)]);
}

#[tokio::test(start_paused = true)]
async fn expiry_is_told_once_although_daemons_are_restarted() {
    let directory = tempfile::tempdir().expect("a directory");
    let expired = token(Some(Duration::from_secs(60)), false);
    let kept = kept(directory.path(), vec![expired]);
    for count in [1, 0] {
        let (service, mut events) = daemon(Some(kept.clone()));
        service.follow(prepare());
        tokio::spawn(Arc::clone(&service).run(files()));
        let texts = told(&mut events).await;
        assert_eq!(texts.len(), count, "{texts:?}");
        let named = |text: &String| text.starts_with("Identity[cloud]: the token expired");
        assert!(texts.iter().all(named), "{texts:?}");
    }
}
