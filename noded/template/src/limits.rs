//! The limits of one rendering.

/// The limits of one rendering. A template that reaches one is refused with the limit's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the result, and of any one text in the template.
    pub output_bytes: usize,
    /// Bytes of all texts that functions return in one rendering.
    pub text_bytes: usize,
    /// Iterations of all `range` loops together.
    pub iterations: u64,
    /// Work: calls, elements of lists and maps that are built or copied.
    pub steps: u64,
    /// Nested calls of templates, weighted with the nesting inside each.
    pub depth: usize,
    /// Elements of one value, nested ones included.
    pub elements: usize,
}

impl Default for Limits {
    /// Configuration files are far below these; a hostile template reaches one within a second.
    fn default() -> Self {
        Self {
            output_bytes: 4 * 1024 * 1024,
            text_bytes: 128 * 1024 * 1024,
            iterations: 200_000,
            steps: 1_000_000,
            depth: 400,
            elements: 250_000,
        }
    }
}
