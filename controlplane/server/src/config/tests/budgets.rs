//! Blocks `limits { budget "KIND" { .. } }`.

use protocol_access::budget::{Class, Kind, Place, Rate};

use super::*;

fn with(blocks: &str) -> Result<Config, String> {
    build(&format!(
        "data_dir = \"/d\"\n{TLS}\nlimits {{\n{blocks}\n}}"
    ))
}

#[test]
fn budgets_that_are_not_given_are_the_defaults() -> Result<(), String> {
    let config = with("budget \"token\" {\n  read = 7\n}")?;
    let mut expected = budget::Limits::default();
    expected.token.read = Some(7);
    assert_eq!(config.limits.budgets, expected);
    Ok(())
}

#[test]
fn every_key_of_a_budget_has_its_effect() -> Result<(), String> {
    for kind in [
        Kind::Management,
        Kind::Token,
        Kind::Workload,
        Kind::Anonymous,
    ] {
        let config = with(&format!(
            "budget \"{kind}\" {{\n read = 1\n list = 2\n write = \"unlimited\"\n \
             burst = \"2s\"\n waiting = 4\n streams = 0\n}}"
        ))?;
        let budgets = config.limits.budgets;
        let burst = Duration::from_secs(2);
        assert_eq!(
            budgets.rate(kind, Class::Read),
            Some(Rate::a_second(1, burst))
        );
        assert_eq!(
            budgets.rate(kind, Class::List),
            Some(Rate::a_second(2, burst))
        );
        assert_eq!(budgets.rate(kind, Class::Write), None);
        assert_eq!(budgets.places(kind, Place::Waiting), Some(4));
        assert_eq!(budgets.places(kind, Place::Stream), Some(0));
    }
    for kind in [Kind::Failure, Kind::Login] {
        let config = with(&format!(
            "budget \"{kind}\" {{\n requests = 3\n per = \"2s\"\n burst = \"4s\"\n}}"
        ))?;
        let expected = Rate {
            requests: 3,
            per: Duration::from_secs(2),
            burst: 6,
        };
        assert_eq!(
            config.limits.budgets.rate(kind, Class::Read),
            Some(expected)
        );
    }
    Ok(())
}

#[test]
fn several_budgets_are_given_each_once() -> Result<(), String> {
    let config = with("budget \"token\" {\n read = 1\n}\nbudget \"login\" {\n requests = 2\n}")?;
    assert_eq!(config.limits.budgets.token.read, Some(1));
    assert_eq!(config.limits.budgets.login.requests, 2);
    let twice = "budget \"token\" {\n read = 1\n}\nbudget \"token\" {\n list = 2\n}";
    let error = with(twice).expect_err("refused");
    assert_eq!(error, "limits.budget.token: it is given twice");
    Ok(())
}

#[test]
fn a_mistake_in_a_budget_is_told_with_its_key_and_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("server.hcl");
    for (block, line, message) in [
        (
            "budget \"token\" { raed = 1 }",
            2,
            "limits.budget.token.raed: unknown field",
        ),
        (
            "budget \"tokens\" { read = 1 }",
            2,
            "limits.budget.tokens: unknown field",
        ),
        (
            "budget { read = 1 }",
            2,
            "limits.budget: the block has one label",
        ),
        (
            "budget \"token\" {\n read = true\n}",
            3,
            "limits.budget.token.read: invalid type",
        ),
        (
            "budget \"token\" {\n read = \"much\"\n}",
            3,
            "limits.budget.token.read: invalid value: string \"much\", expected a number of \
             requests a second, or \"unlimited\"",
        ),
        (
            "budget \"token\" {\n read = 1000001\n}",
            3,
            "limits.budget.token.read: 1000001 is not between 0 and 1000000",
        ),
        (
            "budget \"management\" {\n\n write = 0\n}",
            4,
            "limits.budget.management.write: 0 would shut out the operators",
        ),
        (
            "budget \"anonymous\" {\n burst = \"2h\"\n}",
            3,
            "limits.budget.anonymous.burst: 7200s is more than 3600s",
        ),
        (
            "budget \"login\" {\n per = \"0s\"\n}",
            3,
            "limits.budget.login.per: 0s is no time",
        ),
        (
            "budget \"failure\" {\n requests = 0\n}",
            3,
            "limits.budget.failure.requests: 0 is not between 1 and 1000000",
        ),
    ] {
        let text = format!("limits {{\n{block}\n}}\ndata_dir = \"/d\"\n{TLS}");
        std::fs::write(&path, text).expect("is written");
        let error = Config::load(&path).expect_err(block).to_string();
        let expected = format!("{}:{line}: {message}", path.display());
        assert!(error.starts_with(&expected), "{error}\nexpected {expected}");
    }
}
