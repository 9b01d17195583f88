//! placeholder
#[derive(Debug)]
pub struct NodeCore;
