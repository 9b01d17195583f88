//! `tostring` and its kin. `convert(value, type)` takes a type, not a value, and is handled where
//! calls are evaluated.

use super::arguments::at;
use super::{Answer, Arity, Failure, Function, function};
use crate::type_constraint::TypeConstraint;
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("tobool", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::Bool)
    }),
    function("tolist", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::any_list())
    }),
    function("tomap", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::any_map())
    }),
    function("tonumber", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::Number)
    }),
    function("toset", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::any_set())
    }),
    function("tostring", Arity::exactly(1), |_, a| {
        to(a, &TypeConstraint::String)
    }),
];

fn to(arguments: &[Value], wanted: &TypeConstraint) -> Answer {
    wanted
        .convert(at(arguments, 0).clone())
        .map_err(|message| Failure::argument(0, message))
}
