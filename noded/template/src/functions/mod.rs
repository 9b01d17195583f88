//! The functions of templates: one table per family, and the names that are refused.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::call::{Answer, Call};
use crate::error::TemplateError;
use crate::pass::Pass;

mod cluster;
mod collections;
mod encoding;
mod environment;
mod hashes;
pub(crate) mod internal;
mod json;
mod language;
mod numbers;
mod parsing;
mod refused;
mod regexes;
mod scratch;
mod sprig_dates;
mod sprig_dicts;
mod sprig_lists;
mod sprig_numbers;
mod sprig_texts;
mod sprig_values;
mod texts;
pub(crate) mod time;
mod toml_text;
mod yaml;
mod yaml_text;

/// One function.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    min: usize,
    max: usize,
    pub(crate) body: fn(&Call<'_>) -> Answer,
}

/// The largest number of arguments of a function that takes any number.
const MANY: usize = usize::MAX;

/// A function of `min` to `max` arguments.
const fn function(
    name: &'static str,
    min: usize,
    max: usize,
    body: fn(&Call<'_>) -> Answer,
) -> Function {
    Function {
        name,
        min,
        max,
        body,
    }
}

impl Function {
    pub(crate) fn arity(&self, given: usize) -> Result<(), String> {
        if (self.min..=self.max).contains(&given) {
            return Ok(());
        }
        let plural = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let takes = match (self.min, self.max) {
            (min, MANY) => format!("at least {min} {}", plural(min)),
            (min, max) if min == max => format!("{min} {}", plural(min)),
            (min, max) => format!("{min} to {max} arguments"),
        };
        Err(format!("it takes {takes}, not {given}"))
    }

    /// A function that `rewrite` puts into the tree: errors do not name it.
    pub(crate) fn is_internal(&self) -> bool {
        self.name.starts_with('\u{1}')
    }
}

static TABLE: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
    let families: [&[Function]; 21] = [
        internal::FUNCTIONS,
        language::FUNCTIONS,
        environment::FUNCTIONS,
        cluster::FUNCTIONS,
        scratch::FUNCTIONS,
        texts::FUNCTIONS,
        regexes::FUNCTIONS,
        numbers::FUNCTIONS,
        parsing::FUNCTIONS,
        json::FUNCTIONS,
        yaml::FUNCTIONS,
        toml_text::FUNCTIONS,
        encoding::FUNCTIONS,
        hashes::FUNCTIONS,
        collections::FUNCTIONS,
        time::FUNCTIONS,
        sprig_texts::FUNCTIONS,
        sprig_numbers::FUNCTIONS,
        sprig_lists::FUNCTIONS,
        sprig_dicts::FUNCTIONS,
        sprig_values::FUNCTIONS,
    ];
    let all = families.into_iter().chain([sprig_dates::FUNCTIONS]);
    all.flatten()
        .map(|function| (function.name, *function))
        .collect()
});

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let names = TABLE
        .keys()
        .copied()
        .filter(|name| !name.starts_with('\u{1}'));
    let mut names: Vec<_> = names.chain(["and", "or"]).collect();
    names.sort_unstable();
    names
});

/// The names of all functions that a template can call, sorted; Go's own ones included.
#[must_use]
pub fn functions() -> &'static [&'static str] {
    &NAMES
}

/// Refuses a name that is no function, with the reason if there is one.
pub(crate) fn check(name: &str, line: usize) -> Result<(), TemplateError> {
    if TABLE.contains_key(name) || matches!(name, "and" | "or") {
        return Ok(());
    }
    let reason = refused::reason(name).unwrap_or("there is no function of this name");
    Err(TemplateError::of(line, name, reason))
}

/// The functions as the engine calls them, bound to one pass.
pub(crate) fn of(pass: &Arc<Pass>) -> gotmpl::FuncMap {
    let bound = TABLE.values().map(|function| {
        let pass = Arc::clone(pass);
        let body: gotmpl::ValueFunc = Arc::new(move |arguments| pass.run(function, arguments));
        (function.name.to_owned(), body)
    });
    bound.collect()
}
