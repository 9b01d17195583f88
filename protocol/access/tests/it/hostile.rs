//! Texts that try to be read differently than they look.

use protocol_access::{Acl, NamespaceCapability, Policy, VariableCapability};

use NamespaceCapability as N;

fn acl(text: &str) -> Acl {
    let policy = Policy::parse(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    Acl::compile([&policy])
}

fn is_refused(text: &str) -> bool {
    Policy::parse(text).is_err()
}

#[test]
fn rule_in_a_comment_or_a_text_gives_nothing() {
    let texts = [
        "node { policy = \"read\" } # namespace \"dev\" { policy = \"write\" }",
        "node { policy = \"read\" } // */ namespace \"dev\" { policy = \"write\" }",
        "/* # */ node { policy = \"read\" } /* namespace \"dev\" { policy = \"write\" } // */",
        "node { policy = \"read\" }\nnamespace \"prod\" { policy = \"read\" /* \" } */ }",
    ];
    for text in texts {
        assert!(!acl(text).namespace_some("dev"), "{text}");
    }
    // A quotation mark hides no comment sign, and a comment sign in a text is a part of it.
    assert!(is_refused("namespace \"dev#\" { policy = \"write\" }"));
    assert!(is_refused(
        "namespace \"dev/*\" { policy = \"write\" } \"*/\" { }"
    ));
}

#[test]
fn names_that_only_look_alike_are_refused() {
    // Cyrillic letters, a fullwidth star, a zero width space, a combining accent.
    for name in [
        "d\u{435}v",
        "\u{ff0a}",
        "dev\u{200b}",
        "e\u{301}",
        "dev\\u0000",
    ] {
        let text = format!("namespace \"{name}\" {{ policy = \"read\" }}");
        assert!(is_refused(&text), "{text}");
    }
    for text in [
        "nam\u{435}space \"dev\" { policy = \"read\" }",
        "Namespace \"dev\" { policy = \"read\" }",
        "namespace \"dev\" { Policy = \"read\" }",
        "namespace \"dev\" { policy = \"READ\" }",
        "namespace \"dev\" { capabilities = [\"Read-Job\"] }",
    ] {
        assert!(is_refused(text), "{text}");
    }
}

#[test]
fn second_block_of_a_name_cannot_take_a_deny_back() {
    let acl =
        acl("namespace \"dev\" { policy = \"deny\" }\nnamespace \"dev\" { policy = \"write\" }");
    assert!(!acl.namespace("dev", N::ReadJob) && !acl.namespace_some("dev"));
    assert!(is_refused(
        "{\"agent\": {\"policy\": \"deny\"}, \"agent\": {\"policy\": \"write\"}}"
    ));
    assert!(is_refused(
        "namespace \"dev\" { capabilities = [\"deny\"] capabilities = [\"read-job\"] }"
    ));
}

#[test]
fn double_star_is_not_wider_than_one_star() {
    let acl =
        acl("namespace \"a**\" { policy = \"write\" }\nnamespace \"ab*\" { policy = \"read\" }");
    assert!(acl.namespace("ax", N::SubmitJob) && !acl.namespace("abx", N::SubmitJob));
}

#[test]
fn path_cannot_leave_its_namespace() {
    let text = "namespace \"dev\" { variables { path \"*\" { capabilities = [\"read\"] } } }";
    let acl = acl(text);
    assert!(acl.variable("dev", "any/path", VariableCapability::Read));
    for (namespace, path) in [
        ("prod", "x"),
        ("dev\0prod", "x"),
        ("prod", "x\0dev"),
        ("*", "x"),
    ] {
        assert!(
            !acl.variable(namespace, path, VariableCapability::Read),
            "{namespace:?} {path:?}"
        );
    }
    assert!(is_refused(
        "namespace \"dev\" { variables { path \"a\\u0000b\" { capabilities = [\"read\"] } } }"
    ));
}

#[test]
fn text_of_another_encoding_or_line_end_reads_the_same() {
    let unix = "namespace \"dev\" {\n  policy = \"read\" # a\n}\n";
    let windows = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
    assert_eq!(Policy::parse(unix), Policy::parse(&windows));
}

#[test]
fn deep_and_wide_documents_are_read_or_refused_quickly() {
    for unit in [
        "[", "{", "a{", "a=[", "a \"b\" ", "\"\\", "/*", "a,", "}", "]", "\"a\":",
    ] {
        let count = 65_536 / unit.len();
        assert!(is_refused(&unit.repeat(count)), "{unit}");
        assert!(
            is_refused(&format!("{{{}", unit.repeat(count - 1))),
            "{unit}"
        );
    }
}
