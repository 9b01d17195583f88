//! Patterns of rule names: `*` stands for any characters, also for none.

/// Whether a rule name is a pattern.
pub(crate) fn is_glob(name: &str) -> bool {
    name.contains('*')
}

/// The bytes of a pattern that are not `*`. The smallest `len(name) - len(pattern) + stars`, which
/// is Nomad's measure, belongs to the pattern with the most of them.
pub(super) fn literal_bytes(pattern: &str) -> usize {
    pattern.bytes().filter(|byte| *byte != b'*').count()
}

/// Whether the whole `name` matches. Time is at most the product of the lengths: the last `*`
/// that was passed is the only one that is tried again.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after_star, start)) = retry else {
                    return false;
                };
                (p, n) = (after_star, start + 1);
                retry = Some((after_star, start + 1));
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_characters_and_none() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abcc"),
            ("a*b*c", "axbxbxc"),
            ("**", "x"),
            ("a", "a"),
            ("*é", "né"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("a*", ""),
            ("a*", "ba"),
            ("*c", "cb"),
            ("a*c", "ab"),
            ("a*b*c", "acb"),
            ("a", "ab"),
            ("a", "A"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
