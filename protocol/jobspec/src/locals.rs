//! `locals` blocks: named values that may use variables and each other in any order. They are
//! evaluated in the order of their dependencies, without recursion; a circle is an error that
//! names its members.

use crate::decode::Problems;
use crate::diagnostic::{Diagnostics, Source, Span};
use crate::eval::{Evaluator, Machine, Scope, span_of};
use crate::references;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;
use std::collections::{BTreeMap, BTreeSet};

struct Local<'b> {
    span: Span,
    expression: &'b Expression,
    /// Names of the locals it uses.
    uses: BTreeSet<String>,
}

/// Evaluates all locals and defines `local` in `scope`.
pub(crate) fn define(
    body: &Body,
    source: &Source,
    machine: &mut Machine<'_>,
    list: &mut Diagnostics,
    scope: &mut Scope<'_>,
) {
    let mut problems = Problems { source, list };
    let locals = collect(body, &mut problems);
    scope.map_mut("local");
    for name in order(&locals, machine, &mut problems) {
        let Some(local) = locals.get(name) else {
            continue;
        };
        match (Evaluator { source, machine }).eval(local.expression, scope) {
            Ok(value) => {
                scope.map_mut("local").insert(name.to_owned(), value);
            }
            Err(error) => {
                machine.broken.insert(format!("local.{name}"));
                problems.report_error(error);
            }
        }
    }
}

fn collect<'b>(body: &'b Body, problems: &mut Problems<'_>) -> BTreeMap<String, Local<'b>> {
    let mut locals = BTreeMap::new();
    for block in body.get_blocks("locals") {
        if let Some(label) = block.labels.first() {
            problems.report(&span_of(label), "`locals` takes no label", None);
        }
        if let Some(inner) = block.body.blocks().next() {
            let message = "`locals` holds names and values, no blocks";
            problems.report(&span_of(&inner.ident), message, None);
        }
        for attribute in block.body.attributes() {
            let name = attribute.key.value().as_str().to_owned();
            let span = span_of(&attribute.key);
            let local = Local {
                span: span.clone(),
                expression: &attribute.value,
                uses: references::of("local", &attribute.value),
            };
            if locals.insert(name.clone(), local).is_some() {
                problems.report(&span, format!("the local `{name}` is defined twice"), None);
            }
        }
    }
    locals
}

/// Names such that each comes after all it uses. What is left when none can come next is part of
/// a circle or depends on one.
fn order<'l>(
    locals: &'l BTreeMap<String, Local<'_>>,
    machine: &mut Machine<'_>,
    problems: &mut Problems<'_>,
) -> Vec<&'l str> {
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, local) in locals {
        let known = local.uses.iter().filter(|used| locals.contains_key(*used));
        let mut count = 0;
        for used in known {
            users.entry(used).or_default().push(name);
            count += 1;
        }
        waiting.insert(name, count);
    }
    let mut ready: Vec<&str> = waiting
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(name, _)| *name)
        .collect();
    let mut ordered = Vec::with_capacity(locals.len());
    while let Some(name) = ready.pop() {
        ordered.push(name);
        waiting.remove(name);
        for user in users.get(name).into_iter().flatten() {
            if let Some(count) = waiting.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    ready.push(user);
                }
            }
        }
    }
    for name in waiting.keys() {
        machine.broken.insert(format!("local.{name}"));
    }
    for circle in circles(&waiting, locals) {
        let span = locals
            .get(circle[0])
            .map_or(0..0, |local| local.span.clone());
        let path: Vec<String> = circle
            .iter()
            .chain(circle.first())
            .map(|name| format!("local.{name}"))
            .collect();
        let message = format!("locals use each other in a circle: {}", path.join(" -> "));
        problems.report(&span, message, None);
    }
    ordered
}

/// The circles that are met when each stuck local's first stuck use is followed: one for each
/// local that is stuck for a reason of its own.
fn circles<'l>(
    stuck: &BTreeMap<&'l str, usize>,
    locals: &'l BTreeMap<String, Local<'_>>,
) -> Vec<Vec<&'l str>> {
    let next = |name: &str| {
        let mut uses = locals.get(name)?.uses.iter();
        uses.find(|used| stuck.contains_key(used.as_str()))
    };
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for start in stuck.keys() {
        let mut path: Vec<&str> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut name = Some(*start);
        while let Some(here) = name.filter(|name| seen.insert(name)) {
            places.insert(here, path.len());
            path.push(here);
            name = next(here).map(String::as_str);
        }
        // A walk that ends on an earlier one leads to a circle that was found there.
        if let Some(first) = name.and_then(|again| places.get(again)) {
            found.push(path.split_off(*first));
        }
    }
    found
}
