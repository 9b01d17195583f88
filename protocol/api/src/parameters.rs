//! Query parameters that several operations have.

use crate::endpoint::Parameter;

pub(crate) const PREFIX: Parameter = Parameter::text("prefix", "only ids that begin with it");
pub(crate) const PER_PAGE: Parameter = Parameter::number("per_page", "items in an answer");
pub(crate) const NEXT_TOKEN: Parameter = Parameter::text(
    "next_token",
    "where this page begins (`X-Nomad-NextToken` of the last)",
);
pub(crate) const REVERSE: Parameter = Parameter::flag("reverse", "the newest first");
pub(crate) const RESOURCES: Parameter = Parameter::flag("resources", "with resources");
pub(crate) const TASK_STATES: Parameter =
    Parameter::flag("task_states", "`false`: without the states of tasks");
pub(crate) const ALL_OF_NAME: Parameter =
    Parameter::flag("all", "also of earlier jobs of this name");
pub(crate) const NO_SHUTDOWN_DELAY: Parameter = Parameter::flag(
    "no_shutdown_delay",
    "tasks stop without their `shutdown_delay`",
);
