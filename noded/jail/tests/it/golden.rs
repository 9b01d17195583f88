//! Frozen bytes of requests and reports. `DROVER_BLESS=1` writes files that are missing; a file
//! that is there is never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use noded_artifact::{FetchLimits, FetchRequest, Fetched, Mode, Shape};
use noded_jail::frame::{Parsed, decode, encode, parse};
use noded_jail::{Fetch, FetchFailure, Render, Rendering, Report};
use noded_template::{
    Choice, Dependency, Instance, Known, MissingKey, Registration, ServiceQuery, Time, Variable,
    VariableId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const LIMIT: usize = 4096;

fn frozen<T: Serialize + DeserializeOwned>(name: &str, value: &T) {
    let bytes = encode(value, LIMIT).unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v1")
        .join(name);
    if !path.exists() && std::env::var_os("DROVER_BLESS").is_some() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let old = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(old, bytes, "{name}: the bytes of a published frame changed");
    let Parsed::Whole { content, .. } = parse(&old, LIMIT).unwrap() else {
        panic!("{name}: not whole");
    };
    let again: T = decode(content).unwrap();
    assert_eq!(encode(&again, LIMIT).unwrap(), bytes, "{name}");
}

fn variable_id() -> VariableId {
    VariableId {
        path: "nomad/jobs/web".to_owned(),
        namespace: "default".to_owned(),
        region: "global".to_owned(),
    }
}

fn query() -> ServiceQuery {
    ServiceQuery {
        name: "db".to_owned(),
        region: "global".to_owned(),
        choice: Some(Choice {
            count: 2,
            key: "key".to_owned(),
        }),
    }
}

fn known() -> Known {
    let variable = Variable {
        path: "nomad/jobs/web".to_owned(),
        namespace: "default".to_owned(),
        items: BTreeMap::from([("user".to_owned(), "alice".to_owned())]),
        create_index: 7,
        modify_index: 300,
    };
    let instance = Instance {
        id: "one".to_owned(),
        name: "db".to_owned(),
        node: "n1".to_owned(),
        datacenter: "dc1".to_owned(),
        address: "10.0.0.1".to_owned(),
        port: 5432,
        tags: vec!["main".to_owned()],
        job_id: "db".to_owned(),
        alloc_id: "a1".to_owned(),
    };
    let registration = Registration {
        name: "db".to_owned(),
        tags: vec!["main".to_owned()],
    };
    Known {
        environment: BTreeMap::from([("NOMAD_TASK_NAME".to_owned(), "web".to_owned())]),
        files: BTreeMap::from([("local/x".to_owned(), vec![0, 255])]),
        variables: BTreeMap::from([(variable_id(), Some(variable.clone()))]),
        variable_lists: BTreeMap::from([(variable_id(), vec![variable])]),
        services: BTreeMap::from([(query(), vec![instance])]),
        registrations: BTreeMap::from([("global".to_owned(), vec![registration])]),
        namespace: "default".to_owned(),
        region: "global".to_owned(),
        now: Time {
            seconds: 1_700_000_000,
            nanoseconds: 5,
        },
    }
}

#[test]
fn requests_keep_their_bytes() {
    let render = Render {
        text: "[[ env \"A\" ]]".to_owned(),
        left_delimiter: "[[".to_owned(),
        right_delimiter: "]]".to_owned(),
        missing_key: MissingKey::Error,
        known: known(),
    };
    frozen("render-request.bin", &render);
}

#[test]
fn reports_keep_their_bytes() {
    let missing = BTreeSet::from([
        Dependency::File("local/x".to_owned()),
        Dependency::Variable(variable_id()),
        Dependency::VariableExistence(variable_id()),
        Dependency::VariableList(variable_id()),
        Dependency::Service(query()),
        Dependency::Services("global".to_owned()),
    ]);
    let text = || "text".to_owned();
    for (name, report) in [
        ("report-progress.bin", Report::Progress(text())),
        ("report-failed.bin", Report::Failed(text())),
        ("report-refused.bin", Report::Refused(text())),
        (
            "render-rendered.bin",
            Report::Done(Rendering::Rendered(text())),
        ),
        (
            "render-missing.bin",
            Report::Done(Rendering::Missing(missing)),
        ),
    ] {
        frozen(name, &report);
    }
}

#[test]
fn requests_and_answers_of_a_fetch_keep_their_bytes() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fetch = Fetch {
        request: FetchRequest {
            source: "https://example.org/a.tar.gz".to_owned(),
            options: BTreeMap::from([pair("archive", "false")]),
            headers: BTreeMap::from([pair("X-Token", "t")]),
            mode: Mode::File,
            insecure: true,
            limits: FetchLimits {
                http_bytes_max: None,
                ..FetchLimits::default()
            },
        },
        staging: PathBuf::from("/d/alloc/a/.staging/web.1.0"),
        environment: vec![pair("PATH", "/bin")],
    };
    frozen("fetch-request.bin", &fetch);
    type Answer = Result<Fetched, FetchFailure>;
    let fetched: Report<Answer> = Report::Done(Ok(Fetched {
        shape: Shape::Tree,
        bytes: 300,
    }));
    frozen("fetch-fetched.bin", &fetched);
    let refused: Report<Answer> = Report::Done(Err(FetchFailure {
        message: "text".to_owned(),
        is_recoverable: true,
    }));
    frozen("fetch-refused.bin", &refused);
}
