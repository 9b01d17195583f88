//! What a snapshot file holds.

use controlplane_state::checkpoint::CheckpointSummary;
use protocol_model::format_rfc3339;
use serde_json::{Value, json};

use super::columns::{Columns, pairs};
use super::time::bytes;

/// The file's name for itself: which history it is of, and where in it.
fn id(summary: &CheckpointSummary) -> String {
    let incarnation = summary
        .incarnation
        .map(|incarnation| incarnation.to_string());
    format!("{}-{}", incarnation.unwrap_or_default(), summary.index)
}

/// For people. `size` is the file's; the sizes of the types are those before compression.
pub(crate) fn table(summary: &CheckpointSummary, size: u64) -> String {
    let mut text = pairs(&[
        ("ID", id(summary)),
        ("Size", bytes(size)),
        ("Index", summary.index.to_string()),
        ("Version", summary.version.to_string()),
        ("Taken", format_rfc3339(summary.now)),
    ]);
    let mut columns = Columns::new(&["Type", "Count", "Size"]);
    let (mut count, mut total) = (0, 0);
    for section in &summary.sections {
        columns.row([
            section.name.to_owned(),
            section.records.to_string(),
            bytes(section.bytes),
        ]);
        count += section.records;
        total += section.bytes;
    }
    columns.row(["total".to_owned(), count.to_string(), bytes(total)]);
    text.push('\n');
    text.push_str(&columns.render());
    if !summary.root_keys.is_empty() {
        let mut keys = Columns::new(&["Root Key", "State", "KEK"]);
        for key in &summary.root_keys {
            let (id, state) = (key.id.to_string(), key.state.as_str().to_owned());
            keys.row([id, state, key.kek_id_text()]);
        }
        text.push('\n');
        text.push_str(&keys.render());
    }
    text
}

/// For programs.
pub(crate) fn json(summary: &CheckpointSummary, size: u64) -> Value {
    let types: Vec<Value> = summary
        .sections
        .iter()
        .map(|section| {
            json!({ "Name": section.name, "Count": section.records, "Size": section.bytes })
        })
        .collect();
    let root_keys: Vec<Value> = summary
        .root_keys
        .iter()
        .map(
            |key| json!({ "KeyID": key.id, "State": key.state.as_str(), "KEK": key.kek_id_text() }),
        )
        .collect();
    let total: u64 = summary.sections.iter().map(|section| section.bytes).sum();
    json!({
        "ID": id(summary),
        "Size": size,
        "Index": summary.index,
        "Version": summary.version,
        "Incarnation": summary.incarnation,
        "Time": summary.now,
        "Types": types,
        "TotalSize": total,
        "RootKeys": root_keys,
    })
}
