//! Access control: what `apply` decides of tokens, policies, roles, logins and root keys.

mod limits;
mod logins;
mod one_time;
mod root_keys;
mod tokens;

use std::collections::BTreeMap;

use controlplane_state::command::{
    AclAuthMethods, AclBindingRules, AclPolicies, AclRoles, AclTokens, OneTimeTokens, RootKeyUpsert,
};
use controlplane_state::{
    AccessRefusal, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, AclTokenKind,
    Applied, BindType, Command, Digest, JobAcl, Outcome, Refusal, RootKey, RootKeyState, Sealed,
    Signal,
};
use protocol_model::UnixNanos;
use uuid::Uuid;

use crate::harness::{Harness, has_signal};

pub(crate) fn policy(name: &str) -> AclPolicy {
    AclPolicy {
        name: name.to_owned(),
        rules: "namespace \"default\" { policy = \"read\" }".to_owned(),
        ..AclPolicy::default()
    }
}

/// A policy of one job's workloads.
pub(crate) fn policy_of_job(name: &str, job_id: &str) -> AclPolicy {
    AclPolicy {
        job_acl: Some(JobAcl {
            namespace: "default".to_owned(),
            job_id: job_id.to_owned(),
            ..JobAcl::default()
        }),
        ..policy(name)
    }
}

/// A client token with the policy `read`.
pub(crate) fn token(number: u8) -> AclToken {
    AclToken {
        accessor_id: format!("accessor-{number}"),
        secret_hash: Digest([number; 32]),
        sealed: None,
        name: "ci".to_owned(),
        kind: AclTokenKind::Client,
        policies: vec!["read".to_owned()],
        roles: Vec::new(),
        global: false,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    }
}

/// A role with the policy `read`.
pub(crate) fn role(id: &str, name: &str) -> AclRole {
    AclRole {
        id: id.to_owned(),
        name: name.to_owned(),
        policies: vec!["read".to_owned()],
        ..AclRole::default()
    }
}

pub(crate) fn method(name: &str) -> AclAuthMethod {
    AclAuthMethod {
        name: name.to_owned(),
        config: Some("{\"JWKSURL\":\"https://example.com\"}".to_owned()),
        ..AclAuthMethod::default()
    }
}

/// A rule that binds every login of `method` to the role `dev`.
pub(crate) fn rule(id: &str, method: &str) -> AclBindingRule {
    AclBindingRule {
        id: id.to_owned(),
        auth_method: method.to_owned(),
        bind_type: BindType::Role,
        bind_name: "dev".to_owned(),
        ..AclBindingRule::default()
    }
}

pub(crate) fn root_key(number: u128) -> RootKey {
    RootKey {
        id: Uuid::from_u128(number),
        number: 0,
        kek_id: [7; 8],
        wrapped: vec![1, 2, 3],
        public_ed25519: vec![4; 32],
        public_rsa: vec![5, 6],
        state: RootKeyState::Active,
        create_time: UnixNanos::ZERO,
        publish_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    }
}

pub(crate) fn sealed(key: u32) -> Sealed {
    Sealed {
        key,
        nonce: [9; 12],
        bytes: vec![10, 11, 12],
    }
}

/// Everything that a checkpoint has of access control, once.
pub(crate) fn fill(cluster: &mut Harness) {
    let key = root_key(1);
    let replaces = None;
    cluster.done(RootKeyUpsert { key, replaces }.into());
    let policies = vec![policy("read"), policy_of_job("of-web", "web")];
    cluster.done(AclPolicies::Upsert { policies }.into());
    let roles = vec![role("r1", "dev")];
    cluster.done(AclRoles::Create { roles }.into());
    let expiring = AclToken {
        sealed: Some(sealed(1)),
        roles: vec!["r1".to_owned()],
        global: true,
        ttl: Some(std::time::Duration::from_secs(3600)),
        ..token(2)
    };
    let tokens = vec![token(1), expiring];
    cluster.done(AclTokens::Create { tokens }.into());
    let with_secret = AclAuthMethod {
        sealed: Some(sealed(1)),
        default: true,
        ..method("ci")
    };
    let methods = vec![with_secret, method("sso")];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let rules = vec![rule("b1", "ci"), rule("b2", "ci"), rule("b3", "sso")];
    cluster.done(AclBindingRules::Create { rules }.into());
    cluster.done(make_one_time(1, "accessor-1"));
}

fn make_one_time(digest: u8, accessor: &str) -> Command {
    let make = OneTimeTokens::Make {
        digest: Digest([digest; 32]),
        accessor_id: accessor.to_owned(),
    };
    make.into()
}

fn exchange(digest: u8) -> Command {
    let digest = Digest([digest; 32]);
    OneTimeTokens::Exchange { digest }.into()
}

/// A cluster with all of it.
fn filled() -> Harness {
    let mut cluster = Harness::new();
    fill(&mut cluster);
    cluster
}

fn refused(cluster: &mut Harness, command: impl Into<Command>) -> AccessRefusal {
    match cluster.apply(command.into()).outcome {
        Outcome::Refused(Refusal::Access(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn create(cluster: &mut Harness, token: AclToken) -> Applied {
    let tokens = vec![token];
    cluster.apply(AclTokens::Create { tokens }.into())
}

fn update(cluster: &mut Harness, token: AclToken) -> Applied {
    let tokens = vec![token];
    cluster.apply(AclTokens::Update { tokens }.into())
}

fn names<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn says_acl_changed(applied: &Applied) -> bool {
    has_signal(applied, |signal| *signal == Signal::AclChanged)
}

/// A random change of access control: many of them are refused.
pub(crate) fn some_command(number: u8, how: u16) -> Command {
    let id = |count: u16| (how / 16) % count;
    let small = u8::try_from(id(4)).expect("small");
    let accessor = format!("accessor-{small}");
    let key = u32::from(how % 3);
    let sealed = how.is_multiple_of(5).then(|| sealed(key));
    match number % 16 {
        0 => {
            let policies = vec![
                policy("read"),
                policy_of_job(
                    &format!("p{small}"),
                    ["web", "", "batch"][usize::from(how % 3)],
                ),
            ];
            AclPolicies::Upsert { policies }.into()
        }
        1 => AclPolicies::Delete {
            names: vec!["read".to_owned(), format!("p{small}")],
        }
        .into(),
        2 | 3 => {
            let ttl = std::time::Duration::from_secs(u64::from(how % 20));
            let tokens = vec![AclToken {
                sealed,
                ttl: how.is_multiple_of(2).then_some(ttl),
                ..token(small)
            }];
            AclTokens::Create { tokens }.into()
        }
        4 => {
            let roles = if how.is_multiple_of(2) {
                names(["r1"])
            } else {
                Vec::new()
            };
            let tokens = vec![AclToken {
                roles,
                name: how.to_string(),
                ..token(small)
            }];
            AclTokens::Update { tokens }.into()
        }
        5 => {
            let accessors = vec![accessor];
            if how.is_multiple_of(3) {
                AclTokens::Delete { accessors }.into()
            } else {
                AclTokens::Expire { accessors }.into()
            }
        }
        6 => {
            let roles = vec![role(&format!("r{small}"), &format!("n{}", how % 3))];
            AclRoles::Create { roles }.into()
        }
        7 => {
            let roles = vec![role(&format!("r{small}"), &format!("n{}", how % 3))];
            AclRoles::Update { roles }.into()
        }
        8 => AclRoles::Delete {
            ids: vec![format!("r{small}")],
        }
        .into(),
        9 => {
            let methods = vec![AclAuthMethod {
                default: how.is_multiple_of(2),
                sealed,
                ..method(&format!("m{small}"))
            }];
            AclAuthMethods::Upsert { methods }.into()
        }
        10 => AclAuthMethods::Delete {
            names: vec![format!("m{small}")],
        }
        .into(),
        11 | 12 => {
            let rules = vec![rule(&format!("b{}", how % 7), &format!("m{small}"))];
            if number.is_multiple_of(2) {
                AclBindingRules::Create { rules }.into()
            } else {
                AclBindingRules::Update { rules }.into()
            }
        }
        13 => make_one_time(u8::try_from(how % 5).expect("small"), &accessor),
        14 if how.is_multiple_of(3) => OneTimeTokens::Expire {
            digests: (0..5).map(|number| Digest([number; 32])).collect(),
        }
        .into(),
        14 => exchange(u8::try_from(how % 5).expect("small")),
        _ => RootKeyUpsert {
            key: root_key(u128::from(how % 4)),
            replaces: (key > 0).then_some(key),
        }
        .into(),
    }
}

/// One command of each kind, every field set.
pub(crate) fn commands() -> Vec<(&'static str, Command)> {
    let key = RootKey {
        publish_time: UnixNanos(8),
        ..root_key(0xabc)
    };
    let token = AclToken {
        sealed: Some(sealed(3)),
        roles: names(["r1"]),
        expiration: Some(UnixNanos(1_700_000_000_000_000_000)),
        ttl: Some(std::time::Duration::new(60, 5)),
        ..token(1)
    };
    let full_policy = AclPolicy {
        description: "reads".to_owned(),
        job_acl: Some(JobAcl {
            namespace: "default".to_owned(),
            job_id: "web".to_owned(),
            group: "front".to_owned(),
            task: "main".to_owned(),
        }),
        ..policy("read")
    };
    let role = AclRole {
        description: "developers".to_owned(),
        ..role("r1", "dev")
    };
    let method = AclAuthMethod {
        kind: controlplane_state::AuthMethodKind::Oidc,
        locality: controlplane_state::TokenLocality::Global,
        token_name_format: "${auth_method_name}".to_owned(),
        max_token_ttl: std::time::Duration::from_secs(600),
        default: true,
        sealed: Some(sealed(3)),
        ..method("sso")
    };
    let rule = AclBindingRule {
        description: "everybody".to_owned(),
        selector: "value.team == dev".to_owned(),
        ..rule("b1", "sso")
    };
    let texts = || names(["a", "b"]);
    let digests = vec![Digest([1; 32]), Digest([2; 32])];
    let (tokens, roles, rules) = (vec![token.clone()], vec![role], vec![rule]);
    let bootstrap = AclToken {
        kind: AclTokenKind::Management,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        ..token
    };
    let commands: BTreeMap<&str, Command> = BTreeMap::from([
        (
            "acl_bootstrap_sealed",
            Command::AclBootstrap {
                token: bootstrap,
                reset_index: 3,
            },
        ),
        (
            "acl_policies_upsert",
            AclPolicies::Upsert {
                policies: vec![full_policy],
            }
            .into(),
        ),
        (
            "acl_policies_delete",
            AclPolicies::Delete { names: texts() }.into(),
        ),
        (
            "acl_tokens_create",
            AclTokens::Create {
                tokens: tokens.clone(),
            }
            .into(),
        ),
        ("acl_tokens_update", AclTokens::Update { tokens }.into()),
        (
            "acl_tokens_delete",
            AclTokens::Delete { accessors: texts() }.into(),
        ),
        (
            "acl_tokens_expire",
            AclTokens::Expire { accessors: texts() }.into(),
        ),
        (
            "acl_roles_create",
            AclRoles::Create {
                roles: roles.clone(),
            }
            .into(),
        ),
        ("acl_roles_update", AclRoles::Update { roles }.into()),
        ("acl_roles_delete", AclRoles::Delete { ids: texts() }.into()),
        (
            "acl_auth_methods_upsert",
            AclAuthMethods::Upsert {
                methods: vec![method],
            }
            .into(),
        ),
        (
            "acl_auth_methods_delete",
            AclAuthMethods::Delete { names: texts() }.into(),
        ),
        (
            "acl_binding_rules_create",
            AclBindingRules::Create {
                rules: rules.clone(),
            }
            .into(),
        ),
        (
            "acl_binding_rules_update",
            AclBindingRules::Update { rules }.into(),
        ),
        (
            "acl_binding_rules_delete",
            AclBindingRules::Delete { ids: texts() }.into(),
        ),
        ("one_time_token_make", make_one_time(1, "a")),
        ("one_time_token_exchange", exchange(1)),
        (
            "one_time_tokens_expire",
            OneTimeTokens::Expire { digests }.into(),
        ),
        (
            "root_key_upsert",
            RootKeyUpsert {
                key,
                replaces: Some(2),
            }
            .into(),
        ),
    ]);
    commands.into_iter().collect()
}
