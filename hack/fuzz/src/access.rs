//! Policies as users write them.

use protocol_access::{Acl, Level, NamespaceCapability, Policy};

use crate::Verdict;

/// A policy in HCL or JSON. The reader of stored policies takes every document that may be stored,
/// and reads the same rules in it.
pub fn acl_policy(data: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(data);
    let lenient = Policy::parse_leniently(&text);
    match Policy::parse(&text) {
        Ok(policy) => {
            assert_eq!(lenient.as_ref(), Ok(&policy));
            judge(&policy);
            Verdict::Understood
        }
        Err(errors) => {
            for error in errors.list() {
                let line = text
                    .split('\n')
                    .nth(error.line - 1)
                    .expect("a line of the text");
                assert!(
                    (1..=line.chars().count() + 1).contains(&error.column),
                    "{error}"
                );
            }
            if let Ok(policy) = lenient {
                judge(&policy);
            }
            Verdict::refused_with(errors.to_string())
        }
    }
}

/// The laws of rights: a policy given twice changes nothing, and a denying one takes away.
fn judge(policy: &Policy) {
    let mut deny = policy.clone();
    for rule in &mut deny.namespaces {
        rule.capabilities.insert(NamespaceCapability::Deny);
    }
    let once = Acl::compile([policy]);
    let twice = Acl::compile([policy, policy]);
    let denied = Acl::compile([policy, &deny]);
    let names = policy.namespaces.iter().map(|rule| rule.name.as_str());
    for name in names.chain(["default"]).take(20) {
        for capability in NamespaceCapability::ALL.iter().skip(1) {
            let allowed = once.namespace(name, *capability);
            assert_eq!(twice.namespace(name, *capability), allowed);
            assert!(!denied.namespace(name, *capability), "{name} {capability}");
        }
    }
    assert!(once.node(Level::Read) || !once.node(Level::Write));
}
