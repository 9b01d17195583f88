//! Between messages and domain types. What comes from a peer is checked here: a wrong length or an
//! unknown enum value is an error that names the field, never a default.
