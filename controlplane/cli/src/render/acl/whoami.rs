//! The caller, as a server sees it.

use protocol_api::acl::{BudgetLeft, Budgets, WhoAmI};

use super::{bracketed, time};
use crate::render::columns::{Columns, pairs};

/// The caller, the way of the request, and the rest of its budgets.
pub(crate) fn one(caller: &WhoAmI) -> String {
    let mut lines = vec![("Kind", caller.kind.clone())];
    if let Some(token) = &caller.token {
        let roles: Vec<&str> = token.roles.iter().map(|role| role.name.as_str()).collect();
        lines.extend([
            ("Accessor ID", token.accessor_id.clone()),
            ("Name", token.name.clone()),
            ("Type", token.kind.clone()),
            ("Policies", bracketed(&token.policies)),
            ("Roles", bracketed(&roles)),
            ("Global", token.global.to_string()),
            ("Expiry Time", time(token.expiration_time)),
        ]);
    }
    if let Some(claims) = &caller.claims {
        lines.push(("Claims", claims.to_string()));
    }
    lines.push(("Address", caller.address.clone()));
    for (name, value) in [
        ("Server", &caller.via.server),
        ("Node", &caller.via.node),
        ("Allocation", &caller.via.alloc),
        ("Task", &caller.via.task),
        ("Rejected", &caller.rejected),
    ] {
        if !value.is_empty() {
            lines.push((name, value.clone()));
        }
    }
    let text = pairs(&lines);
    match &caller.budgets {
        Some(left) => format!("{text}\nBudgets\n{}", budgets(left)),
        None => text,
    }
}

fn budgets(budgets: &Budgets) -> String {
    let mut table = Columns::new(&["Class", "Limit", "Left"]);
    for (class, budget) in [
        ("read", budgets.read),
        ("list", budgets.list),
        ("write", budgets.write),
        ("waiting", budgets.waiting),
        ("streams", budgets.streams),
    ] {
        let cells = match budget {
            Some(BudgetLeft { limit, left }) => [limit.to_string(), left.to_string()],
            None => ["unlimited".to_owned(), "unlimited".to_owned()],
        };
        table.row(std::iter::once(class.to_owned()).chain(cells));
    }
    table.render()
}
