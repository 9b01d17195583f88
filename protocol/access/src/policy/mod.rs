//! Policies: the rules of one document.

mod rules;

pub use self::rules::{NamespaceRule, OperatorRule, Policy, Rule};
