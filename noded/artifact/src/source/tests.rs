//! Sources of job files, hostile ones included.

use std::collections::BTreeMap;

use super::*;
use crate::archive::Compression;

fn parsed(text: &str) -> Result<Source, SourceError> {
    Source::parse(text, &BTreeMap::new())
}

fn with(text: &str, options: &[(&str, &str)]) -> Result<Source, SourceError> {
    let owned = options.iter();
    let owned = owned.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Source::parse(text, &owned.collect())
}

/// Getter, URL and subdirectory as one text.
fn summary(text: &str) -> String {
    match parsed(text) {
        Ok(source) => {
            let getter = match source.getter {
                Getter::Http => "http",
                Getter::Git { .. } => "git",
            };
            let sub = source.subdirectory.unwrap_or_default();
            format!("{getter} {} {sub}", source.url)
        }
        Err(error) => format!("refused: {error}"),
    }
}

#[test]
fn sources_are_read_as_go_getter_reads_them() {
    for (text, expected) in [
        ("https://x.org/a/b.tar.gz", "http https://x.org/a/b.tar.gz "),
        ("http::https://x.org/a", "http https://x.org/a "),
        ("HTTPS://x.org/a?b=c&d", "http https://x.org/a?b=c&d "),
        (
            "https://x.org/a.zip//in/side?b=c",
            "http https://x.org/a.zip?b=c in/side",
        ),
        ("https://[::1]:80/a", "http https://[::1]:80/a "),
        (
            "git::https://x.org/a.git//sub",
            "git https://x.org/a.git sub",
        ),
        ("git::ssh://git@x.org/a.git", "git ssh://git@x.org/a.git "),
        ("git://x.org/a.git", "git git://x.org/a.git "),
        ("github.com/a/b", "git https://github.com/a/b.git "),
        ("github.com/a/b.git", "git https://github.com/a/b.git "),
        (
            "github.com/a/b/c/d?ref=x",
            "git https://github.com/a/b.git c/d",
        ),
        ("github.com/a/b//c", "git https://github.com/a/b.git c"),
        ("gitlab.com/a/b", "git https://gitlab.com/a/b.git "),
        ("bitbucket.org/a/b", "git https://bitbucket.org/a/b.git "),
        (
            "git@github.com:a/b.git",
            "git ssh://git@github.com/a/b.git ",
        ),
        (
            "git::git@x.org:a/b.git//c?ref=v1",
            "git ssh://git@x.org/a/b.git c",
        ),
    ] {
        assert_eq!(summary(text), expected, "{text}");
    }
}

#[test]
fn sources_of_other_getters_are_refused_by_name() {
    for (text, name) in [
        ("hg::https://x.org/a", "hg"),
        ("s3::https://x/a", "s3"),
        ("gcs::https://x/a", "gcs"),
        ("bucket.s3.amazonaws.com/a", "s3"),
        ("www.googleapis.com/storage/v1/b/a", "gcs"),
        ("file:///etc/passwd", "file"),
        ("/etc/passwd", "file"),
        ("./x", "file"),
        ("ftp://x.org/a", "ftp"),
        ("git::/srv/a", "file"),
        ("git::ext://x", "git with ext"),
    ] {
        let error = parsed(text).expect_err(text).to_string();
        let expected = format!("nothing over {name};");
        assert!(error.contains(&expected), "{text}: {error}");
    }
}

#[test]
fn sources_that_make_no_sense_are_refused() {
    for (text, word) in [
        ("", "scheme"),
        ("example", "scheme"),
        ("https://", "host"),
        ("https:///x", "host"),
        ("git::https://-oProxyCommand=x/a", "dash"),
        ("git::ssh://git@-oProxyCommand=x/a", "dash"),
        ("https://x.org/a b", "space"),
        ("https://x.org/a\nb", "control"),
        ("github.com/a", "OWNER/REPOSITORY"),
        ("https://x.org/a.zip//../b", "leads out"),
        ("https://x.org/a?archive=rar", "archive"),
        ("https://x.org/a?filename=..", "filename"),
        ("https://x.org/a?filename=b%2Fc", "filename"),
        ("github.com/a/b?ref=--upload-pack%3Dx", "ref"),
        ("github.com/a/b?depth=x", "depth"),
    ] {
        let error = parsed(text).expect_err(text).to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn parameters_are_taken_out_of_the_url() {
    let source = with(
        "https://x.org/a?archive=zip&x=1%202&checksum=md5:1&y",
        &[("filename", "b"), ("archive", "tar"), ("z", "ä b")],
    );
    let source = source.expect("a source");
    assert_eq!(source.url, "https://x.org/a?x=1%202&y&z=%C3%A4%20b");
    assert_eq!(source.archive, Some(ArchiveKind::Zip));
    assert_eq!(source.checksum.as_deref(), Some("md5:1"));
    assert_eq!(source.filename.as_deref(), Some("b"));

    let source = with(
        "git::https://x.org/a?ref=v1&x=1",
        &[("depth", "3"), ("sshkey", "a+b=")],
    );
    let source = source.expect("a source");
    assert_eq!(source.url, "https://x.org/a?x=1");
    let expected = Getter::Git {
        reference: Some("v1".to_owned()),
        depth: Some(3),
        ssh_key: Some("a+b=".to_owned()),
    };
    assert_eq!(source.getter, expected);
    // HTTP knows no ref.
    let source = parsed("https://x.org/a?ref=v1").expect("a source");
    assert_eq!(source.url, "https://x.org/a?ref=v1");
}

#[test]
fn archive_is_known_by_name_or_option() {
    let gzip = Some(Compression::Gzip);
    for (text, option, expected) in [
        ("https://x/a.tar.gz", "", Some(ArchiveKind::Tar(gzip))),
        ("https://x/a.tgz?v=1.zip", "", Some(ArchiveKind::Tar(gzip))),
        (
            "https://x/a.gz",
            "",
            Some(ArchiveKind::Single(Compression::Gzip)),
        ),
        ("https://x/a.tar.gz", "false", None),
        ("https://x/a.tar.gz", "zip", Some(ArchiveKind::Zip)),
        (
            "https://x/a",
            "txz",
            Some(ArchiveKind::Tar(Some(Compression::Xz))),
        ),
        ("https://x/targz", "", None),
        ("https://x/a.txt", "", None),
    ] {
        let source = with(text, &[("archive", option)]).expect(text);
        assert_eq!(source.archive, expected, "{text} {option}");
    }
}

#[test]
fn secrets_of_a_url_are_masked() {
    for (text, expected) in [
        ("https://a:b@x.org/c", "https://a:xxxxx@x.org/c"),
        (
            "git::https://a:b%40@x.org/c",
            "git::https://a:xxxxx@x.org/c",
        ),
        ("https://a@x.org/c:d@e", "https://a@x.org/c:d@e"),
        (
            "git@x.org:a?sshkey=KEY&ref=v1",
            "git@x.org:a?sshkey=xxxxx&ref=v1",
        ),
        (
            "s3::https://x/a?aws_access_key_id=1&aws_access_key_secret=2",
            "s3::https://x/a?aws_access_key_id=1&aws_access_key_secret=xxxxx",
        ),
        ("https://x.org/a?b", "https://x.org/a?b"),
    ] {
        assert_eq!(masked(text), expected);
    }
}

#[test]
fn locations_are_joined_as_rfc_3986_says() {
    let base = Url::parse("https://x.org/a/b?c").expect("a URL");
    for (location, expected) in [
        ("http://y.org/z", "http://y.org/z"),
        ("//y.org/z", "https://y.org/z"),
        ("/z", "https://x.org/z"),
        ("z", "https://x.org/a/z"),
        ("../z?u=http://v", "https://x.org/z?u=http://v"),
        ("../../../z", "https://x.org/z"),
        ("./", "https://x.org/a/"),
        ("?d", "https://x.org/a/b?d"),
    ] {
        let joined = base.join(location).expect(location);
        assert_eq!(joined.to_string(), expected, "{location}");
    }
}
