//! Values of a template. The engine knows texts, numbers, lists and maps; the typed values of Go
//! (a variable's item, a map of texts, a time) are maps with a mark that no template can write.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use gotmpl::Value;

/// The key of the mark.
const MARK: &str = "\u{1}kind";

/// The type that a marked map has in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A map whose values are texts: a missing key is an empty one.
    Texts,
    /// The items of a variable.
    Items,
    /// One item of a variable: prints its value.
    Item,
    /// A variable's metadata: prints its path.
    Metadata,
    /// A struct with fields and nothing else.
    Struct,
    /// A moment.
    Moment,
    /// The scratchpad.
    Scratch,
}

impl Kind {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Texts, "texts"),
        (Self::Items, "items"),
        (Self::Item, "item"),
        (Self::Metadata, "metadata"),
        (Self::Struct, "struct"),
        (Self::Moment, "moment"),
        (Self::Scratch, "scratch"),
    ];

    fn mark(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, mark)| mark)
    }
}

/// The first power of ten that Go prints with an exponent.
const EXPONENT_MIN: i32 = 6;

pub(crate) type Map = BTreeMap<Arc<str>, Value>;

/// The kind of a marked map.
pub(crate) fn kind(value: &Value) -> Option<Kind> {
    let Value::Map(map) = value else { return None };
    let Some(Value::String(mark)) = map.get(MARK) else {
        return None;
    };
    let found = Kind::ALL.iter().find(|(_, name)| **name == **mark);
    found.map(|(kind, _)| *kind)
}

pub(crate) fn text(text: impl Into<Arc<str>>) -> Value {
    Value::String(text.into())
}

pub(crate) fn list(elements: impl IntoIterator<Item = Value>) -> Value {
    Value::List(elements.into_iter().collect())
}

pub(crate) fn map(entries: Map) -> Value {
    Value::Map(Arc::new(entries))
}

/// A marked map. Empty maps stay without mark, so that they are false.
pub(crate) fn marked(kind: Kind, mut entries: Map) -> Value {
    let is_map = matches!(kind, Kind::Texts | Kind::Items);
    if !(is_map && entries.is_empty()) {
        entries.insert(Arc::from(MARK), text(kind.mark()));
    }
    map(entries)
}

pub(crate) fn fields<const N: usize>(kind: Kind, fields: [(&str, Value); N]) -> Value {
    let entries = fields.map(|(name, value)| (Arc::from(name), value));
    marked(kind, entries.into_iter().collect())
}

/// The entries of a map without its mark.
pub(crate) fn entries(map: &Map) -> impl Iterator<Item = (&Arc<str>, &Value)> {
    map.iter().filter(|(key, _)| !key.starts_with('\u{1}'))
}

/// A field of a marked map.
pub(crate) fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.field(name).filter(|_| !name.starts_with('\u{1}'))
}

/// The value as Go prints it: marks are gone, items and metadata are texts.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::List(elements) if elements.iter().any(is_collection) => {
            list(elements.iter().map(plain))
        }
        Value::Map(entries_of) => match kind(value) {
            Some(Kind::Item) => field(value, "Value").cloned().unwrap_or(Value::Nil),
            Some(Kind::Metadata) => field(value, "Path").cloned().unwrap_or(Value::Nil),
            Some(Kind::Moment) => text(crate::functions::time::printed(value)),
            Some(Kind::Scratch) => map(Map::new()),
            Some(Kind::Struct) => structure(entries_of),
            Some(Kind::Texts | Kind::Items) | None => map(entries(entries_of)
                .map(|(k, v)| (k.clone(), plain(v)))
                .collect()),
        },
        other => other.clone(),
    }
}

fn structure(entries_of: &Map) -> Value {
    map(entries(entries_of)
        .map(|(k, v)| (k.clone(), plain(v)))
        .collect())
}

fn is_collection(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

/// `fmt.Sprint` of one value; nil is `<nil>`.
pub(crate) fn printed(value: &Value) -> String {
    let mut text = String::new();
    print(&mut text, &plain(value));
    text
}

fn print(text: &mut String, value: &Value) {
    match value {
        Value::Float(number) => text.push_str(&float(*number)),
        Value::String(string) => text.push_str(string),
        Value::List(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                text.push_str(if index > 0 { " " } else { "" });
                print(text, element);
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push_str("map[");
            for (index, (key, element)) in map.iter().enumerate() {
                text.push_str(if index > 0 { " " } else { "" });
                text.push_str(key);
                text.push(':');
                print(text, element);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

/// A float as Go's `%v`: the fewest digits, `1.5`, with an exponent below 1e-4 and from 1e6 on,
/// `1e+06`.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..EXPONENT_MIN).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// The name of the type, as errors give it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match kind(value) {
        Some(Kind::Texts) => "map of texts",
        Some(Kind::Items) => "items of a variable",
        Some(Kind::Item) => "item of a variable",
        Some(Kind::Metadata) => "metadata of a variable",
        Some(Kind::Struct) => "struct",
        Some(Kind::Moment) => "time",
        Some(Kind::Scratch) => "scratch",
        None => match value {
            Value::Float(_) => "float",
            Value::String(_) => "text",
            other => other.type_name(),
        },
    }
}

/// Equality of all levels; numbers of different kinds differ, as in Go.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b.iter())
                    .all(|((k, a), (l, b))| k == l && equal(a, b))
        }
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Int(a), Value::Uint(b)) | (Value::Uint(b), Value::Int(a)) => {
            u64::try_from(*a).is_ok_and(|a| a == *b)
        }
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        _ => false,
    }
}

/// The elements and the bytes of text of a value, all levels counted; `None` past a limit.
pub(crate) fn size(value: &Value, elements_max: usize, depth_max: usize) -> Option<Size> {
    let mut size = Size::default();
    size.add(value, elements_max, depth_max).then_some(size)
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub(crate) elements: usize,
    pub(crate) bytes: usize,
}

impl Size {
    fn add(&mut self, value: &Value, elements_max: usize, depth_left: usize) -> bool {
        self.elements += 1;
        if self.elements > elements_max || depth_left == 0 {
            return false;
        }
        match value {
            Value::String(text) => {
                self.bytes = self.bytes.saturating_add(text.len());
                true
            }
            Value::List(list) => list
                .iter()
                .all(|value| self.add(value, elements_max, depth_left - 1)),
            Value::Map(map) => map.iter().all(|(key, value)| {
                self.bytes = self.bytes.saturating_add(key.len());
                self.add(value, elements_max, depth_left - 1)
            }),
            _ => true,
        }
    }
}
