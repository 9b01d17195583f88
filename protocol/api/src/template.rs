//! Paths with parameters, and which of them a request means.

/// A part of a template between two slashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    Literal(&'static str),
    /// One segment of the request.
    One(&'static str),
    /// Several segments of the request, with slashes between them.
    Many {
        name: &'static str,
        least: usize,
    },
}

/// The values of a template's parameters, by name.
pub type Parameters = Vec<(&'static str, String)>;

/// A template, split. At most one of its parameters takes several segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template {
    segments: Vec<Segment>,
}

impl Template {
    pub(crate) fn parse(path: &'static str) -> Self {
        let segments = path.split('/').filter(|part| !part.is_empty());
        Self {
            segments: segments.map(segment).collect(),
        }
    }

    /// How exactly it describes a path: of several templates that match, the one with the most
    /// literal segments is meant, and of those the one whose literals come first.
    pub(crate) fn rank(&self) -> (usize, Vec<bool>) {
        let is_literal = |it: &Segment| matches!(it, Segment::Literal(_));
        let places: Vec<bool> = self.segments.iter().map(is_literal).collect();
        let literals = places.iter().filter(|is_literal| **is_literal).count();
        (literals, places)
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The values of the parameters where `path` has this form.
    pub(crate) fn matches<S: AsRef<str>>(&self, path: &[S]) -> Option<Parameters> {
        let many = self
            .segments
            .iter()
            .position(|it| matches!(it, Segment::Many { .. }));
        let mut found = Parameters::new();
        let Some(at) = many else {
            let whole = self.segments.len() == path.len();
            return (whole && all_match(&self.segments, path, &mut found)).then_some(found);
        };
        let (before, rest) = self.segments.split_at(at);
        let (many, after) = rest.split_first()?;
        let Segment::Many { name, least } = *many else {
            return None;
        };
        let taken = path.len().checked_sub(before.len() + after.len())?;
        if taken < least {
            return None;
        }
        let (head, rest) = path.split_at(before.len());
        let (middle, tail) = rest.split_at(taken);
        if !all_match(before, head, &mut found) {
            return None;
        }
        let middle: Vec<&str> = middle.iter().map(AsRef::as_ref).collect();
        found.push((name, middle.join("/")));
        all_match(after, tail, &mut found).then_some(found)
    }
}

fn segment(text: &'static str) -> Segment {
    let Some(name) = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')) else {
        return Segment::Literal(text);
    };
    if let Some(name) = name.strip_suffix("...") {
        Segment::Many { name, least: 1 }
    } else if let Some(name) = name.strip_suffix('*') {
        Segment::Many { name, least: 0 }
    } else {
        Segment::One(name)
    }
}

fn all_match<S: AsRef<str>>(segments: &[Segment], path: &[S], found: &mut Parameters) -> bool {
    segments
        .iter()
        .zip(path)
        .all(|(segment, part)| match segment {
            Segment::Literal(text) => *text == part.as_ref(),
            Segment::One(name) => {
                found.push((name, part.as_ref().to_owned()));
                true
            }
            Segment::Many { .. } => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &'static str, path: &str) -> Option<String> {
        let path: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        let found = Template::parse(template).matches(&path)?;
        let found = found.iter().map(|(name, value)| format!("{name}={value}"));
        Some(found.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parameters_take_one_segment_or_several() {
        for (template, path, expected) in [
            ("/v1/jobs", "v1/jobs", Some("")),
            ("/v1/jobs", "v1/jobs/x", None),
            ("/v1/node/{id}", "v1/node/a", Some("id=a")),
            ("/v1/node/{id}", "v1/node", None),
            ("/v1/job/{id...}", "v1/job/a/b", Some("id=a/b")),
            ("/v1/job/{id...}", "v1/job", None),
            ("/v1/job/{id...}/plan", "v1/job/a/b/plan", Some("id=a/b")),
            ("/v1/job/{id...}/plan", "v1/job/plan", None),
            (
                "/v1/job/{id...}/versions/{v}/tag",
                "v1/job/a/versions/3/tag",
                Some("id=a v=3"),
            ),
            ("/v1/acl/{rest*}", "v1/acl", Some("rest=")),
            ("/v1/acl/{rest*}", "v1/acl/a/b", Some("rest=a/b")),
            ("/v1/acl/{rest*}", "v1", None),
        ] {
            assert_eq!(
                matched(template, path).as_deref(),
                expected,
                "{template} {path}"
            );
        }
    }
}
