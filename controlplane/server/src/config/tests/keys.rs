//! Every key of the file: it has its effect, and a value of another type is refused by its name.
//! The list of keys comes from the reader itself, so a new key without a row fails here.

use std::collections::BTreeSet;

use super::*;

const BASE: [(&str, &str); 2] = [
    ("data_dir", "data_dir = \"/d\""),
    (
        "tls",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n}",
    ),
];

/// A key, a file's lines that set it, and what they come to.
type Row = (&'static str, &'static str, fn(&Config) -> bool);

const TOP: [Row; 13] = [
    ("name", "name = \"s7\"", |it| it.name == "s7"),
    ("region", "region = \"eu\"", |it| it.region.as_str() == "eu"),
    ("datacenter", "datacenter = \"dc7\"", |it| {
        it.datacenter == "dc7"
    }),
    ("data_dir", "data_dir = \"/d7\"", |it| {
        it.data_dir == Path::new("/d7")
    }),
    ("bind_addr", "bind_addr = \"10.0.0.7\"", |it| {
        it.quic_listen.ip().to_string() == "10.0.0.7"
    }),
    ("log_level", "log_level = \"warn\"", |it| {
        it.log.level == Level::WARN
    }),
    ("log_json", "log_json = true", |it| it.log.json),
    (
        "keyring.file.path",
        "keyring \"file\" {\n path = \"/d7\"\n}",
        |it| it.kek_dir == Path::new("/d7"),
    ),
    (
        "keyring.file.active_kek",
        "keyring \"file\" {\n active_kek = \"0123456789abcdef\"\n}",
        |it| matches!(it.wrapping_kek, WrappingKek::File(_)),
    ),
    (
        "keyring.credential.name",
        "keyring \"credential\" {\n name = \"k7\"\n}",
        |it| matches!(&it.kek_sources[..], [KekSource::Credential { name, .. }] if name == "k7"),
    ),
    (
        "keyring.credential.active",
        "keyring \"credential\" {\n active = true\n}",
        |it| it.wrapping_kek == WrappingKek::Source(0),
    ),
    (
        "keyring.environment.variable",
        "keyring \"environment\" {\n variable = \"K7\"\n}",
        |it| it.kek_sources == [KekSource::Environment("K7".to_owned())],
    ),
    (
        "keyring.environment.active",
        "keyring \"environment\" {\n active = true\n}",
        |it| it.wrapping_kek == WrappingKek::Source(0),
    ),
];

const ADDRESSES: [Row; 7] = [
    ("ports.http", "ports { http = 7 }", |it| {
        it.http.listen.port() == 7
    }),
    ("ports.quic", "ports { quic = 7 }", |it| {
        it.quic_listen.port() == 7
    }),
    ("advertise.quic", "advertise { quic = \"a:7\" }", |it| {
        it.quic_advertise.as_deref() == Some("a:7")
    }),
    ("advertise.http", "advertise { http = \"a:7\" }", |it| {
        it.http.advertise.as_deref() == Some("a:7")
    }),
    (
        "http.bind_addr",
        "http { bind_addr = \"127.0.0.7\" }",
        |it| it.http.listen.ip().to_string() == "127.0.0.7",
    ),
    (
        "http.response_headers",
        "http { response_headers = { x = \"7\" } }",
        |it| it.http.response_headers == [("x".to_owned(), "7".to_owned())],
    ),
    (
        "http.allowed_hosts",
        "http { allowed_hosts = [\"h7\"] }",
        |it| it.http.allowed_hosts == ["h7"],
    ),
];

const SECURITY: [Row; 11] = [
    (
        "tls.ca_file",
        "tls {\n ca_file = \"/7\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n}",
        |it| files(it)[0] == Path::new("/7"),
    ),
    (
        "tls.cert_file",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/7\"\n key_file = \"/key\"\n}",
        |it| files(it)[1] == Path::new("/7"),
    ),
    (
        "tls.key_file",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/7\"\n}",
        |it| files(it)[2] == Path::new("/7"),
    ),
    (
        "tls.http",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n http = true\n}",
        |it| it.http.tls == HttpTls::On,
    ),
    (
        "tls.verify_https_client",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n http = true\n \
         verify_https_client = true\n}",
        |it| it.http.tls == HttpTls::Mutual,
    ),
    ("acl.enabled", "acl { enabled = true }", |it| it.acl_enabled),
    ("acl.stale_max", "acl { stale_max = \"7m\" }", |it| {
        it.acl_stale_max.as_secs() == 420
    }),
    (
        "acl.token_min_expiration_ttl",
        "acl { token_min_expiration_ttl = \"7m\" }",
        |it| it.token_lifetimes.min.as_secs() == 420,
    ),
    (
        "acl.token_max_expiration_ttl",
        "acl { token_max_expiration_ttl = \"7h\" }",
        |it| it.token_lifetimes.max.as_secs() == 25_200,
    ),
    (
        "server.node_join_token",
        "server { node_join_token = \"t7\" }",
        |it| token(it) == Some("t7"),
    ),
    (
        "server.node_join_token_file",
        "server { node_join_token_file = \"TOKEN\" }",
        |it| token(it) == Some("from a file"),
    ),
];

const SERVER: [Row; 18] = [
    (
        "server.bootstrap_expect",
        "server {\n bootstrap_expect = 3\n retry_join = [\"a\"]\n}",
        |it| it.bootstrap_expect == 3,
    ),
    (
        "server.retry_join",
        "server { retry_join = [\"a:7\"] }",
        |it| it.retry_join == ["a:7"] && it.bootstrap_expect == 0,
    ),
    (
        "server.num_schedulers",
        "server { num_schedulers = 57 }",
        |it| it.schedulers == 57,
    ),
    (
        "server.merge_updates",
        "server { merge_updates = false }",
        |it| it.merging == Merging::Off,
    ),
    (
        "server.heartbeat_interval",
        "server { heartbeat_interval = \"77ms\" }",
        |it| it.liveness.heartbeat_interval.as_millis() == 77,
    ),
    (
        "server.heartbeat_calm_interval",
        "server { heartbeat_calm_interval = \"377ms\" }",
        |it| it.liveness.calm_interval.as_millis() == 377,
    ),
    (
        "server.heartbeat_silence",
        "server { heartbeat_silence = \"7s\" }",
        |it| it.liveness.silence.as_secs() == 7,
    ),
    (
        "server.raft_heartbeat",
        "server { raft_heartbeat = \"77ms\" }",
        |it| it.raft.heartbeat.as_millis() == 77,
    ),
    (
        "server.raft_election",
        "server { raft_election = \"377ms\" }",
        |it| it.raft.election.as_millis() == 377,
    ),
    (
        "server.raft_snapshot_entries",
        "server { raft_snapshot_entries = 77 }",
        |it| it.raft.snapshot_entries == 77,
    ),
    (
        "server.eval_gc_threshold",
        "server { eval_gc_threshold = \"7s\" }",
        |it| it.gc.evals.as_secs() == 7,
    ),
    (
        "server.job_gc_threshold",
        "server { job_gc_threshold = \"7s\" }",
        |it| it.gc.jobs.as_secs() == 7,
    ),
    (
        "server.node_gc_threshold",
        "server { node_gc_threshold = \"7s\" }",
        |it| it.gc.nodes.as_secs() == 7,
    ),
    (
        "server.deployment_gc_threshold",
        "server { deployment_gc_threshold = \"7s\" }",
        |it| it.gc.deployments.as_secs() == 7,
    ),
    (
        "server.root_key_rotation_threshold",
        "server { root_key_rotation_threshold = \"77s\" }",
        |it| it.root_keys.rotation_threshold.as_secs() == 77,
    ),
    (
        "server.root_key_gc_interval",
        "server { root_key_gc_interval = \"7s\" }",
        |it| it.root_keys.gc_interval.as_secs() == 7,
    ),
    (
        "server.root_key_gc_threshold",
        "server { root_key_gc_threshold = \"7s\" }",
        |it| it.root_keys.gc_threshold.as_secs() == 7,
    ),
    (
        "server.oidc_issuer",
        "server { oidc_issuer = \"https://id.example/x/\" }",
        |it| it.oidc_issuer.as_deref() == Some("https://id.example/x"),
    ),
];

const TELEMETRY: [Row; 2] = [
    (
        "telemetry.disable_rpc_rate_metrics_labels",
        "telemetry { disable_rpc_rate_metrics_labels = true }",
        |it| it.telemetry.labels == Labels::Off,
    ),
    (
        "telemetry.metrics_require_token",
        "telemetry { metrics_require_token = true }",
        |it| it.telemetry.metrics_require_token,
    ),
];

const LIMITS: [Row; 4] = [
    (
        "limits.http_max_conns",
        "limits { http_max_conns = 7 }",
        |it| it.limits.http_connections == 7,
    ),
    (
        "limits.http_max_conns_per_client",
        "limits { http_max_conns_per_client = 7 }",
        |it| it.limits.http_connections_per_client == 7,
    ),
    (
        "limits.job_max_bytes",
        "limits { job_max_bytes = 7777 }",
        |it| it.limits.body_bytes == 7777,
    ),
    ("limits.sessions_max", "limits { sessions_max = 7 }", |it| {
        it.limits.sessions == 7
    }),
];

fn rows() -> Vec<Row> {
    [
        &TOP[..],
        &ADDRESSES,
        &SECURITY,
        &SERVER,
        &LIMITS,
        &TELEMETRY,
    ]
    .concat()
}

fn files(config: &Config) -> [&Path; 3] {
    match &config.tls {
        TlsConfig::Files { ca, cert, key } => [ca, cert, key],
        TlsConfig::Dev => panic!("no files"),
    }
}

fn token(config: &Config) -> Option<&str> {
    config.node_join_token.as_ref().map(Secret::reveal)
}

/// A file that is complete with these lines.
fn with(lines: &str) -> String {
    let rest = BASE.iter().filter(|(key, _)| !lines.starts_with(key));
    let rest: Vec<&str> = rest.map(|(_, text)| *text).collect();
    format!("{}\n{lines}\n", rest.join("\n"))
}

/// What the reader says it would know in a block; at the top where the block has no name.
fn keys_in(block: &str) -> Vec<String> {
    let text = match block {
        "" => "no_such_key = 1".to_owned(),
        // A label is part of the key.
        block if block.starts_with("keyring.") => {
            let label = &block["keyring.".len()..];
            format!("keyring \"{label}\" {{\n no_such_key = 1\n}}")
        }
        block => format!("{block} {{\n no_such_key = 1\n}}"),
    };
    let error = build(&with(&text)).expect_err("refused");
    let (_, list) = error.split_once("expected ").expect("a list");
    let names = list.split('`').skip(1).step_by(2);
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn every_key_that_the_reader_knows_has_a_row() {
    let blocks = [
        "ports",
        "advertise",
        "server",
        "tls",
        "http",
        "acl",
        "limits",
        "telemetry",
        "keyring.file",
        "keyring.credential",
        "keyring.environment",
    ];
    let at_the_top = keys_in("").into_iter();
    let is_block = |key: &String| blocks.iter().any(|it| it.split('.').next() == Some(&**key));
    let mut known: BTreeSet<String> = at_the_top.filter(|key| !is_block(key)).collect();
    for block in blocks {
        let keys = keys_in(block).into_iter();
        // Budgets have a file of tests of their own.
        let keys = keys.filter(|key| key != "budget");
        known.extend(keys.map(|key| format!("{block}.{key}")));
    }
    let tested: BTreeSet<String> = rows().iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(known, tested);
}

#[test]
fn every_key_has_its_effect() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("token");
    std::fs::write(&file, "from a file\n").expect("a token");
    let usual = build(&with("")).expect("is complete");
    for (key, lines, has_effect) in rows() {
        let lines = lines.replace("TOKEN", &file.display().to_string());
        let config = build(&with(&lines)).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(has_effect(&config), "{key}");
        assert!(
            !has_effect(&usual),
            "{key}: the default cannot be told from it"
        );
    }
}

#[test]
fn every_key_refuses_a_value_of_another_type_by_its_name() {
    for (key, lines, _) in rows() {
        let name = key.rsplit('.').next().unwrap_or(key);
        let at = lines.find(&format!("{name} ")).expect("the key");
        let rest = &lines[at..];
        let end = rest.find('\n').or_else(|| rest.rfind('}'));
        let end = end.unwrap_or(rest.len());
        let wrong = lines.replace(rest[..end].trim(), &format!("{name} = [[true]]"));
        let error = build(&with(&wrong)).expect_err(&wrong);
        assert!(error.contains(&format!("{key}: ")), "{wrong}: {error}");
    }
}

/// Keys, and lines in which their value could have no effect.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("server.num_schedulers", "server { num_schedulers = 0 }"),
    ("server.num_schedulers", "server { num_schedulers = 65 }"),
    (
        "server.raft_snapshot_entries",
        "server { raft_snapshot_entries = 63 }",
    ),
    ("limits.http_max_conns", "limits { http_max_conns = 0 }"),
    (
        "limits.http_max_conns_per_client",
        "limits { http_max_conns_per_client = 0 }",
    ),
    ("limits.job_max_bytes", "limits { job_max_bytes = 1023 }"),
    (
        "server.root_key_rotation_threshold",
        "server { root_key_rotation_threshold = \"9s\" }",
    ),
    (
        "server.root_key_gc_interval",
        "server { root_key_gc_interval = \"0s\" }",
    ),
    (
        "server.oidc_issuer",
        "server { oidc_issuer = \"http://id.example\" }",
    ),
    (
        "server.oidc_issuer",
        "server { oidc_issuer = \"https://id.example/?a=b\" }",
    ),
    ("limits.sessions_max", "limits { sessions_max = 0 }"),
    (
        "http.response_headers",
        "http { response_headers = { \"a b\" = \"c\" } }",
    ),
    (
        "http.response_headers",
        "http { response_headers = { a = \"b\\nc\" } }",
    ),
    (
        "keyring.file.path",
        "keyring \"file\" {\n path = \"keys\"\n}",
    ),
    (
        "keyring.file.active_kek",
        "keyring \"file\" {\n active_kek = \"ab12\"\n}",
    ),
    (
        "keyring.credential.name",
        "keyring \"credential\" {\n name = \"../kek\"\n}",
    ),
    (
        "keyring.environment.variable",
        "keyring \"environment\" {\n variable = \"A=B\"\n}",
    ),
    (
        "keyring",
        "keyring \"credential\" {\n active = true\n}\nkeyring \"environment\" {\n active = \
             true\n}",
    ),
    (
        "acl.token_max_expiration_ttl",
        "acl { token_max_expiration_ttl = \"30s\" }",
    ),
    (
        "tls.verify_https_client",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n \
             verify_https_client = true\n}",
    ),
];

#[test]
fn a_value_that_could_have_no_effect_is_refused_by_its_key() {
    for &(key, lines) in WITHOUT_EFFECT {
        let error = build(&with(lines)).expect_err(lines);
        assert!(error.starts_with(&format!("{key}: ")), "{lines}: {error}");
    }
}
