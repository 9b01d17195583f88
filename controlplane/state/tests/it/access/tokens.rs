//! Tokens, policies and roles.

use std::time::Duration;

use controlplane_state::{Table, TokenFault};
use protocol_model::JobKey;

use super::*;

#[test]
fn a_token_is_found_by_its_secret_until_it_is_deleted() {
    let mut cluster = Harness::new();
    assert!(says_acl_changed(&create(&mut cluster, token(1))));
    let made = cluster.index;
    let by_secret = |cluster: &Harness| {
        let token = cluster.tables().token_by_secret(&Digest([1; 32]));
        token.map(|token| (token.accessor_id.clone(), token.modify_index))
    };
    let accessor = "accessor-1".to_owned();
    assert_eq!(by_secret(&cluster), Some((accessor.clone(), made)));
    assert_eq!(cluster.tables().acl_index(), made);
    let same = Refusal::Access(AccessRefusal::TokenExists(accessor.clone()));
    assert_eq!(
        create(&mut cluster, token(1)).outcome,
        Outcome::Refused(same)
    );
    let stolen = AclToken {
        accessor_id: "other".to_owned(),
        ..token(1)
    };
    let stolen = create(&mut cluster, stolen).outcome;
    let in_use = AccessRefusal::SecretInUse("other".to_owned());
    assert_eq!(stolen, Outcome::Refused(in_use.into()));
    let accessors = vec![accessor];
    let deleted = cluster.done(AclTokens::Delete { accessors }.into());
    assert!(says_acl_changed(&deleted));
    assert_eq!(by_secret(&cluster), None);
    let accessors = names(["accessor-1", "accessor-9"]);
    let refusal = refused(&mut cluster, AclTokens::Delete { accessors });
    let words = "Cannot delete nonexistent tokens: accessor-1, accessor-9";
    assert_eq!(refusal.to_string(), words);
}

#[test]
fn an_update_keeps_secret_and_times_and_never_makes_a_token() {
    let mut cluster = Harness::new();
    let expiring = AclToken {
        ttl: Some(Duration::from_secs(60)),
        ..token(1)
    };
    create(&mut cluster, expiring);
    let made = cluster
        .tables()
        .acl_token("accessor-1")
        .expect("it")
        .clone();
    assert_eq!(
        made.expiration,
        Some(cluster.now.saturating_add(Duration::from_secs(60)))
    );
    let changed = AclToken {
        secret_hash: Digest([8; 32]),
        create_time: UnixNanos(5),
        name: "renamed".to_owned(),
        policies: names(["read", "write", "read"]),
        ..AclToken::clone(&made)
    };
    assert_eq!(update(&mut cluster, changed.clone()).outcome, Outcome::Done);
    let found = cluster.tables().acl_token("accessor-1").expect("it");
    assert_eq!(found.policies, ["read", "write"], "each once");
    assert_eq!(found.name, "renamed");
    let kept = |token: &AclToken| (token.secret_hash, token.create_time, token.create_index);
    assert_eq!(kept(found), kept(&made));
    assert_eq!(found.modify_index, cluster.index);
    assert_eq!(update(&mut cluster, changed).outcome, Outcome::NoOp);
    let unknown = AccessRefusal::UnknownToken("accessor-2".to_owned());
    assert_eq!(unknown.to_string(), "cannot find token accessor-2");
    assert_eq!(
        update(&mut cluster, token(2)).outcome,
        Outcome::Refused(unknown.into())
    );
}

#[test]
fn a_token_that_makes_no_sense_is_refused_in_nomad_s_words() {
    let mut cluster = Harness::new();
    let none = |kind, policies| AclToken {
        kind,
        policies,
        ..token(1)
    };
    let cases = [
        (
            none(AclTokenKind::Client, Vec::new()),
            "client token missing policies or roles",
        ),
        (
            none(AclTokenKind::Management, names(["read"])),
            "management token cannot be associated with policies or roles",
        ),
        (
            AclToken {
                name: "n".repeat(257),
                ..token(1)
            },
            "token name too long",
        ),
    ];
    for (token, why) in cases {
        let tokens = vec![token];
        let refusal = refused(&mut cluster, AclTokens::Create { tokens });
        assert_eq!(refusal.to_string(), format!("token 0 invalid: {why}"));
    }
    create(&mut cluster, token(1));
    let changes = [
        (
            AclToken {
                global: true,
                ..token(1)
            },
            TokenFault::GlobalToggled,
        ),
        (
            AclToken {
                ttl: Some(Duration::from_secs(1)),
                ..token(1)
            },
            TokenFault::TtlChanged,
        ),
        (
            AclToken {
                expiration: Some(UnixNanos(1)),
                ..token(1)
            },
            TokenFault::ExpirationChanged,
        ),
    ];
    for (token, fault) in changes {
        let outcome = update(&mut cluster, token).outcome;
        let refusal = AccessRefusal::InvalidToken { number: 0, fault };
        assert_eq!(outcome, Outcome::Refused(refusal.into()));
    }
}

#[test]
fn a_role_of_a_new_link_exists_and_one_that_goes_leaves_its_links() {
    let mut cluster = Harness::new();
    let linked = AclToken {
        policies: Vec::new(),
        roles: names(["r1"]),
        ..token(1)
    };
    let unknown = AccessRefusal::UnknownRole("r1".to_owned());
    let tokens = vec![linked.clone()];
    assert_eq!(refused(&mut cluster, AclTokens::Create { tokens }), unknown);
    let policies = vec![policy("read")];
    cluster.done(AclPolicies::Upsert { policies }.into());
    let roles = vec![role("r1", "dev")];
    cluster.done(AclRoles::Create { roles }.into());
    assert_eq!(create(&mut cluster, linked.clone()).outcome, Outcome::Done);
    let ids = names(["r1"]);
    assert!(says_acl_changed(
        &cluster.done(AclRoles::Delete { ids }.into())
    ));
    let renamed = AclToken {
        name: "renamed".to_owned(),
        ..linked
    };
    assert_eq!(update(&mut cluster, renamed).outcome, Outcome::Done);
    let tokens = vec![AclToken {
        roles: names(["r1"]),
        ..token(2)
    }];
    assert_eq!(refused(&mut cluster, AclTokens::Create { tokens }), unknown);
}

#[test]
fn a_role_has_a_name_of_its_own_and_policies_that_exist() {
    let mut cluster = Harness::new();
    let roles = vec![role("r1", "dev")];
    let unknown = AccessRefusal::UnknownPolicy("read".to_owned());
    let refusal = refused(
        &mut cluster,
        AclRoles::Create {
            roles: roles.clone(),
        },
    );
    assert_eq!(refusal, unknown);
    assert_eq!(unknown.to_string(), "cannot find policy read");
    let policies = vec![policy("read")];
    cluster.done(AclPolicies::Upsert { policies }.into());
    cluster.done(AclRoles::Create { roles }.into());
    let roles = vec![role("r2", "dev")];
    let taken = AccessRefusal::RoleNameTaken("dev".to_owned());
    assert_eq!(refused(&mut cluster, AclRoles::Create { roles }), taken);
    let roles = vec![role("r2", "ops")];
    cluster.done(AclRoles::Create { roles }.into());
    let roles = vec![role("r2", "dev")];
    assert_eq!(refused(&mut cluster, AclRoles::Update { roles }), taken);
    // A name that its role gave up is free.
    let roles = vec![role("r1", "devel"), role("r2", "dev")];
    cluster.done(AclRoles::Update { roles }.into());
    let by_name = |name| {
        cluster
            .tables()
            .acl_role_by_name(name)
            .map(|it| it.id.as_str())
    };
    assert_eq!(by_name("dev"), Some("r2"));
    assert_eq!(by_name("devel"), Some("r1"));
    assert_eq!(by_name("ops"), None);
    let empty = AclRole {
        policies: Vec::new(),
        ..role("r3", "none")
    };
    let roles = vec![empty];
    let refusal = refused(&mut cluster, AclRoles::Create { roles });
    let words = "role 0 invalid: at least one policy should be specified";
    assert_eq!(refusal.to_string(), words);
}

#[test]
fn policies_are_found_by_the_job_that_they_name() {
    let mut cluster = Harness::new();
    let policies = vec![policy_of_job("of-web", "web"), policy_of_job("of-all", "")];
    cluster.done(AclPolicies::Upsert { policies }.into());
    let of = |cluster: &Harness, job: &str| {
        let key = JobKey::new("default", job);
        let policies = cluster.tables().acl_policies_of_job(&key);
        policies.map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&cluster, "web"), ["of-web"]);
    assert_eq!(of(&cluster, ""), ["of-all"]);
    let policies = vec![policy_of_job("of-web", "api")];
    cluster.done(AclPolicies::Upsert { policies }.into());
    assert_eq!(of(&cluster, "api"), ["of-web"]);
    assert!(of(&cluster, "web").is_empty());
}

#[test]
fn a_policy_written_again_unchanged_wakes_no_reader() {
    let mut cluster = Harness::new();
    let command = AclPolicies::Upsert {
        policies: vec![policy("read")],
    };
    assert!(says_acl_changed(&cluster.done(command.clone().into())));
    let made = cluster.index;
    let again = cluster.done(command.into());
    assert_eq!((&again.outcome, again.signals.len()), (&Outcome::NoOp, 0));
    assert_eq!(cluster.tables().table_index(&[Table::AclPolicies]), made);
    let names_of = names(["read", "never-was"]);
    let deleted = AclPolicies::Delete { names: names_of };
    assert_eq!(cluster.done(deleted.clone().into()).outcome, Outcome::Done);
    assert_eq!(cluster.done(deleted.into()).outcome, Outcome::NoOp);
    let policies = vec![policy("under_score")];
    let refusal = refused(&mut cluster, AclPolicies::Upsert { policies });
    assert_eq!(
        refusal.to_string(),
        "policy 0 invalid: invalid name 'under_score'"
    );
}

#[test]
fn only_tokens_that_are_expired_are_removed_as_expired() {
    let mut cluster = Harness::new();
    let expiring = AclToken {
        ttl: Some(Duration::from_secs(60)),
        ..token(1)
    };
    create(&mut cluster, expiring);
    create(&mut cluster, token(2));
    let accessors = names(["accessor-1", "accessor-2", "accessor-3"]);
    let expire = AclTokens::Expire { accessors };
    assert_eq!(cluster.done(expire.clone().into()).outcome, Outcome::NoOp);
    cluster.pass(Duration::from_secs(60));
    let expired = cluster.done(expire.into());
    assert!(says_acl_changed(&expired));
    let left: Vec<_> = cluster.tables().acl_tokens().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].accessor_id, "accessor-2");
}

#[test]
fn a_restored_snapshot_says_that_rights_changed() {
    let mut cluster = filled();
    let saved = cluster.checkpoint();
    let accessors = names(["accessor-1"]);
    cluster.done(AclTokens::Delete { accessors }.into());
    let incarnation = protocol_model::Incarnation::from_u128(0xc2);
    let restored = cluster.restore(&saved, incarnation, 1000);
    assert!(says_acl_changed(&restored));
    assert!(cluster.tables().acl_token("accessor-1").is_some());
    assert_eq!(cluster.tables().acl_index(), cluster.tables().index());
}

#[test]
fn a_bootstrap_cannot_take_the_secret_of_a_client_token() {
    let mut cluster = Harness::new();
    create(&mut cluster, token(1));
    let bootstrap = |accessor: &str, digest| Command::AclBootstrap {
        token: AclToken {
            accessor_id: accessor.to_owned(),
            secret_hash: Digest([digest; 32]),
            kind: AclTokenKind::Management,
            policies: Vec::new(),
            ..token(digest)
        },
        reset_index: 0,
    };
    let refusal = refused(&mut cluster, bootstrap("first", 1));
    assert_eq!(refusal, AccessRefusal::SecretInUse("first".to_owned()));
    cluster.done(bootstrap("first", 2));
    // The older one of two management tokens with one secret is found until it goes.
    let Command::AclBootstrap { token, .. } = bootstrap("second", 2) else {
        panic!("no bootstrap");
    };
    let reset_index = cluster.index;
    cluster.done(Command::AclBootstrap { token, reset_index });
    let found = |cluster: &Harness| {
        let token = cluster.tables().token_by_secret(&Digest([2; 32]));
        token.map(|token| token.accessor_id.clone())
    };
    assert_eq!(found(&cluster).as_deref(), Some("first"));
    let accessors = names(["first"]);
    cluster.done(AclTokens::Delete { accessors }.into());
    assert_eq!(found(&cluster).as_deref(), Some("second"));
}
