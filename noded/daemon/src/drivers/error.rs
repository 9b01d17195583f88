//! Why a task's configuration cannot be used, and why a task did not start.

use noded_core::event::{Recovery, RunEvent};
use protocol_error_chain::chain;

/// Why a `config` block cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// No such driver, or it is switched off here.
    #[error("driver {0:?} is not available on this node")]
    Unavailable(String),
    /// A field that must be there.
    #[error("config.{0} is missing")]
    Missing(&'static str),
    /// A field with another type or an impossible value.
    #[error("config.{field}: {problem}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// A mode of the host that this node does not give to tasks.
    #[error(
        "config.{field}: \"host\" is off on this node; its operator may set driver {driver:?} \
         {{ {key} = true }}"
    )]
    HostMode {
        /// The driver.
        driver: &'static str,
        /// The field.
        field: &'static str,
        /// The node's key.
        key: &'static str,
    },
    /// Fields that the driver does not have.
    #[error("config has no field {0}")]
    Unknown(String),
}

/// A start that failed.
#[derive(Debug)]
pub struct StartFailed {
    /// Why.
    pub message: String,
    /// Whether another attempt may start.
    pub recovery: Recovery,
}

impl StartFailed {
    pub(crate) fn hopeless(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recovery: Recovery::Hopeless,
        }
    }

    pub(crate) fn possible(error: &dyn std::error::Error) -> Self {
        Self {
            message: chain(error),
            recovery: Recovery::Possible,
        }
    }
}

impl From<DriverError> for StartFailed {
    fn from(error: DriverError) -> Self {
        Self::hopeless(error.to_string())
    }
}

impl From<StartFailed> for RunEvent {
    fn from(failed: StartFailed) -> Self {
        let StartFailed { message, recovery } = failed;
        Self::StartFailed { message, recovery }
    }
}
