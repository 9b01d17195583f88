//! Rendering templates into the directories of their allocation.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use noded_core::driver::TaskRoot;
use noded_core::effect::{PrepareTask, PreparedTemplate};
use noded_jail::{Render, Rendering};
use noded_template::{Dependency, Known, MissingKey, Time};
use protocol_error_chain::chain;
use protocol_model::{Task, Template};
use rustix::fs::OFlags;

use super::Executor;
use super::prepare::Failed;
use crate::alloc_dir::FileAttributes;
use crate::clock;
use crate::template::{self, PASSES_MAX, TEMPLATE_BYTES_MAX};

/// The time of one rendering. Its processor time has a lower limit, so this means that the host is
/// busy.
const RENDER_MAX: Duration = Duration::from_secs(5);

/// What the `exec` driver shows of its own in every task's root.
const OWN_MOUNTS: [&str; 5] = ["/alloc", "/dev", "/private", "/proc", "/sys"];

impl Executor {
    /// Renders the templates; returns what they add to the environment. Blocks.
    pub(super) fn templates(
        &self,
        prepare: &PrepareTask,
        task: &Task,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let mut environment = prepare.environment.clone();
        let mut added = BTreeMap::new();
        for prepared in &prepare.templates {
            let Some(template) = task.templates.get(prepared.offset) else {
                continue;
            };
            let subject = |problem: String| {
                Failed::hopeless(format!("template {:?}: {problem}", template.dest_path()))
            };
            let text = self.source(prepare, prepared, template).map_err(subject)?;
            let rendered = self.rendered(prepare, task, template, text, &environment);
            let rendered = rendered
                .map_err(|failed| failed.about(&format!("template {:?}", template.dest_path())))?;
            let attributes = attributes(template).map_err(subject)?;
            let path = Path::new(&prepared.destination);
            if !template.envvars() {
                self.check_visible(prepare, task, path).map_err(subject)?;
            }
            self.allocs
                .write_file(prepare.run.alloc, path, rendered.as_bytes(), attributes)
                .map_err(|error| subject(chain(&error)))?;
            if template.envvars() {
                let variables =
                    template::environment_of(&rendered).map_err(|error| subject(chain(&error)))?;
                environment.extend(variables.clone());
                added.extend(variables);
            }
        }
        Ok(added)
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

    /// Renders one template, and again for as long as it names files that it has not had.
    fn rendered(
        &self,
        prepare: &PrepareTask,
        task: &Task,
        template: &Template,
        text: String,
        environment: &BTreeMap<String, String>,
    ) -> Result<String, Failed> {
        let job = prepare.spec.job();
        let mut work = Render {
            text,
            left_delimiter: template.left_delim().to_owned(),
            right_delimiter: template.right_delim.clone().unwrap_or_default(),
            missing_key: match template.err_missing_key {
                Some(true) => MissingKey::Error,
                Some(false) | None => MissingKey::Zero,
            },
            known: Known {
                environment: environment.clone(),
                namespace: job.namespace.clone(),
                region: job.region.clone(),
                now: time(clock::wall().0),
                ..Known::default()
            },
        };
        let base = self.allocs.path_of(prepare.run.alloc);
        for _ in 0..PASSES_MAX {
            let never = std::future::pending();
            let rendering = self.jail.run(&work, RENDER_MAX, never, |_| {});
            let rendering = tokio::runtime::Handle::current().block_on(rendering);
            let missing = match rendering.map_err(|error| Failed::of_jail(&error))? {
                Rendering::Rendered(text) => return Ok(text),
                Rendering::Missing(missing) => missing,
            };
            for dependency in missing {
                let Dependency::File(path) = dependency else {
                    return Err(Failed::hopeless(format!(
                        "Missing: {dependency}: this release has no variables and no services"
                    )));
                };
                let below = template::file_below(&base, &task.name, &path).ok_or_else(|| {
                    Failed::hopeless(format!(
                        "file {path:?} is in neither the task's directory nor the allocation's \
                         shared one"
                    ))
                })?;
                let bytes = self
                    .bytes_of(prepare, &below)
                    .map_err(|problem| Failed::hopeless(format!("file {path:?}: {problem}")))?;
                work.known.files.insert(path, bytes);
            }
        }
        Err(Failed::hopeless(format!(
            "it names new files in each of {PASSES_MAX} renderings"
        )))
    }

    /// A file beneath something that is mounted over it is written, and never seen by the task:
    /// that must not pass in silence.
    pub(super) fn check_visible(
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
