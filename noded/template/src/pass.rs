//! The state of one rendering: what it has spent, what it misses, why it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::MissingKey;
use crate::call::Call;
use crate::error::TemplateError;
use crate::functions::Function;
use crate::known::{Dependency, Known};
use crate::limits::Limits;
use crate::value::{self, Value};

/// Nesting of one value: the parsers of JSON and YAML stop at the same level.
pub(crate) const VALUE_DEPTH_MAX: usize = 140;

pub(crate) struct Pass {
    pub(crate) known: Known,
    pub(crate) limits: Limits,
    pub(crate) missing_key: MissingKey,
    pub(crate) scratch: Mutex<BTreeMap<String, Value>>,
    /// Regular expressions of this rendering, compiled.
    pub(crate) regexes: Mutex<BTreeMap<String, regex::Regex>>,
    /// The template itself, for `executeTemplate`.
    pub(crate) template: OnceLock<Weak<gotmpl::Template>>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    line: usize,
    steps: u64,
    iterations: u64,
    text_bytes: usize,
    depth: usize,
    missing: BTreeSet<Dependency>,
    failure: Option<TemplateError>,
    /// A limit was reached: data that is still missing does not change that.
    exhausted: bool,
}

/// The end of a pass.
pub(crate) struct Ending {
    pub(crate) line: usize,
    pub(crate) missing: BTreeSet<Dependency>,
    pub(crate) failure: Option<TemplateError>,
    pub(crate) exhausted: bool,
}

impl Pass {
    pub(crate) fn new(known: &Known, limits: Limits, missing_key: MissingKey) -> Self {
        Self {
            known: known.clone(),
            limits,
            missing_key,
            scratch: Mutex::default(),
            regexes: Mutex::default(),
            template: OnceLock::new(),
            progress: Mutex::new(Progress {
                line: 1,
                ..Progress::default()
            }),
        }
    }

    pub(crate) fn ending(&self) -> Ending {
        let mut progress = self.progress.lock();
        Ending {
            line: progress.line,
            missing: std::mem::take(&mut progress.missing),
            failure: progress.failure.take(),
            exhausted: progress.exhausted,
        }
    }

    /// Records data that the caller has to fetch.
    pub(crate) fn miss(&self, dependency: Dependency) {
        self.progress.lock().missing.insert(dependency);
    }

    /// Charges work.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), String> {
        let mut progress = self.progress.lock();
        progress.steps = progress.steps.saturating_add(steps as u64);
        let max = self.limits.steps;
        let is_within = progress.steps <= max;
        progress.within(is_within, || {
            format!("the template takes more than {max} steps")
        })
    }

    /// Charges one iteration of a `range`.
    pub(crate) fn iterate(&self) -> Result<(), String> {
        let mut progress = self.progress.lock();
        progress.iterations += 1;
        let max = self.limits.iterations;
        let is_within = progress.iterations <= max;
        progress.within(is_within, || {
            format!("the template's loops take more than {max} iterations")
        })
    }

    /// Enters the body of a template.
    pub(crate) fn enter(&self, weight: usize) -> Result<(), String> {
        let mut progress = self.progress.lock();
        progress.depth += weight;
        let max = self.limits.depth;
        let is_within = progress.depth <= max;
        progress.within(is_within, || {
            format!("templates call each other deeper than {max} levels")
        })
    }

    pub(crate) fn leave(&self, weight: usize) {
        let mut progress = self.progress.lock();
        progress.depth = progress.depth.saturating_sub(weight);
    }

    /// Charges text that is about to be made.
    pub(crate) fn make(&self, bytes: usize) -> Result<(), String> {
        let mut progress = self.progress.lock();
        let max = self.limits.output_bytes;
        progress.within(bytes <= max, || {
            format!("a text is larger than {max} bytes")
        })?;
        progress.text_bytes = progress.text_bytes.saturating_add(bytes);
        let max = self.limits.text_bytes;
        let is_within = progress.text_bytes <= max;
        progress.within(is_within, || {
            format!("the template makes more than {max} bytes of text")
        })
    }

    /// A limit that a function found reached.
    pub(crate) fn exhaust(&self, problem: String) -> String {
        self.progress.lock().exhausted = true;
        problem
    }

    pub(crate) fn charge(&self, result: &Value) -> Result<(), String> {
        match result {
            Value::String(text) => self.make(text.len()),
            Value::List(_) | Value::Map(_) => {
                let max = self.limits.elements;
                let size = value::size(result, max, VALUE_DEPTH_MAX).ok_or_else(|| {
                    self.exhaust(format!(
                        "a value has more than {max} elements or {VALUE_DEPTH_MAX} levels"
                    ))
                })?;
                self.spend(size.elements / 8)?;
                self.make(size.bytes)
            }
            _ => Ok(()),
        }
    }

    /// Runs a function. The first argument is the line, which `rewrite` put there.
    pub(crate) fn run(
        self: &Arc<Self>,
        function: &Function,
        arguments: &[Value],
    ) -> gotmpl::Result<Value> {
        let (line, arguments) = match arguments {
            [Value::Int(line), rest @ ..] => (usize::try_from(*line).unwrap_or(0), rest),
            all => (0, all),
        };
        self.progress.lock().line = line;
        let call = Call {
            pass: self,
            arguments,
        };
        let result = self.spend(1).and_then(|()| function.arity(arguments.len()));
        let result = result.and_then(|()| (function.body)(&call));
        let result = result.and_then(|value| {
            if !function.is_internal() {
                self.charge(&value)?;
            }
            Ok(value)
        });
        result.map_err(|problem| {
            let mut progress = self.progress.lock();
            let error = if function.is_internal() || progress.exhausted {
                TemplateError::at(line, problem)
            } else {
                TemplateError::of(line, function.name, problem)
            };
            progress.failure.get_or_insert(error);
            gotmpl::TemplateError::Exec(String::new())
        })
    }
}

impl Progress {
    fn within(&mut self, is_within: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
        if is_within {
            return Ok(());
        }
        self.exhausted = true;
        Err(problem())
    }
}
