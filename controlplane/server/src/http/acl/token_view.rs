//! Tokens in the shapes of the API, and their secrets.

use controlplane_state::{AclToken, Snapshot};
use protocol_api::acl::{RoleLink, Token, TokenStub};
use protocol_model::SecretText;

use super::written::hash;

/// The roles of a token that exist, with their present names.
fn links(snapshot: &Snapshot, token: &AclToken) -> Vec<RoleLink> {
    let roles = token.roles.iter().filter_map(|id| snapshot.acl_role(id));
    let links = roles.map(|role| RoleLink {
        id: role.id.clone(),
        name: role.name.clone(),
    });
    links.collect()
}

fn hash_of(token: &AclToken) -> String {
    hash(&(
        &token.name,
        token.kind.as_str(),
        token.global,
        &token.policies,
        &token.roles,
    ))
}

/// The token with its secret, which is empty where it cannot be shown.
pub(super) fn shown(snapshot: &Snapshot, token: &AclToken, secret_id: SecretText) -> Token {
    let AclToken {
        accessor_id,
        secret_hash: _,
        sealed: _,
        name,
        kind,
        policies,
        roles: _,
        global,
        expiration,
        ttl,
        create_time,
        create_index,
        modify_index,
    } = token;
    Token {
        accessor_id: accessor_id.clone(),
        secret_id,
        name: name.clone(),
        kind: kind.as_str().to_owned(),
        policies: policies.clone(),
        roles: links(snapshot, token),
        global: *global,
        hash: hash_of(token),
        create_time: *create_time,
        expiration_time: *expiration,
        expiration_ttl: ttl.unwrap_or_default(),
        create_index: *create_index,
        modify_index: *modify_index,
    }
}

/// The token as lists show it.
pub(super) fn stub(snapshot: &Snapshot, token: &AclToken) -> TokenStub {
    TokenStub {
        accessor_id: token.accessor_id.clone(),
        name: token.name.clone(),
        kind: token.kind.as_str().to_owned(),
        policies: token.policies.clone(),
        roles: links(snapshot, token),
        global: token.global,
        hash: hash_of(token),
        create_time: token.create_time,
        expiration_time: token.expiration,
        create_index: token.create_index,
        modify_index: token.modify_index,
    }
}
