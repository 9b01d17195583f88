//! The HTTPS configurations, as far as the handshake goes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use protocol_transport::tls::{ClientCertificate, https_client, https_server};
use protocol_transport::{Identity, Role};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::{authority, identity};

fn handshake(
    server: &Identity,
    clients: ClientCertificate,
    client: Arc<rustls::ClientConfig>,
) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let config = https_server(server, clients).expect("a configuration");
    let serving = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        let mut tls = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
        rustls::Stream::new(&mut tls, &mut socket).write_all(b"hello")?;
        tls.send_close_notify();
        tls.complete_io(&mut socket).map(drop)
    });
    let mut socket = TcpStream::connect(address)?;
    let name = "localhost".try_into().expect("a name");
    let mut tls = rustls::ClientConnection::new(client, name).map_err(std::io::Error::other)?;
    let mut text = [0; 5];
    let read = rustls::Stream::new(&mut tls, &mut socket).read_exact(&mut text);
    drop(socket);
    let served = serving.join().expect("the server thread ends");
    read?;
    served?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn roots(authority: &protocol_transport::ca::CertificateAuthority) -> Vec<CertificateDer<'static>> {
    vec![
        CertificateDer::from_pem_slice(authority.pem().certificate.as_bytes())
            .expect("a certificate"),
    ]
}

#[test]
fn a_client_without_certificate_is_served_where_none_is_asked() {
    let authority = authority();
    let server = identity(&authority, Role::Server, "global");
    let client = https_client(&roots(&authority), None).expect("a configuration");
    let text = handshake(&server, ClientCertificate::Unasked, client).expect("is served");
    assert_eq!(text, "hello");
}

#[test]
fn a_required_certificate_is_demanded_and_accepted() {
    let authority = authority();
    let server = identity(&authority, Role::Server, "global");
    let without = https_client(&roots(&authority), None).expect("a configuration");
    handshake(&server, ClientCertificate::Required, without).expect_err("must refuse");
    let own = identity(&authority, Role::Cli, "global");
    let with = https_client(&roots(&authority), Some(&own)).expect("a configuration");
    let text = handshake(&server, ClientCertificate::Required, with).expect("is served");
    assert_eq!(text, "hello");
}

#[test]
fn a_server_of_another_authority_is_not_trusted() {
    let server = identity(&authority(), Role::Server, "global");
    let client = https_client(&roots(&authority()), None).expect("a configuration");
    handshake(&server, ClientCertificate::Unasked, client).expect_err("must refuse");
}
