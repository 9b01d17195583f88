//! References in texts of a job: the `${...}` that the node replaces.
//!
//! ```text
//! ${attr.cpu.arch}   plain: letters, digits, `_`, `-` and `.`; replaced everywhere
//! ${ attr.cpu.arch } spaced   } HCL2; replaced in a task's `config`, which Nomad evaluates as
//! ${meta["rack"]}    indexed  } HCL2, and nowhere else
//! ```
//!
//! Every other `${...}` is none of ours: a shell's, for example.

use std::borrow::Cow;
use std::ops::Range;

/// Roots below which an index means the same as a dot.
const INDEXED_ROOTS: [&str; 4] = ["attr", "env", "meta", "node"];

/// One reference in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference<'t> {
    /// Where it stands, `${` and `}` included.
    pub span: Range<usize>,
    /// What it names, with dots: `meta.rack`.
    pub name: Cow<'t, str>,
    /// How it is written.
    pub form: ReferenceForm,
}

/// How a reference is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceForm {
    /// `${meta.rack}`
    Plain,
    /// `${ meta.rack }`
    Spaced,
    /// `${meta["rack"]}`
    Indexed,
}

/// The references of a text, in its order.
pub fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find("${")?;
            let found = plain(text, start).or_else(|| path(text, start));
            from = found
                .as_ref()
                .map_or(start + 2, |reference| reference.span.end);
            if found.is_some() {
                return found;
            }
        }
    })
}

/// The text with every reference that `value_of` knows replaced; the others stay.
pub fn replace_references(
    text: &str,
    value_of: impl Fn(&Reference<'_>) -> Option<String>,
) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for reference in references(text) {
        if let Some(value) = value_of(&reference) {
            replaced.push_str(&text[done..reference.span.start]);
            replaced.push_str(&value);
            done = reference.span.end;
        }
    }
    replaced.push_str(&text[done..]);
    replaced
}

/// A label or key as the names of variables spell it: `my-db` is `my_db` in `NOMAD_PORT_my_db`.
pub fn variable_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    text.chars().map(plain).collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn plain(text: &str, start: usize) -> Option<Reference<'_>> {
    let rest = &text[start + 2..];
    let name = &rest[..rest.find(|c| !is_name(c) && c != '.')?];
    let closes = rest[name.len()..].starts_with('}') && !name.is_empty();
    closes.then(|| Reference {
        span: start..start + 2 + name.len() + 1,
        name: Cow::Borrowed(name),
        form: ReferenceForm::Plain,
    })
}

/// A path of HCL2: `root.step["step"]`, with blanks between.
fn path(text: &str, start: usize) -> Option<Reference<'_>> {
    let mut rest = text[start + 2..].trim_start();
    let mut name = take_name(&mut rest)?.to_owned();
    let mut form = ReferenceForm::Spaced;
    let may_index = INDEXED_ROOTS.contains(&name.as_str());
    loop {
        rest = rest.trim_start();
        let mut chars = rest.chars();
        let step = match chars.next()? {
            '}' => break,
            '.' => {
                rest = chars.as_str().trim_start();
                take_name(&mut rest)?
            }
            '[' if may_index => {
                form = ReferenceForm::Indexed;
                let (step, after) = index(chars.as_str())?;
                rest = after;
                step
            }
            _ => return None,
        };
        name.push('.');
        name.push_str(step);
    }
    Some(Reference {
        span: start..text.len() - rest.len() + 1,
        name: Cow::Owned(name),
        form,
    })
}

fn take_name<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let end = rest.find(|c| !is_name(c))?;
    let (name, after) = rest.split_at(end);
    *rest = after;
    (!name.is_empty()).then_some(name)
}

/// The text within `"..."]` and what follows. A key with escapes is nobody's name.
fn index(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.trim_start().strip_prefix('"')?;
    let (step, after) = rest.split_once('"')?;
    let after = after.trim_start().strip_prefix(']')?;
    (!step.is_empty() && !step.contains(['\\', '\n'])).then_some((step, after))
}

#[cfg(test)]
mod tests {
    use super::ReferenceForm::{Indexed, Plain, Spaced};
    use super::*;

    #[test]
    fn references_are_found_in_their_three_forms() {
        for (text, wanted) in [
            ("", vec![]),
            ("plain $HOME {x}", vec![]),
            ("${a}", vec![("${a}", "a", Plain)]),
            ("x${a.b-c_1}y", vec![("${a.b-c_1}", "a.b-c_1", Plain)]),
            ("${.}", vec![("${.}", ".", Plain)]),
            ("${a}${b}", vec![("${a}", "a", Plain), ("${b}", "b", Plain)]),
            ("${a ${b}", vec![("${b}", "b", Plain)]),
            ("$${a}", vec![("${a}", "a", Plain)]),
            ("${ attr.os }", vec![("${ attr.os }", "attr.os", Spaced)]),
            ("${\na . b\n}", vec![("${\na . b\n}", "a.b", Spaced)]),
            ("${env[\"A\"]}!", vec![("${env[\"A\"]}", "env.A", Indexed)]),
            (
                "é${ meta [ \"a.b\" ] . c }é",
                vec![("${ meta [ \"a.b\" ] . c }", "meta.a.b.c", Indexed)],
            ),
            (
                "${node.unique[\"id\"]}",
                vec![("${node.unique[\"id\"]}", "node.unique.id", Indexed)],
            ),
            (
                "${attr[\"a\"][\"b\"]}",
                vec![("${attr[\"a\"][\"b\"]}", "attr.a.b", Indexed)],
            ),
            ("${array[\"a\"]}", vec![]),
            ("${meta[a]} ${meta[\"\"]} ${meta[\"a\\\"b\"]}", vec![]),
            ("${HOME:-/x} ${#a} ${a[0]} ${} ${ }", vec![]),
            ("${a", vec![]),
            ("${meta[\"a\"", vec![]),
            ("é ${é}", vec![]),
        ] {
            let found: Vec<_> = references(text).collect();
            let found: Vec<_> = found
                .iter()
                .map(|it| (&text[it.span.clone()], &*it.name, it.form))
                .collect();
            assert_eq!(found, wanted, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn spans_are_whole_references_in_order(text in "[${}a.\\[\\]\" é]{0,40}") {
            let mut end = 0;
            for reference in references(&text) {
                proptest::prop_assert!(reference.span.start >= end);
                end = reference.span.end;
                let shown = &text[reference.span];
                let is_whole = shown.starts_with("${") && shown.ends_with('}');
                proptest::prop_assert!(is_whole, "{}", shown);
            }
            proptest::prop_assert_eq!(replace_references(&text, |_| None), text.clone());
        }
    }
}
