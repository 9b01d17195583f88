//! What all evaluations of one parse share: the inputs, and the budget that bounds them together.

use super::undefined::Undefined;
use crate::diagnostic::Diagnostics;
use crate::inputs::Inputs;
use crate::value::Value;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Units that one parse may spend: a unit is a byte of some produced value; an evaluated
/// expression costs [`EXPRESSION_COST`]. A file of the largest size, all of it strings, needs
/// about a twentieth.
const BUDGET: u64 = 64 * 1024 * 1024;

/// What evaluating any expression takes of the budget.
pub(super) const EXPRESSION_COST: u64 = 128;

/// What all evaluations of one parse share.
pub(crate) struct Machine<'i> {
    pub(crate) inputs: &'i mut dyn Inputs,
    pub(crate) warnings: Diagnostics,
    /// Names that stay in the text for the node and that no node knows by itself.
    pub(crate) undefined: Undefined,
    /// Variables and locals (`var.x`) whose own definition failed: using one is no further error.
    pub(crate) broken: BTreeSet<String>,
    /// How often the seed was drawn from, by `uuidv4()` and `bcrypt()`.
    pub(crate) identifiers: u64,
    /// Regular expressions that were compiled already.
    pub(crate) patterns: BTreeMap<String, Regex>,
    budget: u64,
}

impl<'i> Machine<'i> {
    pub(crate) fn new(inputs: &'i mut dyn Inputs) -> Self {
        Self {
            inputs,
            warnings: Diagnostics::default(),
            undefined: Undefined::default(),
            broken: BTreeSet::new(),
            identifiers: 0,
            patterns: BTreeMap::new(),
            budget: BUDGET,
        }
    }

    /// Spends from the budget; `Err` when it is used up, and from then on.
    pub(crate) fn spend(&mut self, units: u64) -> Result<(), Exhausted> {
        if let Some(rest) = self.budget.checked_sub(units) {
            self.budget = rest;
            return Ok(());
        }
        self.budget = 0;
        Err(Exhausted::Work)
    }

    /// Charges a value that is about to be stored or copied.
    pub(crate) fn spend_value(&mut self, value: &Value) -> Result<(), Exhausted> {
        match value.weight() {
            Some(weight) => self.spend(weight),
            None => Err(Exhausted::Depth),
        }
    }
}

/// A limit of evaluation was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Work,
    Depth,
}

impl Exhausted {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Work => "this file expands to more than a job file may",
            Self::Depth => "values nest deeper than 64 levels",
        }
    }
}
