//! What a sandbox must not show of what it shows: the daemons' own files, and the operator's
//! `masked_paths`. A mount shows everything below its source, under the mount's own name.

use std::path::{Path, PathBuf};

use isolation::Bind;

use crate::config::Config;

/// A file or directory of the host and where the task sees it.
struct Shown {
    /// On the host, links resolved.
    source: PathBuf,
    /// In the task's root.
    target: PathBuf,
}

/// The places in a task's root that are to be hidden, given what is shown in it. Looks at links
/// of the host, and blocks.
///
/// # Errors
/// A volume is to be mounted inside a place that is hidden.
pub(super) fn masks(
    config: &Config,
    chroot_paths: &[PathBuf],
    volumes: &[Bind],
) -> Result<Vec<PathBuf>, String> {
    // What is not there is shown by nothing.
    let real = |path: &Path| path.canonicalize().ok();
    let hidden: Vec<PathBuf> = [config.own_paths(), config.masked_paths.clone()]
        .concat()
        .iter()
        .filter_map(|path| real(path))
        .collect();
    let show = |(source, target): (&PathBuf, &PathBuf)| {
        let source = real(source)?;
        let target = target.clone();
        Some(Shown { source, target })
    };
    let host = chroot_paths.iter().map(|path| (path, path));
    let host: Vec<Shown> = host.filter_map(show).collect();
    let volumes = volumes.iter().map(|bind| (&bind.source, &bind.target));
    let volumes: Vec<Shown> = volumes.filter_map(show).collect();
    places(&hidden, &host, &volumes)
}

/// Volumes are mounted over the host's files, and masks over both: what a volume covers is hidden
/// by it already, and a mask there would hide the volume.
fn places(hidden: &[PathBuf], host: &[Shown], volumes: &[Shown]) -> Result<Vec<PathBuf>, String> {
    let of_host = seen(hidden, host);
    for volume in volumes {
        let covers = |mask: &&PathBuf| volume.target.starts_with(mask) && volume.target != **mask;
        if let Some(mask) = of_host.iter().find(covers) {
            return Err(format!(
                "a volume's destination {} is inside {}, which no task sees; name another place",
                volume.target.display(),
                mask.display()
            ));
        }
    }
    let is_covered = |mask: &PathBuf| volumes.iter().any(|it| mask.starts_with(&it.target));
    let mut all: Vec<PathBuf> = of_host.into_iter().filter(|it| !is_covered(it)).collect();
    all.extend(seen(hidden, volumes));
    all.sort();
    // Sorted: a directory comes before what is below it, which it hides.
    all.dedup_by(|below, above| below.starts_with(above));
    Ok(all)
}

/// Where the task would see what is hidden.
fn seen(hidden: &[PathBuf], shown: &[Shown]) -> Vec<PathBuf> {
    let at = |path: &PathBuf, it: &Shown| {
        if it.source.starts_with(path) {
            return Some(it.target.clone());
        }
        let below = path.strip_prefix(&it.source).ok()?;
        Some(it.target.join(below))
    };
    let pairs = hidden
        .iter()
        .flat_map(|path| shown.iter().map(move |it| (path, it)));
    pairs.filter_map(|(path, it)| at(path, it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pairs: &[(&str, &str)]) -> Vec<Shown> {
        let one = |(source, target): &(&str, &str)| Shown {
            source: source.into(),
            target: target.into(),
        };
        pairs.iter().map(one).collect()
    }

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn masks_follow_each_mount_to_where_the_task_sees_it() {
        let hidden = paths(&[
            "/etc/drover",
            "/etc/drover/key",
            "/usr/lib/d/token",
            "/run/x",
        ]);
        let host = shown(&[("/etc", "/etc"), ("/usr", "/usr"), ("/usr/lib", "/lib")]);
        let volumes = shown(&[("/", "/host"), ("/srv", "/srv"), ("/run/x/y", "/y")]);
        let expected = [
            "/etc/drover",
            "/host/etc/drover",
            "/host/run/x",
            "/host/usr/lib/d/token",
            "/lib/d/token",
            "/usr/lib/d/token",
            "/y",
        ];
        assert_eq!(places(&hidden, &host, &volumes), Ok(paths(&expected)));
    }

    #[test]
    fn a_volume_replaces_what_it_covers_and_never_lies_inside_a_mask() {
        let hidden = paths(&["/etc/drover"]);
        let host = shown(&[("/etc", "/etc")]);
        for target in ["/etc/drover", "/etc"] {
            let volumes = shown(&[("/srv", target)]);
            assert_eq!(places(&hidden, &host, &volumes), Ok(Vec::new()), "{target}");
        }
        let inside = shown(&[("/srv", "/etc/drover/data")]);
        let refused = places(&hidden, &host, &inside).expect_err("refused");
        assert!(
            refused.contains("/etc/drover/data is inside /etc/drover"),
            "{refused}"
        );
    }
}
