//! Which operation a request means.

use std::cmp::Reverse;
use std::sync::LazyLock;

use crate::endpoint::{Endpoint, Method};
use crate::endpoints;
use crate::template::{Parameters, Template};

/// An operation and the values of its path.
#[derive(Clone, Debug)]
pub struct Found {
    /// The operation.
    pub endpoint: &'static Endpoint,
    /// The values of its path's parameters.
    pub parameters: Parameters,
}

/// A request that means no operation.
#[derive(Clone, Debug)]
pub enum NotFound {
    /// No operation has this path.
    Path,
    /// Operations have it, by other methods than this one.
    Method {
        /// One of them.
        other: &'static Endpoint,
    },
}

/// The most exact ones first.
static TEMPLATES: LazyLock<Vec<(Template, &'static Endpoint)>> = LazyLock::new(|| {
    let mut templates: Vec<_> = endpoints()
        .map(|endpoint| (Template::parse(endpoint.path), endpoint))
        .collect();
    templates.sort_by_cached_key(|(template, _)| Reverse(template.rank()));
    templates
});

/// The operation that a request of `path`, split and decoded, by `method` means. `None` is a method
/// that no operation takes.
///
/// Of several paths that match, the one with the most literal segments is meant, whatever its
/// methods: `/v1/job/a/plan` is the plan of job `a`, never the job `a/plan`, whose slash has to be
/// encoded. Where there are as many, the first literals decide: `/v1/node/pool/drain` is the node
/// pool `drain`, never the drain of a node `pool`.
///
/// # Errors
/// Where there is none.
pub fn find<S: AsRef<str>>(path: &[S], method: Option<Method>) -> Result<Found, NotFound> {
    let matching = TEMPLATES.iter().filter_map(|(template, endpoint)| {
        let parameters = template.matches(path)?;
        let found = Found {
            endpoint,
            parameters,
        };
        Some((template, found))
    });
    let mut matching = matching.peekable();
    let Some((best, other)) = matching.peek().map(|(best, it)| (*best, it.endpoint)) else {
        return Err(NotFound::Path);
    };
    let rank = best.rank();
    let taken = |found: &Found| method.is_some_and(|it| found.endpoint.takes(it));
    matching
        .take_while(|(template, _)| template.rank() == rank)
        .map(|(_, found)| found)
        .find(taken)
        .ok_or(NotFound::Method { other })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::template::Segment;

    fn name(method: Method, path: &str) -> Result<String, String> {
        let path: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        match find(&path, Some(method)) {
            Ok(found) => Ok(format!("{} {:?}", found.endpoint.name, found.parameters)),
            Err(NotFound::Path) => Err("path".to_owned()),
            Err(NotFound::Method { other }) => Err(other.name.to_owned()),
        }
    }

    #[test]
    fn the_longest_known_suffix_wins() {
        let read = r#"JobAllocations [("id", "a/b")]"#;
        assert_eq!(name(Method::Get, "/v1/job/a/b/allocations").unwrap(), read);
        let read = r#"ReadJob [("id", "a/b")]"#;
        assert_eq!(name(Method::Get, "/v1/job/a/b").unwrap(), read);
        assert_eq!(name(Method::Get, "/v1/job/a/plan").unwrap_err(), "PlanJob");
        assert_eq!(name(Method::Get, "/v1/nothing").unwrap_err(), "path");
    }

    #[test]
    fn node_pools_are_no_nodes_of_these_names() {
        assert_eq!(
            name(Method::Get, "/v1/node/pools").unwrap(),
            "ListNodePools []"
        );
        let read = r#"ReadNodePool [("name", "drain")]"#;
        assert_eq!(name(Method::Get, "/v1/node/pool/drain").unwrap(), read);
        let update = r#"UpdateNodePool [("name", "drain")]"#;
        assert_eq!(name(Method::Put, "/v1/node/pool/drain").unwrap(), update);
        let nodes = r#"NodePoolNodes [("name", "x")]"#;
        assert_eq!(name(Method::Get, "/v1/node/pool/x/nodes").unwrap(), nodes);
        let drain = r#"DrainNode [("id", "x")]"#;
        assert_eq!(name(Method::Put, "/v1/node/x/drain").unwrap(), drain);
        assert_eq!(
            name(Method::Get, "/v1/node/pool/x/drain").unwrap_err(),
            "path"
        );
    }

    #[test]
    fn an_encoded_slash_belongs_to_the_id() {
        let found = find(&["v1", "job", "a/plan"], Some(Method::Get)).unwrap();
        assert_eq!(found.endpoint.name, "ReadJob");
        assert_eq!(found.parameters, [("id", "a/plan".to_owned())]);
    }

    #[test]
    fn names_are_unique_and_no_two_operations_mean_one_request() {
        let mut names = BTreeSet::new();
        let mut requests = BTreeSet::new();
        for endpoint in endpoints() {
            assert!(names.insert(endpoint.name), "{}", endpoint.name);
            let template = Template::parse(endpoint.path);
            let form: Vec<&str> = template
                .segments()
                .iter()
                .map(|segment| match segment {
                    Segment::Literal(text) => text,
                    Segment::One(_) => "{}",
                    Segment::Many { .. } => "{...}",
                })
                .collect();
            for method in endpoint.methods {
                assert!(
                    requests.insert((form.clone(), *method)),
                    "{} {}",
                    method.name(),
                    endpoint.path
                );
            }
        }
    }
}
