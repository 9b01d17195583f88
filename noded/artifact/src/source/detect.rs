//! Getters that a source names without a scheme.

use super::{SourceError, masked};

/// Code hosts whose addresses are git repositories.
const CODE_HOSTS: [&str; 3] = ["github.com", "gitlab.com", "bitbucket.org"];

/// Cuts a forced getter off: `git::https://x` is `git` and `https://x`.
pub(super) fn forced(text: &str) -> (Option<&str>, &str) {
    match text.split_once("::") {
        Some((getter, rest))
            if !getter.is_empty() && getter.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            (Some(getter), rest)
        }
        _ => (None, text),
    }
}

/// A source as a URL, and the getter where the source implies another one than its scheme.
pub(super) fn detect(text: &str) -> Result<(Option<String>, String), SourceError> {
    let location = text.split('?').next().unwrap_or_default();
    if location.contains("://") {
        return Ok((None, text.to_owned()));
    }
    let git = || Some("git".to_owned());
    for host in CODE_HOSTS {
        if let Some(rest) = text.strip_prefix(host).and_then(|it| it.strip_prefix('/')) {
            return Ok((git(), of_code_host(host, rest)?));
        }
    }
    if let Some((account, path)) = scp(location) {
        let query = &text[location.len()..];
        return Ok((git(), format!("ssh://{account}/{path}{query}")));
    }
    let host = location.split('/').next().unwrap_or_default();
    let getter = match host {
        _ if location.starts_with(['/', '.']) => "file",
        _ if host.ends_with(".amazonaws.com") => "s3",
        _ if host.ends_with("googleapis.com") => "gcs",
        _ => {
            return Err(SourceError::NotAUrl {
                text: masked(text),
                problem: "it begins with no scheme; write https://...",
            });
        }
    };
    Err(SourceError::Unsupported {
        getter: getter.to_owned(),
    })
}

/// `OWNER/REPOSITORY/SUB?QUERY` of a code host as the URL of its repository.
fn of_code_host(host: &'static str, rest: &str) -> Result<String, SourceError> {
    let (location, query) = match rest.split_once('?') {
        Some((location, query)) => (location, format!("?{query}")),
        None => (rest, String::new()),
    };
    let mut parts = location.splitn(3, '/');
    let owner = parts.next().unwrap_or_default();
    let repository = parts.next().unwrap_or_default();
    if owner.is_empty() || repository.is_empty() {
        return Err(SourceError::TooShort { host });
    }
    let suffix = if repository.ends_with(".git") {
        ""
    } else {
        ".git"
    };
    let sub = parts.next().unwrap_or_default().trim_start_matches('/');
    let sub = if sub.is_empty() {
        String::new()
    } else {
        format!("//{sub}")
    };
    Ok(format!(
        "https://{host}/{owner}/{repository}{suffix}{sub}{query}"
    ))
}

/// ssh's short address `user@host:path`.
fn scp(location: &str) -> Option<(&str, &str)> {
    let (account, path) = location.split_once(':')?;
    let (user, host) = account.split_once('@')?;
    let plain = |text: &str| !text.is_empty() && !text.contains(['/', '@']);
    let path = path.trim_start_matches('/');
    (plain(user) && plain(host) && !path.is_empty()).then_some((account, path))
}
