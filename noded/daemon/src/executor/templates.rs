//! Rendering templates into the directories of their allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use noded_core::driver::TaskRoot;
use noded_core::effect::{PrepareTask, PreparedTemplate};
use noded_jail::{Render, Rendering};
use noded_template::{Dependency, Known, MissingKey, Time};
use protocol_error_chain::chain;
use protocol_model::{Task, Template};
use rustix::fs::OFlags;
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::prepare::Failed;
use crate::alloc_dir::FileAttributes;
use crate::clock;
use crate::template::{self, PASSES_MAX, TEMPLATE_BYTES_MAX};

/// The time of one rendering. Its processor time has a lower limit, so this means that the host is
/// busy.
const RENDER_MAX: Duration = Duration::from_secs(5);

/// The specification has no such template, or no such task.
const NOT_THERE: &str = "the job has no such template";

/// What the `exec` driver shows of its own in every task's root.
const OWN_MOUNTS: [&str; 5] = ["/alloc", "/dev", "/private", "/proc", "/sys"];

impl Executor {
    /// Renders the templates; returns what they add to the environment.
    pub(super) async fn templates(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let mut environment = prepare.environment.clone();
        let mut added = BTreeMap::new();
        for index in 0..prepare.templates.len() {
            let Some((_, template)) = at(prepare, index) else {
                continue;
            };
            let subject = format!("template {:?}", template.dest_path());
            let variables = self.template(prepare, index, environment.clone(), cancel);
            let variables = variables.await.map_err(|failed| failed.about(&subject))?;
            environment.extend(variables.clone());
            added.extend(variables);
        }
        Ok(added)
    }

    /// Renders one template, and again for as long as it names files that it has not had.
    async fn template(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        index: usize,
        environment: BTreeMap<String, String>,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let job = Arc::clone(prepare);
        let begun = self.blocking(move |own| own.begin(&job, index, environment));
        let mut work = begun.await.map_err(Failed::hopeless)?;
        for _ in 0..PASSES_MAX {
            let rendering = self.jail.run(&work, RENDER_MAX, cancel.cancelled(), |_| {});
            let job = Arc::clone(prepare);
            match rendering.await.map_err(|error| Failed::of_jail(&error))? {
                Rendering::Rendered(text) => {
                    let written = self.blocking(move |own| own.finish(&job, index, &text));
                    return written.await.map_err(Failed::hopeless);
                }
                Rendering::Missing(missing) => {
                    let learnt = self.blocking(move |own| own.learn(&job, work, missing));
                    work = learnt.await.map_err(Failed::hopeless)?;
                }
            }
        }
        Err(Failed::hopeless(format!(
            "it names new files in each of {PASSES_MAX} renderings"
        )))
    }

    /// The first rendering's request. Blocks.
    fn begin(
        &self,
        prepare: &PrepareTask,
        index: usize,
        environment: BTreeMap<String, String>,
    ) -> Result<Render, String> {
        let (prepared, template) = at(prepare, index).ok_or(NOT_THERE)?;
        let job = prepare.spec.job();
        Ok(Render {
            text: self.source(prepare, prepared, template)?,
            left_delimiter: template.left_delim().to_owned(),
            right_delimiter: template.right_delim.clone().unwrap_or_default(),
            missing_key: match template.err_missing_key {
                Some(true) => MissingKey::Error,
                Some(false) | None => MissingKey::Zero,
            },
            known: Known {
                environment,
                namespace: job.namespace.clone(),
                region: job.region.clone(),
                now: time(clock::wall().0),
                ..Known::default()
            },
        })
    }

    /// The next rendering's request: the same with the data that was missing. Blocks.
    fn learn(
        &self,
        prepare: &PrepareTask,
        mut work: Render,
        missing: BTreeSet<Dependency>,
    ) -> Result<Render, String> {
        let base = self.allocs.path_of(prepare.run.alloc);
        for dependency in missing {
            let Dependency::File(path) = dependency else {
                return Err(format!(
                    "Missing: {dependency}: this release has no variables and no services"
                ));
            };
            let below = template::file_below(&base, &prepare.run.task, &path);
            let below = below.ok_or_else(|| {
                format!(
                    "file {path:?} is in neither the task's directory nor the allocation's shared \
                     one"
                )
            })?;
            let bytes = self.bytes_of(prepare, &below);
            let bytes = bytes.map_err(|problem| format!("file {path:?}: {problem}"))?;
            work.known.files.insert(path, bytes);
        }
        Ok(work)
    }

    /// Writes the result; returns what it adds to the environment. Blocks.
    fn finish(
        &self,
        prepare: &PrepareTask,
        index: usize,
        rendered: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let (prepared, template) = at(prepare, index).ok_or(NOT_THERE)?;
        let task = prepare.spec.task(&prepare.run.task).ok_or(NOT_THERE)?;
        let attributes = attributes(template)?;
        let path = Path::new(&prepared.destination);
        if !template.envvars() {
            self.check_visible(prepare, task, path)?;
        }
        self.allocs
            .write_file(prepare.run.alloc, path, rendered.as_bytes(), attributes)
            .map_err(|error| chain(&error))?;
        if template.envvars() {
            template::environment_of(rendered).map_err(|error| chain(&error))
        } else {
            Ok(BTreeMap::new())
        }
    }

    fn source(
        &self,
        prepare: &PrepareTask,
        prepared: &PreparedTemplate,
        template: &Template,
    ) -> Result<String, String> {
        let Some(source) = &prepared.source else {
            return Ok(template.embedded_tmpl().to_owned());
        };
        let base = self.allocs.path_of(prepare.run.alloc);
        let bytes = self.bytes_of(prepare, source_below(&base, source)?)?;
        String::from_utf8(bytes).map_err(|_| format!("source {source:?} is not UTF-8"))
    }

    /// A file beneath the allocation's directory, not followed out of it by links.
    fn bytes_of(&self, prepare: &PrepareTask, below: &Path) -> Result<Vec<u8>, String> {
        // Not to wait for a writer, where a task made a pipe of the file.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = self
            .allocs
            .open_beneath(prepare.run.alloc, below, flags)
            .map_err(|error| chain(&error))?;
        let file = std::fs::File::from(file);
        let about = file.metadata().map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err(format!("{} is not a regular file", below.display()));
        }
        let mut bytes = Vec::new();
        let limit = TEMPLATE_BYTES_MAX as u64 + 1;
        std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() > TEMPLATE_BYTES_MAX {
            let path = below.display();
            return Err(format!("{path} is larger than {TEMPLATE_BYTES_MAX} bytes"));
        }
        Ok(bytes)
    }

    /// A file beneath something that is mounted over it is written, and never seen by the task:
    /// that must not pass in silence.
    fn check_visible(
        &self,
        prepare: &PrepareTask,
        task: &Task,
        destination: &Path,
    ) -> Result<(), String> {
        let config = self.config.now();
        let driver = config.drivers.find(&task.driver);
        if driver.is_none_or(|driver| driver.root() == TaskRoot::Host) {
            return Ok(());
        }
        let root = self.allocs.path_of(prepare.run.alloc).join(&task.name);
        let Ok(below) = destination.strip_prefix(&root) else {
            return Ok(());
        };
        let seen = Path::new("/").join(below);
        let host = config.chroot_paths.iter().filter(|path| path.exists());
        let volumes = task.volume_mounts.iter().filter_map(|mount| {
            let destination = mount.destination.as_deref().filter(|path| !path.is_empty());
            destination.map(|path| Path::new("/").join(path))
        });
        let over = OWN_MOUNTS.iter().map(PathBuf::from);
        match over
            .chain(host.cloned())
            .chain(volumes)
            .find(|mounted| seen.starts_with(mounted))
        {
            None => Ok(()),
            Some(mounted) => Err(format!(
                "the task would not see it: {} is mounted over its directory; name a place below \
                 local, secrets or /alloc",
                mounted.display()
            )),
        }
    }
}

/// A template of the preparation with the job's.
fn at(prepare: &PrepareTask, index: usize) -> Option<(&PreparedTemplate, &Template)> {
    let prepared = prepare.templates.get(index)?;
    let task = prepare.spec.task(&prepare.run.task)?;
    Some((prepared, task.templates.get(prepared.offset)?))
}

/// Nanoseconds since 1970 in parts.
fn time(nanoseconds: i64) -> Time {
    Time {
        seconds: nanoseconds.div_euclid(1_000_000_000),
        nanoseconds: u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}

fn attributes(template: &Template) -> Result<FileAttributes, String> {
    let mode = template
        .mode_bits()
        .ok_or_else(|| format!("perms {:?} are not octal", template.perms))?;
    let id = |given: Option<i32>| given.and_then(|id| u32::try_from(id).ok());
    let (uid, gid) = (id(template.uid), id(template.gid));
    let owner = (uid.is_some() || gid.is_some()).then(|| {
        (
            uid.map(rustix::process::Uid::from_raw),
            gid.map(rustix::process::Gid::from_raw),
        )
    });
    Ok(FileAttributes { mode, owner })
}

/// A source's path below the allocation's directory. The `..` that noded-core leaves lead to other
/// tasks, or out of the allocation.
fn source_below<'s>(base: &Path, source: &'s str) -> Result<&'s Path, String> {
    let below = Path::new(source).strip_prefix(base).ok();
    let is_own = |path: &&Path| !path.components().any(|part| part == Component::ParentDir);
    below.filter(is_own).ok_or_else(|| {
        format!(
            "source {source:?} is in neither the task's directory nor the allocation's shared one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_s_source_is_never_another_task_s_file() {
        let base = Path::new("/allocs/a");
        for (source, below) in [
            ("/allocs/a/web/local/x", Some("web/local/x")),
            ("/allocs/a/alloc/x", Some("alloc/x")),
            ("/allocs/a/web/../db/secrets/x", None),
            ("/allocs/a/web/../../b/x", None),
            ("/etc/passwd", None),
        ] {
            let found = source_below(base, source);
            assert_eq!(found.ok(), below.map(Path::new), "{source}");
        }
    }
}
