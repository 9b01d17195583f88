//! `tls`: an authority and certificates that chain to it.

use std::os::unix::fs::PermissionsExt as _;

use protocol_transport::ca::CertifiedPem;
use protocol_transport::{Identity, files, tls};

use crate::{drover, stderr, stdout};

#[test]
fn certificates_chain_to_their_authority() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str]| {
        let output = drover(folder.path(), arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        stdout(&output)
    };
    run(&["tls", "ca", "create"]);
    let names = [
        "-additional-dnsname=db.example",
        "-additional-ipaddress",
        "10.0.0.1",
    ];
    for role in ["server", "client", "cli"] {
        let flag = format!("-{role}");
        let create = [
            "tls", "cert", "create", &flag, "-region", "eu", "-days", "3",
        ];
        let shown = run(&[&create[..], &names[..]].concat());
        let (certificate, key) = (
            format!("eu-{role}-drover.pem"),
            format!("eu-{role}-drover-key.pem"),
        );
        assert_eq!(shown, format!("{certificate}\n{key}\n"));
        let path = folder.path().join(&key);
        assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o600);
        let pem = CertifiedPem {
            certificate: std::fs::read_to_string(folder.path().join(&certificate))?,
            key: files::read_key(&path)?,
        };
        let ca = std::fs::read_to_string(folder.path().join("drover-agent-ca.pem"))?;
        let identity = Identity::from_pem(&ca, &pem)?;
        tls::quic_server(&identity)?;
    }
    Ok(())
}

#[test]
fn nothing_is_replaced() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    assert!(
        drover(folder.path(), &["tls", "ca", "create"])
            .status
            .success()
    );
    let before = std::fs::read(folder.path().join("drover-agent-ca-key.pem"))?;
    let second = drover(folder.path(), &["tls", "ca", "create"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("hint:"), "{}", stderr(&second));
    assert_eq!(
        std::fs::read(folder.path().join("drover-agent-ca-key.pem"))?,
        before
    );
    Ok(())
}
