//! Rewrites the parsed tree before it runs, so that every step of it is a call of ours:
//!
//! | in the template | in the tree that runs |
//! |---|---|
//! | `f a b` | `f LINE a b` |
//! | `.a.b` | `FIELD LINE "a.b" .` |
//! | `scratch.Set "k" 1` | `FIELD LINE "Set" (scratch LINE) "k" 1` |
//! | `{{ x }}` | `{{ x \| PRINT LINE }}` |
//! | `range x` | `range x \| ITERATE LINE`, and `TICK` at the start of its body |
//! | the body of a template | `ENTER LINE WEIGHT`, the body, `LEAVE LINE WEIGHT` |
//!
//! Functions and variables are looked up here: an unknown one is an error before anything runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, SmolStr,
};

use crate::error::TemplateError;
use crate::functions::{self, internal};

pub(crate) struct Rewrite<'t> {
    /// The names of all templates of the text.
    pub(crate) templates: &'t BTreeSet<String>,
    /// The variables in sight; `$` always is.
    variables: Vec<SmolStr>,
    /// How deep the engine's own calls nest at most in this body.
    deepest: usize,
    depth: usize,
}

type Result<T> = std::result::Result<T, TemplateError>;

/// Rewrites the body of one template.
pub(crate) fn body(list: ListNode, templates: &BTreeSet<String>) -> Result<ListNode> {
    let mut rewrite = Rewrite {
        templates,
        variables: vec![SmolStr::new_static("$")],
        deepest: 0,
        depth: 0,
    };
    let pos = list.pos;
    let mut list = rewrite.list(list)?;
    let weight = i64::try_from(rewrite.deepest + 1).unwrap_or(i64::MAX);
    let arguments = || vec![Expr::Number(pos, Number::Int(weight))];
    list.nodes
        .insert(0, silent(internal::ENTER, pos, arguments()));
    list.nodes.push(silent(internal::LEAVE, pos, arguments()));
    Ok(list)
}

/// An action that prints nothing.
fn silent(function: &'static str, pos: Pos, arguments: Vec<Expr>) -> Node {
    let mut pipe = pipe(pos, call(function, pos, arguments));
    pipe.decl.push(SmolStr::new_static("$\u{1}"));
    Node::Action(ActionNode { pos, pipe })
}

fn pipe(pos: Pos, command: CommandNode) -> PipeNode {
    PipeNode {
        pos,
        decl: Vec::new(),
        commands: vec![command],
        is_assign: false,
    }
}

fn call(name: &str, pos: Pos, arguments: Vec<Expr>) -> CommandNode {
    let line = i64::try_from(pos.line).unwrap_or(0);
    let mut args = vec![
        Expr::Identifier(pos, SmolStr::new(name)),
        Expr::Number(pos, Number::Int(line)),
    ];
    args.extend(arguments);
    CommandNode { pos, args }
}

fn field(pos: Pos, value: Expr, names: &[SmolStr], arguments: Vec<Expr>) -> CommandNode {
    let names = Expr::String(pos, Arc::from(names.join(".")));
    let arguments = [names, value].into_iter().chain(arguments).collect();
    call(internal::FIELD, pos, arguments)
}

impl Rewrite<'_> {
    fn list(&mut self, list: ListNode) -> Result<ListNode> {
        let pos = list.pos;
        let nodes = list.nodes.into_iter();
        let nodes = nodes.map(|node| self.node(node)).collect::<Result<_>>()?;
        Ok(ListNode { pos, nodes })
    }

    fn node(&mut self, node: Node) -> Result<Node> {
        match node {
            Node::Action(action) => {
                let mut pipe = self.pipe(action.pipe)?;
                if pipe.decl.is_empty() {
                    pipe.commands
                        .push(call(internal::PRINT, action.pos, Vec::new()));
                }
                Ok(Node::Action(ActionNode { pipe, ..action }))
            }
            Node::If(branch) => Ok(Node::If(self.branch(branch, None)?)),
            Node::With(branch) => Ok(Node::With(self.branch(branch, None)?)),
            Node::Range(branch) => Ok(Node::Range(self.branch(branch, Some(internal::ITERATE))?)),
            Node::Template(mut template) => {
                if !self.templates.contains(template.name.as_str()) {
                    let problem = format!("template {:?} is not defined", template.name);
                    return Err(TemplateError::at(template.pos.line, problem));
                }
                template.pipe = template.pipe.map(|pipe| self.pipe(pipe)).transpose()?;
                Ok(Node::Template(template))
            }
            Node::List(list) => Ok(Node::List(self.list(list)?)),
            other @ (Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_)) => {
                Ok(other)
            }
        }
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn branch(&mut self, branch: BranchNode, last: Option<&'static str>) -> Result<BranchNode> {
        let in_sight = self.variables.len();
        let pos = branch.pos;
        let result = self.nested(|rewrite| {
            let mut pipe = rewrite.pipe(branch.pipe)?;
            let mut body = rewrite.list(branch.body)?;
            if let Some(function) = last {
                pipe.commands.push(call(function, pos, Vec::new()));
                body.nodes
                    .insert(0, silent(internal::TICK, pos, Vec::new()));
            }
            let else_body = branch.else_body.map(|list| rewrite.list(list));
            Ok(BranchNode {
                pos,
                pipe,
                body,
                else_body: else_body.transpose()?,
            })
        });
        self.variables.truncate(in_sight);
        result
    }

    fn pipe(&mut self, pipe: PipeNode) -> Result<PipeNode> {
        let mut commands = Vec::with_capacity(pipe.commands.len());
        for (index, command) in pipe.commands.into_iter().enumerate() {
            commands.push(self.nested(|rewrite| rewrite.command(command, index > 0))?);
        }
        for name in &pipe.decl {
            if pipe.is_assign {
                self.look_up(name, pipe.pos)?;
            } else {
                self.variables.push(name.clone());
            }
        }
        Ok(PipeNode { commands, ..pipe })
    }

    fn look_up(&self, name: &SmolStr, pos: Pos) -> Result<()> {
        if self.variables.contains(name) {
            return Ok(());
        }
        let problem = format!("variable {name} is not defined");
        Err(TemplateError::at(pos.line, problem))
    }

    fn command(&mut self, command: CommandNode, is_piped: bool) -> Result<CommandNode> {
        let pos = command.pos;
        let mut args = command.args.into_iter();
        let Some(first) = args.next() else {
            return Err(TemplateError::at(pos.line, "an empty command"));
        };
        let rest = args
            .map(|arg| self.expression(arg))
            .collect::<Result<Vec<_>>>()?;
        match first {
            Expr::Identifier(pos, name) => {
                functions::check(&name, pos.line)?;
                if matches!(name.as_str(), "and" | "or") {
                    let first = Expr::Identifier(pos, name);
                    let args = std::iter::once(first).chain(rest).collect();
                    return Ok(CommandNode { pos, args });
                }
                Ok(call(&name, pos, rest))
            }
            Expr::Field(pos, names) => Ok(field(pos, Expr::Dot(pos), &names, rest)),
            Expr::Variable(pos, name, names) if !names.is_empty() => {
                self.look_up(&name, pos)?;
                let variable = Expr::Variable(pos, name, Vec::new());
                Ok(field(pos, variable, &names, rest))
            }
            Expr::Chain(pos, inner, names) => {
                let inner = self.nested(|rewrite| rewrite.expression(*inner))?;
                Ok(field(pos, inner, &names, rest))
            }
            Expr::Nil(pos) => Err(TemplateError::at(pos.line, "nil is not a command")),
            other if is_piped || !rest.is_empty() => {
                let problem = "an argument is given to something that is not a function";
                Err(TemplateError::at(other.pos().line, problem))
            }
            other => {
                let args = vec![self.expression(other)?];
                Ok(CommandNode { pos, args })
            }
        }
    }

    fn expression(&mut self, expression: Expr) -> Result<Expr> {
        match expression {
            Expr::Identifier(pos, _) | Expr::Field(pos, _) | Expr::Chain(pos, _, _) => {
                let args = vec![expression];
                let command =
                    self.nested(|rewrite| rewrite.command(CommandNode { pos, args }, false))?;
                Ok(Expr::Pipe(pos, pipe(pos, command)))
            }
            Expr::Variable(pos, ref name, ref names) => {
                self.look_up(name, pos)?;
                if names.is_empty() {
                    return Ok(expression);
                }
                let args = vec![expression];
                let command =
                    self.nested(|rewrite| rewrite.command(CommandNode { pos, args }, false))?;
                Ok(Expr::Pipe(pos, pipe(pos, command)))
            }
            Expr::Pipe(pos, inner) => {
                let inner = self.nested(|rewrite| rewrite.pipe(inner))?;
                Ok(Expr::Pipe(pos, inner))
            }
            Expr::Number(pos, Number::Uint(number)) => Err(TemplateError::at(
                pos.line,
                format!("{number} overflows int"),
            )),
            other => Ok(other),
        }
    }
}
