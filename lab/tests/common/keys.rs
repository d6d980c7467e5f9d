//! The keys of a file of results, and those that a document explains.

use std::collections::BTreeSet;

use serde_json::Value;

/// Every key of `value`, at any depth.
pub(crate) fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                into.insert(key.clone());
                keys(value, into);
            }
        }
        Value::Array(array) => array.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

/// The keys in the first column of a document's tables.
pub(crate) fn documented(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}
