//! Tokens: the list, and one.

use protocol_api::acl::{Token, TokenStub};
use protocol_model::UnixNanos;

use super::{bracketed, time};
use crate::render::columns::{Columns, pairs};

/// All tokens; `now` decides which have expired.
pub(crate) fn list(tokens: &[TokenStub], now: UnixNanos) -> String {
    if tokens.is_empty() {
        return "No tokens found".to_owned();
    }
    let mut table = Columns::new(&["Name", "Type", "Global", "Accessor ID", "Expired"]);
    for token in tokens {
        let is_expired = token.expiration_time.is_some_and(|at| at <= now);
        table.row([
            token.name.clone(),
            token.kind.clone(),
            token.global.to_string(),
            token.accessor_id.clone(),
            is_expired.to_string(),
        ]);
    }
    table.render()
}

/// One token, with its secret.
pub(crate) fn one(token: &Token) -> String {
    let mut lines = vec![
        ("Accessor ID", token.accessor_id.clone()),
        ("Secret ID", token.secret_id.reveal().to_owned()),
        ("Name", token.name.clone()),
        ("Type", token.kind.clone()),
        ("Global", token.global.to_string()),
        ("Create Time", time(Some(token.create_time))),
        ("Expiry Time", time(token.expiration_time)),
        ("Create Index", token.create_index.to_string()),
        ("Modify Index", token.modify_index.to_string()),
    ];
    if token.kind == "management" {
        let none = "n/a".to_owned();
        lines.extend([("Policies", none.clone()), ("Roles", none)]);
        return pairs(&lines);
    }
    lines.push(("Policies", bracketed(&token.policies)));
    let roles = match token.roles.is_empty() {
        true => "<none>\n".to_owned(),
        false => {
            let mut table = Columns::new(&["ID", "Name"]);
            for role in &token.roles {
                table.row([role.id.clone(), role.name.clone()]);
            }
            table.render()
        }
    };
    format!("{}\nRoles\n{roles}", pairs(&lines))
}
