use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::redis::scratch_folder;

/// Environment variable: folder of the certificates whose authority this process trusts.
const TRUSTED: &str = "RUSHGATE_TEST_CERTIFICATES";

/// A certificate authority, and a server certificate for 127.0.0.1 that it signed.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    /// Whether another process removes the folder.
    lent: bool,
}

impl Certificates {
    /// The certificates that this process was started to trust, or new ones that no process trusts.
    pub(super) fn of_this_process() -> Self {
        match env::var_os(TRUSTED) {
            Some(folder) => Self { folder: folder.into(), lent: true },
            None => Self::make(),
        }
    }

    /// Creates new certificates, which no process trusts.
    pub fn make() -> Self {
        let folder = scratch_folder();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        let authority =
            format!("req -x509 {key} -subj /CN=authority -days 2 -keyout authority.key -out authority.crt");
        openssl(&folder, &authority);
        openssl(&folder, &format!("req -new {key} -subj /CN=server -keyout server.key -out server.csr"));
        let names = "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
        fs::write(folder.join("names"), names).expect("the folder can be written");
        openssl(
            &folder,
            "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -extfile names -out server.crt",
        );
        Self { folder, lent: false }
    }

    /// Path of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.crt")
    }

    /// Path of the server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    /// Path of the server's key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// Adds the settings of a server, node or sentinel that accepts only TLS, on `port`. Servers of a group present
    /// the same certificate to each other.
    pub(super) fn settings(&self, port: &str, command: &mut Command) {
        command.args(["--port", "0", "--tls-port", port, "--tls-auth-clients", "no"]);
        command.args(["--tls-replication", "yes", "--tls-cluster", "yes"]);
        command.arg("--tls-cert-file").arg(self.certificate());
        command.arg("--tls-key-file").arg(self.key());
        command.arg("--tls-ca-cert-file").arg(self.authority());
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        if !self.lent {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn openssl(folder: &Path, words: &str) {
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).current_dir(folder).stderr(Stdio::null());
    let done = command.status().expect("openssl is installed; apt-get install openssl").success();
    assert!(done, "openssl {words}");
}

/// Runs a test of this program again, in a process that trusts the authority of the encrypted servers that it starts.
/// The trust is set by the environment, so it needs a new process. Returns false if this process is that one, which
/// then executes the test.
pub fn again_trusting(test: &str) -> bool {
    if env::var_os(TRUSTED).is_some() {
        return false;
    }
    let certificates = Certificates::make();
    let program = env::current_exe().expect("the test knows where it is");
    let mut again = Command::new(program);
    again.args(["--exact", test, "--nocapture"]);
    again.env("SSL_CERT_FILE", certificates.authority()).env(TRUSTED, &certificates.folder);
    let output = again.output().expect("the test can be started again");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test}, in a process that trusts:\n{said}"
    );
    true
}
