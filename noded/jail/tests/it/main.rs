//! The program as noded meets it, and the restrictions with a control that has none.

mod confinement;
mod golden;
mod program;
