//! Signals by the names that job files and the API use.

use nix::sys::signal::Signal;

/// The number of `SIGTERM`.
pub const SIGTERM: i32 = Signal::SIGTERM as i32;

/// The number of a signal: `SIGHUP`, `hup`, `1`.
pub fn number(name: &str) -> Option<i32> {
    let upper = name.trim().to_ascii_uppercase();
    if let Ok(number) = upper.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let full = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    full.parse::<Signal>().ok().map(|signal| signal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_understood() {
        for (name, expected) in [
            ("SIGHUP", Some(1)),
            ("hup", Some(1)),
            ("9", Some(9)),
            ("SIGTERM", Some(SIGTERM)),
            ("SIGNOPE", None),
            ("", None),
            ("0", None),
            ("65", None),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
    }
}
