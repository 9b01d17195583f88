//! Templates with their expected outcomes, hostile templates, and the errors of each function.

mod corpus;
mod errors;
mod hostile;
mod known;
