//! Rendering templates into the directories of their allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use noded_core::driver::TaskRoot;
use noded_core::effect::{PrepareTask, PreparedTemplate, Rendering};
use noded_jail::Render;
use noded_template::{Dependency, Known, MissingKey, Time};
use protocol_error_chain::chain;
use protocol_model::{AllocId, Task, Template};
use rustix::fs::OFlags;
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::prepare::Failed;
use crate::alloc_dir::FileAttributes;
use crate::clock;
use crate::template::{self, PASSES_MAX, TEMPLATE_BYTES_MAX};
use crate::template_watch::{FileMark, Sources};
use crate::variables::Source;

/// The time of one rendering. Its processor time has a lower limit, so this means that the host is
/// busy.
const RENDER_MAX: Duration = Duration::from_secs(5);

/// What the `exec` driver shows of its own in every task's root.
const OWN_MOUNTS: [&str; 5] = ["/alloc", "/dev", "/private", "/proc", "/sys"];

/// One rendering of a task's templates.
#[derive(Debug)]
pub(super) struct TemplateWork<'a> {
    pub(super) prepare: &'a PrepareTask,
    pub(super) task: &'a Task,
    pub(super) cancel: &'a CancellationToken,
}

/// A template of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskTemplate<'a> {
    pub(super) prepared: &'a PreparedTemplate,
    pub(super) template: &'a Template,
}

/// The outcome of rendering one template.
#[derive(Debug)]
pub(super) enum Text {
    Rendered(String),
    /// It needs data that this node cannot give now.
    Missing(BTreeSet<Dependency>),
}

/// The outcome of the hook.
#[derive(Debug, Default)]
pub(super) struct TemplatesDone {
    /// Variables that templates add to the environment.
    pub(super) environment: BTreeMap<String, String>,
    /// Data that templates wait for; empty = every template is rendered.
    pub(super) missing: BTreeSet<Dependency>,
}

impl<'a> TemplateWork<'a> {
    pub(super) fn templates(&self) -> impl Iterator<Item = TaskTemplate<'a>> + use<'a> {
        let task = self.task;
        self.prepare.templates.iter().filter_map(move |prepared| {
            let template = task.templates.get(prepared.offset)?;
            Some(TaskTemplate { prepared, template })
        })
    }
}

impl TaskTemplate<'_> {
    /// A problem of this template.
    pub(super) fn hopeless(&self, problem: &str) -> Failed {
        Failed::hopeless(problem).about(&self.subject())
    }

    fn subject(&self) -> String {
        format!("template {:?}", self.template.dest_path())
    }
}

impl Executor {
    /// Renders the templates of an attempt, except those that stay as they are. Blocks.
    pub(super) fn templates(&self, work: &TemplateWork<'_>) -> Result<TemplatesDone, Failed> {
        let mut environment = work.prepare.environment.clone();
        environment.extend(self.identities.variables(work.prepare));
        let mut done = TemplatesDone::default();
        for one in work.templates() {
            let text = match self.kept_text(work, one) {
                Some(text) => text,
                None => match self.text_of(work, one, &environment)? {
                    Text::Rendered(text) => {
                        self.write(work, one, &text)?;
                        text
                    }
                    Text::Missing(missing) => {
                        done.missing.extend(missing);
                        continue;
                    }
                },
            };
            if one.template.envvars() {
                let variables = template::environment_of(&text)
                    .map_err(|error| one.hopeless(&chain(&error)))?;
                environment.extend(variables.clone());
                done.environment.extend(variables);
            }
        }
        Ok(done)
    }

    /// The text of a file that a restart leaves as it is; `None` = it is rendered.
    fn kept_text(&self, work: &TemplateWork<'_>, one: TaskTemplate<'_>) -> Option<String> {
        let run = &work.prepare.run;
        if one.prepared.rendering == Rendering::Anew {
            return None;
        }
        let is_unchanged = |(path, mark): (PathBuf, FileMark)| {
            // A file that is away changes nothing.
            self.mark_of(run.alloc, &path).is_none_or(|now| now == mark)
        };
        let files = self.watch.rendered(run, one.prepared.offset);
        files
            .into_iter()
            .all(is_unchanged)
            .then(|| self.text_before(work, one))
            .flatten()
    }

    /// The text in a template's file; `None` where there is none.
    pub(super) fn text_before(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
    ) -> Option<String> {
        let base = self.allocs.path_of(work.prepare.run.alloc);
        let below = source_below(&base, &one.prepared.destination).ok()?;
        let (bytes, _) = self.bytes_of(work.prepare, below).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Renders one template. The files that it read are known to the watch from then on.
    pub(super) fn text_of(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Text, Failed> {
        let mut sources = Sources::default();
        let text = self.source(work.prepare, one.prepared, one.template);
        let rendered = text
            .map_err(Failed::hopeless)
            .and_then(|text| self.rendered(work, one, text, environment, &mut sources));
        let (run, offset) = (&work.prepare.run, one.prepared.offset);
        // Of a rendering that was interrupted the files are not all known.
        if rendered.is_ok() || !work.cancel.is_cancelled() {
            self.watch.record(run, offset, sources);
        }
        rendered.map_err(|failed| failed.about(&one.subject()))
    }

    /// Writes a template's file.
    pub(super) fn write(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
        text: &str,
    ) -> Result<(), Failed> {
        let TemplateWork { prepare, task, .. } = work;
        let subject = |problem: String| one.hopeless(&problem);
        let attributes = attributes(one.template).map_err(subject)?;
        let path = Path::new(&one.prepared.destination);
        if !one.template.envvars() {
            self.check_visible(prepare, task, path).map_err(subject)?;
        }
        self.allocs
            .write_file(prepare.run.alloc, path, text.as_bytes(), attributes)
            .map_err(|error| subject(chain(&error)))
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
        let (bytes, _) = self.bytes_of(prepare, source_below(&base, source)?)?;
        String::from_utf8(bytes).map_err(|_| format!("source {source:?} is not UTF-8"))
    }

    /// A file beneath the allocation's directory, not followed out of it by links.
    fn bytes_of(&self, prepare: &PrepareTask, below: &Path) -> Result<(Vec<u8>, FileMark), String> {
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
        // Before it is read: a change meanwhile is noticed at the next look.
        let mark = FileMark::of(&file).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let limit = TEMPLATE_BYTES_MAX as u64 + 1;
        std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() > TEMPLATE_BYTES_MAX {
            let path = below.display();
            return Err(format!("{path} is larger than {TEMPLATE_BYTES_MAX} bytes"));
        }
        Ok((bytes, mark))
    }

    /// The mark of a file that a template reads; `None` where it is away. Blocks.
    pub(crate) fn mark_of(&self, alloc: AllocId, below: &Path) -> Option<FileMark> {
        let file = self.allocs.open_beneath(alloc, below, OFlags::PATH).ok()?;
        FileMark::of(file).ok()
    }

    /// Renders one template, and again for as long as it names files that it has not had.
    fn rendered(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
        text: String,
        environment: &BTreeMap<String, String>,
        sources: &mut Sources,
    ) -> Result<Text, Failed> {
        let TemplateWork { prepare, task, .. } = work;
        let template = one.template;
        let job = prepare.spec.job();
        let mut render = Render {
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
            let cancelled = work.cancel.cancelled();
            let rendering = self.jail.run(&render, RENDER_MAX, cancelled, |_| {});
            let rendering = tokio::runtime::Handle::current().block_on(rendering);
            let mut missing = match rendering.map_err(|error| Failed::of_jail(&error))? {
                noded_jail::Rendering::Rendered(text) => return Ok(Text::Rendered(text)),
                noded_jail::Rendering::Missing(missing) => missing,
            };
            let files: Vec<String> = missing
                .extract_if(.., |it| matches!(it, Dependency::File(_)))
                .filter_map(|it| match it {
                    Dependency::File(path) => Some(path),
                    _ => None,
                })
                .collect();
            let has_learned = self.learn_variables(work, one, &missing, &mut render.known);
            // The rest of what is missing may depend on the files and variables.
            if files.is_empty() && !has_learned {
                return Ok(Text::Missing(missing));
            }
            for path in files {
                let below = template::file_below(&base, &task.name, &path).ok_or_else(|| {
                    Failed::hopeless(format!(
                        "file {path:?} is in neither the task's directory nor the allocation's \
                         shared one"
                    ))
                })?;
                let read = self.bytes_of(prepare, &below);
                sources.add(&below, read.as_ref().ok().map(|(_, mark)| *mark));
                let (bytes, _) =
                    read.map_err(|problem| Failed::hopeless(format!("file {path:?}: {problem}")))?;
                render.known.files.insert(path, bytes);
            }
        }
        Err(Failed::hopeless(format!(
            "it names new files in each of {PASSES_MAX} renderings"
        )))
    }

    /// Takes in the variables that are missing and that a server has answered. Returns whether
    /// there was one: an answer that is known already, and still missing, is awaited.
    fn learn_variables(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
        missing: &BTreeSet<Dependency>,
        known: &mut Known,
    ) -> bool {
        let (run, offset) = (&work.prepare.run, one.prepared.offset);
        let is_new = |source: &Source| match source {
            Source::Variable(id) => !known.variables.contains_key(id),
            Source::List(id) => !known.variable_lists.contains_key(id),
        };
        let sources = missing.iter().filter_map(Source::of).filter(is_new);
        // A template may ask for a variable and for its existence.
        let sources: BTreeSet<Source> = sources.collect();
        if sources.is_empty() || work.cancel.is_cancelled() {
            return false;
        }
        let sources = sources.into_iter().collect();
        let answers = self.variables.answers(run, offset, sources);
        let mut has_learned = false;
        for (source, answer) in tokio::runtime::Handle::current().block_on(answers) {
            let Some(answer) = answer else {
                continue;
            };
            has_learned = true;
            match source {
                Source::Variable(id) => {
                    known.variables.insert(id, answer.into_iter().next());
                }
                Source::List(id) => {
                    known.variable_lists.insert(id, answer);
                }
            }
        }
        has_learned
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
