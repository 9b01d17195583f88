//! "did you mean": the known word nearest to a misspelt one.

/// The candidate that needs the fewest edits to become `word`, if few enough to be a typing error.
pub(crate) fn closest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    const WORD_CHARS_MAX: usize = 64;
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let length = word.chars().count();
    let tolerance = (length / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= 4 * tolerance)
        .map(|candidate| (distance(word, candidate), candidate))
        // A word of which nothing is left is no suggestion.
        .filter(|(edits, _)| *edits <= tolerance && *edits < length)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Edits between two words: insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_pair_of_letters_is_one_edit() {
        assert_eq!(distance("dirver", "driver"), 1);
        assert_eq!(closest("dirver", ["driver", "user"]), Some("driver"));
    }

    #[test]
    fn a_different_word_has_no_suggestion() {
        assert_eq!(closest("banana", ["driver", "user"]), None);
    }
}
