//! Variables: the list, one of them, and one as a specification.

use std::fmt::Write as _;

use protocol_api::variables::{Variable, VariableMetadata};

use super::columns::{Columns, pairs};
use crate::find::Length;
use crate::session::Clock;

/// Variables by namespace and path.
pub(crate) fn list(clock: &Clock, variables: &[VariableMetadata], length: Length) -> String {
    if variables.is_empty() {
        return "No variables found".to_owned();
    }
    let mut heading = vec!["Namespace", "Path", "Last Updated"];
    if length == Length::Whole {
        heading.extend(["Created", "Create Index", "Check Index"]);
    }
    let mut table = Columns::new(&heading);
    for variable in variables {
        let mut row = vec![
            variable.namespace.clone(),
            variable.path.clone(),
            clock.date(variable.modify_time),
        ];
        if length == Length::Whole {
            row.push(clock.date(variable.create_time));
            row.push(variable.create_index.to_string());
            row.push(variable.modify_index.to_string());
        }
        table.row(row);
    }
    table.render()
}

/// The paths alone.
pub(crate) fn paths(variables: &[VariableMetadata]) -> String {
    let paths: Vec<&str> = variables.iter().map(|it| it.path.as_str()).collect();
    paths.join("\n")
}

/// One variable with its items.
pub(crate) fn one(clock: &Clock, variable: &Variable) -> String {
    let mut head = vec![
        ("Namespace", variable.namespace.clone()),
        ("Path", variable.path.clone()),
        ("Create Time", clock.date(variable.create_time)),
    ];
    if variable.create_time != variable.modify_time {
        head.push(("Modify Time", clock.date(variable.modify_time)));
    }
    head.push(("Check Index", variable.modify_index.to_string()));
    if let Some(lock) = &variable.lock {
        head.push(("Lock TTL", protocol_model::duration::format_go(lock.ttl)));
    }
    let items = variable.items.iter().flatten();
    let items: Vec<(&str, String)> = items
        .map(|(key, value)| (key.as_str(), value.reveal().to_owned()))
        .collect();
    format!("{}\nItems\n{}", pairs(&head), pairs(&items))
}

/// One variable as a specification: `drover var put` reads it.
pub(crate) fn hcl(variable: &Variable) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = writeln!(text, "namespace    = {}", quoted(&variable.namespace));
    let _ = writeln!(text, "path         = {}", quoted(&variable.path));
    let _ = writeln!(text, "create_index = {}", variable.create_index);
    let _ = writeln!(text, "modify_index = {}", variable.modify_index);
    let _ = writeln!(text, "create_time  = {}", variable.create_time.0);
    let _ = writeln!(text, "modify_time  = {}", variable.modify_time.0);
    text.push_str("\nitems = {\n");
    for (key, value) in variable.items.iter().flatten() {
        let _ = writeln!(text, "  {} = {}", quoted(key), quoted(value.reveal()));
    }
    text.push('}');
    text
}

/// A text in quotes, with HCL's escapes.
fn quoted(text: &str) -> String {
    let mut all = String::from("\"");
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' => all.push_str("\\\""),
            '\\' => all.push_str("\\\\"),
            '\n' => all.push_str("\\n"),
            '\r' => all.push_str("\\r"),
            '\t' => all.push_str("\\t"),
            // Else it would begin a template.
            '$' | '%' if rest.peek() == Some(&'{') => {
                all.push(character);
                all.push(character);
            }
            control if control.is_control() => {
                let _ = write!(all, "\\u{:04x}", u32::from(control));
            }
            other => all.push(other),
        }
    }
    all.push('"');
    all
}

#[cfg(test)]
mod tests {
    use protocol_model::SecretText;

    use super::*;

    #[test]
    fn a_specification_that_was_printed_is_read_again() {
        let value = "a\"b\\c\nd\t${x} %{y} $$ \u{7} é";
        let variable = Variable {
            namespace: "dev".to_owned(),
            path: "app/db".to_owned(),
            modify_index: 7,
            items: Some([("k-1".to_owned(), SecretText::new(value))].into()),
            ..Variable::default()
        };
        let text = hcl(&variable);
        let read = protocol_jobspec::parse_variable("x.hcl", &text).expect(&text);
        let read: Variable = serde_json::from_value(read).expect("a variable");
        assert_eq!(read, variable);
    }
}
