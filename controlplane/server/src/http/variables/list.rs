//! `GET /v1/vars`: variables that the caller may list, by namespace and path, without their items.

use controlplane_state::{Table, Variable, VariableKey};
use protocol_access::VariableCapability;

use super::shown::{self, LockId};
use crate::http::ask::Ask;
use crate::http::error::Answered;
use crate::http::filter::Filter;
use crate::http::page::{ByName, page_of_sorted};

pub(super) async fn list(ask: &Ask) -> Answered {
    let tables = [Table::Variables];
    let snapshot = ask.snapshot(&tables).await?;
    let filter = Filter::of(&ask.query)?;
    let (acl, id) = (ask.acl(), LockId::on_read(ask));
    let prefix = ask.query.get("prefix").unwrap_or("");
    let namespace = match ask.query.namespace() {
        "*" => None,
        one => Some(one),
    };
    let is_asked = |variable: &&std::sync::Arc<Variable>| {
        let VariableKey { namespace, path } = &variable.key;
        path.starts_with(prefix) && acl.variable(namespace, path, VariableCapability::List)
    };
    let page = page_of_sorted(
        &ask.query,
        |from: Option<&ByName>, _| {
            let first = match (from, namespace) {
                (Some(ByName(namespace, path)), _) => VariableKey::new(namespace, path),
                (None, Some(namespace)) => VariableKey::new(namespace, prefix),
                (None, None) => VariableKey::new("", ""),
            };
            let rows = snapshot.variables_from(first);
            let rows = rows.take_while(|row| {
                let is_of =
                    |wanted| row.key.namespace == wanted && row.key.path.starts_with(prefix);
                namespace.is_none_or(is_of)
            });
            rows.filter(is_asked).map(|row| {
                let key = ByName(row.key.namespace.clone(), row.key.path.clone());
                (key, shown::metadata(row, id))
            })
        },
        |item| match &filter {
            Some(filter) => filter.keeps(item),
            None => Ok(true),
        },
    )?;
    let index = snapshot.table_index(&tables);
    ask.answer_page(&page.items, index, page.next_token.as_deref())
}
