//! One command of each kind, every field set.

use std::time::Duration;

use controlplane_state::command::{KeyRemoval, Resealed, RootKeyChange, TokensRekey};
use controlplane_state::{AuthMethodKind, TokenLocality};
use protocol_model::AllocId;

use super::*;

pub(crate) fn commands() -> Vec<(&'static str, Command)> {
    [rights(), logins(), once(), keys()].concat()
}

fn texts() -> Vec<String> {
    names(["a", "b"])
}

/// Policies, tokens and roles.
fn rights() -> Vec<(&'static str, Command)> {
    let policies = vec![AclPolicy {
        description: "reads".to_owned(),
        job_acl: Some(JobAcl {
            namespace: "default".to_owned(),
            job_id: "web".to_owned(),
            group: "front".to_owned(),
            task: "main".to_owned(),
        }),
        ..policy("read")
    }];
    let tokens = vec![AclToken {
        sealed: Some(sealed(3)),
        roles: names(["r1"]),
        expiration: Some(UnixNanos(1_700_000_000_000_000_000)),
        ttl: Some(Duration::new(60, 5)),
        ..token(1)
    }];
    let roles = vec![AclRole {
        description: "developers".to_owned(),
        ..role("r1", "dev")
    }];
    let create = AclTokens::Create {
        tokens: tokens.clone(),
    };
    let login = AclTokens::Login {
        token: Box::new(tokens[0].clone()),
        method: "ci".to_owned(),
        method_index: 7,
    };
    let update = AclTokens::Update { tokens };
    let (names, accessors) = (texts(), texts());
    let delete = AclTokens::Delete { accessors };
    let accessors = texts();
    let expire = AclTokens::Expire { accessors };
    let create_role = AclRoles::Create {
        roles: roles.clone(),
    };
    let update_role = AclRoles::Update { roles };
    let delete_role = AclRoles::Delete { ids: texts() };
    vec![
        (
            "acl_policies_upsert",
            AclPolicies::Upsert { policies }.into(),
        ),
        ("acl_policies_delete", AclPolicies::Delete { names }.into()),
        ("acl_tokens_create", create.into()),
        ("acl_tokens_update", update.into()),
        ("acl_tokens_delete", delete.into()),
        ("acl_tokens_expire", expire.into()),
        ("acl_tokens_login", login.into()),
        ("acl_roles_create", create_role.into()),
        ("acl_roles_update", update_role.into()),
        ("acl_roles_delete", delete_role.into()),
    ]
}

/// Auth methods and binding rules.
fn logins() -> Vec<(&'static str, Command)> {
    let methods = vec![AclAuthMethod {
        kind: AuthMethodKind::Oidc,
        locality: TokenLocality::Global,
        token_name_format: "${auth_method_name}".to_owned(),
        max_token_ttl: Duration::from_secs(600),
        default: true,
        sealed: Some(sealed(3)),
        ..method("sso")
    }];
    let rules = vec![AclBindingRule {
        description: "everybody".to_owned(),
        selector: "value.team == dev".to_owned(),
        ..rule("b1", "sso")
    }];
    let upsert = AclAuthMethods::Upsert { methods };
    let delete = AclAuthMethods::Delete { names: texts() };
    let create_rule = AclBindingRules::Create {
        rules: rules.clone(),
    };
    let update_rule = AclBindingRules::Update { rules };
    let delete_rule = AclBindingRules::Delete { ids: texts() };
    vec![
        ("acl_auth_methods_upsert", upsert.into()),
        ("acl_auth_methods_delete", delete.into()),
        ("acl_binding_rules_create", create_rule.into()),
        ("acl_binding_rules_update", update_rule.into()),
        ("acl_binding_rules_delete", delete_rule.into()),
    ]
}

/// Bootstrap, one-time tokens and root keys.
fn once() -> Vec<(&'static str, Command)> {
    let token = AclToken {
        sealed: Some(sealed(3)),
        kind: AclTokenKind::Management,
        policies: Vec::new(),
        global: true,
        ..token(1)
    };
    let bootstrap = Command::AclBootstrap {
        token,
        reset_index: 3,
    };
    let digests = vec![Digest([1; 32]), Digest([2; 32])];
    let expire = OneTimeTokens::Expire { digests };
    let key = RootKey {
        publish_time: UnixNanos(8),
        ..root_key(0xabc)
    };
    let replaces = Some(2);
    let upsert = RootKeyUpsert {
        key,
        replaces,
        rotation: Rotation::Plain,
    };
    vec![
        ("acl_bootstrap_sealed", bootstrap),
        ("one_time_token_make", make_one_time(1, "a")),
        ("one_time_token_exchange", exchange(1)),
        ("one_time_tokens_expire", expire.into()),
        ("root_key_upsert", upsert.into()),
        ("allocs_resign", resign(3, &[1, 2].map(AllocId::from_u128))),
    ]
}

/// Changes of root keys, and secrets that are sealed anew.
fn keys() -> Vec<(&'static str, Command)> {
    let full = RootKeyUpsert {
        key: RootKey {
            state_time: UnixNanos(9),
            ..root_key(0xdef)
        },
        replaces: Some(2),
        rotation: Rotation::Full,
    };
    let rewrap = RootKeyChange::Rewrap {
        number: 2,
        before: [1; 8],
        kek_id: [2; 8],
        wrapped: vec![3, 4, 5],
    };
    let remove = RootKeyChange::Remove {
        number: 2,
        rule: KeyRemoval::Forced,
    };
    let resealed = |name: &str| Resealed {
        name: name.to_owned(),
        key: 2,
        nonce: [7; 12],
        sealed: sealed(3),
    };
    let rekey = TokensRekey {
        tokens: vec![resealed("a")],
        methods: vec![resealed("sso")],
    };
    vec![
        ("root_key_upsert_full", full.into()),
        (
            "root_key_activate",
            RootKeyChange::Activate { number: 2 }.into(),
        ),
        (
            "root_key_end_rekey",
            RootKeyChange::EndRekey { number: 2 }.into(),
        ),
        ("root_key_rewrap", rewrap.into()),
        ("root_key_remove", remove.into()),
        // As a document, which was written for a while; and as a message.
        ("tokens_rekey", rekey.clone().into()),
        ("tokens_rekey_message", rekey.into()),
    ]
}
