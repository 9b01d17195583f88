//! Renders a template: parse, rewrite, run, and the outcome of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use gotmpl::parse::{ListNode, Parser};

use crate::error::TemplateError;
use crate::functions;
use crate::known::{Dependency, Known};
use crate::limits::Limits;
use crate::pass::Pass;
use crate::value::Value;
use crate::{Delimiters, MissingKey, blocks, rewrite};

/// The body outside of all `define`s; no template can have this name.
const MAIN: &str = "\u{1}main";

/// A template's text and how it is read.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a> {
    /// The text.
    pub text: &'a str,
    /// The marks of its actions.
    pub delimiters: Delimiters<'a>,
    /// The result of a field that a map does not have.
    pub missing_key: MissingKey,
}

/// The outcome of a rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The text.
    Rendered(String),
    /// The data to fetch before the next rendering.
    Missing(BTreeSet<Dependency>),
}

/// Renders a template.
///
/// A rendering that lacks data has no text: an error in it may be due to that, so it counts only
/// when nothing is missing. A limit that is reached counts always.
///
/// # Errors
/// The template is not well formed, calls a function that is not there, or with arguments that it
/// does not take; a limit is reached.
pub fn render(
    template: &Template<'_>,
    known: &Known,
    limits: &Limits,
) -> Result<Outcome, TemplateError> {
    let trees = parse(template, limits)?;
    let pass = Arc::new(Pass::new(known, *limits, template.missing_key));
    let mut engine = gotmpl::Template::new("").funcs(functions::of(&pass));
    // `TICK` counts iterations, over all executions of the engine together.
    engine = engine.max_range_iters(0);
    for (name, tree) in trees {
        engine = engine.add_parse_tree(&name, tree);
    }
    let engine = Arc::new(engine);
    // Fresh cell: it is set once.
    let _ = pass.template.set(Arc::downgrade(&engine));
    let mut output = Output::new(limits.output_bytes);
    let result = engine.execute_template_fmt(&mut output, MAIN, &Value::Nil);
    let ending = pass.ending();
    if output.is_full {
        let problem = format!("the result is larger than {} bytes", limits.output_bytes);
        return Err(TemplateError::at(ending.line, problem));
    }
    if !ending.missing.is_empty() && !ending.exhausted {
        return Ok(Outcome::Missing(ending.missing));
    }
    match result {
        Ok(()) => Ok(Outcome::Rendered(output.text)),
        Err(error) => Err(ending
            .failure
            .unwrap_or_else(|| TemplateError::at(ending.line, reason(&error)))),
    }
}

/// Checks a template without data: its syntax, the names of its functions and variables.
///
/// # Errors
/// As [`render`], as far as that shows without running.
pub fn check(template: &Template<'_>, limits: &Limits) -> Result<(), TemplateError> {
    parse(template, limits).map(|_| ())
}

fn parse(
    template: &Template<'_>,
    limits: &Limits,
) -> Result<BTreeMap<String, ListNode>, TemplateError> {
    if template.text.len() > limits.output_bytes {
        let problem = format!("the template is larger than {} bytes", limits.output_bytes);
        return Err(TemplateError::at(1, problem));
    }
    let delimiters = template.delimiters;
    if delimiters.left == delimiters.right {
        let problem = format!("both delimiters are {:?}", delimiters.left);
        return Err(TemplateError::at(1, problem));
    }
    blocks::check(template.text, delimiters)?;
    let parser = Parser::new(template.text, delimiters.left, delimiters.right);
    let (main, defines) = parser.and_then(Parser::parse).map_err(|e| located(&e))?;
    let mut trees = BTreeMap::new();
    for define in defines {
        let name = define.name.to_string();
        let is_empty = define.body.is_empty_tree();
        if trees.get(&name).is_none_or(ListNode::is_empty_tree) {
            trees.insert(name, define.body);
        } else if !is_empty {
            let problem = format!("template {name:?} is defined twice");
            return Err(TemplateError::at(define.pos.line, problem));
        }
    }
    let names: BTreeSet<String> = trees.keys().cloned().collect();
    trees.insert(MAIN.to_owned(), main);
    let trees = trees.into_iter();
    trees
        .map(|(name, tree)| Ok((name, rewrite::body(tree, &names)?)))
        .collect()
}

/// Runs a template of the text from within a function.
pub(crate) fn execute(pass: &Pass, name: &str, dot: &Value) -> Result<String, String> {
    let engine = pass.template.get().and_then(std::sync::Weak::upgrade);
    let engine = engine.ok_or("the template is gone")?;
    if engine.lookup(name).is_none() || name == MAIN {
        return Err(format!("template {name:?} is not defined"));
    }
    let mut output = Output::new(pass.limits.output_bytes);
    let result = engine.execute_template_fmt(&mut output, name, dot);
    if output.is_full {
        let max = pass.limits.output_bytes;
        return Err(pass.exhaust(format!("a text is larger than {max} bytes")));
    }
    result.map_err(|error| reason(&error))?;
    Ok(output.text)
}

/// Formats as Go's `printf`; the engine has it only as a function of templates.
pub(crate) fn format(
    format: &str,
    arguments: &[Value],
    bytes_max: usize,
) -> Result<String, String> {
    let mut source = "{{printf .f".to_owned();
    let mut data = BTreeMap::from([(Arc::from("f"), Value::String(Arc::from(format)))]);
    for (index, argument) in arguments.iter().enumerate() {
        source.push_str(&format!(" .a{index}"));
        data.insert(Arc::from(format!("a{index}")), argument.clone());
    }
    source.push_str("}}");
    let template = gotmpl::Template::new("").parse(&source);
    let template = template.map_err(|error| reason(&error))?;
    let mut output = Output::new(bytes_max);
    let result = template.execute_fmt(&mut output, &Value::Map(Arc::new(data)));
    result.map_err(|error| reason(&error))?;
    Ok(output.text)
}

/// A text that refuses to grow past its limit.
struct Output {
    text: String,
    bytes_max: usize,
    is_full: bool,
}

impl Output {
    fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            bytes_max,
            is_full: false,
        }
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > self.bytes_max {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

fn located(error: &gotmpl::TemplateError) -> TemplateError {
    match error {
        gotmpl::TemplateError::Parse { line, message, .. }
        | gotmpl::TemplateError::Lex { line, message, .. } => {
            TemplateError::at((*line).max(1), message.clone())
        }
        other => TemplateError::at(1, other.to_string()),
    }
}

fn reason(error: &gotmpl::TemplateError) -> String {
    match error {
        gotmpl::TemplateError::Exec(problem) => problem.clone(),
        gotmpl::TemplateError::RecursionLimit => {
            "templates call each other deeper than 200 levels".to_owned()
        }
        other => other.to_string(),
    }
}
