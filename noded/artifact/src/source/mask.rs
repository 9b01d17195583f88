//! Secrets of a URL, replaced before a person or a log sees it.

/// The replacement, as Go's `Redacted` has it.
const MASK: &str = "xxxxx";
/// Parameters whose value is a secret.
const SECRETS: [&str; 7] = [
    "sshkey",
    "aws_access_key_secret",
    "aws_access_token",
    "access_token",
    "private_token",
    "x-amz-signature",
    "x-amz-security-token",
];

/// A source or URL without its secrets: the password of `user:password@` and the values of
/// parameters that hold keys.
pub fn masked(text: &str) -> String {
    let (location, query) = match text.split_once('?') {
        Some((location, query)) => (location, Some(query)),
        None => (text, None),
    };
    let mut masked = masked_location(location);
    if let Some(query) = query {
        masked.push('?');
        let pairs: Vec<String> = query.split('&').map(masked_pair).collect();
        masked.push_str(&pairs.join("&"));
    }
    masked
}

fn masked_location(location: &str) -> String {
    let Some(begin) = location.find("://").map(|at| at + 3) else {
        return location.to_owned();
    };
    let end = location[begin..]
        .find('/')
        .map_or(location.len(), |at| begin + at);
    let authority = &location[begin..end];
    let password = authority
        .rsplit_once('@')
        .and_then(|(userinfo, host)| Some((userinfo.split_once(':')?.0, host)));
    match password {
        Some((user, host)) => format!(
            "{}{user}:{MASK}@{host}{}",
            &location[..begin],
            &location[end..]
        ),
        None => location.to_owned(),
    }
}

fn masked_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if SECRETS.contains(&name.to_ascii_lowercase().as_str()) => {
            format!("{name}={MASK}")
        }
        _ => pair.to_owned(),
    }
}
