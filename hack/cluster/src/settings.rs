//! What a cluster is made of: how many servers, what their files say, where programs and state are.

use std::path::PathBuf;

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Servers that form it: 1, 3 or 5.
    pub servers: usize,
    /// How long a node may be silent before it expires, as `heartbeat_silence` has it.
    pub silence: String,
    /// Lines for the block `server` of every server's file.
    pub server_block: String,
    /// Lines for the file of every server, outside of its blocks.
    pub server_lines: String,
    /// Lines for the file of every node.
    pub node_lines: String,
    /// Whether no other cluster runs beside it.
    pub alone: bool,
    /// The secret of a management token; with it, access control is on and clients show it.
    pub manager: Option<String>,
    /// The folder of the programs; without it, where [`crate::binaries::Program::path`] finds them.
    pub programs: Option<PathBuf>,
    /// The folder in which all state is kept; without it, one for temporary files.
    pub state_in: Option<PathBuf>,
}

impl Settings {
    /// `servers` servers as they come, but for the silence of nodes: with the usual 2.6 s, a node
    /// that was killed and started again can expire on a busy machine, and its tasks with it.
    pub fn of(servers: usize) -> Self {
        Self {
            servers,
            silence: "6s".to_owned(),
            server_block: String::new(),
            server_lines: String::new(),
            node_lines: String::new(),
            alone: false,
            manager: None,
            programs: None,
            state_in: None,
        }
    }

    /// The same without another cluster beside it: for tests that use all of the host's CPU.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The same with access control: the first management token has this secret, a UUID, and the
    /// clients of the cluster show it.
    #[must_use]
    pub fn with_access_control(mut self, secret: &str) -> Self {
        self.manager = Some(secret.to_owned());
        self
    }

    /// The same with another silence after which nodes expire.
    #[must_use]
    pub fn with_silence(mut self, silence: &str) -> Self {
        silence.clone_into(&mut self.silence);
        self
    }

    /// The same, with one more line in the block `server`.
    #[must_use]
    pub fn with(mut self, line: &str) -> Self {
        self.server_block.push_str("  ");
        self.server_block.push_str(line);
        self.server_block.push('\n');
        self
    }
}
