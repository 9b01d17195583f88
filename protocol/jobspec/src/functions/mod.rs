//! The functions that expressions may call, by family. A function gets its arguments evaluated
//! and returns a value or a [`Failure`] that says which argument is to blame; what it needs of
//! the world comes through [`Context`].

mod arguments;
mod collections;
mod conversion;
mod csv;
mod encoding;
mod files;
mod format;
mod hashes;
mod networks;
mod numbers;
mod passwords;
mod regexes;
mod sets;
mod strings;
mod time;
mod yaml;
mod yaml_text;

use crate::eval::{Exhausted, Machine};
use crate::value::Value;
use sha2::{Digest, Sha256};

/// What a function may use besides its arguments.
pub(crate) struct Context<'m, 'i> {
    pub(crate) machine: &'m mut Machine<'i>,
}

impl Context<'_, '_> {
    /// Charges output before it is made, for functions whose output can dwarf their input.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), Failure> {
        self.machine.spend(bytes as u64).map_err(Failure::from)
    }

    /// The next bytes of the sequence that the caller's seed starts; `purpose` keeps the
    /// sequences of different functions apart.
    pub(crate) fn random_bytes(&mut self, purpose: &[u8]) -> [u8; 16] {
        let number = self.machine.identifiers;
        self.machine.identifiers += 1;
        let digest = Sha256::new()
            .chain_update(purpose)
            .chain_update(self.machine.inputs.seed().to_be_bytes())
            .chain_update(number.to_be_bytes())
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes
    }
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    Call,
    /// The argument at this position.
    Argument(usize),
}

/// Why a function gave no value.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) blame: Blame,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) fatal: bool,
}

impl Failure {
    pub(crate) fn call(message: impl Into<String>) -> Self {
        Self {
            blame: Blame::Call,
            message: message.into(),
            hint: None,
            fatal: false,
        }
    }

    pub(crate) fn argument(position: usize, message: impl Into<String>) -> Self {
        Self {
            blame: Blame::Argument(position),
            message: message.into(),
            hint: None,
            fatal: false,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn text(&self, function: &str) -> String {
        format!("{function}(): {}", self.message)
    }
}

impl From<Exhausted> for Failure {
    fn from(limit: Exhausted) -> Self {
        Self {
            fatal: true,
            ..Self::call(limit.message())
        }
    }
}

pub(crate) type Answer = Result<Value, Failure>;

/// How many arguments a function takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arity {
    min: usize,
    max: usize,
}

impl Arity {
    const fn exactly(count: usize) -> Self {
        Self {
            min: count,
            max: count,
        }
    }

    const fn between(min: usize, max: usize) -> Self {
        Self { min, max }
    }

    const fn at_least(min: usize) -> Self {
        Self {
            min,
            max: usize::MAX,
        }
    }

    pub(crate) fn check(self, name: &str, given: usize) -> Result<(), String> {
        if (self.min..=self.max).contains(&given) {
            return Ok(());
        }
        let wanted = match (self.min, self.max) {
            (min, usize::MAX) => format!("at least {min}"),
            (min, max) if min == max => format!("{min}"),
            (min, max) => format!("{min} to {max}"),
        };
        Err(format!("{name}() takes {wanted} argument(s), not {given}"))
    }
}

/// One entry of a family's table.
pub(crate) struct Function {
    name: &'static str,
    pub(crate) arity: Arity,
    pub(crate) body: Body,
}

type Body = fn(&mut Context<'_, '_>, &[Value]) -> Answer;

const fn function(name: &'static str, arity: Arity, body: Body) -> Function {
    Function { name, arity, body }
}

static FAMILIES: &[&[Function]] = &[
    collections::FUNCTIONS,
    conversion::FUNCTIONS,
    csv::FUNCTIONS,
    encoding::FUNCTIONS,
    files::FUNCTIONS,
    format::FUNCTIONS,
    hashes::FUNCTIONS,
    networks::FUNCTIONS,
    numbers::FUNCTIONS,
    passwords::FUNCTIONS,
    regexes::FUNCTIONS,
    sets::FUNCTIONS,
    strings::FUNCTIONS,
    time::FUNCTIONS,
    yaml::FUNCTIONS,
];

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FAMILIES
        .iter()
        .copied()
        .flatten()
        .find(|function| function.name == name)
}

/// All names, also of the functions that the evaluator itself provides.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let own = ["try", "can", "convert"];
    FAMILIES
        .iter()
        .copied()
        .flatten()
        .map(|function| function.name)
        .chain(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_function_has_one_definition() {
        let all: Vec<&str> = names().collect();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
        assert!(all.len() >= 95, "{} functions", all.len());
    }
}
