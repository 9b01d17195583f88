//! The list as documents: the table of `docs/http-api.md`, and OpenAPI.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::endpoint::{Body, Endpoint, Kind, Method, Parameter, Source, Support};
use crate::endpoints;
use crate::template::{Segment, Template};

/// The table of routes in Markdown: those of this release, then those that are answered 501.
pub fn table() -> String {
    let mut text =
        String::from("| Method | Path | What | Needs | Parameters |\n|---|---|---|---|---|\n");
    for endpoint in endpoints().filter(|it| it.support == Support::Built) {
        let methods: Vec<&str> = endpoint.methods.iter().map(|it| it.name()).collect();
        let parameters: Vec<String> = endpoint
            .parameters
            .iter()
            .map(|it| format!("`{}`", it.name))
            .collect();
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} |",
            methods.join(", "),
            plain(endpoint.path),
            endpoint.about(),
            endpoint.need,
            parameters.join(", "),
        );
    }
    text.push_str("\nAnswered 501:\n\n| Path | Answer |\n|---|---|\n");
    for endpoint in endpoints() {
        if let Support::Absent(why) = endpoint.support {
            let _ = writeln!(text, "| `{}` | {why} |", plain(endpoint.path));
        }
    }
    text
}

/// The path as the documentation has it: `/v1/job/:id/plan`, `*` for any rest.
fn plain(path: &'static str) -> String {
    let mut text = String::new();
    for segment in Template::parse(path).segments() {
        match segment {
            Segment::Literal(part) => {
                let _ = write!(text, "/{part}");
            }
            Segment::Many { name: "rest", .. } => text.push_str("/*"),
            Segment::One(name) | Segment::Many { name, .. } => {
                let _ = write!(text, "/:{name}");
            }
        }
    }
    text
}

/// The API as an OpenAPI 3.1 document: paths, methods, parameters, capabilities, and the names of
/// what bodies and answers hold. `version` is that of the release.
pub fn openapi(version: &str) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for endpoint in endpoints() {
        let path = braced(endpoint.path);
        for method in endpoint.methods {
            let operations = paths.entry(path.clone()).or_default();
            operations.insert(method.name().to_lowercase(), operation(endpoint, *method));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Drover", "version": version },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "apiKey", "in": "header", "name": "X-Nomad-Token" },
            },
        },
    })
}

/// The path in OpenAPI's form, which has one kind of parameter.
fn braced(path: &'static str) -> String {
    let mut text = String::new();
    for segment in Template::parse(path).segments() {
        let _ = match segment {
            Segment::Literal(part) => write!(text, "/{part}"),
            Segment::One(name) | Segment::Many { name, .. } => write!(text, "/{{{name}}}"),
        };
    }
    text
}

fn operation(endpoint: &Endpoint, method: Method) -> Value {
    // Ids of operations are unique in a document; an operation with two methods is two there.
    let id = if method == endpoint.methods[0] {
        endpoint.name.to_owned()
    } else {
        format!("{}By{}", endpoint.name, method.name())
    };
    let mut parameters = path_parameters(endpoint.path);
    parameters.extend(
        common(endpoint)
            .iter()
            .chain(endpoint.parameters)
            .map(query_parameter),
    );
    let mut value = json!({
        "operationId": id,
        "summary": endpoint.about(),
        "parameters": parameters,
        "responses": responses(endpoint),
        "security": security(endpoint),
    });
    match endpoint.body {
        Body::Json { name, optional, .. } => {
            value["requestBody"] = json!({
                "required": !optional,
                "content": { "application/json": { "schema": { "title": name } } },
            });
        }
        Body::Bytes { .. } => {
            value["requestBody"] = json!({
                "required": false,
                "content": { "application/octet-stream": {} },
            });
        }
        Body::None | Body::Stream => {}
    }
    value
}

fn path_parameters(path: &'static str) -> Vec<Value> {
    let template = Template::parse(path);
    let named = template
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::One(name) | Segment::Many { name, .. } => Some(json!({
                "name": name, "in": "path", "required": true, "schema": { "type": "string" },
            })),
        });
    named.collect()
}

fn common(endpoint: &Endpoint) -> &'static [Parameter] {
    const STATE: &[Parameter] = &[
        Parameter::text("namespace", "the namespace; `*` in lists"),
        Parameter::flag("stale", "what this server has"),
        Parameter::number("index", "wait until the answer has changed since"),
        Parameter {
            name: "wait",
            kind: Kind::Duration,
            about: "for at most so long",
        },
    ];
    const FILTERED: &[Parameter] = &[
        STATE[0],
        STATE[1],
        STATE[2],
        STATE[3],
        Parameter::text("filter", "only items for which this expression holds"),
    ];
    match (endpoint.source, endpoint.filterable) {
        (Source::State, true) => FILTERED,
        (Source::State, false) => STATE,
        (Source::Log | Source::Node, _) => STATE.split_at(1).0,
        (Source::Server, _) => &[],
    }
}

fn query_parameter(parameter: &Parameter) -> Value {
    let kind = match parameter.kind {
        Kind::Text | Kind::Duration => "string",
        Kind::Flag => "boolean",
        Kind::Number => "integer",
    };
    json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "schema": { "type": kind },
    })
}

fn responses(endpoint: &Endpoint) -> Value {
    if let Support::Absent(why) = endpoint.support {
        return json!({ "501": { "description": why } });
    }
    let mut done = json!({ "description": "done" });
    if !endpoint.answer.is_empty() {
        done["content"] = json!({ "application/json": { "schema": { "title": endpoint.answer } } });
    }
    json!({ "200": done })
}

fn security(endpoint: &Endpoint) -> Value {
    if endpoint.need.is_open() {
        return json!([]);
    }
    let token = json!({ "token": [endpoint.need.to_string()] });
    if endpoint.credential_in_handshake {
        return json!([token, {}]);
    }
    json!([token])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    const BEGIN: &str = "<!-- routes -->\n";
    const END: &str = "<!-- end of routes -->";

    /// With `DROVER_REWRITE=1` the page is rewritten instead.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the page is read and rewritten by this test alone"
    )]
    fn the_documentation_has_the_table_of_routes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http-api.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (found, after) = rest.split_once(END).unwrap();
        let wanted = format!("\n{}\n", table());
        if std::env::var_os("DROVER_REWRITE").is_some() {
            let page = format!("{before}{BEGIN}{wanted}{END}{after}");
            std::fs::write(&path, page).unwrap();
            return;
        }
        assert!(
            found == wanted,
            "docs/http-api.md differs from the declarations: DROVER_REWRITE=1 cargo test -p protocol-api"
        );
    }

    #[test]
    fn each_method_of_each_path_is_an_operation_of_openapi_with_an_id_of_its_own() {
        let document = openapi("1.2.3");
        let paths = document["paths"].as_object().unwrap();
        let operations: Vec<&Value> = paths
            .values()
            .flat_map(|it| it.as_object().unwrap().values())
            .collect();
        let ids: BTreeSet<&str> = operations
            .iter()
            .map(|it| it["operationId"].as_str().unwrap())
            .collect();
        let expected: usize = endpoints().map(|it| it.methods.len()).sum();
        assert_eq!((operations.len(), ids.len()), (expected, expected));
    }

    #[test]
    fn an_operation_of_openapi_has_parameters_body_and_capability() {
        let document = openapi("1.2.3");
        let plan = &document["paths"]["/v1/job/{id}/plan"]["put"];
        assert_eq!(plan["parameters"][0]["name"], "id");
        let schema = &plan["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(schema["title"], "JobRequest");
        assert_eq!(
            plan["security"],
            json!([{ "token": ["submit-job or plan-job"] }])
        );
        let list = &document["paths"]["/v1/jobs"]["get"];
        let names = list["parameters"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|it| it["name"].as_str().unwrap()).collect();
        assert!(
            names.contains(&"filter") && names.contains(&"stale"),
            "{names:?}"
        );
        assert_eq!(
            document["paths"]["/v1/status/leader"]["get"]["security"],
            json!([])
        );
    }
}
