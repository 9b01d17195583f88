//! How many rows are kept.

use controlplane_state::command::ACCESS_ROWS_MAX;
use controlplane_state::{
    ACL_LINKS_MAX, ACL_POLICIES_MAX, AUTH_METHODS_MAX, AccessRows, RoleFault, SEALED_BYTES_MAX,
    Stamped, State, TokenFault,
};

use super::*;

#[test]
fn a_full_table_takes_no_more_and_still_takes_changes() {
    let mut cluster = Harness::new();
    let all = (0..AUTH_METHODS_MAX).map(|number| method(&format!("m{number}")));
    let methods = all.collect();
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let methods = vec![method("one-more")];
    let refusal = refused(&mut cluster, AclAuthMethods::Upsert { methods });
    let words = "there are 64 ACL auth methods already, which is the limit: \
                 delete ACL auth methods that are not used";
    assert_eq!(refusal.to_string(), words);
    let methods = vec![AclAuthMethod {
        config: None,
        ..method("m1")
    }];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let names = names(["m0"]);
    cluster.done(AclAuthMethods::Delete { names }.into());
    let methods = vec![method("one-more")];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
}

#[test]
fn policies_have_a_limit() {
    // Without the harness: it looks at every row after every command.
    let mut state = State::new();
    let mut index = 0;
    let mut apply = |command: Command| {
        index += 1;
        let stamped = Stamped {
            now: UnixNanos(1),
            seed: [0; 16],
            command,
        };
        state.apply(index, stamped).outcome
    };
    let incarnation = protocol_model::Incarnation::from_u128(1);
    apply(Command::ClusterInit { incarnation });
    for page in 0..ACL_POLICIES_MAX / ACCESS_ROWS_MAX {
        let rows = 0..ACCESS_ROWS_MAX;
        let policies = rows.map(|row| policy(&format!("p-{page}-{row}")));
        let policies = policies.collect();
        let outcome = apply(AclPolicies::Upsert { policies }.into());
        assert_eq!(outcome, Outcome::Done);
    }
    let policies = vec![policy("one-more")];
    let refusal = AccessRefusal::LimitReached {
        rows: AccessRows::Policies,
        max: ACL_POLICIES_MAX,
    };
    let outcome = apply(AclPolicies::Upsert { policies }.into());
    assert_eq!(outcome, Outcome::Refused(refusal.into()));
}

#[test]
fn a_command_has_a_limited_number_of_rows() {
    let mut cluster = Harness::new();
    let names = vec!["read".to_owned(); ACCESS_ROWS_MAX + 1];
    let refusal = refused(&mut cluster, AclPolicies::Delete { names });
    let (found, max) = (ACCESS_ROWS_MAX + 1, ACCESS_ROWS_MAX);
    assert_eq!(refusal, AccessRefusal::TooManyRows { found, max });
}

#[test]
fn tokens_and_roles_have_a_limited_number_of_links() {
    let mut cluster = Harness::new();
    let links = (0..=ACL_LINKS_MAX).map(|number| format!("p{number}"));
    let policies: Vec<String> = links.collect();
    let found = policies.len();
    let tokens = vec![AclToken {
        policies: policies.clone(),
        ..token(1)
    }];
    let fault = TokenFault::TooManyLinks { found };
    let refusal = refused(&mut cluster, AclTokens::Create { tokens });
    assert_eq!(refusal, AccessRefusal::InvalidToken { number: 0, fault });
    let roles = vec![AclRole {
        policies,
        ..role("r1", "dev")
    }];
    let fault = RoleFault::TooManyLinks { found };
    let refusal = refused(&mut cluster, AclRoles::Create { roles });
    assert_eq!(refusal, AccessRefusal::InvalidRole { number: 0, fault });
}

#[test]
fn a_sealed_value_has_a_limited_length() {
    let mut cluster = filled();
    let bytes = SEALED_BYTES_MAX + 1;
    let tokens = vec![AclToken {
        sealed: Some(Sealed {
            bytes: vec![0; bytes],
            ..sealed(1)
        }),
        ..token(9)
    }];
    let refusal = refused(&mut cluster, AclTokens::Create { tokens });
    assert_eq!(refusal, AccessRefusal::SealedTooLong { bytes });
}
