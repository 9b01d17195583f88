//! The parts of the suite, which can be measured one by one.

/// What is measured one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Silence,
    Weather,
    Reconnect,
    Storm,
    Links,
    Failover,
}

impl Part {
    /// In the order in which they are measured, with their names on the command line.
    const ALL: [(&str, Self); 6] = [
        ("silence", Self::Silence),
        ("weather", Self::Weather),
        ("reconnect", Self::Reconnect),
        ("storm", Self::Storm),
        ("links", Self::Links),
        ("failover", Self::Failover),
    ];

    /// Those that are named, or all where none is.
    ///
    /// # Errors
    /// If a name is none of theirs.
    pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Self>> {
        let known = |name: &str| Self::ALL.iter().any(|(own, _)| *own == name);
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            let all = Self::ALL.map(|(name, _)| name).join(", ");
            anyhow::bail!("`{unknown}` is no part of the suite; there are: {all}");
        }
        let wanted = |own: &str| names.is_empty() || names.iter().any(|name| name == own);
        let parts = Self::ALL.into_iter().filter(|(own, _)| wanted(own));
        Ok(parts.map(|(_, part)| part).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_measured_in_their_order_and_wrong_names_are_told() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Part::chosen(&names)
        };
        assert_eq!(chosen(&[]).unwrap().len(), Part::ALL.len());
        let two = chosen(&["storm", "silence"]).unwrap();
        assert_eq!(two, [Part::Silence, Part::Storm]);
        let error = chosen(&["storms"]).unwrap_err().to_string();
        assert!(
            error.contains("`storms`") && error.contains("failover"),
            "{error}"
        );
    }
}
