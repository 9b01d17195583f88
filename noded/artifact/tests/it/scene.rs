//! An allocation's directory, a staging directory in it, and requests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use noded_artifact::{
    FetchError, FetchLimits, FetchRequest, Fetched, InspectError, Links, MergeError, Mode,
    Progress, Shape, Staging, fetch, inspect, merge,
};

use crate::server::{Reply, Server};

pub(crate) struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for name in [
            "staging",
            "alloc",
            "alloc/task",
            "alloc/task/local",
            "outside",
        ] {
            fs::create_dir(directory.path().join(name)).expect("made");
        }
        Self { directory }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// A file of the staged artifact, as text.
    pub(crate) fn staged(&self, below: &str) -> String {
        let mut path = self.path("staging/artifact");
        if !below.is_empty() {
            path.push(below);
        }
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn staging(&self) -> Staging {
        let path = self.path("staging");
        Staging::new(File::open(&path).expect("opened").into(), path)
    }

    pub(crate) fn fetch(&self, request: &FetchRequest) -> Result<Fetched, FetchError> {
        fetch(request, &self.staging(), &mut |_| {})
    }

    pub(crate) fn progress(&self, request: &FetchRequest) -> Vec<Progress> {
        let mut seen = Vec::new();
        let fetched = fetch(request, &self.staging(), &mut |progress| {
            seen.push(progress);
        });
        fetched.expect("fetched");
        seen
    }

    pub(crate) fn inspect(&self, shape: Shape, destination: &str) -> Result<(), InspectError> {
        inspect(
            &self.staging(),
            shape,
            Path::new(destination),
            Links::Judged,
            None,
        )
    }

    pub(crate) fn merge(&self, destination: &str) -> Result<(), MergeError> {
        let base = File::open(self.path("alloc")).expect("opened");
        merge(&self.staging(), base.as_fd(), Path::new(destination))
    }

    /// Serves bytes under a name and fetches them.
    pub(crate) fn fetch_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Fetched, FetchError> {
        let server = Server::new(move |_| Reply::of(bytes.clone()));
        self.fetch(&request(&server.url(&format!("/{name}"))))
    }
}

pub(crate) fn request(source: &str) -> FetchRequest {
    FetchRequest {
        source: source.to_owned(),
        options: BTreeMap::new(),
        headers: BTreeMap::new(),
        mode: Mode::Any,
        insecure: false,
        limits: FetchLimits::default(),
    }
}

pub(crate) fn with(source: &str, options: &[(&str, &str)]) -> FetchRequest {
    let options = options.iter();
    let options = options.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    FetchRequest {
        options: options.collect(),
        ..request(source)
    }
}

/// One entry of an archive that a test builds.
pub(crate) enum Entry {
    File(&'static str, u32, Vec<u8>),
    Directory(&'static str, u32),
    Symlink(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Device(&'static str),
}

pub(crate) fn file(name: &'static str, text: &str) -> Entry {
    Entry::File(name, 0o644, text.into())
}

/// A tar archive. Names are written as they are, `..` included.
pub(crate) fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(1_000_000_000);
        let (name, kind, mode, link, content) = match entry {
            Entry::File(name, mode, content) => {
                (name, tar::EntryType::Regular, *mode, "", content.as_slice())
            }
            Entry::Directory(name, mode) => (name, tar::EntryType::Directory, *mode, "", &[][..]),
            Entry::Symlink(name, to) => (name, tar::EntryType::Symlink, 0o777, *to, &[][..]),
            Entry::HardLink(name, to) => (name, tar::EntryType::Link, 0o644, *to, &[][..]),
            Entry::Device(name) => (name, tar::EntryType::Char, 0o666, "", &[][..]),
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        let fields = header.as_old_mut();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, content).expect("appended");
    }
    builder.into_inner().expect("an archive")
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = zip::write::SimpleFileOptions::default();
        match entry {
            Entry::File(name, mode, content) => {
                let options = options.unix_permissions(*mode);
                writer.start_file(*name, options).expect("begun");
                writer.write_all(content).expect("written");
            }
            Entry::Directory(name, mode) => {
                let options = options.unix_permissions(*mode);
                writer.add_directory(*name, options).expect("added");
            }
            Entry::Symlink(name, to) => {
                writer.add_symlink(*name, *to, options).expect("added");
            }
            Entry::HardLink(..) | Entry::Device(_) => panic!("zip has none"),
        }
    }
    writer.finish().expect("an archive").into_inner()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("compressed")
}

pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("compressed")
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("compressed")
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("compressed")
}
