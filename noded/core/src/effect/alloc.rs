//! The steps of preparing an allocation.

/// A step of preparing an allocation, in the order in which they are listed. Their results are
/// undone in reverse by `RetireAlloc` and `DestroyAlloc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AllocHook {
    /// Make its directories.
    Directory,
    /// Make its network namespace, with an address and its mapped ports.
    Network,
}

impl AllocHook {
    /// The sentence of tasks and of the allocation when it failed.
    pub fn failure(self) -> &'static str {
        match self {
            Self::Directory => "The directories of the allocation could not be made",
            Self::Network => "The network of the allocation could not be made",
        }
    }
}
