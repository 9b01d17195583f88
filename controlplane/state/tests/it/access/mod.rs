//! Access control: what `apply` decides of tokens, policies, roles, logins and root keys.

mod commands;
mod limits;
mod logins;
mod one_time;
mod random;
mod rekey;
mod resign;
mod root_keys;
mod tokens;

use controlplane_state::command::{
    AclAuthMethods, AclBindingRules, AclPolicies, AclRoles, AclTokens, OneTimeTokens,
    RootKeyUpsert, Rotation,
};
use controlplane_state::{
    AccessRefusal, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, AclTokenKind,
    Applied, BindType, Command, Digest, JobAcl, Outcome, Refusal, RootKey, RootKeyState, Sealed,
    Signal,
};
use protocol_model::UnixNanos;
use uuid::Uuid;

pub(crate) use commands::commands;
pub(crate) use random::some_command;
pub(crate) use resign::{fill_keys, resign};

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
        state_time: UnixNanos::ZERO,
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
    cluster.done(
        RootKeyUpsert {
            key,
            replaces,
            rotation: Rotation::Plain,
        }
        .into(),
    );
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
