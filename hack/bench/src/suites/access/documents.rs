//! The policies of the measured token, by their numbers: each has rules for a namespace by its
//! name, for namespaces by a prefix, and for a node pool.

/// A policy's name.
pub(super) fn name(number: usize) -> String {
    format!("policy-{number}")
}

/// The namespace that only this policy's rule names.
pub(super) fn exact(number: usize) -> String {
    format!("team-{number}")
}

/// A namespace that only this policy's glob matches.
pub(super) fn globbed(number: usize) -> String {
    format!("app-{number}-web")
}

/// Its document. The first one gives the rights in `default`, too.
pub(super) fn rules(number: usize) -> String {
    let default = match number {
        0 => "namespace \"default\" {\n  policy = \"read\"\n}\n",
        _ => "",
    };
    format!(
        "{default}namespace \"{}\" {{\n  policy = \"write\"\n}}\n\
         namespace \"app-{number}-*\" {{\n  capabilities = [\"list-jobs\", \"read-job\"]\n}}\n\
         node_pool \"pool-{number}\" {{\n  policy = \"read\"\n}}\n",
        exact(number)
    )
}

/// A document with a glob whose text stands behind the star; [`globbed_behind`] matches it.
pub(super) fn rules_behind(number: usize) -> String {
    format!("namespace \"*-{number}-web\" {{\n  policy = \"read\"\n}}\n")
}

/// A namespace that only the glob of [`rules_behind`] matches.
pub(super) fn globbed_behind(number: usize) -> String {
    format!("app-{number}-web")
}

#[cfg(test)]
mod tests {
    use protocol_access::{Acl, NamespaceCapability, Policy};

    use super::*;

    #[test]
    fn each_name_has_the_rights_of_its_policy_alone() {
        let parse = |rules: fn(usize) -> String| -> Vec<Policy> {
            let numbers = 0..30;
            numbers
                .map(|number| Policy::parse(&rules(number)).unwrap())
                .collect()
        };
        let reads = |policies: &[&Policy], name: &str| {
            let acl = Acl::compile(policies.iter().copied());
            acl.namespace(name, NamespaceCapability::ReadJob)
        };
        type Pair = (fn(usize) -> String, fn(usize) -> String);
        let pairs: [Pair; 3] = [
            (rules, exact),
            (rules, globbed),
            (rules_behind, globbed_behind),
        ];
        for (rules, name) in pairs {
            let policies = parse(rules);
            let all: Vec<&Policy> = policies.iter().collect();
            let others = [&all[..12], &all[13..]].concat();
            assert!(reads(&all, &name(12)), "{}", name(12));
            assert!(!reads(&others, &name(12)), "{}", name(12));
        }
        let first = parse(rules);
        assert!(reads(&[&first[0]], "default"));
        assert!(!reads(&[&first[1]], "default"));
    }
}
