//! Binding rules: the list, and one.

use protocol_model::{BindingRule, BindingRuleStub, format_rfc3339};

use crate::render::columns::{Columns, pairs};

/// All binding rules.
pub(crate) fn list(rules: &[BindingRuleStub]) -> String {
    if rules.is_empty() {
        return "No ACL binding rules found".to_owned();
    }
    let mut table = Columns::new(&["ID", "Description", "Auth Method"]);
    for rule in rules {
        table.row([
            rule.id.clone(),
            rule.description.clone(),
            rule.auth_method.clone(),
        ]);
    }
    table.render()
}

/// One binding rule.
pub(crate) fn one(rule: &BindingRule) -> String {
    pairs(&[
        ("ID", rule.id.clone()),
        ("Description", rule.description.clone()),
        ("Auth Method", rule.auth_method.clone()),
        ("Selector", format!("{:?}", rule.selector)),
        ("Bind Type", rule.bind_type.clone()),
        ("Bind Name", rule.bind_name.clone()),
        ("Create Time", format_rfc3339(rule.create_time)),
        ("Modify Time", format_rfc3339(rule.modify_time)),
        ("Create Index", rule.create_index.to_string()),
        ("Modify Index", rule.modify_index.to_string()),
    ])
}
