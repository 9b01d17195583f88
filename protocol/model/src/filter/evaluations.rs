//! An expression compiled to the fields of [`Evaluation`], for the replicated log and for counts.
//!
//! A filter in the log must mean the same on every server, so nothing here depends on the JSON that
//! a release writes: the fields are listed below, and `tests/golden/eval_filter.txt` freezes
//! verdicts. All mistakes are found when the expression is compiled; asking an evaluation costs no
//! allocation.

use std::fmt;

use regex::Regex;
use uuid::Uuid;

use super::eval::{WantedNumber, flag, shown};
use super::parse::{Expression, Operator, Selector};
use super::{Filter, FilterError};
use crate::eval::Evaluation;
use crate::instant::{UnixNanos, format_rfc3339};

/// An expression about evaluations.
pub struct EvalFilter(Node);

type Test = Box<dyn Fn(&Evaluation) -> bool + Send + Sync>;

enum Node {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Test(Test),
}

/// How a field is read.
#[derive(Clone, Copy)]
enum Field {
    Text(fn(&Evaluation) -> &str),
    /// Absent is the empty text, as the API shows it.
    Id(fn(&Evaluation) -> Option<Uuid>),
    /// RFC 3339, or nothing.
    Time(fn(&Evaluation) -> Option<UnixNanos>),
    Number(fn(&Evaluation) -> i128),
    Flag(fn(&Evaluation) -> bool),
    /// A map by text: whether it has a key, and whether it is empty.
    Map {
        has: fn(&Evaluation, &str) -> bool,
        is_empty: fn(&Evaluation) -> bool,
    },
}

impl EvalFilter {
    /// Reads an expression about evaluations.
    ///
    /// # Errors
    /// Where it is none, names a field that evaluations do not have, or asks a field what it cannot
    /// answer. Members of `FailedTGAllocs` cannot be asked; those of the other maps can.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let Filter(expression) = Filter::parse(text)?;
        Ok(Self(compile(expression)?))
    }

    /// Whether the expression holds for an evaluation.
    pub fn keeps(&self, eval: &Evaluation) -> bool {
        self.0.holds(eval)
    }
}

impl fmt::Debug for EvalFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EvalFilter(..)")
    }
}

impl Node {
    fn holds(&self, eval: &Evaluation) -> bool {
        match self {
            Self::Or(parts) => parts.iter().any(|part| part.holds(eval)),
            Self::And(parts) => parts.iter().all(|part| part.holds(eval)),
            Self::Not(inner) => !inner.holds(eval),
            Self::Test(test) => test(eval),
        }
    }
}

fn compile(expression: Expression) -> Result<Node, FilterError> {
    let all = |parts: Vec<Expression>| -> Result<Vec<Node>, FilterError> {
        parts.into_iter().map(compile).collect()
    };
    Ok(match expression {
        Expression::Or(parts) => Node::Or(all(parts)?),
        Expression::And(parts) => Node::And(all(parts)?),
        Expression::Not(inner) => Node::Not(Box::new(compile(*inner)?)),
        Expression::Match(selector, operator) => Node::Test(test(&selector, operator)?),
    })
}

fn test(selector: &Selector, operator: Operator) -> Result<Test, FilterError> {
    let names: Vec<&str> = selector.0.iter().map(String::as_str).collect();
    let refused = |(kind, why): (&'static str, String)| FilterError::Kind {
        selector: shown(selector),
        kind,
        why,
    };
    let unknown = || FilterError::Selector(shown(selector));
    match names.as_slice() {
        [name] => field_test(field(name).ok_or_else(unknown)?, operator).map_err(refused),
        ["QueuedAllocations", group] => {
            let group = (*group).to_owned();
            let get = move |eval: &Evaluation| {
                let queued = eval.queued_allocations.get(&group);
                queued.map(|count| i128::from(*count))
            };
            Ok(member_test(number_test(operator).map_err(refused)?, get))
        }
        ["ClassEligibility", class] => {
            let class = (*class).to_owned();
            let get = move |eval: &Evaluation| eval.class_eligibility.get(&class).copied();
            Ok(member_test(flag_test(operator).map_err(refused)?, get))
        }
        ["FailedTGAllocs", _, ..] => {
            let why = "its members can be asked by the list of evaluations only";
            Err(refused(("an object", why.to_owned())))
        }
        _ => Err(unknown()),
    }
}

fn field(name: &str) -> Option<Field> {
    Some(match name {
        "ID" => Field::Id(|it| Some(it.id.0)),
        "Namespace" => Field::Text(|it| &it.namespace),
        "Priority" => Field::Number(|it| i128::from(it.priority)),
        "Type" => Field::Text(|it| it.job_type.as_str()),
        "TriggeredBy" => Field::Text(|it| it.triggered_by.as_str()),
        "JobID" => Field::Text(|it| &it.job_id),
        "JobModifyIndex" => Field::Number(|it| i128::from(it.job_modify_index)),
        "NodeID" => Field::Id(|it| it.node_id.map(|id| id.0)),
        "NodeModifyIndex" => Field::Number(|it| i128::from(it.node_modify_index)),
        "DeploymentID" => Field::Id(|it| it.deployment_id.map(|id| id.0)),
        "Status" => Field::Text(|it| it.status.as_str()),
        "StatusDescription" => Field::Text(|it| &it.status_description),
        "WaitUntil" => Field::Time(|it| it.wait_until),
        "NextEval" => Field::Id(|it| it.next_eval.map(|id| id.0)),
        "PreviousEval" => Field::Id(|it| it.previous_eval.map(|id| id.0)),
        "BlockedEval" => Field::Id(|it| it.blocked_eval.map(|id| id.0)),
        "FailedTGAllocs" => Field::Map {
            has: |it, key| it.failed_tg_allocs.contains_key(key),
            is_empty: |it| it.failed_tg_allocs.is_empty(),
        },
        "ClassEligibility" => Field::Map {
            has: |it, key| it.class_eligibility.contains_key(key),
            is_empty: |it| it.class_eligibility.is_empty(),
        },
        "EscapedComputedClass" => Field::Flag(|it| it.escaped_computed_class),
        "QuotaLimitReached" => Field::Text(|it| &it.quota_limit_reached),
        "AnnotatePlan" => Field::Flag(|it| it.annotate_plan),
        "QueuedAllocations" => Field::Map {
            has: |it, key| it.queued_allocations.contains_key(key),
            is_empty: |it| it.queued_allocations.is_empty(),
        },
        "SnapshotIndex" => Field::Number(|it| i128::from(it.snapshot_index)),
        "CreateTime" => Field::Number(|it| i128::from(it.create_time.0)),
        "ModifyTime" => Field::Number(|it| i128::from(it.modify_time.0)),
        "CreateIndex" => Field::Number(|it| i128::from(it.create_index)),
        "ModifyIndex" => Field::Number(|it| i128::from(it.modify_index)),
        _ => return None,
    })
}

/// The kind of a field, and why it cannot be asked so.
type Refused = (&'static str, String);

fn field_test(field: Field, operator: Operator) -> Result<Test, Refused> {
    Ok(match field {
        Field::Text(get) => {
            let test = text_test(operator);
            Box::new(move |eval| test(get(eval)))
        }
        Field::Id(get) => id_test(get, operator),
        Field::Time(get) => {
            let absent = matches!(operator, Operator::IsEmpty);
            let test = text_test(operator);
            Box::new(move |eval| get(eval).map_or(absent, |at| test(&format_rfc3339(at))))
        }
        Field::Number(get) => {
            let number = number_test(operator)?;
            let test = number.filled("a number")?;
            Box::new(move |eval| test(get(eval)))
        }
        Field::Flag(get) => {
            let flag = flag_test(operator)?;
            let test = flag.filled("true or false")?;
            Box::new(move |eval| test(get(eval)))
        }
        Field::Map { has, is_empty } => match operator {
            Operator::Contains(key) => Box::new(move |eval| has(eval, &key)),
            Operator::IsEmpty => Box::new(is_empty),
            Operator::Equal(text) => {
                return Err(("an object", format!("it cannot equal {text:?}")));
            }
            Operator::Matches(_) => return Err(("an object", ONLY_TEXT.to_owned())),
        },
    })
}

const ONLY_TEXT: &str = "only a text can be matched";

fn text_test(operator: Operator) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
    match operator {
        Operator::Equal(wanted) => Box::new(move |text| text == wanted),
        Operator::Contains(part) => Box::new(move |text| text.contains(&part)),
        Operator::Matches(regex) => Box::new(move |text| Regex::is_match(&regex, text)),
        Operator::IsEmpty => Box::new(str::is_empty),
    }
}

/// Ids are compared as numbers; they are written out only to be searched or matched.
fn id_test(get: fn(&Evaluation) -> Option<Uuid>, operator: Operator) -> Test {
    if let Operator::Equal(text) = &operator {
        if text.is_empty() {
            return Box::new(move |eval| get(eval).is_none());
        }
        let written = |id: &Uuid| id.as_hyphenated().to_string() == *text;
        let Some(wanted) = Uuid::parse_str(text).ok().filter(written) else {
            return Box::new(|_| false);
        };
        return Box::new(move |eval| get(eval) == Some(wanted));
    }
    if matches!(operator, Operator::IsEmpty) {
        return Box::new(move |eval| get(eval).is_none());
    }
    let test = text_test(operator);
    Box::new(move |eval| {
        let mut buffer = Uuid::encode_buffer();
        let text = get(eval).map(|id| &*id.as_hyphenated().encode_lower(&mut buffer));
        test(text.unwrap_or(""))
    })
}

/// A test of a value that may be absent: then only "is empty" holds.
enum Member<T> {
    IsEmpty,
    Value(Box<dyn Fn(T) -> bool + Send + Sync>),
}

impl<T> Member<T> {
    /// The test of a value that is always there, and never empty.
    fn filled(self, kind: &'static str) -> Result<Box<dyn Fn(T) -> bool + Send + Sync>, Refused> {
        match self {
            Self::IsEmpty => Err((kind, "it cannot be empty".to_owned())),
            Self::Value(test) => Ok(test),
        }
    }
}

fn member_test<T: 'static>(
    test: Member<T>,
    get: impl Fn(&Evaluation) -> Option<T> + Send + Sync + 'static,
) -> Test {
    match test {
        Member::IsEmpty => Box::new(move |eval| get(eval).is_none()),
        Member::Value(test) => Box::new(move |eval| get(eval).is_some_and(&test)),
    }
}

fn number_test(operator: Operator) -> Result<Member<i128>, Refused> {
    let kind = "a number";
    match operator {
        Operator::Equal(text) => {
            let wanted = WantedNumber::parse(&text).map_err(|why| (kind, why))?;
            Ok(Member::Value(Box::new(move |known| match wanted {
                WantedNumber::Whole(wanted) => known == wanted,
                fraction @ WantedNumber::Fraction(_) => {
                    WantedNumber::Whole(known).fraction() == fraction.fraction()
                }
            })))
        }
        Operator::IsEmpty => Ok(Member::IsEmpty),
        Operator::Contains(_) => Err((kind, "nothing can be in it".to_owned())),
        Operator::Matches(_) => Err((kind, ONLY_TEXT.to_owned())),
    }
}

fn flag_test(operator: Operator) -> Result<Member<bool>, Refused> {
    let kind = "true or false";
    match operator {
        Operator::Equal(text) => {
            let wanted = flag(&text).map_err(|why| (kind, why))?;
            Ok(Member::Value(Box::new(move |known| known == wanted)))
        }
        Operator::IsEmpty => Ok(Member::IsEmpty),
        Operator::Contains(_) => Err((kind, "nothing can be in it".to_owned())),
        Operator::Matches(_) => Err((kind, ONLY_TEXT.to_owned())),
    }
}
