//! `drover node pool init`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::session::Session;

const HCL: &str = r#"node_pool "example" {
  description = "Example node pool"

  # Key-value pairs for people and tools. The scheduler does not read them.
  meta {
    environment = "prod"
    owner       = "sre"
  }

  # Settings for jobs of this pool, each in place of the cluster's, which
  # `drover operator scheduler get-config` shows.
  #
  # scheduler_config {
  #   # How nodes are filled: binpack or spread.
  #   scheduler_algorithm = "spread"
  #
  #   # Whether tasks may use more memory than they reserve, up to memory_max.
  #   memory_oversubscription_enabled = true
  # }
}
"#;

const JSON: &str = r#"{
  "Name": "example",
  "Description": "Example node pool",
  "Meta": {
    "environment": "prod",
    "owner": "sre"
  },
  "SchedulerConfiguration": null
}
"#;

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The file; pool.nomad.hcl or pool.nomad.json unless given
    #[arg(value_name = "FILE")]
    path: Option<PathBuf>,
    /// The file's format
    #[arg(long, value_enum, default_value = "hcl", value_name = "FORMAT")]
    out: Format,
    /// Without a word about success
    #[arg(long)]
    quiet: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    Hcl,
    Json,
}

impl Init {
    pub(super) fn run(self, session: &Session) -> Result<(), Failure> {
        let (default, text) = match self.out {
            Format::Hcl => ("pool.nomad.hcl", HCL),
            Format::Json => ("pool.nomad.json", JSON),
        };
        let path = self.path.unwrap_or_else(|| PathBuf::from(default));
        let shown = path.display().to_string();
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Failure::usage(format!("File {shown:?} already exists")));
            }
            Err(source) => return Err(Failure::WriteFile { path, source }),
        };
        file.write_all(text.as_bytes())
            .map_err(|source| Failure::WriteFile { path, source })?;
        if self.quiet {
            return Ok(());
        }
        let text = format!("Example node pool specification written to {shown}");
        session.out.data(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_node_pools() {
        let pool = protocol_jobspec::parse_pool("pool.nomad.hcl", HCL).expect("a pool");
        assert_eq!(pool["Name"], "example");
        // The commented lines are right too.
        let (before, settings) = HCL.split_once("  # scheduler_config").expect("settings");
        let lines = settings.lines();
        let lines: Vec<&str> = lines
            .map(|line| line.strip_prefix("  #").unwrap_or(line))
            .collect();
        let whole = format!("{before}  scheduler_config{}", lines.join("\n"));
        let pool = protocol_jobspec::parse_pool("pool.nomad.hcl", &whole).expect("a pool");
        let scheduler = &pool["SchedulerConfiguration"];
        assert_eq!(scheduler["MemoryOversubscriptionEnabled"], true);
        let pool: serde_json::Value = serde_json::from_str(JSON).expect("JSON");
        assert_eq!(pool["Name"], "example");
    }
}
