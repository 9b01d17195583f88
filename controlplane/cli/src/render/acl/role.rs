//! Roles: the list, and one.

use protocol_api::acl::Role;

use crate::render::columns::{Columns, pairs};

fn policies(role: &Role) -> String {
    let names: Vec<&str> = role
        .policies
        .iter()
        .map(|link| link.name.as_str())
        .collect();
    names.join(",")
}

/// All roles.
pub(crate) fn list(roles: &[Role]) -> String {
    if roles.is_empty() {
        return "No ACL roles found".to_owned();
    }
    let mut table = Columns::new(&["ID", "Name", "Description", "Policies"]);
    for role in roles {
        table.row([
            role.id.clone(),
            role.name.clone(),
            role.description.clone(),
            policies(role),
        ]);
    }
    table.render()
}

/// One role.
pub(crate) fn one(role: &Role) -> String {
    pairs(&[
        ("ID", role.id.clone()),
        ("Name", role.name.clone()),
        ("Description", role.description.clone()),
        ("Policies", policies(role)),
        ("Create Index", role.create_index.to_string()),
        ("Modify Index", role.modify_index.to_string()),
    ])
}
