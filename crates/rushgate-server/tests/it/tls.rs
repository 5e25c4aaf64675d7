//! TLS: trusted certificates, refused connections, and certificates that are replaced at run time.

use crate::common;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Ask, Stand};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rushgate::Rushgate;
use rushgate_server::Server;
use rushgate_test::servers::Certificates;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Copies a certificate and its key to the server's directory.
fn lay_out(certificates: &Certificates, dir: &TempDir) {
    fs::copy(certificates.certificate(), dir.path().join("crt")).unwrap();
    fs::copy(certificates.key(), dir.path().join("key")).unwrap();
}

async fn stand(certificates: &Certificates) -> Stand {
    short_timeout_stand(certificates, Duration::from_secs(30)).await
}

/// A server with a short time limit for silent clients.
async fn short_timeout_stand(certificates: &Certificates, arrival: Duration) -> Stand {
    let tls = |server: Server, dir: &TempDir| {
        lay_out(certificates, dir);
        Server { tls: Some((dir.path().join("crt"), dir.path().join("key"))), arrival, ..server }
    };
    Stand::with(tls).await
}

/// Connects as a client that trusts this authority.
async fn connect(stand: &Stand, trusted: &Certificates) -> std::io::Result<SendRequest<Full<Bytes>>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted.authority()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(stand.address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(stand.address.ip().into(), stream).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Ok(sender)
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_answered_and_others_stop() {
    let (ours, other) = (Certificates::make(), Certificates::make());
    let stand = stand(&ours).await;
    let mut sender = connect(&stand, &ours).await.unwrap();
    let answer = sender.send_request(Ask::new("GET", "/readyz").request(stand.address)).await.unwrap();
    assert_eq!(answer.status(), 200);
    let error = connect(&stand, &other).await.expect_err("the authority is not trusted");
    assert!(error.to_string().starts_with("invalid peer certificate"), "{error}");
    drop(sender);
    assert!(stand.end().await.is_orderly);
}

/// An attacker on the network path can alter a plain-HTTP page of our host.
#[tokio::test]
async fn a_page_that_came_in_the_clear_writes_nothing() {
    let ours = Certificates::make();
    let stand = stand(&ours).await;
    for (scheme, status) in [("http", 403), ("https", 201)] {
        let mut sender = connect(&stand, &ours).await.unwrap();
        let origin = format!("{scheme}://{}", stand.address);
        let ask = Ask::new("POST", "/v1/queues/q/tasks")
            .header("origin", &origin)
            .json(&serde_json::json!({ "id": "a" }));
        let answer = sender.send_request(ask.request(stand.address)).await.unwrap();
        assert_eq!(answer.status(), status, "{origin}");
    }
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn who_speaks_in_the_clear_or_says_nothing_is_left() {
    let stand = short_timeout_stand(&Certificates::make(), Duration::from_millis(300)).await;
    for said in [&b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b""] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        // The server may reset a plain-text connection instead of closing it.
        let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.unwrap();
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    }
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn a_replaced_certificate_serves_new_connections_and_an_invalid_one_does_not() {
    let (first, second) = (Certificates::make(), Certificates::make());
    let stand = stand(&first).await;
    fs::write(stand.dir.path().join("crt"), "no certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    connect(&stand, &first).await.expect("the previous certificate is kept");
    lay_out(&second, &stand.dir);
    common::eventually(async || connect(&stand, &second).await.is_ok()).await;
    assert!(connect(&stand, &first).await.is_err());
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_before_anything_is_served() {
    let (ours, other) = (Certificates::make(), Certificates::make());
    let nothing = ours.key().with_file_name("nothing");
    for (chain, key, named) in [
        (nothing.clone(), ours.key(), "nothing"),
        (ours.key(), ours.key(), "no PEM certificate"),
        (ours.certificate(), ours.certificate(), "no PEM private key"),
        (ours.certificate(), other.key(), "does not match the certificate"),
    ] {
        let client = Rushgate::connect("sqlite::memory:").await.unwrap();
        let server = Server { tls: Some((chain, key)), ..Server::new(client.clone()) };
        let bound = server.bind("127.0.0.1:0".parse().unwrap()).await;
        let error = bound.expect_err("it is refused");
        assert!(error.is_misconfigured() && error.to_string().contains(named), "{error:?}");
        client.close().await.unwrap();
    }
}
