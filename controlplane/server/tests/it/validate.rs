//! The program asked whether it could start.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use controlplane_server::dev::{self, CertificateFiles};
use protocol_transport::Region;

/// Whether the program would start with this pair in `region`, and what it says.
fn validate(directory: &Path, pair: &CertificateFiles, region: &str) -> (bool, String) {
    let path = directory.join("server.hcl");
    let text = format!(
        "data_dir = {data:?}\nregion = {region:?}\n\
         tls {{\n  ca_file = {ca:?}\n  cert_file = {cert:?}\n  key_file = {key:?}\n}}\n",
        data = directory.join("data"),
        ca = directory.join("dev-tls/ca.pem"),
        cert = pair.certificate,
        key = pair.key,
    );
    std::fs::write(&path, text).expect("it is written");
    let output = Command::new(env!("CARGO_BIN_EXE_controlplane"))
        .args(["--validate", "--config"])
        .arg(&path)
        .output()
        .expect("the program was built for this test");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), words)
}

#[test]
fn a_certificate_that_no_peer_accepts_is_found_before_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = dev::certificates(directory.path(), &Region::global()).expect("certificates");
    let (fit, words) = validate(directory.path(), &made.server, "global");
    assert!(fit, "{words}");

    let (fit, words) = validate(directory.path(), &made.node, "global");
    assert!(
        !fit && words.contains("of a node, not of a server"),
        "{words}"
    );
    let (fit, words) = validate(directory.path(), &made.server, "mars");
    assert!(!fit && words.contains("not for region mars"), "{words}");
    let gone = CertificateFiles {
        certificate: directory.path().join("gone.pem"),
        ..made.server
    };
    let (fit, words) = validate(directory.path(), &gone, "global");
    assert!(!fit && words.contains("gone.pem"), "{words}");
}

#[test]
fn new_kek_is_a_file_for_its_user_alone_and_no_other_is_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let below = directory.path().join("keyring");
    let make = || {
        let output = Command::new(env!("CARGO_BIN_EXE_controlplane"))
            .arg("--new-kek")
            .arg(&below)
            .output()
            .expect("the program was built for this test");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let (first, second) = (make(), make());
    assert_ne!(first, second);
    for path in [&first, &second] {
        let (text, mode) = (std::fs::read(path), std::fs::metadata(path));
        let kek = controlplane_keyring::Kek::from_text(&text.expect("a file")).expect("a KEK");
        assert!(path.ends_with(&format!("/{}.kek", kek.id())), "{path}");
        assert_eq!(mode.expect("a file").permissions().mode() & 0o777, 0o600);
    }
    std::fs::set_permissions(&below, PermissionsExt::from_mode(0o755)).expect("it is opened");
    let output = Command::new(env!("CARGO_BIN_EXE_controlplane"))
        .arg("--new-kek")
        .arg(&below)
        .output()
        .expect("the program was built for this test");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && words.contains("chmod"),
        "{words}"
    );
}
