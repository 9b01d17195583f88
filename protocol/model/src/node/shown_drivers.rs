//! Drivers as the API shows them: with every key.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::DriverInfo;
use crate::instant::{UnixNanos, rfc3339};

/// A node's drivers, as the API shows them.
#[derive(Clone, Copy, Debug)]
pub struct ShownDrivers<'a>(pub &'a BTreeMap<String, DriverInfo>);

impl Serialize for ShownDrivers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

/// For `#[serde(serialize_with)]`: `null` where there is no driver.
pub(super) fn serialize<S: Serializer>(
    drivers: &BTreeMap<String, DriverInfo>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if drivers.is_empty() {
        return serializer.serialize_none();
    }
    serializer.collect_map(drivers.iter().map(|(name, info)| (name, shown(info))))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownDriver<'a> {
    attributes: Option<&'a BTreeMap<String, String>>,
    detected: bool,
    healthy: bool,
    health_description: &'a str,
    #[serde(with = "rfc3339")]
    update_time: Option<UnixNanos>,
}

fn shown(info: &DriverInfo) -> ShownDriver<'_> {
    let DriverInfo {
        attributes,
        detected,
        healthy,
        health_description,
        update_time,
    } = info;
    ShownDriver {
        attributes: (!attributes.is_empty()).then_some(attributes),
        detected: *detected,
        healthy: *healthy,
        health_description,
        update_time: *update_time,
    }
}
