//! Auth methods and binding rules.

use controlplane_state::Table;

use super::*;

#[test]
fn second_default_auth_method_is_refused() {
    let mut cluster = filled();
    let second = AclAuthMethod {
        default: true,
        ..method("sso")
    };
    let methods = vec![second.clone()];
    let refusal = refused(&mut cluster, AclAuthMethods::Upsert { methods });
    assert_eq!(refusal.to_string(), "default method already exists: ci");
    let methods = vec![method("ci"), second];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let default = cluster.tables().default_auth_method().expect("one");
    assert_eq!(default.name, "sso");
}

#[test]
fn a_method_takes_its_rules_with_it_in_one_entry() {
    let mut cluster = filled();
    let names_of = names(["ci"]);
    let delete = AclAuthMethods::Delete { names: names_of };
    cluster.done(delete.clone().into());
    let left: Vec<_> = cluster.tables().binding_rules().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].id.as_str(), left[0].auth_method.as_str()),
        ("b3", "sso")
    );
    let rules_index = cluster.tables().table_index(&[Table::AclBindingRules]);
    assert_eq!(rules_index, cluster.index);
    // Another method under the same name inherits none.
    let methods = vec![method("ci")];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    assert_eq!(cluster.tables().binding_rules_of("ci").count(), 0);
    cluster.done(delete.clone().into());
    let refusal = refused(&mut cluster, delete);
    assert_eq!(refusal.to_string(), "ACL auth method ci not found");
}

#[test]
fn a_method_keeps_its_creation_and_unchanged_it_wakes_no_reader() {
    let mut cluster = filled();
    let before = cluster.tables().auth_method("sso").expect("it").clone();
    let methods = vec![method("sso")];
    let same = cluster.done(AclAuthMethods::Upsert { methods }.into());
    assert_eq!(same.outcome, Outcome::NoOp);
    let methods = vec![AclAuthMethod {
        config: None,
        ..method("sso")
    }];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let after = cluster.tables().auth_method("sso").expect("it");
    let kept = |it: &AclAuthMethod| (it.create_index, it.create_time);
    assert_eq!(kept(after), kept(&before));
    assert_eq!(
        (after.modify_index, after.modify_time),
        (cluster.index, cluster.now)
    );
}

#[test]
fn a_rule_names_a_method_that_exists_and_a_right_that_fits() {
    let mut cluster = filled();
    let bind = |bind_type, bind_name: &str| AclBindingRule {
        bind_type,
        bind_name: bind_name.to_owned(),
        ..rule("b9", "ci")
    };
    let cases = [
        (rule("b9", "none"), "ACL auth method none not found"),
        (rule("b9", ""), "auth method is missing"),
        (bind(BindType::Policy, ""), "bind name is missing"),
        (
            bind(BindType::Management, "all"),
            "bind name should be empty",
        ),
    ];
    for (rule, why) in cases {
        let rules = vec![rule];
        let refusal = refused(&mut cluster, AclBindingRules::Create { rules });
        assert_eq!(
            refusal.to_string(),
            format!("binding rule 0 invalid: {why}")
        );
    }
    let rules = vec![bind(BindType::Management, "")];
    cluster.done(AclBindingRules::Create { rules }.into());
    let made = cluster.index;
    let rules = vec![rule("b9", "sso")];
    cluster.done(AclBindingRules::Update { rules }.into());
    let moved = cluster.tables().binding_rule("b9").expect("it");
    assert_eq!(
        (moved.auth_method.as_str(), moved.create_index),
        ("sso", made)
    );
    let ids = names(["b9", "b10"]);
    let refusal = refused(&mut cluster, AclBindingRules::Delete { ids });
    assert_eq!(
        refusal,
        AccessRefusal::BindingRuleNotFound("b10".to_owned())
    );
    assert!(cluster.tables().binding_rule("b9").is_some(), "all or none");
}

/// A method that is deleted and made anew under its name may be another provider's.
#[test]
fn login_makes_a_token_only_while_its_method_is_as_it_was_checked() {
    let mut cluster = filled();
    let method_index = |cluster: &Harness| {
        let method = cluster.tables().auth_method("ci");
        method.expect("a method").modify_index
    };
    let checked = method_index(&cluster);
    let login = |number, method: &str, method_index| AclTokens::Login {
        token: Box::new(token(number)),
        method: method.to_owned(),
        method_index,
    };
    cluster.done(login(21, "ci", checked).into());
    let made = cluster.tables().acl_token(&token(21).accessor_id);
    assert!(made.is_some(), "its method has not changed");
    let names = vec!["ci".to_owned()];
    let before = cluster.tables().auth_method("ci").expect("it");
    let again = AclAuthMethod::clone(before);
    cluster.done(AclAuthMethods::Delete { names }.into());
    let changed = AccessRefusal::AuthMethodChanged("ci".to_owned());
    let refusal = refused(&mut cluster, login(22, "ci", checked));
    assert_eq!(refusal, changed);
    let methods = vec![again];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let refusal = refused(&mut cluster, login(22, "ci", checked));
    assert_eq!(refusal, changed);
    assert!(cluster.tables().acl_token(&token(22).accessor_id).is_none());
    let now = method_index(&cluster);
    cluster.done(login(22, "ci", now).into());
}
