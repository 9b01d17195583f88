//! The program as its users start it, against files and against a server of canned answers.

mod acl;
mod api;
mod bootstrap;
mod dispatch;
mod drain;
mod eval_delete;
mod exec;
mod fake_server;
mod history;
mod job_files;
mod job_output;
mod login;
mod logs;
mod members;
mod monitor;
mod namespaces;
mod node_meta;
mod node_pools;
mod periodic;
mod plan;
mod snapshot;
mod stop;
mod target;
mod tls;
mod trouble;
mod variables;
mod versions;

use std::path::Path;
use std::process::{Command, Output};

/// `drover` with these arguments in `folder`, with nothing in its environment that steers it.
fn drover(folder: &Path, arguments: &[&str]) -> Output {
    drover_with(&[], folder, arguments)
}

/// The same, with these variables in its environment.
fn drover_with(environment: &[(&str, &str)], folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    for (name, _) in std::env::vars_os() {
        if let Some(name) = name.to_str()
            && (name.starts_with("NOMAD_") || name.starts_with("DROVER_"))
        {
            command.env_remove(name);
        }
    }
    command
        .envs(environment.iter().copied())
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program was built for this test")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A job file that needs nothing beside it.
const JOB: &str = r#"
variable "count" {
  type    = number
  default = 1
}

job "web" {
  group "web" {
    count = var.count
    task "server" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["1"]
      }
    }
  }
}
"#;
