//! Strings with `${...}` and `%{...}` parts. A quoted string that is one lone interpolation has
//! the value of its expression, whatever its kind; everything else becomes text.
//!
//! `~` takes the white space of the literal beside it. In a heredoc each line is a literal of its
//! own: a line's end goes, the next line's indentation stays.

use super::{EvalError, Evaluator, Outcome, Scope, span_of};
use crate::value::Value;
use hcl_edit::template::{
    Directive, Element, ForDirective, IfDirective, StringTemplate, Strip, Template,
};
use std::borrow::Cow;

/// Whether white space is cut at a border of a template part (`~`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Border {
    Keep,
    Trim,
}

/// What `~` takes of the text beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All white space: of quoted strings.
    Text,
    /// White space up to the line's end: of heredocs.
    Line,
}

/// The two ends of a template, and what kind of string it is in.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: Border,
    last: Border,
    reach: Reach,
}

impl Reach {
    fn cut_start(self, text: &str) -> String {
        let (near, rest) = match (self, text.find('\n')) {
            (Self::Line, Some(newline)) => text.split_at(newline + 1),
            _ => (text, ""),
        };
        format!("{}{rest}", near.trim_start())
    }

    fn cut_end(self, text: &str) -> String {
        let body = text.strip_suffix('\n').unwrap_or(text);
        let (rest, near) = match (self, body.rfind('\n')) {
            (Self::Line, Some(newline)) => text.split_at(newline + 1),
            _ => ("", text),
        };
        format!("{rest}{}", near.trim_end())
    }
}

impl Border {
    fn before(strip: Strip) -> Self {
        if strip.strip_start() {
            Self::Trim
        } else {
            Self::Keep
        }
    }

    fn after(strip: Strip) -> Self {
        if strip.strip_end() {
            Self::Trim
        } else {
            Self::Keep
        }
    }
}

impl Evaluator<'_, '_> {
    pub(super) fn string_template(
        &mut self,
        template: &StringTemplate,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        if let Some(Element::Interpolation(lone)) = template.as_single_element() {
            return self.eval(&lone.expr, scope);
        }
        self.template(template, Reach::Text, scope)
    }

    pub(super) fn heredoc(&mut self, template: &Template, scope: &Scope<'_>) -> Outcome<Value> {
        self.template(template, Reach::Line, scope)
    }

    fn template(&mut self, template: &Template, reach: Reach, scope: &Scope<'_>) -> Outcome<Value> {
        let ends = Ends {
            first: Border::Keep,
            last: Border::Keep,
            reach,
        };
        let mut text = String::new();
        self.append(template, ends, scope, &mut text)?;
        Ok(Value::String(text))
    }

    fn append(
        &mut self,
        template: &Template,
        ends: Ends,
        scope: &Scope<'_>,
        out: &mut String,
    ) -> Outcome<()> {
        let elements: Vec<&Element> = template.iter().collect();
        for (position, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(literal) => {
                    let left = match position.checked_sub(1) {
                        Some(previous) => border_after(elements[previous]),
                        None => ends.first,
                    };
                    let right = elements
                        .get(position + 1)
                        .map_or(ends.last, |next| border_before(next));
                    let mut text = Cow::Borrowed(literal.value().as_str());
                    self.spend(text.len() as u64, &span_of(literal))?;
                    if left == Border::Trim {
                        text = Cow::Owned(ends.reach.cut_start(&text));
                    }
                    if right == Border::Trim {
                        text = Cow::Owned(ends.reach.cut_end(&text));
                    }
                    out.push_str(&text);
                }
                Element::Interpolation(interpolation) => {
                    let value = self.eval(&interpolation.expr, scope)?;
                    let Some(text) = value.to_text() else {
                        let message = format!("{} cannot be part of a string", value.kind());
                        return Err(EvalError::new(span_of(&interpolation.expr), message)
                            .hint("join() or jsonencode() make text of collections"));
                    };
                    self.spend(text.len() as u64, &span_of(&interpolation.expr))?;
                    out.push_str(&text);
                }
                Element::Directive(directive) => match directive.as_ref() {
                    Directive::If(inner) => self.append_if(inner, ends.reach, scope, out)?,
                    Directive::For(inner) => self.append_for(inner, ends.reach, scope, out)?,
                },
            }
        }
        Ok(())
    }

    fn append_if(
        &mut self,
        directive: &IfDirective,
        reach: Reach,
        scope: &Scope<'_>,
        out: &mut String,
    ) -> Outcome<()> {
        let IfDirective {
            if_expr,
            else_expr,
            endif_expr,
            ..
        } = directive;
        if self.condition(&if_expr.cond_expr, scope)? {
            let end = else_expr
                .as_ref()
                .map_or(endif_expr.strip, |other| other.strip);
            let ends = Ends {
                first: Border::after(if_expr.strip),
                last: Border::before(end),
                reach,
            };
            return self.append(&if_expr.template, ends, scope, out);
        }
        let Some(other) = else_expr else {
            return Ok(());
        };
        let ends = Ends {
            first: Border::after(other.strip),
            last: Border::before(endif_expr.strip),
            reach,
        };
        self.append(&other.template, ends, scope, out)
    }

    fn append_for(
        &mut self,
        directive: &ForDirective,
        reach: Reach,
        scope: &Scope<'_>,
        out: &mut String,
    ) -> Outcome<()> {
        let ForDirective {
            for_expr,
            endfor_expr,
            ..
        } = directive;
        let ends = Ends {
            first: Border::after(for_expr.strip),
            last: Border::before(endfor_expr.strip),
            reach,
        };
        for (key, value) in self.collection(&for_expr.collection_expr, scope)? {
            let mut inner = scope.child();
            if let Some(name) = &for_expr.key_var {
                inner.define(name.value().as_str(), key);
            }
            inner.define(for_expr.value_var.value().as_str(), value);
            self.append(&for_expr.template, ends, &inner, out)?;
        }
        Ok(())
    }
}

fn border_before(element: &Element) -> Border {
    match element {
        Element::Literal(_) => Border::Keep,
        Element::Interpolation(interpolation) => Border::before(interpolation.strip),
        Element::Directive(directive) => match directive.as_ref() {
            Directive::If(directive) => Border::before(directive.if_expr.strip),
            Directive::For(directive) => Border::before(directive.for_expr.strip),
        },
    }
}

fn border_after(element: &Element) -> Border {
    match element {
        Element::Literal(_) => Border::Keep,
        Element::Interpolation(interpolation) => Border::after(interpolation.strip),
        Element::Directive(directive) => match directive.as_ref() {
            Directive::If(directive) => Border::after(directive.endif_expr.strip),
            Directive::For(directive) => Border::after(directive.endfor_expr.strip),
        },
    }
}
