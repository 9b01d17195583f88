//! A state in this process, for tests: policies, roles and tokens are written without a log.

use controlplane_state::command::{AclPolicies, AclRoles, AclTokens};
use controlplane_state::{
    AclPolicy, AclRole, AclToken, AclTokenKind, Command, Digest, Outcome, Snapshot, Stamped, State,
};
use protocol_model::{Incarnation, UnixNanos};

use crate::gateway;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct InState {
    state: State,
    index: u64,
}

impl InState {
    pub(super) fn new() -> Self {
        let mut cluster = Self {
            state: State::new(),
            index: 0,
        };
        let incarnation = Incarnation::from_u128(1);
        cluster.apply(Command::ClusterInit { incarnation });
        cluster
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    pub(super) fn apply(&mut self, command: Command) {
        self.index += 1;
        let stamped = Stamped {
            now: UnixNanos(1),
            seed: u128::from(self.index).to_be_bytes(),
            command,
        };
        let outcome = self.state.apply(self.index, stamped).outcome;
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }

    pub(super) fn write_policy(&mut self, name: &str, rules: &str) {
        let policy = AclPolicy {
            name: name.to_owned(),
            rules: rules.to_owned(),
            ..AclPolicy::default()
        };
        let policies = vec![policy];
        self.apply(AclPolicies::Upsert { policies }.into());
    }

    pub(super) fn delete_policy(&mut self, name: &str) {
        let names = vec![name.to_owned()];
        self.apply(AclPolicies::Delete { names }.into());
    }

    /// Makes a role, or gives it other policies. Its name is its id.
    pub(super) fn write_role(&mut self, id: &str, policies: &[&str]) {
        let is_new = self.snapshot().acl_role(id).is_none();
        let role = AclRole {
            id: id.to_owned(),
            name: id.to_owned(),
            policies: policies.iter().map(|&name| name.to_owned()).collect(),
            ..AclRole::default()
        };
        let roles = vec![role];
        self.apply(match is_new {
            true => AclRoles::Create { roles }.into(),
            false => AclRoles::Update { roles }.into(),
        });
    }

    /// Makes a client token whose secret is its accessor id.
    pub(super) fn create_token(
        &mut self,
        accessor_id: &str,
        [policies, roles]: [&[&str]; 2],
        expiration: Option<UnixNanos>,
    ) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let token = AclToken {
            accessor_id: accessor_id.to_owned(),
            secret_hash: secret(accessor_id),
            sealed: None,
            name: String::new(),
            kind: AclTokenKind::Client,
            policies: owned(policies),
            roles: owned(roles),
            global: false,
            expiration,
            ttl: None,
            create_time: UnixNanos(0),
            create_index: 0,
            modify_index: 0,
        };
        let tokens = vec![token];
        self.apply(AclTokens::Create { tokens }.into());
    }

    pub(super) fn delete_token(&mut self, accessor_id: &str) {
        let accessors = vec![accessor_id.to_owned()];
        self.apply(AclTokens::Delete { accessors }.into());
    }
}

/// The digest of the secret of a token of [`InState::create_token`].
pub(super) fn secret(accessor_id: &str) -> Digest {
    gateway::digest(accessor_id.as_bytes())
}
