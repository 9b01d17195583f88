//! Places in a file of HCL2: a path is followed through blocks and attributes.

use super::{INHERITED, OF_SERVICES, words};
use crate::diagnostic::Span;
use crate::eval::span_of;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};

/// What a segment of a path leads to.
enum Found<'b> {
    Block(&'b Block),
    Attribute(Span),
}

/// The place in a job's file that `path` speaks of.
pub(super) fn place(job: &Block, path: &str) -> Span {
    let mut way = vec![job];
    for (word, argument) in words(path) {
        let innermost = way[way.len() - 1];
        let mut found = lookup(inside(innermost), word, argument);
        if found.is_none() && INHERITED.contains(&word) {
            let mut around = way.iter().rev().skip(1);
            found = around.find_map(|block| lookup(inside(block), word, argument));
        }
        match found {
            Some(Found::Block(block)) => way.push(block),
            Some(Found::Attribute(span)) => return span,
            // Id and name come from the label where they are not written.
            None if matches!(word, "id" | "name") => {
                let label = innermost.labels.first();
                return label.map_or_else(|| header(innermost), span_of);
            }
            // A task outside of any group stands in the job.
            None if word == "group" => {}
            None if OF_SERVICES.contains(&word) => {
                let mut services = inside(innermost).get_blocks("service");
                let found = services.find_map(|service| lookup(&service.body, word, ""));
                if let Some(Found::Block(block)) = found {
                    way.push(block);
                }
                break;
            }
            None => break,
        }
    }
    header(way[way.len() - 1])
}

/// The body of a block; of a `dynamic` one, that of what it makes.
fn inside(block: &Block) -> &Body {
    if block.ident.value().as_str() != "dynamic" {
        return &block.body;
    }
    let content = block.body.get_blocks("content").next();
    content.map_or(&block.body, |content| &content.body)
}

fn header(block: &Block) -> Span {
    let name = span_of(&block.ident);
    let end = block.labels.last().map_or(name.end, |l| span_of(l).end);
    name.start..end.max(name.end)
}

/// `argument` is a label as Rust writes it, a position counted from 1, or empty.
fn lookup<'b>(body: &'b Body, word: &str, argument: &str) -> Option<Found<'b>> {
    let all = body.blocks();
    let blocks: Vec<&Block> = all.filter(|block| block.ident.as_str() == word).collect();
    let made_so = |block: &&Block| block.labels.first().is_some_and(|l| l.as_str() == word);
    let maker = || body.get_blocks("dynamic").find(made_so);
    let block = match argument.parse::<usize>() {
        Ok(position) => blocks.get(position.wrapping_sub(1)).copied(),
        Err(_) if argument.is_empty() => blocks.first().copied(),
        Err(_) => {
            let named = blocks
                .iter()
                .copied()
                .find(|block| is_named(block, argument));
            // A name may be made of others: the only block has it.
            named.or_else(|| match blocks.as_slice() {
                [only] if only.labels.is_empty() && maker().is_none() => Some(*only),
                _ => None,
            })
        }
    };
    if let Some(block) = block.or_else(maker) {
        return Some(Found::Block(block));
    }
    let attribute = body.get_attribute(word)?;
    Some(Found::Attribute(span_of(&attribute.value)))
}

/// Whether the block's label, or its `name`, is this one.
fn is_named(block: &Block, quoted: &str) -> bool {
    let name = match block.labels.first() {
        Some(label) => Some(label.as_str()),
        None => match block.body.get_attribute("name").map(|name| &name.value) {
            Some(Expression::String(name)) => Some(name.as_str()),
            _ => None,
        },
    };
    name.is_some_and(|name| format!("{name:?}") == quoted)
}
