//! Where allocations may go (constraints), should rather go (affinities) and how they are
//! distributed (spreads).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// A condition that a node (or device) must meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Constraint {
    /// Left side, usually an interpolated attribute: `${attr.kernel.name}`.
    #[serde(deserialize_with = "or_default")]
    pub l_target: String,
    /// Right side: a value, or another attribute.
    #[serde(deserialize_with = "or_default")]
    pub r_target: String,
    /// How they are compared; `""` becomes `=`. See [`Constraint::operator`].
    #[serde(deserialize_with = "or_default")]
    pub operand: String,
}

impl Constraint {
    /// The comparison, if it is one that exists.
    pub fn operator(&self) -> Result<Operator, UnknownOperator> {
        self.operand.parse()
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.l_target, self.operand, self.r_target)
    }
}

/// A preference: like a constraint, but it moves the score instead of filtering.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Affinity {
    /// Left side, usually an interpolated attribute.
    #[serde(deserialize_with = "or_default")]
    pub l_target: String,
    /// Right side: a value, or another attribute.
    #[serde(deserialize_with = "or_default")]
    pub r_target: String,
    /// How they are compared; `""` becomes `=`. See [`Affinity::operator`].
    #[serde(deserialize_with = "or_default")]
    pub operand: String,
    /// -100 (avoid) to 100 (prefer), never 0; absent becomes 50.
    pub weight: Option<i32>,
}

impl Affinity {
    /// The comparison, if it is one that exists.
    pub fn operator(&self) -> Result<Operator, UnknownOperator> {
        self.operand.parse()
    }

    /// -100 to 100; 50 where nothing is said.
    pub fn weight(&self) -> i32 {
        self.weight
            .unwrap_or(crate::canonical::defaults::AFFINITY_WEIGHT)
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} ({})",
            self.l_target,
            self.operand,
            self.r_target,
            self.weight()
        )
    }
}

/// Distribution of a group's allocations over the values of an attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Spread {
    /// The attribute: `${node.datacenter}`.
    #[serde(deserialize_with = "or_default")]
    pub attribute: String,
    /// 0 to 100, relative to the other spreads; absent becomes 50.
    pub weight: Option<i32>,
    /// Shares of single values; values that are not named share the rest.
    #[serde(with = "nullable")]
    pub spread_target: Vec<SpreadTarget>,
}

/// The share of one value of a spread's attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SpreadTarget {
    /// The value.
    #[serde(deserialize_with = "or_default")]
    pub value: String,
    /// Its share in percent, 0 to 100.
    #[serde(deserialize_with = "or_default")]
    pub percent: i32,
}

/// How a constraint or affinity compares its two sides. Synonyms are one operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operator {
    /// `=`, `==`, `is`: equal text.
    Equal,
    /// `!=`, `not`: different text, or absent.
    NotEqual,
    /// `<`: as numbers where both are, else as text.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `regexp`: the left side matches the right one.
    Regexp,
    /// `version`: the left version meets the right side's conditions, pre-releases with care.
    Version,
    /// `semver`: the same by the rules of Semantic Versioning 2.
    Semver,
    /// `set_contains`, `set_contains_all`: the left list has all items of the right one.
    SetContainsAll,
    /// `set_contains_any`: the left list has an item of the right one.
    SetContainsAny,
    /// `is_set`: the left side exists.
    IsSet,
    /// `is_not_set`: the left side does not exist.
    IsNotSet,
    /// `distinct_hosts`: no two allocations of the job (or group) on one node.
    DistinctHosts,
    /// `distinct_property`: at most so many allocations per value of the left side.
    DistinctProperty,
}

impl Operator {
    /// The operator's canonical spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Regexp => "regexp",
            Self::Version => "version",
            Self::Semver => "semver",
            Self::SetContainsAll => "set_contains",
            Self::SetContainsAny => "set_contains_any",
            Self::IsSet => "is_set",
            Self::IsNotSet => "is_not_set",
            Self::DistinctHosts => "distinct_hosts",
            Self::DistinctProperty => "distinct_property",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Operator {
    type Err = UnknownOperator;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "" | "=" | "==" | "is" => Self::Equal,
            "!=" | "not" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "regexp" => Self::Regexp,
            "version" => Self::Version,
            "semver" => Self::Semver,
            "set_contains" | "set_contains_all" => Self::SetContainsAll,
            "set_contains_any" => Self::SetContainsAny,
            "is_set" => Self::IsSet,
            "is_not_set" => Self::IsNotSet,
            "distinct_hosts" => Self::DistinctHosts,
            "distinct_property" => Self::DistinctProperty,
            _ => {
                return Err(UnknownOperator {
                    text: text.to_owned(),
                });
            }
        })
    }
}

/// A comparison that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operator {text:?}")]
pub struct UnknownOperator {
    text: String,
}
