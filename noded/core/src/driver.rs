//! What the core and its shell know of a driver, whatever its name.

/// What tasks of a driver are, and what they may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverCapabilities {
    /// What a task sees as `/`.
    pub root: TaskRoot,
    /// What it can do besides.
    pub abilities: &'static [Ability],
}

impl DriverCapabilities {
    /// Those of a driver of programs, without anything that not every one can do.
    #[must_use]
    pub const fn of(root: TaskRoot) -> Self {
        Self {
            root,
            abilities: &[Ability::Processes],
        }
    }

    /// Whether the driver has an ability.
    #[must_use]
    pub fn has(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }
}

/// Something that not every driver can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// A task is a process of this host, with directories and output, in keeper's custody.
    Processes,
    /// A task may be without the host's network: `network { mode = "none" }`.
    NoNetwork,
    /// A task may mount the volumes of its group.
    Volumes,
    /// A task gets no more memory than its resources say.
    MemoryLimit,
}

/// What a task sees as `/`, and with it how its directories are named in its environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskRoot {
    /// Its own directory: `/alloc`, `/local`, `/secrets` (`exec`).
    OwnRoot,
    /// The host's file system: host paths (`raw_exec`).
    Host,
}
