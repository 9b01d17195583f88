//! What a configuration file is completed to, and what is refused.

use super::*;

fn build(text: &str) -> Result<Config, String> {
    let file: ConfigFile = hcl::from_str(text).map_err(|error| error.to_string())?;
    Config::build(&file).map_err(|error| error.to_string())
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
    let page = include_str!("../../../../docs/configuration.md");
    let shown = page
        .split("```hcl")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let file: ConfigFile = hcl::from_str(shown.expect("a file")).expect("it reads");
    assert_eq!((file.ports.http, file.ports.quic), (Some(4646), Some(4647)));
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let error = build("data_dirr = \"/d\"").expect_err("refused");
    assert!(error.contains("data_dirr"), "{error}");
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
    let file: ConfigFile = hcl::from_str(&text).expect("reads");
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
