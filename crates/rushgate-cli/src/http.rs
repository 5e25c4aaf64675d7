//! HTTP client for webhooks and for the collector of spans.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use crate::exit::{Exit, Fault};

/// A client with persistent connections.
pub(crate) type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client for this URL scheme. Only `https` needs root certificates; it fails here if there are none.
pub(crate) fn client(scheme: Option<&str>) -> Result<Client, Fault> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if scheme == Some("https") && roots.is_empty() {
        return Err(Fault::new(
            Exit::Unavailable,
            "no_certificates",
            "this machine has no CA certificates, so no https:// server can be verified",
        )
        .hint("install them (on Debian: apt-get install ca-certificates), or set SSL_CERT_FILE"));
    }
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(legacy::Client::builder(TokioExecutor::new()).build(https))
}
