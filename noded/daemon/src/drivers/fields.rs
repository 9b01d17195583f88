//! Reading the fields of a `config` block, one by one; whatever is left is an error.

use std::time::Duration;

use serde_json::{Map, Value};

use super::DriverError;

pub(super) fn invalid(field: &str, problem: impl Into<String>) -> DriverError {
    DriverError::Invalid {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

/// Fields that were not read yet.
#[derive(Debug)]
pub struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn new(config: &Map<String, Value>) -> Self {
        Self(config.clone())
    }

    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, DriverError> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => scalar(field, &value).map(Some),
        }
    }

    pub(super) fn texts(&mut self, field: &str) -> Result<Vec<String>, DriverError> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(offset, item)| scalar(&format!("{field}[{offset}]"), item))
                .collect(),
            Some(_) => Err(invalid(field, "it must be a list of texts")),
        }
    }

    pub(super) fn number(&mut self, field: &str) -> Result<Option<i64>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| invalid(field, format!("{text:?} is not a whole number"))),
        }
    }

    pub(super) fn flag(&mut self, field: &str) -> Result<Option<bool>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| invalid(field, format!("{text:?} is neither true nor false"))),
        }
    }

    pub(super) fn duration(&mut self, field: &str) -> Result<Option<Duration>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => protocol_model::duration::parse_go(&text)
                .map(Some)
                .map_err(|error| invalid(field, error.to_string())),
        }
    }

    pub(super) fn finish(self) -> Result<(), DriverError> {
        let names: Vec<String> = self.0.keys().map(|name| format!("{name:?}")).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(DriverError::Unknown(names.join(", ")))
        }
    }
}

/// HCL converts between numbers, booleans and texts; so do drivers.
fn scalar(field: &str, value: &Value) -> Result<String, DriverError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(invalid(field, "it must be a text"))
        }
    }
}
