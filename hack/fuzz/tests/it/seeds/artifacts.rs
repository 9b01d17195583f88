//! Sources of artifacts, and small archives with every kind of entry.

use std::io::{Cursor, Write as _};

/// Sources with and without options.
pub(crate) fn artifact_sources() -> Vec<Vec<u8>> {
    let texts = [
        "https://user:password@example.org:80/a/b.tar.gz//sub?archive=zip&checksum=md5:1#x",
        "git::ssh://git@example.org/a.git//sub?ref=v1&depth=1\nsshkey=a2V5",
        "github.com/a/b/c?ref=main",
        "git@example.org:a/b.git\ndepth=3",
        "http::http://[::1]/a\nfilename=b\narchive=false",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// One archive of each kind of entry, long names included.
pub(crate) fn artifact_tars() -> Vec<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, link) in [
        (tar::EntryType::Directory, "d/", ""),
        (tar::EntryType::Regular, "d/file", ""),
        (tar::EntryType::Symlink, "link", "d/file"),
        (tar::EntryType::Link, "again", "d/file"),
    ] {
        let content: &[u8] = if link.is_empty() && !name.ends_with('/') {
            b"content"
        } else {
            b""
        };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        if link.is_empty() {
            builder.append_data(&mut header, name, content)
        } else {
            builder.append_link(&mut header, name, link)
        }
        .expect("appended");
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    let long = "long/".repeat(40);
    builder
        .append_data(&mut header, format!("{long}x"), &b"x"[..])
        .expect("appended");
    vec![builder.into_inner().expect("an archive")]
}

/// Stored and compressed entries, a directory and a link.
pub(crate) fn artifact_zips() -> Vec<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    writer.add_directory("d", options).expect("added");
    for (name, method) in [
        ("d/stored", zip::CompressionMethod::Stored),
        ("deflated", zip::CompressionMethod::Deflated),
    ] {
        let options = options.compression_method(method);
        writer.start_file(name, options).expect("begun");
        writer.write_all(b"content content").expect("written");
    }
    writer
        .add_symlink("link", "deflated", options)
        .expect("added");
    vec![writer.finish().expect("an archive").into_inner()]
}
