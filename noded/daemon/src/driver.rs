//! What a job's `config` block may say to each driver. Unknown fields and wrong types are errors
//! that name the field.

use std::path::PathBuf;
use std::time::Duration;

use isolation::{CapabilitySet, FirstProcess};
use serde_json::{Map, Value};

use crate::config::{Drivers, HOST_IPC, HOST_PIDS, Switch};

/// A driver's configuration, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverConfig {
    /// `exec`: own root, namespaces, few capabilities.
    Exec(ExecConfig),
    /// `raw_exec`: the host as it is.
    RawExec(RawExecConfig),
    /// `mock_driver`: no process at all.
    Mock(MockConfig),
}

/// What both process drivers need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it starts, as the task sees it; the driver's default unless given.
    pub work_dir: Option<PathBuf>,
    /// `/proc/self/oom_score_adj`.
    pub oom_score_adj: i16,
}

/// `driver = "exec"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecConfig {
    /// What to run.
    pub program: Program,
    /// Capabilities of the task.
    pub capabilities: CapabilitySet,
    /// Whether it shares the host's process ids.
    pub host_pids: HostView,
    /// Whether it shares the host's IPC.
    pub host_ipc: HostView,
    /// Whether a reaper is PID 1 of its process ids, instead of the program.
    pub first_process: FirstProcess,
}

/// Whether a task has something of its own or the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostView {
    /// `private`.
    Private,
    /// `host`.
    Host,
}

/// `driver = "raw_exec"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawExecConfig {
    /// What to run.
    pub program: Program,
    /// Host variables that the task does not get.
    pub denied_envvars: Vec<String>,
}

/// `driver = "mock_driver"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MockConfig {
    /// How long it runs; for ever unless given.
    pub run_for: Option<Duration>,
    /// How it ends.
    pub exit_code: i32,
    /// Why it does not start.
    pub start_error: Option<String>,
    /// Whether another attempt may start.
    pub start_error_recoverable: bool,
    /// How long it takes to start.
    pub start_block_for: Duration,
    /// How long it goes on after it was asked to stop.
    pub kill_after: Duration,
}

/// Why a `config` block cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// No such driver, or it is switched off here.
    #[error("driver {0:?} is not available on this node")]
    Unavailable(String),
    /// A field that must be there.
    #[error("config.{0} is missing")]
    Missing(&'static str),
    /// A field with another type or an impossible value.
    #[error("config.{field}: {problem}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// A mode of the host that this node does not give to tasks.
    #[error(
        "config.{field}: \"host\" is off on this node; its operator may set driver \"exec\" \
         {{ {key} = true }}"
    )]
    HostMode {
        /// The field.
        field: &'static str,
        /// The node's key.
        key: &'static str,
    },
    /// Fields that the driver does not have.
    #[error("config has no field {0}")]
    Unknown(String),
}

impl DriverConfig {
    /// Checks the configuration of one task.
    ///
    /// # Errors
    /// The driver does not exist, or a field is missing, unknown or wrong.
    pub fn parse(driver: &str, config: &Map<String, Value>) -> Result<Self, DriverError> {
        let mut fields = Fields(config.clone());
        let parsed = match driver {
            "exec" => {
                let host_pids = view(&mut fields, "pid_mode")?;
                Self::Exec(ExecConfig {
                    program: program(&mut fields)?,
                    capabilities: capabilities(&mut fields)?,
                    host_pids,
                    host_ipc: view(&mut fields, "ipc_mode")?,
                    first_process: first_process(&mut fields, host_pids)?,
                })
            }
            "raw_exec" => Self::RawExec(RawExecConfig {
                program: program(&mut fields)?,
                denied_envvars: fields.texts("denied_envvars")?,
            }),
            "mock_driver" => Self::Mock(MockConfig {
                run_for: fields.duration("run_for")?,
                exit_code: i32::try_from(fields.number("exit_code")?.unwrap_or(0))
                    .map_err(|_| invalid("exit_code", "it does not fit"))?,
                start_error: fields.text("start_error")?,
                start_error_recoverable: fields.flag("start_error_recoverable")?.unwrap_or(false),
                start_block_for: fields.duration("start_block_for")?.unwrap_or_default(),
                kill_after: fields.duration("kill_after")?.unwrap_or_default(),
            }),
            other => return Err(DriverError::Unavailable(other.to_owned())),
        };
        fields.finish()?;
        Ok(parsed)
    }

    /// Checks what only the node's operator may allow.
    ///
    /// # Errors
    /// The task asks for a mode of the host that is off here.
    pub fn check_allowed(&self, drivers: &Drivers) -> Result<(), DriverError> {
        let (Self::Exec(exec), Some(settings)) = (self, drivers.find("exec")) else {
            return Ok(());
        };
        for (field, key, asked, allowed) in [
            ("pid_mode", HOST_PIDS, exec.host_pids, settings.host_pids),
            ("ipc_mode", HOST_IPC, exec.host_ipc, settings.host_ipc),
        ] {
            if asked == HostView::Host && allowed == Switch::Off {
                return Err(DriverError::HostMode { field, key });
            }
        }
        Ok(())
    }
}

fn invalid(field: &str, problem: impl Into<String>) -> DriverError {
    DriverError::Invalid {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

fn program(fields: &mut Fields) -> Result<Program, DriverError> {
    let command = fields
        .text("command")?
        .filter(|command| !command.is_empty())
        .ok_or(DriverError::Missing("command"))?;
    let score = fields.number("oom_score_adj")?.unwrap_or(0);
    let oom_score_adj = i16::try_from(score)
        .ok()
        .filter(|score| (0..=1000).contains(score))
        .ok_or_else(|| invalid("oom_score_adj", format!("{score} is not 0 to 1000")))?;
    let work_dir = fields.text("work_dir")?.map(PathBuf::from);
    if let Some(path) = work_dir.as_deref().filter(|path| !path.is_absolute()) {
        return Err(invalid(
            "work_dir",
            format!("{} is not absolute", path.display()),
        ));
    }
    Ok(Program {
        command,
        args: fields.texts("args")?,
        work_dir,
        oom_score_adj,
    })
}

/// Nomad's rule: a job may add only what the operator allows (its default set), and drop any.
fn capabilities(fields: &mut Fields) -> Result<CapabilitySet, DriverError> {
    let mut read = |field: &str| -> Result<CapabilitySet, DriverError> {
        let names = fields.texts(field)?;
        CapabilitySet::from_names(names.iter().map(String::as_str))
            .map_err(|error| invalid(field, error.to_string()))
    };
    let (added, dropped) = (read("cap_add")?, read("cap_drop")?);
    let allowed = CapabilitySet::TASK_DEFAULT;
    let refused = added.difference(allowed);
    if !refused.is_empty() {
        let problem = format!("this node does not allow {refused}");
        return Err(invalid("cap_add", problem));
    }
    Ok(allowed.difference(dropped).union(added))
}

fn view(fields: &mut Fields, field: &str) -> Result<HostView, DriverError> {
    match fields.text(field)?.as_deref() {
        None | Some("" | "private") => Ok(HostView::Private),
        Some("host") => Ok(HostView::Host),
        Some(other) => Err(invalid(
            field,
            format!("{other:?} is neither private nor host"),
        )),
    }
}

/// `init = true`: only where there is a PID 1 to be.
fn first_process(fields: &mut Fields, host_pids: HostView) -> Result<FirstProcess, DriverError> {
    match (fields.flag("init")?.unwrap_or(false), host_pids) {
        (false, _) => Ok(FirstProcess::Program),
        (true, HostView::Private) => Ok(FirstProcess::Reaper),
        (true, HostView::Host) => Err(invalid(
            "init",
            "it needs process ids of the task's own, and pid_mode is host",
        )),
    }
}

/// Fields that were not read yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&mut self, field: &str) -> Result<Option<String>, DriverError> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => scalar(field, &value).map(Some),
        }
    }

    fn texts(&mut self, field: &str) -> Result<Vec<String>, DriverError> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(offset, item)| scalar(&format!("{field}[{offset}]"), item))
                .collect(),
            Some(_) => Err(invalid(field, "it must be a list of texts")),
        }
    }

    fn number(&mut self, field: &str) -> Result<Option<i64>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| invalid(field, format!("{text:?} is not a whole number"))),
        }
    }

    fn flag(&mut self, field: &str) -> Result<Option<bool>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| invalid(field, format!("{text:?} is neither true nor false"))),
        }
    }

    fn duration(&mut self, field: &str) -> Result<Option<Duration>, DriverError> {
        match self.text(field)? {
            None => Ok(None),
            Some(text) => protocol_model::duration::parse_go(&text)
                .map(Some)
                .map_err(|error| invalid(field, error.to_string())),
        }
    }

    fn finish(self) -> Result<(), DriverError> {
        let names: Vec<String> = self.0.keys().map(|name| format!("{name:?}")).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(DriverError::Unknown(names.join(", ")))
        }
    }
}

/// HCL converts between numbers, booleans and texts; so do drivers.
fn scalar(field: &str, value: &Value) -> Result<String, DriverError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(invalid(field, "it must be a text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(driver: &str, config: Value) -> Result<DriverConfig, String> {
        let Value::Object(config) = config else {
            return Err("no object".to_owned());
        };
        DriverConfig::parse(driver, &config).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_is_read_with_its_arguments() {
        let parsed = parse(
            "raw_exec",
            json!({"command": "sh", "args": ["-c", 1, true]}),
        );
        let Ok(DriverConfig::RawExec(config)) = parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!(config.program.args, ["-c", "1", "true"]);
    }

    #[test]
    fn mistakes_name_their_field() {
        for (driver, config, expected) in [
            ("exec", json!({}), "config.command is missing"),
            ("exec", json!({"command": ""}), "config.command is missing"),
            ("exec", json!({"command": "a", "args": "b"}), "config.args"),
            (
                "exec",
                json!({"command": "a", "args": [{}]}),
                "config.args[0]",
            ),
            (
                "exec",
                json!({"command": "a", "image": "b"}),
                "no field \"image\"",
            ),
            (
                "exec",
                json!({"command": "a", "cap_add": ["sys_admin"]}),
                "config.cap_add",
            ),
            (
                "exec",
                json!({"command": "a", "cap_drop": ["nope"]}),
                "config.cap_drop",
            ),
            (
                "exec",
                json!({"command": "a", "pid_mode": "own"}),
                "config.pid_mode",
            ),
            (
                "exec",
                json!({"command": "a", "init": true, "pid_mode": "host"}),
                "config.init",
            ),
            (
                "raw_exec",
                json!({"command": "a", "init": true}),
                "no field \"init\"",
            ),
            (
                "raw_exec",
                json!({"command": "a", "work_dir": "b"}),
                "config.work_dir",
            ),
            (
                "raw_exec",
                json!({"command": "a", "cap_add": []}),
                "no field \"cap_add\"",
            ),
            ("docker", json!({}), "\"docker\" is not available"),
        ] {
            let error = parse(driver, config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn modes_of_the_host_are_off_until_the_node_allows_them() {
        let drivers = |allow: &str| {
            let text = format!(
                "data_dir = \"/d\"\nservers = [\"a\"]\ntls {{\n ca_file = \"/a\"\n cert_file = \
                 \"/b\"\n key_file = \"/c\"\n}}\ndriver \"exec\" {{\n{allow}\n}}"
            );
            let file = crate::config::ConfigFile::parse(&text).unwrap();
            crate::config::Config::from_file(file).unwrap().drivers
        };
        for (field, key) in [
            ("pid_mode", "allow_host_pid_mode"),
            ("ipc_mode", "allow_host_ipc_mode"),
        ] {
            let asked = parse("exec", json!({"command": "a", field: "host"})).unwrap();
            let refused = asked.check_allowed(&drivers("")).unwrap_err().to_string();
            assert!(refused.contains(&format!("config.{field}")), "{refused}");
            assert!(refused.contains(&format!("{key} = true")), "{refused}");
            let allowed = asked.check_allowed(&drivers(&format!("{key} = true")));
            assert_eq!(allowed, Ok(()));
            let private = parse("exec", json!({"command": "a", field: "private"})).unwrap();
            assert_eq!(private.check_allowed(&drivers("")), Ok(()));
        }
    }

    #[test]
    fn a_task_is_its_own_first_process_unless_it_asks_for_another() {
        for (init, expected) in [
            (json!(null), FirstProcess::Program),
            (json!(false), FirstProcess::Program),
            (json!("true"), FirstProcess::Reaper),
        ] {
            let parsed = parse("exec", json!({"command": "a", "init": init}));
            let Ok(DriverConfig::Exec(config)) = parsed else {
                panic!("{parsed:?}");
            };
            assert_eq!(config.first_process, expected);
        }
    }

    #[test]
    fn capabilities_are_dropped_before_some_come_back() {
        let parsed = parse(
            "exec",
            json!({"command": "a", "cap_drop": ["all"], "cap_add": ["chown"]}),
        );
        let Ok(DriverConfig::Exec(config)) = parsed else {
            panic!("{parsed:?}");
        };
        let expected = CapabilitySet::from_names(["chown"]).unwrap();
        assert_eq!(config.capabilities, expected);
    }
}
