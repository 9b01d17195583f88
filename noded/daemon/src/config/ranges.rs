//! Lists of numbers and ranges in one text, as Nomad's users write them: `22,80,8500-8600`.

use std::ops::RangeInclusive;

use super::{ConfigError, invalid};

/// More ranges than any list that a person keeps.
const RANGES_MAX: usize = 1024;

/// Numbers, as ranges of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<RangeInclusive<u32>>);

impl Ranges {
    /// Reads `22,80,8500-8600`; an empty text holds no number. `field` is the key that errors name.
    ///
    /// # Errors
    /// A part is no number up to `highest`, a range runs backwards, or there are too many parts.
    pub(super) fn parse(field: &str, text: &str, highest: u32) -> Result<Self, ConfigError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.split(',').count() > RANGES_MAX {
            let problem = format!("it has more than {RANGES_MAX} parts");
            return Err(invalid(field, problem));
        }
        let ranges = text.split(',').map(|part| {
            range(part.trim(), highest).ok_or_else(|| {
                let problem = format!(
                    "{part:?} is neither a number of 0 to {highest} nor a range such as 10-20"
                );
                invalid(field, problem)
            })
        });
        ranges.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a number is among them.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|range| range.contains(&number))
    }
}

fn range(part: &str, highest: u32) -> Option<RangeInclusive<u32>> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|it| digits && *it <= highest)
    };
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read_and_anything_else_is_refused() {
        let ranges = Ranges::parse("k", "0, 10-20,99", 100).expect("ranges");
        for (number, expected) in [(0, true), (9, false), (10, true), (20, true), (21, false)] {
            assert_eq!(ranges.contains(number), expected, "{number}");
        }
        assert_eq!(
            Ranges::parse("k", " ", 100).expect("none"),
            Ranges::default()
        );
        for text in ["a", "1,,2", "20-10", "101", "-1", "+1", "1-", "0-101"] {
            let error = Ranges::parse("k", text, 100).expect_err(text).to_string();
            assert!(error.starts_with("`k`: "), "{error}");
        }
        let many = "1,".repeat(2000);
        let error = Ranges::parse("k", &many, 100).expect_err("too many");
        assert!(error.to_string().contains("more than 1024"), "{error}");
    }
}
