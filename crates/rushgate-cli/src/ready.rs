//! `rushgate serve --check`: checks that the server at the listen address is ready.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::exit::{Exit, Fault};
use crate::output::Output;
use crate::settings::{Settings, Tls};

/// Time limit for the answer, and maximum size that is read.
const WITHIN: Duration = Duration::from_secs(5);
const ANSWER_MAX: u64 = 4 << 10;

/// Asks the server whether it is ready. For containers that have no other HTTP client.
pub(crate) async fn check(settings: &Settings, output: Output) -> Result<Exit> {
    let mut address = settings.listen;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let answer = tokio::time::timeout(WITHIN, ask(address, settings.tls())).await;
    let fault = match answer {
        Ok(Ok(line)) if line.split(' ').nth(1) == Some("200") => {
            let url = settings.url(address);
            return output.line(&json!({ "ready": true, "url": url }), format_args!("{url} is ready"));
        }
        Ok(Ok(line)) => format!("it answered `{line}`"),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {WITHIN:?}"),
    };
    Err(Fault::refused("not_ready", format_args!("the server at {address} is not ready: {fault}")).into())
}

/// First line of the answer.
async fn ask(address: SocketAddr, tls: Option<Tls<'_>>) -> io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    match tls {
        None => first_line(address, stream).await,
        Some(tls) => {
            let connector = TlsConnector::from(Arc::new(expecting(tls.certificate)?));
            first_line(address, connector.connect(address.ip().into(), stream).await?).await
        }
    }
}

async fn first_line(
    address: SocketAddr,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}

/// Trusts exactly this certificate for any host name, because the server is addressed by IP.
fn expecting(certificate: &Path) -> io::Result<ClientConfig> {
    let certificate = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
    let provider = Arc::new(ring::default_provider());
    let own = Own { certificate, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        config.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(Arc::new(own));
    Ok(config.with_no_client_auth())
}

/// Verifier that trusts one certificate.
#[derive(Debug)]
struct Own {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Own {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *shown == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
