//! Versions and the constraints on them, in both dialects that job files use.
//!
//! `version` is lenient (any number of segments, a leading `v`, a pre-release satisfies a
//! constraint only where the constraint names one itself or is not about order), `semver` is strict
//! (Semantic Versioning 2.0.0: three numbers, pre-releases ordered by §11).

use std::cmp::Ordering;

/// How strictly a version is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `operator = "version"`.
    Lenient,
    /// `operator = "semver"`.
    Strict,
}

/// The longest text that is read as a version or as a constraint on one.
const TEXT_BYTES_MAX: usize = 256;

/// A version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    numbers: Vec<u64>,
    prerelease: Vec<Identifier>,
}

/// One dot-separated part of a pre-release.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Identifier {
    // Numeric identifiers order below the others (semver §11.4.3): the order of the variants.
    Number(u64),
    Text(String),
}

impl Version {
    /// Reads a version of at most 256 bytes; `None` where it is none.
    pub fn parse(text: &str, dialect: Dialect) -> Option<Self> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = match dialect {
            Dialect::Lenient => text.strip_prefix('v').unwrap_or(text),
            Dialect::Strict => text,
        };
        let (text, _build) = text.split_once('+').unwrap_or((text, ""));
        let (core, prerelease) = match text.split_once('-') {
            Some((core, prerelease)) => (core, Some(prerelease)),
            None => (text, None),
        };
        let numbers: Vec<u64> = core
            .split('.')
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        if dialect == Dialect::Strict && numbers.len() != 3 {
            return None;
        }
        let prerelease = match prerelease {
            None => Vec::new(),
            Some("") => return None,
            Some(parts) => parts
                .split('.')
                .map(Identifier::parse)
                .collect::<Option<_>>()?,
        };
        Some(Self {
            numbers,
            prerelease,
        })
    }

    fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    fn number(&self, offset: usize) -> u64 {
        self.numbers.get(offset).copied().unwrap_or(0)
    }

    fn same_numbers(&self, other: &Self) -> bool {
        let count = self.numbers.len().max(other.numbers.len());
        (0..count).all(|offset| self.number(offset) == other.number(offset))
    }
}

impl Identifier {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return None;
        }
        Some(
            text.parse()
                .map_or_else(|_| Self::Text(text.to_owned()), Self::Number),
        )
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let count = self.numbers.len().max(other.numbers.len());
        (0..count)
            .map(|offset| self.number(offset).cmp(&other.number(offset)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| match (self.is_prerelease(), other.is_prerelease()) {
                (false, false) => Ordering::Equal,
                // A pre-release comes before its release.
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => self.prerelease.cmp(&other.prerelease),
            })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a version must satisfy: comma-separated clauses, all of which must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requirement {
    clauses: Vec<Clause>,
    dialect: Dialect,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Clause {
    operator: Operator,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    /// `~> 1.2.3`: at least that, and the last named segment alone may grow.
    Pessimistic,
}

/// Operators by their text, longer ones first so that `>=` is not read as `>`.
const OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("!=", Operator::NotEqual),
    ("~>", Operator::Pessimistic),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("=", Operator::Equal),
];

impl Requirement {
    /// Reads a requirement such as `>= 1.2, < 2`, of at most 256 bytes; `None` where it is none.
    pub fn parse(text: &str, dialect: Dialect) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let clauses = text
            .split(',')
            .map(|clause| {
                let clause = clause.trim();
                let (operator, rest) = OPERATORS
                    .iter()
                    .find_map(|(sign, operator)| {
                        clause.strip_prefix(sign).map(|rest| (*operator, rest))
                    })
                    .unwrap_or((Operator::Equal, clause));
                Some(Clause {
                    operator,
                    version: Version::parse(rest, dialect)?,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { clauses, dialect })
    }

    /// Whether `version` satisfies every clause.
    pub fn holds(&self, version: &Version) -> bool {
        self.clauses
            .iter()
            .all(|clause| clause.holds(version, self.dialect))
    }
}

impl Clause {
    fn holds(&self, version: &Version, dialect: Dialect) -> bool {
        // A lenient requirement on order admits a pre-release only of the very version it names,
        // and only where it names a pre-release itself.
        let admits = dialect == Dialect::Strict
            || !version.is_prerelease()
            || (self.version.is_prerelease() && self.version.same_numbers(version));
        match self.operator {
            Operator::Equal => version == &self.version || version.cmp(&self.version).is_eq(),
            Operator::NotEqual => version.cmp(&self.version).is_ne(),
            Operator::Greater => admits && version > &self.version,
            Operator::GreaterOrEqual => admits && version >= &self.version,
            Operator::Less => admits && version < &self.version,
            Operator::LessOrEqual => admits && version <= &self.version,
            Operator::Pessimistic => {
                let fixed = self.version.numbers.len().saturating_sub(1);
                admits
                    && version >= &self.version
                    && (0..fixed).all(|at| version.number(at) == self.version.number(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(version: &str, requirement: &str, dialect: Dialect) -> bool {
        let version = Version::parse(version, dialect).expect("a version");
        Requirement::parse(requirement, dialect)
            .expect("a requirement")
            .holds(&version)
    }

    #[test]
    fn lenient_versions_compare_by_segments() {
        for (version, requirement, expected) in [
            ("1.2.3", ">= 1.2, < 2", true),
            ("v0.10.1", ">= 0.9", true),
            ("1.2", "= 1.2.0", true),
            ("2.0.0", "~> 1.2", false),
            ("1.9.0", "~> 1.2", true),
            ("1.3.0", "~> 1.2.3", false),
            ("1.2.9", "~> 1.2.3", true),
            ("1.2.3-beta1", ">= 1.2.0", false),
            ("1.2.3-beta2", ">= 1.2.3-beta1", true),
            ("6.1.0-13-cloud", "!= 6.1.0", true),
        ] {
            assert_eq!(
                holds(version, requirement, Dialect::Lenient),
                expected,
                "{version} {requirement}"
            );
        }
    }

    #[test]
    fn strict_versions_order_prereleases_as_semver_does() {
        for (version, requirement, expected) in [
            ("1.3.0-beta1+ent", ">= 0.6.1", true),
            ("1.0.0-alpha.2", "> 1.0.0-alpha.1", true),
            ("1.0.0-alpha.beta", "> 1.0.0-alpha.9", true),
            ("1.0.0-rc.1", "< 1.0.0", true),
        ] {
            assert_eq!(
                holds(version, requirement, Dialect::Strict),
                expected,
                "{version} {requirement}"
            );
        }
        assert_eq!(Version::parse("1.2", Dialect::Strict), None);
        assert_eq!(Version::parse("v1.2.3", Dialect::Strict), None);
    }

    #[test]
    fn nonsense_is_no_version() {
        for text in ["", "x", "1..2", "1.2-", "1.2-é", &"1.".repeat(300)] {
            assert_eq!(Version::parse(text, Dialect::Lenient), None, "{text}");
            assert_eq!(Requirement::parse(text, Dialect::Lenient), None, "{text}");
        }
    }
}
