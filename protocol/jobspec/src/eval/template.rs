//! Strings with `${...}` and `%{...}` parts. A quoted string that is one lone interpolation has
//! the value of its expression, whatever its kind; everything else becomes text.

use super::{EvalError, Evaluator, Outcome, Scope, span_of};
use crate::value::Value;
use hcl_edit::template::{
    Directive, Element, ForDirective, IfDirective, StringTemplate, Strip, Template,
};

/// Whether white space is cut at a border of a template part (`~`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Border {
    Keep,
    Trim,
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
        self.template(template, scope).map(Value::String)
    }

    pub(super) fn template(&mut self, template: &Template, scope: &Scope<'_>) -> Outcome<String> {
        let mut text = String::new();
        self.append(template, (Border::Keep, Border::Keep), scope, &mut text)?;
        Ok(text)
    }

    fn append(
        &mut self,
        template: &Template,
        (first, last): (Border, Border),
        scope: &Scope<'_>,
        out: &mut String,
    ) -> Outcome<()> {
        let elements: Vec<&Element> = template.iter().collect();
        for (position, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(literal) => {
                    let left = match position.checked_sub(1) {
                        Some(previous) => border_after(elements[previous]),
                        None => first,
                    };
                    let right = elements
                        .get(position + 1)
                        .map_or(last, |next| border_before(next));
                    let mut text = literal.value().as_str();
                    if left == Border::Trim {
                        text = text.trim_start();
                    }
                    if right == Border::Trim {
                        text = text.trim_end();
                    }
                    self.spend(text.len() as u64, &span_of(literal))?;
                    out.push_str(text);
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
                    Directive::If(directive) => self.append_if(directive, scope, out)?,
                    Directive::For(directive) => self.append_for(directive, scope, out)?,
                },
            }
        }
        Ok(())
    }

    fn append_if(
        &mut self,
        directive: &IfDirective,
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
            let borders = (Border::after(if_expr.strip), Border::before(end));
            return self.append(&if_expr.template, borders, scope, out);
        }
        let Some(other) = else_expr else {
            return Ok(());
        };
        let borders = (Border::after(other.strip), Border::before(endif_expr.strip));
        self.append(&other.template, borders, scope, out)
    }

    fn append_for(
        &mut self,
        directive: &ForDirective,
        scope: &Scope<'_>,
        out: &mut String,
    ) -> Outcome<()> {
        let ForDirective {
            for_expr,
            endfor_expr,
            ..
        } = directive;
        let borders = (
            Border::after(for_expr.strip),
            Border::before(endfor_expr.strip),
        );
        for (key, value) in self.collection(&for_expr.collection_expr, scope)? {
            let mut inner = scope.child();
            if let Some(name) = &for_expr.key_var {
                inner.define(name.value().as_str(), key);
            }
            inner.define(for_expr.value_var.value().as_str(), value);
            self.append(&for_expr.template, borders, &inner, out)?;
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
