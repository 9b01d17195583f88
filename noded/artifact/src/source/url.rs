//! The four parts of a URL that fetching needs, and references relative to one (redirects).

use std::fmt;

use super::parameters::{Plus, decode};

/// `scheme://authority/path?query`, each part as written; a fragment is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// In lower case.
    pub(crate) scheme: String,
    /// With user and port.
    pub(crate) authority: String,
    /// Empty, or with its leading slash.
    pub(crate) path: String,
    /// Without the question mark.
    pub(crate) query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.split('#').next().unwrap_or_default();
        let (location, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = location.split_once("://").ok_or("it has no scheme")?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err("its scheme is no word");
        }
        let begin = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(begin);
        let scheme = scheme.to_ascii_lowercase();
        if authority.is_empty() && scheme != "file" {
            return Err("it has no host");
        }
        // A program that is given the URL could take it for an option.
        if authority.starts_with('-') || authority.contains("@-") {
            return Err("its host begins with a dash");
        }
        if text.contains(char::is_whitespace) {
            return Err("it contains a space; write %20");
        }
        Ok(Self {
            scheme,
            authority: authority.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// The host in lower case, without brackets, user and port.
    pub(crate) fn host(&self) -> String {
        let host = self.host_and_port();
        let host = match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, _)) => host,
            None => host.rsplit_once(':').map_or(host, |(host, _)| host),
        };
        host.to_ascii_lowercase()
    }

    fn host_and_port(&self) -> &str {
        let authority = self.authority.as_str();
        authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host)
    }

    /// User and password, decoded.
    pub(crate) fn credentials(&self) -> Option<(String, String)> {
        let (userinfo, _) = self.authority.rsplit_once('@')?;
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        Some((decode(user, Plus::Plus), decode(password, Plus::Plus)))
    }

    /// The same without user and password.
    pub(crate) fn without_credentials(&self) -> Self {
        Self {
            authority: self.host_and_port().to_owned(),
            ..self.clone()
        }
    }

    /// Whether credentials for one may be sent to the other.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self
                .host_and_port()
                .eq_ignore_ascii_case(other.host_and_port())
    }

    /// Last part of the path, decoded; empty where the path names a directory.
    pub(crate) fn file_name(&self) -> String {
        let path = decode(&self.path, Plus::Plus);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// A reference as `Location` has it, relative to this URL.
    pub(crate) fn join(&self, reference: &str) -> Result<Self, &'static str> {
        let reference = reference.trim();
        let is_absolute = reference
            .find("://")
            .is_some_and(|at| !reference[..at].contains(['/', '?', '#']));
        if is_absolute {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme));
        }
        let base = format!("{}://{}", self.scheme, self.authority);
        let joined = match reference.as_bytes().first() {
            Some(b'/') => format!("{base}{reference}"),
            Some(b'?') => format!("{base}{}{reference}", self.path),
            _ => {
                let directory = self.path.rsplit_once('/').map_or("", |(above, _)| above);
                format!("{base}{directory}/{reference}")
            }
        };
        let mut url = Self::parse(&joined)?;
        url.path = without_dots(&url.path);
        Ok(url)
    }
}

/// RFC 3986, section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    for (offset, part) in parts.iter().enumerate() {
        let last = offset + 1 == parts.len();
        match *part {
            "." | ".." => {
                if *part == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme,
            authority,
            path,
            query,
        } = self;
        write!(f, "{scheme}://{authority}{path}")?;
        if !query.is_empty() {
            write!(f, "?{query}")?;
        }
        Ok(())
    }
}
