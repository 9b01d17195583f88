//! The lists of `deny.toml`, in the part of cargo-deny's format that we use.

use serde::Deserialize;

use super::FILE;
use crate::finding::{Finding, Rule};

const REASON: Rule = Rule {
    name: "ban-reason",
    why: "a ban without its argument cannot be lifted when the argument is gone",
};

/// The whole file. Unknown keys are cargo-deny's business and pass.
#[derive(Debug, Deserialize)]
pub(super) struct Lists {
    pub(super) graph: Graph,
    licenses: Licenses,
    pub(super) bans: Bans,
}

#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    /// The targets that we ship for.
    pub(super) targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bans {
    pub(super) deny: Vec<Ban>,
}

/// A package that must not be built.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawBan")]
pub(super) struct Ban {
    pub(super) name: String,
    /// The versions that are meant.
    pub(super) versions: semver::VersionReq,
    /// Packages that may ask for it all the same.
    pub(super) wrappers: Vec<String>,
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
struct RawBan {
    /// `name` or `name@requirement`.
    #[serde(rename = "crate")]
    spec: String,
    #[serde(default)]
    wrappers: Vec<String>,
    reason: Option<String>,
}

impl TryFrom<RawBan> for Ban {
    type Error = String;

    fn try_from(raw: RawBan) -> Result<Self, String> {
        let (name, versions) = raw.spec.split_once('@').unwrap_or((&raw.spec, "*"));
        let versions = semver::VersionReq::parse(versions)
            .map_err(|error| format!("the versions in `{}`: {error}", raw.spec))?;
        Ok(Self {
            name: name.to_owned(),
            versions,
            wrappers: raw.wrappers,
            reason: raw.reason,
        })
    }
}

impl Lists {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is no TOML, or a list that we use is missing or malformed.
    pub(super) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Whether `package` may be under the licence `id`.
    pub(super) fn allows(&self, package: &str, id: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|allowed| allowed == id);
        let excepted = |e: &Exception| e.name == package && has(&e.allow);
        has(&self.licenses.allow) || self.licenses.exceptions.iter().any(excepted)
    }

    /// Bans that do not say why.
    pub(super) fn findings_about_itself(&self) -> Vec<Finding> {
        let silent = |ban: &&Ban| {
            ban.reason
                .as_ref()
                .is_none_or(|reason| reason.trim().is_empty())
        };
        self.bans
            .deny
            .iter()
            .filter(silent)
            .map(|ban| {
                REASON.on(
                    FILE,
                    format!("{} is banned without a reason", ban.name),
                    "say why",
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[graph]\ntargets = ['t']\n[licenses]\nallow = ['MIT']\n\
        exceptions = [{ crate = 'imbl', allow = ['MPL-2.0'] }]\n\
        [bans]\ndeny = [{ crate = 'a@<1.2' }, { crate = 'b', reason = 'old' }]\n";

    #[test]
    fn an_exception_holds_for_its_package_only() {
        let lists = Lists::parse(TEXT).unwrap();
        assert!(lists.allows("any", "MIT"));
        assert!(lists.allows("imbl", "MPL-2.0"));
        assert!(!lists.allows("other", "MPL-2.0"));
    }

    #[test]
    fn a_ban_without_a_reason_is_a_finding() {
        let findings = Lists::parse(TEXT).unwrap().findings_about_itself();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "a is banned without a reason");
    }

    #[test]
    fn a_malformed_version_is_an_error_that_names_the_entry() {
        let error = Lists::parse(&TEXT.replace("<1.2", "<one")).unwrap_err();
        assert!(error.to_string().contains("a@<one"), "{error}");
    }
}
