//! What a configuration file is completed to, and what is refused.

mod budgets;
mod keys;

use super::*;

fn build(text: &str) -> Result<Config, String> {
    let read = Read::parse(text).map_err(|mistake| mistake.message)?;
    Config::build(&read.file).map_err(|error| error.to_string())
}

const TLS: &str = r#"
    tls {
      ca_file   = "/ca.pem"
      cert_file = "/cert.pem"
      key_file  = "/key.pem"
      http      = true
    }
"#;

#[test]
fn a_small_file_is_completed_with_defaults() -> Result<(), String> {
    let config = build(&format!("data_dir = \"/d\"\n{TLS}"))?;
    assert_eq!(config.quic_listen.to_string(), "127.0.0.1:4647");
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:4646");
    assert_eq!(config.bootstrap_expect, 1);
    assert_eq!(config.liveness.silence, Duration::from_millis(2600));
    Ok(())
}

#[test]
fn the_file_that_the_documentation_shows_is_one() {
    let page = include_str!("../../../../../docs/configuration.md");
    let shown = page
        .split("```hcl")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let file = Read::parse(shown.expect("a file")).expect("it reads").file;
    assert_eq!((file.ports.http, file.ports.quic), (Some(4646), Some(4647)));
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let error = build("data_dirr = \"/d\"").expect_err("refused");
    assert!(error.contains("data_dirr"), "{error}");
}

#[test]
fn a_keyring_block_has_the_label_of_a_known_provider() -> Result<(), String> {
    let config = build(&format!("data_dir = \"/d\"\n{TLS}"))?;
    assert_eq!(config.kek_dir, Path::new("/d/keyring"));
    for (block, expected) in [
        ("keyring {}", "keyring: the block has one label"),
        (
            "keyring \"file\" \"b\" {}",
            "keyring: the block has one label",
        ),
        (
            "keyring \"awskms\" {}",
            "unknown field `awskms`, expected one of `file`, `credential`, `environment`",
        ),
        ("acl \"file\" {}", "acl: the block has no label"),
    ] {
        let error = build(&format!("data_dir = \"/d\"\n{TLS}\n{block}")).expect_err(block);
        assert!(error.contains(expected), "{block}: {error}");
    }
    Ok(())
}

#[test]
fn a_log_level_that_is_none_is_refused_with_those_that_are() -> Result<(), String> {
    let with = |level: &str| build(&format!("data_dir = \"/d\"\nlog_level = {level:?}\n{TLS}"));
    for level in ["warning", "", "info,quinn=debug", "controlplane_server"] {
        let error = with(level).expect_err(level);
        assert!(error.contains("log_level"), "{error}");
        assert!(error.contains("trace, debug, info, warn"), "{error}");
    }
    assert_eq!(with("warn")?.log.level, tracing::Level::WARN);
    assert_eq!(with("DEBUG")?.log.level, tracing::Level::DEBUG);
    Ok(())
}

#[test]
fn an_open_http_address_needs_tls_and_tokens() {
    let open = "data_dir = \"/d\"\nhttp { bind_addr = \"0.0.0.0\" }\n";
    let error = build(&format!("{open}{TLS}")).expect_err("refused without acl");
    assert!(error.contains("http.bind_addr"), "{error}");
    build(&format!("{open}{TLS}\nacl {{ enabled = true }}")).expect("with both it is served");
}

#[test]
fn an_empty_join_token_is_refused() {
    for token in ["", "  "] {
        let with = format!("data_dir = \"/d\"\nserver {{ node_join_token = {token:?} }}\n{TLS}");
        let error = build(&with).expect_err("refused");
        assert!(error.contains("server.node_join_token"), "{error}");
    }
}

#[test]
fn a_configuration_that_is_printed_shows_no_token() {
    let text = format!("data_dir = \"/d\"\nserver {{ node_join_token = \"hush\" }}\n{TLS}");
    let file = Read::parse(&text).expect("reads").file;
    assert!(!format!("{file:?}").contains("hush"));
    let config = Config::build(&file).expect("is valid");
    assert!(!format!("{config:?}").contains("hush"));
    let token = config.node_join_token.expect("a token");
    assert_eq!(token.reveal(), "hush");
}

#[test]
fn a_cluster_of_three_names_its_peers() {
    let three = format!("data_dir = \"/d\"\nserver {{ bootstrap_expect = 3 }}\n{TLS}");
    assert!(build(&three).expect_err("refused").contains("retry_join"));
}

#[test]
fn a_time_between_signs_of_life_that_is_none_is_refused() {
    for key in ["heartbeat_interval", "raft_heartbeat"] {
        for time in ["0s", "1ms"] {
            let with = format!("data_dir = \"/d\"\nserver {{ {key} = \"{time}\" }}\n{TLS}");
            let error = build(&with).expect_err("refused");
            assert!(error.contains(&format!("server.{key}: ")), "{error}");
        }
    }
}

#[test]
fn whatever_is_wrong_is_told_with_its_key_and_its_line() {
    let cases = [
        (
            "server {\n  bogus = 1\n}",
            2,
            "server.bogus: unknown field `bogus`",
        ),
        ("\n\nbogus { }", 3, "bogus: unknown field `bogus`"),
        (
            "ports {\n  quic = 1\n  http = \"x\"\n}",
            3,
            "ports.http: invalid type",
        ),
        ("ports {\n  http = 65536\n}", 2, "ports.http: invalid value"),
        (
            "name = \"a\"\ndata_dir = 5",
            2,
            "data_dir: invalid type: integer `5`",
        ),
        (
            "server {\n  heartbeat_silence = 3\n}",
            2,
            "server.heartbeat_silence: invalid type",
        ),
        (
            "tls {\n  ca_file = \"/ca\"\n}",
            1,
            "tls: missing field `cert_file`",
        ),
        ("acl {}\nacl {}", 2, "acl: it is given twice"),
        ("name = \"a\"\nname = \"b\"", 2, "column 1: "),
        (
            "name = \"a\"\nregion = env.REGION",
            2,
            "region: a configuration has",
        ),
        (
            "http {\n  allowed_hosts = [\"a\", \"${b}\"]\n}",
            2,
            "http.allowed_hosts: a conf",
        ),
        ("server \"x\" {\n}", 1, "server: the block has no label"),
        ("name = \"a\"\nserver { ", 2, "column 10: "),
    ];
    for (text, line, message) in cases {
        let mistake = Read::parse(text).expect_err(text);
        assert!(mistake.message.contains(message), "{text}: {mistake:?}");
        assert_eq!(mistake.line, Some(line), "{text}: {mistake:?}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_told_with_file_and_line() -> std::io::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("server.hcl");
    let load = |text: &str| {
        std::fs::write(&path, text)?;
        let refused = Config::load(&path).expect_err(text).to_string();
        Ok::<_, std::io::Error>(refused.replace(&path.display().to_string(), "FILE"))
    };
    let with = format!("data_dir = \"/d\"\n{TLS}\nserver {{\n\n  bootstrap_expect = 2\n}}");
    let refused = load(&with)?;
    assert_eq!(
        refused,
        "FILE:12: server.bootstrap_expect: expected 1, 3 or 5"
    );
    let refused = load("data_dir = \"/d\"")?;
    assert!(refused.starts_with("FILE: tls: missing"), "{refused}");
    let refused = load(&"#".repeat(2 << 20))?;
    assert!(refused.contains("this is no configuration"), "{refused}");
    Ok(())
}

#[test]
fn addresses_are_completed_or_refused_by_their_key() {
    let with = |line: &str| build(&format!("data_dir = \"/d\"\n{TLS}\n{line}"));
    let joins = with(r#"server { retry_join = ["a.example", "10.0.0.2:5", "::1", "[::1]:7"] }"#);
    let joins = joins.expect("they are addresses").retry_join;
    assert_eq!(
        joins,
        ["a.example:4647", "10.0.0.2:5", "[::1]:4647", "[::1]:7"]
    );
    for wrong in [
        "",
        "a b",
        "a:",
        "a:0",
        "a:b",
        ":4647",
        "https://a:4647",
        "a:70000",
    ] {
        let join = format!("server {{ retry_join = [{wrong:?}] }}");
        let refused = with(&join).expect_err(wrong);
        assert!(refused.contains("server.retry_join: "), "{refused}");
        for key in ["quic", "http"] {
            let told = with(&format!("advertise {{ {key} = {wrong:?} }}"));
            let refused = told.expect_err(wrong);
            assert!(refused.contains(&format!("advertise.{key}: ")), "{refused}");
        }
    }
}

#[test]
fn nodes_are_not_given_up_before_a_lost_majority_is_noticed() {
    let with = |silence: &str, election: &str| {
        build(&format!(
            "data_dir = \"/d\"\n{TLS}\nserver {{\n heartbeat_silence = {silence:?}\n \
             raft_election = {election:?}\n}}"
        ))
    };
    let refused = with("2600ms", "1100ms").expect_err("too late");
    assert!(refused.contains("server.heartbeat_silence"), "{refused}");
    assert!(refused.contains("election timeout of 2.2s"), "{refused}");
    assert!(refused.contains("at least 2.725s"), "{refused}");
    with("2725ms", "1100ms").expect("in time");
}

#[test]
fn heartbeats_are_rarer_where_nothing_is_in_doubt_and_never_too_rare() {
    let calm = |server: &str| {
        let text = format!("data_dir = \"/d\"\n{TLS}\nserver {{\n{server}\n}}");
        Ok::<_, String>(build(&text)?.liveness.calm_interval.as_millis())
    };
    assert_eq!(calm(""), Ok(500));
    assert_eq!(
        calm("heartbeat_interval = \"1s\"\nheartbeat_silence = \"4s\""),
        Ok(1000)
    );
    // The leader would lose its majority unnoticed.
    assert_eq!(
        calm("heartbeat_silence = \"2725ms\"\nraft_election = \"1s\""),
        Ok(325)
    );
    assert_eq!(calm("heartbeat_calm_interval = \"125ms\""), Ok(125));
    for refused in ["124ms", "651ms", "0s", "soon"] {
        let error = calm(&format!("heartbeat_calm_interval = {refused:?}")).expect_err("refused");
        assert!(
            error.contains("server.heartbeat_calm_interval: "),
            "{error}"
        );
    }
}

#[test]
fn heartbeats_that_are_too_rare_for_bad_weather_are_doubted_and_no_others() {
    let doubt = |interval, silence| {
        let liveness = LivenessConfig {
            heartbeat_interval: Duration::from_millis(interval),
            calm_interval: Duration::from_millis(interval.max(500)),
            silence: Duration::from_millis(silence),
            takeover_extra: Duration::ZERO,
        };
        liveness.doubt()
    };
    assert_eq!(doubt(125, 2_600), None);
    assert_eq!(doubt(250, 5_100), None);
    let doubted = doubt(250, 2_600).expect("a doubt");
    assert!(doubted.contains("of 5,000 nodes"), "{doubted}");
}

#[test]
fn a_relative_data_directory_of_dev_becomes_absolute() {
    let config = Config::dev(PathBuf::from("here")).expect("a configuration");
    let wanted = std::env::current_dir().expect("a directory").join("here");
    assert_eq!(config.data_dir, wanted);
}
