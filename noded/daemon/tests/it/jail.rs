//! Work in jail children: answers, limits, cancel, death.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use isolation::cgroup::{Hierarchy, Patience};
use noded_artifact::{FetchLimits, FetchRequest, Mode};
use noded_daemon::jail::{Jail, JailError};
use noded_jail::{Fetch, Render, Rendering};
use noded_template::{Dependency, Known, MissingKey};
use protocol_model::ClientStatus;
use serde_json::json;

use crate::jobs::{PAUSE, alloc, is, job, report, sh, stopped};
use crate::scene::{Scene, beside_noded, can_run};

const DEADLINE: Duration = Duration::from_secs(5);

/// Seconds of work, which no limit of the engine ends early: each step hashes 4 MB.
const LONG: &str = "{{ $s := sprig_repeat 4000000 \"a\" }}{{ range loop 100000 }}\
                    {{ if eq (sprig_sha1sum $s) \"x\" }}{{ end }}{{ end }}";

/// A jail with a cgroup of its own, which vanishes with it.
struct Fixture {
    jail: Option<Jail>,
    base: String,
}

impl Fixture {
    fn new(program: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("drover-jail-test-{}-{number}", std::process::id());
        let hierarchy = Hierarchy::open(Path::new(&base)).unwrap();
        let jail = Some(Jail::open(program, &hierarchy).unwrap());
        Self { jail, base }
    }

    fn jail(&self) -> &Jail {
        self.jail.as_ref().unwrap()
    }

    /// Children of this jail: those in its cgroup.
    fn children(&self) -> Vec<u32> {
        children_of(&self.base)
    }
}

fn children_of(base: &str) -> Vec<u32> {
    let mount = isolation::cgroup::find_mount().unwrap();
    let file = mount.path.join(base).join("jail/cgroup.procs");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.jail = None;
        let hierarchy = Hierarchy::open(Path::new(&self.base)).unwrap();
        // A jail that leaks a child fails here.
        hierarchy.remove(Patience::Milliseconds(2000)).unwrap();
    }
}

fn template(text: &str) -> Render {
    Render {
        text: text.to_owned(),
        left_delimiter: String::new(),
        right_delimiter: String::new(),
        missing_key: MissingKey::Zero,
        known: Known::default(),
    }
}

async fn render(fixture: &Fixture, text: &str) -> Result<Rendering, JailError> {
    let jail = fixture.jail();
    jail.run(&template(text), DEADLINE, pending(), |_| {}).await
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_rendered_in_a_child_which_is_gone_then() {
    if !can_run() {
        return;
    }
    let fixture = Fixture::new(&beside_noded("noded-jail"));
    let rendered = render(&fixture, "{{ \"a\" | toUpper }}").await.unwrap();
    assert_eq!(rendered, Rendering::Rendered("A".to_owned()));
    let missing = render(&fixture, "{{ file \"local/x\" }}").await.unwrap();
    let file = Dependency::File("local/x".to_owned());
    assert_eq!(missing, Rendering::Missing([file].into()));
    let refused = render(&fixture, "a\n{{ secret \"x\" }}").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("line 2: \"secret\":"), "{text}");
    eventually("no child is left", || fixture.children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_renderings_at_once_have_four_children_at_most() {
    if !can_run() {
        return;
    }
    let fixture = Fixture::new(&beside_noded("noded-jail"));
    let most = AtomicU32::new(0);
    let count = async {
        let mut before = BTreeSet::new();
        loop {
            // While one list is read a child may end and its successor start: those of two lists
            // lived at once.
            let now: BTreeSet<_> = fixture.children().into_iter().collect();
            let lived = u32::try_from(now.intersection(&before).count()).unwrap();
            most.fetch_max(lived, Ordering::Relaxed);
            before = now;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let all = futures::future::join_all((0..20).map(|_| render(&fixture, "x")));
    tokio::select! {
        all = all => assert!(all.iter().all(Result::is_ok), "{all:?}"),
        () = count => {}
    }
    let most = most.into_inner();
    assert!((1..=4).contains(&most), "{most} children");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_without_end_is_refused_within_5_s() {
    if !can_run() {
        return;
    }
    let fixture = Fixture::new(&beside_noded("noded-jail"));
    for text in [
        LONG,
        "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
        "{{ range loop 1000000000 }}x{{ end }}",
        "{{ printf \"%01000000000d\" 1 }}",
    ] {
        let begun = Instant::now();
        let error = render(&fixture, text).await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(6), "{text}: {error}");
        // The speed of the host decides which limit ends the first one.
        let is_limit = matches!(
            error,
            JailError::Deadline { .. } | JailError::ProcessorTime { .. }
        );
        let text = error.to_string();
        assert!(text.starts_with("line 1: ") || is_limit, "{text}");
    }
}

/// Does `misbehaviour` of the example `hostile`.
async fn hostile(misbehaviour: &str, deadline: Duration) -> (Result<Rendering, JailError>, u32) {
    let program = beside_noded("noded-jail").with_file_name("examples/hostile");
    let fixture = Fixture::new(&program);
    let mut lines = 0;
    let jail = fixture.jail();
    let work = template(misbehaviour);
    let done = jail.run(&work, deadline, pending(), |_| lines += 1).await;
    eventually("no child is left", || fixture.children().is_empty()).await;
    (done, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_of_a_child_has_its_own_words() {
    if !can_run() {
        return;
    }
    for (misbehaviour, deadline_s, words) in [
        ("burn", 60, "it takes more than 4 s of processor time"),
        ("allocate", 60, "it needs more than 256 MiB of memory"),
        ("sleep", 1, "not done within 1 s"),
        ("flood", 1, "not done within 1 s"),
        (
            "torn",
            60,
            "the answer of noded-jail: the stream ended within a frame",
        ),
        (
            "dance",
            60,
            "noded-jail ended without an answer: exit status 101; it wrote:",
        ),
    ] {
        let (done, _) = hostile(misbehaviour, Duration::from_secs(deadline_s)).await;
        let error = protocol_error_chain::chain(&done.unwrap_err());
        assert!(error.contains(words), "{misbehaviour}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_at_most_four_times_a_second() {
    if !can_run() {
        return;
    }
    let begun = Instant::now();
    let (done, lines) = hostile("lines", Duration::from_secs(60)).await;
    assert_eq!(done.unwrap(), Rendering::Rendered("done".to_owned()));
    let most = begun.elapsed().as_millis() / 250 + 1;
    assert!(lines >= 2 && u128::from(lines) <= most, "{lines} of {most}");
    let begun = Instant::now();
    let (_, lines) = hostile("flood", Duration::from_secs(1)).await;
    let most = begun.elapsed().as_millis() / 250 + 1;
    assert!(u128::from(lines) <= most, "{lines} of {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_a_child_left_ends_with_it() {
    if !can_run() {
        return;
    }
    let (done, _) = hostile("leave", Duration::from_secs(60)).await;
    assert_eq!(done.unwrap(), Rendering::Rendered("done".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_rendering_ends_its_child_within_a_second() {
    if !can_run() {
        return;
    }
    let fixture = Fixture::new(&beside_noded("noded-jail"));
    let begun = Instant::now();
    let cancel = async {
        eventually("a child", || !fixture.children().is_empty()).await;
    };
    let work = template(LONG);
    let run = fixture.jail().run(&work, DEADLINE, cancel, |_| {});
    let error = run.await.unwrap_err();
    assert!(matches!(error, JailError::Cancelled), "{error}");
    eventually("no child is left", || fixture.children().is_empty()).await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_another_session_ends_with_the_fetch_that_left_it() {
    if !can_run() {
        return;
    }
    let program = beside_noded("noded-jail").with_file_name("examples/hostile");
    let fixture = Fixture::new(&program);
    let staging = tempfile::tempdir().unwrap();
    let work = Fetch {
        request: FetchRequest {
            source: "http://127.0.0.1/x".to_owned(),
            options: BTreeMap::new(),
            headers: BTreeMap::new(),
            mode: Mode::Any,
            insecure: false,
            limits: FetchLimits::default(),
        },
        staging: staging.path().to_owned(),
        environment: Vec::new(),
    };
    let jail = fixture.jail();
    let done = jail.run(&work, DEADLINE, pending(), |_| {}).await;
    assert_eq!(done.unwrap_err().to_string(), "it left a process");
    eventually("no process is left", || fixture.children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_a_fetch_end_with_its_noded() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let hostile = beside_noded("noded-jail").with_file_name("examples/hostile");
    scene.configure(&format!("jail_binary = {hostile:?}"));
    scene.kill();
    scene.start();
    let artifacts = json!({ "Artifacts": [{ "GetterSource": "http://127.0.0.1/stay" }] });
    let job = job("stay", "raw_exec", &sh("true"), artifacts);
    scene.server.want(alloc(&job, 1), &job);
    let base = scene.cgroup_path();
    let base = base.file_name().unwrap().to_str().unwrap().to_owned();
    // The child, and the process that it left.
    eventually("two processes", || children_of(&base).len() == 2).await;
    scene.kill();
    let begun = Instant::now();
    eventually("none is left", || children_of(&base).is_empty()).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_no_jail_is_an_error_with_its_words() {
    if !can_run() {
        return;
    }
    for (program, words) in [
        ("/bin/cat", "render: No such file or directory"),
        ("/usr/bin/yes", "a frame of"),
    ] {
        let fixture = Fixture::new(Path::new(program));
        let error = render(&fixture, "x").await.unwrap_err();
        let text = protocol_error_chain::chain(&error);
        assert!(text.contains(words), "{program}: {text}");
    }
    let hierarchy = Hierarchy::open(Path::new("drover-jail-test-none")).unwrap();
    let error = Jail::open(Path::new("/nowhere/noded-jail"), &hierarchy).unwrap_err();
    hierarchy.remove(Patience::Milliseconds(2000)).unwrap();
    assert!(error.to_string().contains("/nowhere/noded-jail"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_child_is_confined_and_has_nothing_of_noded() {
    if !can_run() {
        return;
    }
    let fixture = Fixture::new(&beside_noded("noded-jail"));
    let seen = async {
        let mut status = String::new();
        eventually("a confined child", || {
            let children = fixture.children();
            let Some(child) = children.first() else {
                return false;
            };
            let path = format!("/proc/{child}");
            status = std::fs::read_to_string(format!("{path}/status")).unwrap_or_default();
            status.contains("Seccomp:\t2") && {
                let open = std::fs::read_dir(format!("{path}/fd")).unwrap();
                let mut open: Vec<_> = open.map(|fd| fd.unwrap().file_name()).collect();
                open.sort();
                assert_eq!(open, ["0", "1", "2"]);
                let environment = std::fs::read(format!("{path}/environ")).unwrap();
                assert!(environment.is_empty());
                let line = std::fs::read(format!("{path}/cmdline")).unwrap();
                assert_eq!(line, b"noded-jail\0render\0");
                true
            }
        })
        .await;
        for line in [
            "NoNewPrivs:\t1",
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapAmb:\t0000000000000000",
        ] {
            assert!(status.contains(line), "{line} in {status}");
        }
    };
    let work = template(LONG);
    let run = fixture.jail().run(&work, DEADLINE, seen, |_| {});
    let error = run.await.unwrap_err();
    assert!(matches!(error, JailError::Cancelled), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_with_its_noded() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let templates = json!({ "Templates": [{ "EmbeddedTmpl": LONG, "DestPath": "local/x" }] });
    let job = job("long", "raw_exec", &sh("true"), templates);
    scene.server.want(alloc(&job, 1), &job);
    let base = scene.cgroup_path();
    let base = base.file_name().unwrap().to_str().unwrap().to_owned();
    eventually("a child", || !children_of(&base).is_empty()).await;
    scene.kill();
    let begun = Instant::now();
    eventually("no child is left", || children_of(&base).is_empty()).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_stop_ends_its_rendering_within_a_second() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let templates = json!({ "Templates": [{ "EmbeddedTmpl": LONG, "DestPath": "local/x" }] });
    let job = job("long", "raw_exec", &sh("true"), templates);
    let alloc = alloc(&job, 1);
    let id = alloc.id;
    scene.server.want(alloc.clone(), &job);
    let base = scene.cgroup_path();
    let base = base.file_name().unwrap().to_str().unwrap().to_owned();
    eventually("a child", || !children_of(&base).is_empty()).await;
    let begun = Instant::now();
    scene.server.want(stopped(alloc), &job);
    let complete = |known: &_| is(known, id, ClientStatus::Complete);
    scene.server.until("complete", complete).await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    eventually("no child is left", || children_of(&base).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_template_is_named_in_the_task_s_event() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let text = "{{ range loop 1000000000 }}x{{ end }}";
    let templates = json!({ "Templates": [{ "EmbeddedTmpl": text, "DestPath": "local/x" }] });
    let job = job("endless", "raw_exec", &sh("true"), templates);
    let alloc = alloc(&job, 1);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let failed = |known: &_| is(known, id, ClientStatus::Failed);
    scene.server.until("failed", failed).await;
    let known = scene.server.known();
    let events = format!("{:?}", report(&known, id).unwrap());
    assert!(
        events.contains("template \\\"local/x\\\": line 1"),
        "{events}"
    );
}
