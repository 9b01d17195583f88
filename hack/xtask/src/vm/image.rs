//! The guest's disk and kernel: built once from Debian packages, then kept as long as the folder
//! that describes them stays as it is.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::stage::run;

/// What describes the image, relative to the root of the tree.
const RECIPE: &str = "hack/vm/image";
const FILES: &[&str] = &["vmlinuz", "initrd.img", "root.img"];

/// Where the parts of a built image lie.
#[derive(Debug, Clone)]
pub(super) struct Image {
    folder: PathBuf,
}

impl Image {
    pub(super) fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    pub(super) fn initial_file_system(&self) -> PathBuf {
        self.folder.join("initrd.img")
    }

    pub(super) fn root_disk(&self) -> PathBuf {
        self.folder.join("root.img")
    }
}

/// The image that the recipe describes, below `folder`. Images of older recipes are removed.
///
/// # Errors
/// If it cannot be built: no root, no mirror, no room (1 GiB while it is built, half of it later).
pub(super) fn find_or_build(root: &Path, folder: &Path) -> anyhow::Result<Image> {
    let recipe = root.join(RECIPE);
    let name = format!("image-{:016x}", hash_of(&recipe)?);
    let image = Image {
        folder: folder.join(&name),
    };
    if FILES.iter().all(|file| image.folder.join(file).exists()) {
        return Ok(image);
    }
    remove_others(folder)?;
    eprintln!("building the guest from Debian packages (a minute or two, once)");
    let begun = Instant::now();
    let partial = folder.join(format!("{name}.partial"));
    std::fs::create_dir(&partial).with_context(|| format!("make {}", partial.display()))?;
    run(Command::new(recipe.join("build")).arg(&partial))?;
    std::fs::rename(&partial, &image.folder).context("put the image in its place")?;
    eprintln!("built in {} s", begun.elapsed().as_secs());
    Ok(image)
}

/// Finished and unfinished images, this one's included.
fn remove_others(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_image = entry.file_name().to_string_lossy().starts_with("image-");
        if is_image && entry.file_type()?.is_dir() {
            // rm, because a build that was interrupted may have left mounts, which it does not
            // follow.
            run(Command::new("rm")
                .args(["-rf", "--one-file-system", "--"])
                .arg(entry.path()))?;
        }
    }
    Ok(())
}

/// Of the names, contents and nothing else of all files below a folder.
fn hash_of(folder: &Path) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    hash_folder(folder, &mut hasher)?;
    Ok(hasher.finish())
}

fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    let read = || format!("read {}", folder.display());
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .and_then(Iterator::collect)
        .with_context(read)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        entry.file_name().hash(hasher);
        let kind = entry.file_type()?;
        if kind.is_dir() {
            hash_folder(&entry.path(), hasher)?;
        } else if kind.is_file() {
            std::fs::read(entry.path())?.hash(hasher);
        } else {
            bail!("{}: neither a file nor a folder", entry.path().display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_the_recipe_is_another_image() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            hash_of(folder.path()).unwrap()
        };
        let first = write("packages", "systemd\n");
        assert_eq!(write("packages", "systemd\n"), first);
        let more = write("files/etc/hostname", "guest\n");
        assert_ne!(more, first);
        assert_ne!(write("packages", "systemd\njq\n"), more);
    }

    #[test]
    fn the_recipe_of_this_tree_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        hash_of(&root.join(RECIPE)).unwrap();
    }
}
