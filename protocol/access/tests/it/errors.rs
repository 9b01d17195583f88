//! Documents that are refused: every error, its place and its text.

use std::fmt::Write as _;

use protocol_access::policy::{DOCUMENT_BYTES_MAX, ERRORS_MAX, RULES_MAX};
use protocol_access::{NamespaceCapability, Policy};

/// The errors of a document as a user sees them.
fn errors(text: &str) -> String {
    match Policy::parse(text) {
        Ok(policy) => panic!("accepted {text}: {policy:?}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn errors_of_a_document_are_all_reported_with_their_places() {
    let text = r#"
namespace "de fault" { policy = "wrte" }
namespace "dev" {
  policy       = "read"
  policy       = "write"
  capabilities = ["read_job", "fly", 7]
  colour       = "red"
  variables { path "/web" { capabilities = ["raed"] } }
}
namespace "prod" { variables { } }
node_pool "a b" { policy = "scale" capabilities = ["reed"] }
host_volume "" { capabilities = ["mount"] }
agent { policy = "list" }
agent { policy = "read" }
node { }
operator { policy = "list" }
plugin "x" { policy = "read" }
quota = "read"
namespaces "typo" { policy = "read" }
"#;
    crate::assert_golden("errors/rules.txt", &(errors(text) + "\n"));
}

#[test]
fn errors_of_grammar_are_located_and_the_rest_is_read() {
    let texts = [
        "namespace \"default\" {\n  policy = read\n  capabilities = [\"fly\"]\n}",
        "namespace \"default\" {\n  policy = \"read\n}\nagent { policy = \"no\" }",
        "namespace \"default\" {\n  policy = \"read\"\n",
        "agent { policy = \"read\" }\n}\nnode { policy = \"no\" }",
        "namespace \"a\" {\n  capabilities = [\n    \"read-job\"\n    \"list-jobs\"\n  ]\n}",
        "agent \"a\" = { policy = \"read\" }",
        "agent { policy : \"read\" }",
        "agent { policy = \"\\x\" }\nnode { policy = ? }",
        "/* agent { policy = \"read\" }",
        "agent",
        "{\"agent\": {\"policy\": \"read\",}}",
        "{\"agent\" {\"policy\": \"read\"}}",
        "{\"agent\": {\"policy\": \"read\"} \"node\": {\"policy\": \"read\"}}",
        "{\"agent\": {\"policy\": \"read\"}} {}",
        "{agent: {\"policy\": \"read\"}}",
        "{\"namespace\": {\"a\": {\"capabilities\": [\"read-job\",]}}}",
        "{\"agent\": {\"policy\": \"\\ud800\"}}",
        "{",
        "a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{",
    ];
    let mut told = String::new();
    for text in texts {
        let _ = writeln!(told, "--- {text}\n{}", errors(text));
    }
    crate::assert_golden("errors/grammar.txt", &told);
}

#[test]
fn text_without_a_rule_is_refused_and_no_text_is_a_policy() {
    assert!(Policy::parse("").expect("a policy").is_empty());
    for text in ["\n", "# nothing", "{}", "[]", "x"] {
        let told = errors(text);
        assert!(
            told.contains("Invalid policy: ") || told.contains("Failed to parse"),
            "{told}"
        );
    }
}

#[test]
fn lenient_reader_ignores_the_unknown_and_keeps_the_known() {
    let text = r#"
namespace "dev" {
  policy = "read-some"
  capabilities = ["read-job", "of-the-future"]
  quota = { cpu = 5 on = true }
}
future "block" { policy = "write" }
agent { policy = "read" }
agent { policy = "deny" }
"#;
    let policy = Policy::parse_leniently(text).expect("a document of a later release");
    let rule = &policy.namespaces[0];
    assert_eq!(
        rule.capabilities,
        [NamespaceCapability::ReadJob].as_slice().into()
    );
    assert_eq!(policy.agent, Some(protocol_access::LevelRule::Deny));
    assert!(
        Policy::parse_leniently("# a comment")
            .expect("a policy")
            .is_empty()
    );
}

#[test]
fn lenient_reader_refuses_a_document_that_may_lack_a_deny() {
    for text in [
        "agent { policy = deny }",
        "agent { policy = [\"deny\"] }",
        "agent {",
    ] {
        assert!(Policy::parse_leniently(text).is_err(), "{text}");
    }
}

#[test]
fn document_of_the_largest_size_is_read_and_a_larger_one_refused() {
    let rule = "agent { policy = \"read\" }\n#";
    let largest = format!("{rule}{}", "x".repeat(DOCUMENT_BYTES_MAX - rule.len()));
    Policy::parse(&largest).expect("a document of the largest size");
    let told = errors(&(largest + "x"));
    assert!(told.contains("65537 bytes, at most 65536"), "{told}");
}

#[test]
fn rules_beyond_the_limit_are_refused() {
    let most: String = (0..RULES_MAX)
        .map(|n| format!("node_pool \"p{n}\" {{ policy = \"read\" }}\n"))
        .collect();
    Policy::parse(&most).expect("as many rules as are allowed");
    let told = errors(&(most + "agent { policy = \"read\" }"));
    assert_eq!(
        told,
        "line 1025, column 1: Failed to parse ACL Policy: more than 1024 rules; split the policy"
    );
}

#[test]
fn errors_beyond_the_limit_are_counted() {
    let text = "x { }\n".repeat(ERRORS_MAX + 7);
    let errors = Policy::parse(&text).expect_err("unknown blocks");
    assert_eq!(errors.list().len(), ERRORS_MAX);
    assert!(errors.to_string().ends_with("more"), "{errors}");
    assert!(
        errors.omitted() > 7,
        "a second error tells that the key is there twice"
    );
}

#[test]
fn error_quotes_a_part_of_a_long_name_and_no_control_character() {
    let name = "\u{1b}[31m".repeat(40);
    let told = errors(&format!("namespace \"{name}\" {{ policy = \"read\" }}"));
    assert!(told.len() < 600 && !told.contains('\u{1b}'), "{told}");
}
