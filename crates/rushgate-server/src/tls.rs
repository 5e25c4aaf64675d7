//! TLS with a certificate that can be replaced while the server runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rushgate::{Error, Result};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// How often new connections check the files for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate chain and its key, each in a file.
#[derive(Debug)]
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// Modification times of the files.
    written: Written,
    looked: Instant,
}

/// Whether a server could use a certificate and its key, each in a file.
///
/// # Errors
/// [`is_misconfigured`](Error::is_misconfigured) otherwise, naming the unusable file.
pub fn check_certificate(chain: &Path, key: &Path) -> Result<()> {
    load(chain, key).map(drop)
}

type Written = [Option<SystemTime>; 2];

impl Certificate {
    /// Reads both files.
    pub fn open(chain: PathBuf, key: PathBuf) -> Result<Self> {
        let written = written(&chain, &key);
        let loaded = Loaded { config: load(&chain, &key)?, written, looked: Instant::now() };
        Ok(Self { chain, key, loaded: Mutex::new(loaded) })
    }

    /// The acceptor for the next connection. It reloads changed files, and keeps the previous certificate while they are
    /// unusable.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_EVERY {
            loaded.looked = Instant::now();
            let written = written(&self.chain, &self.key);
            if written != loaded.written {
                loaded.written = written;
                match load(&self.chain, &self.key) {
                    Ok(config) => {
                        tracing::info!(file = %self.chain.display(), "reloaded the certificate");
                        loaded.config = config;
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot reload the certificate; the previous one is kept")
                    }
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

fn written(chain: &Path, key: &Path) -> Written {
    [chain, key].map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

fn load(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let certificates = certificates(chain)?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?);
    let secret = secret.map_err(|_| unusable(key, "it contains no PEM private key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, secret));
    let mut config = config.map_err(|error| {
        unusable(key, format_args!("it does not match the certificate `{}`: {error}", chain.display()))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Certificates of a file; the server's own comes first.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<std::result::Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(unusable(path, "it contains no PEM certificate")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error: io::Error| unusable(path, format_args!("{error}")).caused_by(error))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::misconfigured(format_args!("cannot use `{}` for TLS: {why}", path.display()))
}
