//! Downloads: modes, names, headers, checksums, redirects, limits.

use std::time::Duration;

use noded_artifact::{Mode, Progress, Shape};

use crate::scene::{Scene, request, with};
use crate::server::{Reply, Server};

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn hello() -> Server {
    Server::new(|_| Reply::of("hello"))
}

#[test]
fn single_file_keeps_the_name_of_its_url_in_mode_any() {
    let (scene, server) = (Scene::new(), hello());
    let fetched = scene.fetch(&request(&server.url("/a/b%20c.txt?x=1")));
    let fetched = fetched.expect("fetched");
    assert_eq!((fetched.shape, fetched.bytes), (Shape::Tree, 5));
    assert_eq!(scene.staged("b c.txt"), "hello");
    assert_eq!(server.requests()[0].path, "/a/b%20c.txt?x=1");
}

#[test]
fn filename_option_names_the_file() {
    let (scene, server) = (Scene::new(), hello());
    let request = with(&server.url("/"), &[("filename", "named")]);
    scene.fetch(&request).expect("fetched");
    assert_eq!(scene.staged("named"), "hello");
}

#[test]
fn mode_file_makes_the_download_the_artifact() {
    let (scene, server) = (Scene::new(), hello());
    let mut request = request(&server.url("/a"));
    request.mode = Mode::File;
    assert_eq!(scene.fetch(&request).expect("fetched").shape, Shape::File);
    assert_eq!(scene.staged(""), "hello");
}

#[test]
fn mode_that_does_not_fit_is_refused_before_a_request() {
    let server = hello();
    let mut directory = request(&server.url("/a"));
    directory.mode = Mode::Dir;
    let mut below = request(&server.url("/a.gz//b"));
    below.mode = Mode::Any;
    for request in [directory, below, request(&server.url("/"))] {
        let error = Scene::new().fetch(&request).expect_err("no fit");
        assert!(!error.is_recoverable(), "{error}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn status_is_named_without_the_password() {
    let server = Server::new(|_| Reply::status(404));
    let url = server.url("/a").replace("http://", "http://user:geheim@");
    let error = Scene::new().fetch(&request(&url)).expect_err("not there");
    let words = error.to_string();
    assert!(
        words.contains("bad response code: 404 Not Found"),
        "{words}"
    );
    assert!(
        words.contains("user:xxxxx@") && !words.contains("geheim"),
        "{words}"
    );
    assert!(error.is_recoverable());
    let requests = server.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some("Basic dXNlcjpnZWhlaW0=")
    );
}

#[test]
fn headers_of_the_job_are_sent() {
    let (scene, server) = (Scene::new(), hello());
    let mut request = request(&server.url("/a"));
    request.headers = [("X-Token".to_owned(), "t".to_owned())].into();
    scene.fetch(&request).expect("fetched");
    let seen = server.requests();
    assert_eq!(seen[0].header("x-token"), Some("t"));
    assert!(
        seen[0]
            .header("user-agent")
            .is_some_and(|it| it.starts_with("drover/"))
    );
    assert_eq!(seen[0].header("accept-encoding"), None);
}

#[test]
fn checksum_of_another_file_names_both_sums() {
    let server = hello();
    let right = format!("sha256:{HELLO_SHA256}");
    let scene = Scene::new();
    scene
        .fetch(&with(&server.url("/a.txt"), &[("checksum", &right)]))
        .expect("fetched");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let request = with(&server.url("/a.txt"), &[("checksum", &wrong)]);
    let scene = Scene::new();
    let error = scene.fetch(&request).expect_err("another sum");
    let expected = format!("checksums did not match for a.txt: expected {wrong}, got {right}");
    assert_eq!(error.to_string(), expected);
    assert!(!scene.path("staging/artifact").exists());
}

#[test]
fn checksum_may_stand_in_the_url_or_in_a_file() {
    let server = Server::new(|request| match request.path.as_str() {
        "/SUMS" => Reply::of(format!("{HELLO_SHA256}  a.txt\n")),
        _ => Reply::of("hello"),
    });
    let url = format!("{}?checksum={HELLO_SHA256}", server.url("/a.txt"));
    Scene::new().fetch(&request(&url)).expect("fetched");
    let list = format!("file:{}", server.url("/SUMS"));
    let options = [("checksum", list.as_str())];
    let scene = Scene::new();
    scene
        .fetch(&with(&server.url("/a.txt"), &options))
        .expect("fetched");
    let error = Scene::new().fetch(&with(&server.url("/b.txt"), &options));
    let words = error.expect_err("not listed").to_string();
    assert!(words.contains("has no checksum of b.txt"), "{words}");
}

#[test]
fn redirects_are_followed_up_to_ten() {
    let server = Server::new(|request| {
        let left: u32 = request.path[1..].parse().unwrap_or(0);
        match left {
            0 => Reply::of("hello"),
            left => Reply::to(format!("/{}", left - 1)),
        }
    });
    let scene = Scene::new();
    scene
        .fetch(&with(&server.url("/10"), &[("filename", "a")]))
        .expect("ten");
    assert_eq!(scene.staged("a"), "hello");
    let error = Scene::new()
        .fetch(&request(&server.url("/11")))
        .expect_err("eleven");
    assert!(
        error.to_string().contains("more than 10 redirects"),
        "{error}"
    );
}

#[test]
fn redirect_to_the_node_itself_is_refused() {
    let inner = hello();
    let to = inner.url("/secret");
    let outer = Server::new(move |_| Reply::to(to.clone()));
    // The job names `localhost`; the answer leads to 127.0.0.1.
    let error = Scene::new()
        .fetch(&request(&outer.url_by_name("/a")))
        .expect_err("refused");
    let words = protocol_error_chain::chain(&error);
    assert!(words.contains("an address of the node itself"), "{words}");
    assert!(inner.requests().is_empty());
}

#[test]
fn redirect_to_another_scheme_is_refused() {
    let server = Server::new(|_| Reply::to("file:///etc/passwd"));
    let error = Scene::new()
        .fetch(&request(&server.url("/a")))
        .expect_err("refused");
    assert!(
        error.to_string().contains("neither http nor https"),
        "{error}"
    );
}

#[test]
fn credentials_do_not_follow_to_another_port() {
    let inner = hello();
    let to = inner.url("/b");
    let outer = Server::new(move |_| Reply::to(to.clone()));
    let url = outer.url("/a").replace("http://", "http://user:geheim@");
    let mut request = request(&url);
    let header = |name: &str| (name.to_owned(), "t".to_owned());
    request.headers = [header("X-Token"), header("Accept")].into();
    Scene::new().fetch(&request).expect("fetched");
    let seen = inner.requests();
    assert_eq!(seen[0].header("x-token"), None);
    assert_eq!(seen[0].header("authorization"), None);
    assert_eq!(seen[0].header("accept"), Some("t"));
}

#[test]
fn download_above_the_limit_is_refused() {
    let server = Server::new(|_| Reply::of(vec![0; 200_000]));
    let mut request = request(&server.url("/a"));
    request.limits.http_bytes_max = Some(150_000);
    let error = Scene::new().fetch(&request).expect_err("too large");
    assert!(error.to_string().contains("150000 bytes"), "{error}");
    assert!(!error.is_recoverable());
}

#[test]
fn download_that_ends_early_is_no_download() {
    let server = Server::new(|_| Reply {
        length: Some(10),
        ..Reply::of("hello")
    });
    let error = Scene::new()
        .fetch(&request(&server.url("/a")))
        .expect_err("cut");
    assert!(error.to_string().contains("after 5 bytes"), "{error}");
    assert!(error.is_recoverable());
}

#[test]
fn download_that_takes_too_long_ends() {
    let server = Server::new(|_| {
        std::thread::sleep(Duration::from_secs(5));
        Reply::of("hello")
    });
    let mut request = request(&server.url("/a"));
    request.limits.http_timeout = Duration::from_millis(300);
    let error = Scene::new().fetch(&request).expect_err("late");
    assert!(error.to_string().contains("http_read_timeout"), "{error}");
}

#[test]
fn progress_has_the_total_where_the_server_says_so() {
    let (scene, server) = (Scene::new(), hello());
    let seen = scene.progress(&request(&server.url("/a")));
    let first = Progress::Downloading {
        bytes: 0,
        total: Some(5),
    };
    assert_eq!(seen.first(), Some(&first));
}
