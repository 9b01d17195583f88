//! Sources of artifacts, as go-getter reads them: a forced getter (`git::`), shorthands
//! (`github.com/a/b`), `//subdirectory`, and parameters that the getter takes out of the URL.

mod detect;
mod mask;
mod parameters;
mod url;

use std::collections::BTreeMap;

use crate::archive::ArchiveKind;

pub use mask::masked;
use parameters::Parameters;
pub(crate) use url::Url;

/// Why a source cannot be fetched from. The job file must change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The getter is known, but this release has none.
    #[error("this release fetches nothing over {getter}; use http, https or git")]
    Unsupported {
        /// Its name.
        getter: String,
    },
    /// The text is no URL and no known shorthand.
    #[error("{text:?} is no URL: {problem}")]
    NotAUrl {
        /// The text, without secrets.
        text: String,
        /// Reason of the refusal.
        problem: &'static str,
    },
    /// A shorthand of a code host is too short.
    #[error("{host} sources are written {host}/OWNER/REPOSITORY")]
    TooShort {
        /// The host.
        host: &'static str,
    },
    /// A parameter of the getter has a wrong value.
    #[error("{name} = {value:?}: {problem}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value, without secrets.
        value: String,
        /// Reason of the refusal.
        problem: String,
    },
    /// The subdirectory would leave the tree.
    #[error("subdirectory {subdirectory:?} leads out of the artifact")]
    Subdirectory {
        /// It.
        subdirectory: String,
    },
}

/// The program that fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Getter {
    /// An HTTP client.
    Http,
    /// git.
    Git {
        /// Branch, tag or commit.
        reference: Option<String>,
        /// How many commits of history.
        depth: Option<u32>,
        /// Private key, base64 of a file in OpenSSH's format.
        ssh_key: Option<String>,
    },
}

/// A source, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The getter.
    pub getter: Getter,
    /// The URL without getter, subdirectory and parameters of the getter.
    pub url: String,
    /// The part of the tree that is wanted, relative.
    pub subdirectory: Option<String>,
    /// How the download is packed; `None`: it is a plain file.
    pub archive: Option<ArchiveKind>,
    /// `KIND:DIGITS`, `DIGITS` or `file:URL`.
    pub checksum: Option<String>,
    /// Name of a single file below the destination.
    pub filename: Option<String>,
}

impl Source {
    /// Parses a source together with its options. A parameter of the URL wins over an option.
    ///
    /// # Errors
    /// Where the source names no getter of this release, or a parameter makes no sense.
    pub fn parse(text: &str, options: &BTreeMap<String, String>) -> Result<Self, SourceError> {
        let text = text.trim();
        let not_a_url = |problem| SourceError::NotAUrl {
            text: masked(text),
            problem,
        };
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(not_a_url("it has control characters"));
        }
        let (forced, rest) = detect::forced(text);
        if let Some(getter) = forced
            && !matches!(getter, "http" | "https" | "git")
        {
            return Err(unsupported(getter));
        }
        let (detected, address) = detect::detect(rest)?;
        let forced = forced.map(str::to_owned).or(detected);
        let (address, subdirectory) = split_subdirectory(&address);
        let mut url = Url::parse(&address).map_err(not_a_url)?;
        let getter = forced.unwrap_or_else(|| url.scheme.clone());
        let mut parameters = Parameters::new(&url.query, options);
        let archive = archive_of(&mut parameters, &url.path)?;
        let checksum = parameters.take("checksum");
        let filename = filename_of(&mut parameters)?;
        let getter = match getter.as_str() {
            "http" | "https" if matches!(url.scheme.as_str(), "http" | "https") => Getter::Http,
            "git" => git_of(&url, &mut parameters)?,
            "http" | "https" => return Err(unsupported(&url.scheme)),
            _ => return Err(unsupported(&getter)),
        };
        url.query = parameters.rest();
        let subdirectory = subdirectory.map(checked_subdirectory).transpose()?;
        Ok(Self {
            archive: archive.filter(|_| getter == Getter::Http),
            getter,
            url: url.to_string(),
            subdirectory,
            checksum,
            filename,
        })
    }
}

fn unsupported(getter: &str) -> SourceError {
    SourceError::Unsupported {
        getter: getter.to_owned(),
    }
}

/// Cuts `//sub` out of a URL; the query stays with the URL.
fn split_subdirectory(address: &str) -> (String, Option<String>) {
    let (location, query) = match address.split_once('?') {
        Some((location, query)) => (location, Some(query)),
        None => (address, None),
    };
    let begin = location.find("://").map_or(0, |at| at + 3);
    let Some(at) = location[begin..].find("//") else {
        return (address.to_owned(), None);
    };
    let (url, sub) = location.split_at(begin + at);
    let sub = sub.trim_start_matches('/');
    let url = match query {
        Some(query) => format!("{url}?{query}"),
        None => url.to_owned(),
    };
    let sub = (!sub.is_empty()).then(|| sub.to_owned());
    (url, sub)
}

fn checked_subdirectory(subdirectory: String) -> Result<String, SourceError> {
    let mut parts = subdirectory.split('/');
    if parts.any(|part| part == "..") || subdirectory.contains('\0') {
        return Err(SourceError::Subdirectory { subdirectory });
    }
    Ok(subdirectory)
}

/// How the download is packed: as `archive` says, else as the name of the file does.
fn archive_of(parameters: &mut Parameters, path: &str) -> Result<Option<ArchiveKind>, SourceError> {
    let word = parameters.take("archive").unwrap_or_default();
    match word.as_str() {
        // Go's words for a truth value.
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(None),
        "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(ArchiveKind::of_name(path)),
        word => match ArchiveKind::parse(word) {
            Some(kind) => Ok(Some(kind)),
            None => Err(SourceError::Parameter {
                name: "archive",
                value: word.to_owned(),
                problem: format!("it is none of false, {}", ArchiveKind::NAMES),
            }),
        },
    }
}

fn filename_of(parameters: &mut Parameters) -> Result<Option<String>, SourceError> {
    let Some(name) = parameters.take("filename").filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    if is_plain_name(&name) {
        return Ok(Some(name));
    }
    Err(SourceError::Parameter {
        name: "filename",
        value: name,
        problem: "it is no plain file name".to_owned(),
    })
}

/// Whether a text names an entry of a directory.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains(['/', '\0'])
}

fn git_of(url: &Url, parameters: &mut Parameters) -> Result<Getter, SourceError> {
    if !matches!(
        url.scheme.as_str(),
        "http" | "https" | "ssh" | "git" | "file"
    ) {
        return Err(unsupported(&format!("git with {}", url.scheme)));
    }
    let reference = parameters.take("ref").filter(|it| !it.is_empty());
    // A leading dash would be read as an option of git.
    if let Some(reference) = &reference
        && (reference.starts_with('-') || reference.contains(char::is_whitespace))
    {
        return Err(SourceError::Parameter {
            name: "ref",
            value: reference.clone(),
            problem: "it is no branch, tag or commit".to_owned(),
        });
    }
    let depth = match parameters.take("depth") {
        None => None,
        Some(word) => match word.parse::<u32>() {
            Ok(0) => None,
            Ok(depth) => Some(depth),
            Err(_) => {
                return Err(SourceError::Parameter {
                    name: "depth",
                    value: word,
                    problem: "it is no number".to_owned(),
                });
            }
        },
    };
    let ssh_key = parameters.take("sshkey").filter(|it| !it.is_empty());
    Ok(Getter::Git {
        reference,
        depth,
        ssh_key,
    })
}

#[cfg(test)]
mod tests;
