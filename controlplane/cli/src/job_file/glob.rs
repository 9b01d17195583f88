//! Paths against patterns, for `fileset()`.

/// Whether `path` matches a glob: `*` and `?` within a segment, `**` over segments, `[abc]`. The
/// work is bounded by the product of both lengths, whatever the pattern.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    let is_star = |part: &&str| *part == "**";
    // Like `*`, `**` ends with the next segments that match.
    aligned(&pattern, &path, is_star, |part, name| segment(part, name))
}

fn segment(pattern: &str, name: &str) -> bool {
    let pattern = pieces(pattern);
    let name: Vec<char> = name.chars().collect();
    let is_star = |piece: &Piece| matches!(piece, Piece::Star);
    aligned(&pattern, &name, is_star, |piece, c| match piece {
        Piece::One(wanted) => wanted == c,
        Piece::Of(wanted) => wanted.contains(c),
        Piece::Any => true,
        Piece::Star => false,
    })
}

/// A part of a pattern that stands for one character, or for any number of them.
enum Piece {
    One(char),
    Of(Vec<char>),
    Any,
    Star,
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut rest = pattern.chars();
    let mut pieces = Vec::new();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '*' => Piece::Star,
            '?' => Piece::Any,
            '[' => match rest.as_str().split_once(']') {
                Some((set, after)) => {
                    rest = after.chars();
                    Piece::Of(set.chars().collect())
                }
                None => Piece::One('['),
            },
            other => Piece::One(other),
        });
    }
    pieces
}

/// Whether `items` are what `pattern` stands for, a star being any number of items. Only the last
/// star is ever tried again: what the ones before it took cannot matter any more.
fn aligned<P, I>(
    pattern: &[P],
    items: &[I],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &I) -> bool,
) -> bool {
    let (mut at, mut taken) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while taken < items.len() {
        match pattern.get(at) {
            Some(part) if is_star(part) => {
                again = Some((at, taken));
                at += 1;
                continue;
            }
            Some(part) if fits(part, &items[taken]) => {
                at += 1;
                taken += 1;
                continue;
            }
            _ => {}
        }
        let Some((star, from)) = again else {
            return false;
        };
        again = Some((star, from + 1));
        at = star + 1;
        taken = from + 1;
    }
    pattern[at..].iter().all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_by_segment() {
        for (pattern, path, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "b/a.txt", false),
            ("**/*.txt", "b/c/a.txt", true),
            ("**/*.txt", "a.txt", true),
            ("a/**/b/*", "a/x/b/y/b/z", true),
            ("a/**", "a/x/y", true),
            ("a/**/b", "a/x/c", false),
            ("?.t[xy]t", "a.tyt", true),
            ("?.t[xy]t", "a.tzt", false),
            ("a[b", "a[b", true),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_decided_at_once() {
        let name = "a".repeat(255);
        assert!(!matches(&"*a".repeat(100), &format!("{name}b")));
        let path = vec!["a"; 32].join("/");
        assert!(!matches(&format!("{}b", "**/a/".repeat(15)), &path));
    }
}
