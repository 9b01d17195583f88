//! HTTPS with a certificate that no host trusts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::scene::{Scene, request};

/// Answers every connection; the port.
fn serve(answer: &'static str) -> u16 {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a server");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, socket);
            let mut buffer = [0; 4096];
            // A client that refuses the certificate sends an alert.
            if stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    port
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
const TO_HTTP: &str = "HTTP/1.1 302 Found\r\nLocation: http://localhost/x\r\n\
                       Content-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn certificate_is_checked_unless_the_job_says_insecure() {
    let scene = Scene::new();
    let mut request = request(&format!("https://localhost:{}/a", serve(HELLO)));
    let error = scene.fetch(&request).expect_err("an unknown authority");
    let words = protocol_error_chain::chain(&error);
    assert!(words.contains("certificate"), "{words}");
    request.insecure = true;
    scene.fetch(&request).expect("fetched");
    assert_eq!(scene.staged("a"), "hello");
}

#[test]
fn redirect_from_https_to_http_is_refused() {
    let mut request = request(&format!("https://localhost:{}/a", serve(TO_HTTP)));
    request.insecure = true;
    let error = Scene::new().fetch(&request).expect_err("refused");
    let words = error.to_string();
    assert!(words.contains("it leaves https for http"), "{words}");
}
