//! The job specification as tables: which attributes and blocks each block has, of what kind, and
//! under which key of the API's JSON they go. [`decode`](crate::decode) walks a file along them;
//! whatever a table cannot say is done by the block's `finish` function.

mod connect;
mod gateway;
mod group;
mod job;
mod namespace;
mod network;
mod placement;
mod policies;
mod pool;
mod resources;
mod service;
mod task;
mod template;
mod variable;
mod volume;

pub(crate) use self::job::JOB;
pub(crate) use self::namespace::NAMESPACE;
pub(crate) use self::pool::NODE_POOL;
pub(crate) use self::variable::VARIABLE;
use crate::decode::{DecodedBlock, Problems};

/// One kind of block.
pub(crate) struct Schema {
    /// The word in front of the block.
    pub(crate) name: &'static str,
    pub(crate) label: Label,
    pub(crate) fields: &'static [Field],
    /// Runs when everything of the block is decoded: defaults, short forms, moves.
    pub(crate) finish: Option<Finish>,
}

pub(crate) type Finish = fn(&mut DecodedBlock, &mut Problems<'_>);

/// What stands between the block's name and its brace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label {
    None,
    /// Goes under this key.
    Required(&'static str),
}

/// One attribute or nested block.
pub(crate) struct Field {
    pub(crate) hcl: &'static str,
    /// Key in the API's JSON. Keys that begin with `~` never get there: `finish` takes them.
    pub(crate) json: &'static str,
    pub(crate) kind: Kind,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Choice(&'static [&'static str]),
    Bool,
    Whole {
        min: i64,
        max: i64,
    },
    Duration,
    Texts,
    Wholes,
    /// A block or an attribute of name = text pairs.
    TextMap,
    /// As `TextMap`, each value a list.
    TextsMap,
    /// A block or an attribute whose inside is not ours to check.
    Free,
    /// A block that may appear once.
    Block(&'static Schema),
    /// A block that may repeat.
    Blocks(&'static Schema),
    /// A labelled block that may repeat; its label is its key.
    Keyed(&'static Schema),
}

impl Kind {
    /// Whether the field may be written `name { ... }`.
    pub(crate) fn is_block(self) -> bool {
        match self {
            Self::TextMap
            | Self::TextsMap
            | Self::Free
            | Self::Block(_)
            | Self::Blocks(_)
            | Self::Keyed(_) => true,
            Self::Text
            | Self::Choice(_)
            | Self::Bool
            | Self::Whole { .. }
            | Self::Duration
            | Self::Texts
            | Self::Wholes => false,
        }
    }
}

/// The outermost block that has a field of this name, for one written in the wrong place.
pub(crate) fn home_of(name: &str) -> Option<&'static str> {
    let mut level: Vec<&'static Schema> = vec![&JOB];
    while !level.is_empty() {
        if let Some(schema) = level.iter().find(|schema| schema.field(name).is_some()) {
            return Some(schema.name);
        }
        level = level.iter().flat_map(|schema| schema.inner()).collect();
    }
    None
}

const fn schema(name: &'static str, fields: &'static [Field]) -> Schema {
    Schema {
        name,
        label: Label::None,
        fields,
        finish: None,
    }
}

const fn labelled(name: &'static str, label: &'static str, fields: &'static [Field]) -> Schema {
    Schema {
        name,
        label: Label::Required(label),
        fields,
        finish: None,
    }
}

impl Schema {
    const fn finish(self, finish: Finish) -> Self {
        Self {
            finish: Some(finish),
            ..self
        }
    }

    /// The blocks that may stand in this one. No block stands in itself.
    fn inner(&self) -> impl Iterator<Item = &'static Self> {
        self.fields.iter().filter_map(|field| match field.kind {
            Kind::Block(inner) | Kind::Blocks(inner) | Kind::Keyed(inner) => Some(inner),
            Kind::Text
            | Kind::Choice(_)
            | Kind::Bool
            | Kind::Whole { .. }
            | Kind::Duration
            | Kind::Texts
            | Kind::Wholes
            | Kind::TextMap
            | Kind::TextsMap
            | Kind::Free => None,
        })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.hcl == name)
    }
}

const fn field(hcl: &'static str, json: &'static str, kind: Kind) -> Field {
    Field { hcl, json, kind }
}

const fn text(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Text)
}

const fn texts(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Texts)
}

const fn flag(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Bool)
}

const fn duration(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Duration)
}

/// A whole number from 0 up, of 32 bits.
const fn count(hcl: &'static str, json: &'static str) -> Field {
    field(
        hcl,
        json,
        Kind::Whole {
            min: 0,
            max: 0xffff_ffff,
        },
    )
}

/// A whole number from 0 up, for sizes.
const fn size(hcl: &'static str, json: &'static str) -> Field {
    field(
        hcl,
        json,
        Kind::Whole {
            min: 0,
            max: i64::MAX,
        },
    )
}

const fn port_number(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Whole { min: 0, max: 65535 })
}

const fn text_map(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::TextMap)
}

const fn free(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Kind::Free)
}

const fn block(json: &'static str, inner: &'static Schema) -> Field {
    field(inner.name, json, Kind::Block(inner))
}

const fn blocks(json: &'static str, inner: &'static Schema) -> Field {
    field(inner.name, json, Kind::Blocks(inner))
}

const fn keyed(json: &'static str, inner: &'static Schema) -> Field {
    field(inner.name, json, Kind::Keyed(inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value as Json, json};

    /// One of everything that a block can hold.
    fn sample(schema: &Schema) -> Json {
        let mut object = Map::new();
        if let Label::Required(key) = schema.label {
            object.insert(key.to_owned(), json!("x"));
        }
        for field in schema.fields {
            let value = match field.kind {
                Kind::Text => json!("x"),
                Kind::Choice(choices) => json!(choices[1]),
                Kind::Bool => json!(true),
                Kind::Whole { .. } | Kind::Duration => json!(1),
                Kind::Texts => json!(["x"]),
                Kind::Wholes => json!([1]),
                Kind::TextMap => json!({ "k": "x" }),
                Kind::TextsMap => json!({ "k": ["x"] }),
                Kind::Free => json!({ "k": 1 }),
                Kind::Block(inner) => sample(inner),
                Kind::Blocks(inner) => json!([sample(inner)]),
                Kind::Keyed(inner) => json!({ "x": sample(inner) }),
            };
            object.insert(field.json.to_owned(), value);
        }
        object.retain(|key, _| !key.starts_with('~'));
        Json::Object(object)
    }

    fn lost<T: serde::de::DeserializeOwned + serde::Serialize>(given: &Json) -> Vec<String> {
        let kept: T = serde_json::from_value(given.clone()).expect("the model reads the sample");
        let kept = serde_json::to_value(kept).expect("the model writes what it read");
        let mut lost = Vec::new();
        crate::json::ignored_keys(given, &kept, "", &mut lost);
        lost
    }

    #[test]
    fn the_model_keeps_every_field_of_every_block() {
        assert_eq!(
            lost::<protocol_model::Job>(&sample(&JOB)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_misplaced_word_is_found_in_its_outermost_home() {
        assert_eq!(home_of("driver"), Some("task"));
        assert_eq!(home_of("count"), Some("group"));
        assert_eq!(home_of("nonsense"), None);
    }
}
