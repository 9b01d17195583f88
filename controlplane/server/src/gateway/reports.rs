//! A node's reports, read.

use protocol_wire::convert::ConvertError;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;

/// Reads a list of reports.
pub(super) fn from_wire(reports: Vec<v1::AllocReport>) -> Result<Vec<AllocReport>, ConvertError> {
    reports.into_iter().map(AllocReport::try_from).collect()
}
