//! HTTPS: who is let in, and what those are told who are not.

use controlplane_server::config::HttpTls;
use protocol_client::{Client, ClientError, Query, TlsFiles, TlsTrouble, Verify};
use serde_json::Value;

use crate::world::World;

async fn world(tls: HttpTls) -> World {
    World::start_with(|config| config.http.tls = tls).await
}

/// Asks as a client with these files, at the address as it is or by another scheme.
async fn ask(world: &World, scheme: &str, files: &TlsFiles) -> Result<Value, ClientError> {
    let address = format!("{scheme}://{}", world.server.http_address());
    let client = Client::new(address.parse()?, files)?;
    Ok(client.get("/v1/jobs", &Query::new()).await?.value)
}

fn trouble(answer: Result<Value, ClientError>) -> TlsTrouble {
    match answer {
        Err(ClientError::Tls { trouble, .. }) => trouble,
        other => panic!("expected TLS to fail, got {other:?}"),
    }
}

/// The authority that the server's development certificates come from, and a client's pair.
fn files(world: &World) -> (TlsFiles, TlsFiles) {
    let region = protocol_transport::Region::global();
    let made = controlplane_server::dev::certificates(&world.data_dir(), &region);
    let made = made.expect("the certificates that are there");
    let trusting = TlsFiles {
        ca: Some(made.ca),
        ..TlsFiles::default()
    };
    let known = TlsFiles {
        cert: Some(made.server.certificate),
        key: Some(made.server.key),
        ..trusting.clone()
    };
    (trusting, known)
}

#[tokio::test]
async fn a_server_has_to_show_who_it_is() {
    let world = world(HttpTls::On).await;
    let (trusting, _) = files(&world);
    ask(&world, "https", &trusting).await.expect("is let in");
    let stranger = ask(&world, "https", &TlsFiles::default()).await;
    assert_eq!(trouble(stranger), TlsTrouble::UnknownAuthority);
    let elsewhere = TlsFiles {
        server_name: Some("elsewhere.example".to_owned()),
        ..trusting
    };
    let wrong = ask(&world, "https", &elsewhere).await;
    assert_eq!(trouble(wrong), TlsTrouble::WrongName);
    let careless = TlsFiles {
        verify: Verify::Nothing,
        ..elsewhere
    };
    ask(&world, "https", &careless)
        .await
        .expect("anybody will do");
}

#[tokio::test]
async fn a_client_has_to_show_who_it_is_where_the_server_asks() {
    let world = world(HttpTls::Mutual).await;
    let (trusting, known) = files(&world);
    ask(&world, "https", &known).await.expect("is let in");
    let anonymous = ask(&world, "https", &trusting).await;
    assert_eq!(trouble(anonymous), TlsTrouble::ClientCertificate);
}

#[tokio::test]
async fn another_certificate_is_shown_from_the_next_connection_on() {
    let world = world(HttpTls::On).await;
    let (before, _) = files(&world);
    let address = format!("https://{}", world.server.http_address());
    let standing = Client::new(address.parse().expect("an address"), &before).expect("a client");
    let query = Query::new();
    standing
        .get::<Value>("/v1/jobs", &query)
        .await
        .expect("is let in");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let region = protocol_transport::Region::global();
    let made = controlplane_server::dev::certificates(elsewhere.path(), &region).expect("made");
    let load = |pair: &controlplane_server::dev::CertificateFiles| {
        protocol_transport::Identity::load(&made.ca, &pair.certificate, &pair.key).expect("loads")
    };
    let foreign = world.server.certificates().replace(load(&made.node));
    assert!(foreign.is_err(), "of a node");
    ask(&world, "https", &before)
        .await
        .expect("nothing changed");
    let replaced = world.server.certificates().replace(load(&made.server));
    replaced.expect("of a server of this region");
    assert_eq!(
        trouble(ask(&world, "https", &before).await),
        TlsTrouble::UnknownAuthority
    );
    let after = TlsFiles {
        ca: Some(made.ca.clone()),
        ..TlsFiles::default()
    };
    ask(&world, "https", &after).await.expect("is let in");
    standing
        .get::<Value>("/v1/jobs", &query)
        .await
        .expect("its connection goes on");
}

#[tokio::test]
async fn the_wrong_scheme_is_named() {
    let secure = world(HttpTls::On).await;
    let plain = ask(&secure, "http", &TlsFiles::default()).await;
    let Err(ClientError::Status { code, message }) = plain else {
        panic!("expected an answer, got {plain:?}");
    };
    assert_eq!(code, 400);
    assert_eq!(message, "Client sent an HTTP request to an HTTPS server.");
    let open = world(HttpTls::Off).await;
    let (trusting, _) = files(&open);
    let encrypted = ask(&open, "https", &trusting).await;
    assert_eq!(trouble(encrypted), TlsTrouble::NoTls);
}
