//! Authorization: roles, scopes and the token file.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use rushgate::store::hex;
use rushgate::wire::schema::LABEL;
use rushgate::wire::{Field, check_label};
use rushgate::{BuyerId, Error};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::now;
use crate::scope::{Kind, Scope, check_sales};
use crate::signed::{Signed, SigningKey, Unread, WrittenKey};

/// Role of a caller. Each role may do everything the roles before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Reads sales, reserves, and reads and cancels reservations.
    Buyer,
    /// Uses locks and queues, and confirms reservations once they are paid for.
    Worker,
    /// Creates, changes, halts and reads everything.
    Operator,
}

impl Role {
    /// Every role, least privileged first.
    pub const ALL: [Self; 3] = [Self::Buyer, Self::Worker, Self::Operator];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Buyer => "buyer",
            Self::Worker => "worker",
            Self::Operator => "operator",
        }
    }
}

/// A token as stored in the file: the SHA-256 of the secret instead of the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// ID of the token, 8 hexadecimal digits. It also appears in logs.
    pub id: String,
    /// Purpose of the token, as shown to operators.
    pub label: String,
    /// Role of the bearer.
    pub role: Role,
    /// The names that the token is limited to. Empty means all.
    pub scopes: Vec<Scope>,
    /// The only buyer that the token is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buyer: Option<BuyerId>,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    sha256: String,
}

/// A token or a key as operators see it, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// ID of the token or key.
    pub id: String,
    /// Whether it is a key, with which a shop signs tokens for its buyers.
    pub signs: bool,
    /// Its purpose.
    pub label: String,
    /// Role of the bearer.
    pub role: Role,
    /// The names that it is limited to, such as `queue:mail*`. Empty means all.
    #[schemars(with = "Vec<String>")]
    pub scopes: Vec<Scope>,
    /// The only buyer that the token is for.
    #[schemars(with = "Option<String>")]
    pub buyer: Option<BuyerId>,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
}

impl From<TokenEntry> for TokenView {
    fn from(entry: TokenEntry) -> Self {
        let TokenEntry { id, label, role, scopes, buyer, created_ms, .. } = entry;
        Self { id, signs: false, label, role, scopes, buyer, created_ms }
    }
}

impl From<SigningKey> for TokenView {
    fn from(key: SigningKey) -> Self {
        let SigningKey { id, label, scopes, created_ms, .. } = key;
        Self { id, signs: true, label, role: Role::Buyer, scopes, buyer: None, created_ms }
    }
}

/// A token to create.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokenBody")]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Purpose of the token, as shown to operators: at most 200 bytes without control characters.
    #[schemars(extend("pattern" = LABEL))]
    pub label: String,
    /// Role of the bearer.
    pub role: Role,
    /// The names that it is limited to, such as `lock:a`, `queue:mail*` or `sale:*`. Empty, the default, means all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub scopes: Vec<Scope>,
    /// The only buyer that it is for.
    #[serde(default)]
    pub buyer: Option<BuyerId>,
}

/// The file of valid tokens. A token is 256 random bits, so a plain SHA-256 of it reveals nothing.
///
/// Tokens can be created and revoked while a server runs: it reloads the file within 200 ms.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use rushgate_server::{NewToken, Role, TokenFile};
///
/// let file = TokenFile::at(dir.path().join("tokens.json"));
/// let new = NewToken { label: "mail".into(), role: Role::Worker, scopes: vec!["queue:mail*".parse()?], buyer: None };
/// let (entry, secret) = file.create(new)?;
/// assert!(secret.starts_with(&format!("rg_{}_", entry.id)));
/// assert_eq!(file.list()?, [entry.clone()]);
/// assert!(file.revoke(&entry.id)?);
/// assert!(file.list()?.is_empty());
/// # Ok::<_, rushgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    tokens: Vec<TokenEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<WrittenKey>,
}

/// Content of the file.
#[derive(Debug, Default)]
struct TokensAndKeys {
    tokens: Vec<TokenEntry>,
    keys: Vec<SigningKey>,
}

impl TokensAndKeys {
    /// The number of tokens and keys. Every change of the file adds or removes some.
    fn len(&self) -> usize {
        self.tokens.len() + self.keys.len()
    }

    fn new_id(&self) -> String {
        let ids = || self.tokens.iter().map(|token| &token.id).chain(self.keys.iter().map(|key| &key.id));
        loop {
            let id = format!("{:08x}", rand::random::<u32>());
            if ids().all(|known| *known != id) {
                return id;
            }
        }
    }
}

/// How long to wait for another change of the file, and the pause between two attempts.
const LOCK_WITHIN: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

impl TokenFile {
    /// The file at this path, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a token and returns it with its secret. Only the hash of the secret is stored, so it cannot be shown
    /// again.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the label has more than 200 bytes or a control character.
    /// [`is_misconfigured`](Error::is_misconfigured) if the file cannot be read or written.
    /// [`is_unavailable`](Error::is_unavailable) if another process keeps it locked for 10 s. No token was created.
    pub fn create(&self, new: NewToken) -> Result<(TokenEntry, String), Error> {
        let NewToken { label, role, scopes, buyer } = new;
        check_label(Field::Label, &label)?;
        self.change(|known| {
            let id = known.new_id();
            let secret = format!("rg_{id}_{}", hex(&rand::random::<[u8; 32]>()));
            let sha256 = hex(&digest(&secret));
            let entry =
                TokenEntry { id, label, role, scopes, buyer, created_ms: now().as_millis() as u64, sha256 };
            known.tokens.push(entry.clone());
            (entry, secret)
        })
    }

    /// Creates a key with which a shop signs tokens for its buyers.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for scopes other than sales; otherwise as [`create`](Self::create).
    pub fn create_key(&self, label: impl Into<String>, scopes: Vec<Scope>) -> Result<SigningKey, Error> {
        let label = label.into();
        check_label(Field::Label, &label)?;
        check_sales(&scopes)?;
        self.change(|known| {
            let key = SigningKey::new(known.new_id(), label, scopes, now().as_millis() as u64);
            known.keys.push(key.clone());
            key
        })
    }

    /// The valid keys, oldest first.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn keys(&self) -> Result<Vec<SigningKey>, Error> {
        Ok(self.read()?.keys)
    }

    /// The valid tokens, oldest first.
    ///
    /// # Errors
    /// [`is_misconfigured`](Error::is_misconfigured) if the file exists and cannot be read.
    pub fn list(&self) -> Result<Vec<TokenEntry>, Error> {
        Ok(self.read()?.tokens)
    }

    /// The valid tokens, and then the valid keys, oldest first, as operators see them.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn views(&self) -> Result<Vec<TokenView>, Error> {
        let TokensAndKeys { tokens, keys } = self.read()?;
        Ok(tokens.into_iter().map(TokenView::from).chain(keys.into_iter().map(TokenView::from)).collect())
    }

    /// Revokes a token or a key by its ID; returns whether it existed. Revoking a key invalidates every token that it
    /// signed.
    ///
    /// # Errors
    /// [`is_misconfigured`](Error::is_misconfigured) if the file cannot be read or written, and
    /// [`is_unavailable`](Error::is_unavailable) if another process keeps it locked for 10 s. The token stays valid then.
    pub fn revoke(&self, id: &str) -> Result<bool, Error> {
        self.change(|known| {
            let before = known.len();
            known.tokens.retain(|token| token.id != id);
            known.keys.retain(|key| key.id != id);
            known.len() < before
        })
    }

    /// Changes the file. Of several processes and threads, one at a time does so: each locks a file beside it, so that
    /// none writes back what another has revoked.
    fn change<T>(&self, change: impl FnOnce(&mut TokensAndKeys) -> T) -> Result<T, Error> {
        let _locked = self.lock()?;
        let mut known = self.read()?;
        let before = known.len();
        let changed = change(&mut known);
        if known.len() != before {
            self.write(&known)?;
        }
        Ok(changed)
    }

    /// Waits for an exclusive lock. It ends with the returned handle. Only the owner can open its file, so nobody else can
    /// keep it.
    fn lock(&self) -> Result<std::fs::File, Error> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let options =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
        let file = options.open(&path).map_err(|error| self.unusable("is not writable", error))?;
        let until = Instant::now() + LOCK_WITHIN;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let why = format_args!(
                        "another process has kept the token file `{}` locked for {} s",
                        self.path.display(),
                        LOCK_WITHIN.as_secs()
                    );
                    return Err(Error::unavailable(why).hint("end that process, then retry"));
                }
                Err(TryLockError::Error(error)) => return Err(self.unusable("cannot be locked", error)),
            }
        }
    }

    fn read(&self) -> Result<TokensAndKeys, Error> {
        let text = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(TokensAndKeys::default()),
            text => text.map_err(|error| self.unusable("cannot be read", error))?,
        };
        let written: Written =
            serde_json::from_slice(&text).map_err(|error| self.unusable("is malformed", error))?;
        let keys: Result<Vec<_>, _> = written.keys.into_iter().map(SigningKey::try_from).collect();
        let keys = keys.map_err(|error| self.unusable("contains an invalid signing key", error))?;
        if !keys.is_empty() {
            self.warn_of_readers();
        }
        Ok(TokensAndKeys { tokens: written.tokens, keys })
    }

    /// Anyone may read hashes of tokens, but only the owner may read keys.
    fn warn_of_readers(&self) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&self.path).map(|data| data.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            tracing::warn!(file = %self.path.display(), "other users can read the signing keys in this file: run \
                                                         chmod 600");
        }
    }

    /// Writes a temporary file and renames it, so readers see either the old or the new content.
    fn write(&self, known: &TokensAndKeys) -> Result<(), Error> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let unusable = |error| self.unusable("is not writable", error);
        let keys = known.keys.iter().cloned().map(WrittenKey::from).collect();
        let written = Written { tokens: known.tokens.clone(), keys };
        let mut text =
            serde_json::to_vec_pretty(&written).map_err(|error| self.unusable("is not writable", error))?;
        text.push(b'\n');
        let mut beside = self.path.clone().into_os_string();
        beside.push(format!(".{:08x}", rand::random::<u32>()));
        let options = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
        let mut file = options.open(&beside).map_err(unusable)?;
        let done = file.write_all(&text).and_then(|()| file.sync_all());
        done.and_then(|()| std::fs::rename(&beside, &self.path)).map_err(|error| {
            // Remove the unfinished temporary file.
            let _ = std::fs::remove_file(&beside);
            unusable(error)
        })
    }

    fn unusable(&self, what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        let path = self.path.display();
        Error::misconfigured(format_args!("the token file `{path}` {what}: {error}")).caused_by(error)
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// ID of the token, or of the key and the buyer. `open` if the server requires no tokens.
    pub id: String,
    pub role: Role,
    scopes: Vec<Scope>,
    /// Scopes of the token, or of the key that signed it.
    narrower: Vec<Scope>,
    /// The only buyer that the caller may act for.
    pub buyer: Option<BuyerId>,
    /// A secret that only this caller and the server know.
    secret: [u8; 32],
}

impl Caller {
    fn open() -> Self {
        Self {
            id: "open".to_owned(),
            role: Role::Operator,
            scopes: Vec::new(),
            narrower: Vec::new(),
            buyer: None,
            secret: [0; 32],
        }
    }

    /// A caller that reads public information.
    pub fn nobody() -> Self {
        Self { id: "nobody".to_owned(), role: Role::Buyer, ..Self::open() }
    }

    /// Derives 128 bits from the caller's secret: the same for this caller in every process, and unpredictable for
    /// others. The parts contain no NUL.
    pub fn derive(&self, parts: &[&str]) -> [u8; 16] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else {
            unreachable!("HMAC takes keys of every length");
        };
        for part in ["rushgate key 1"].iter().chain(parts) {
            mac.update(part.as_bytes());
            mac.update(b"\0");
        }
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        half
    }

    /// Whether the caller has no scopes and may act for every buyer.
    pub fn is_unlimited(&self) -> bool {
        self.scopes.is_empty() && self.narrower.is_empty() && self.buyer.is_none()
    }

    /// Whether the caller's scopes cover this name.
    pub fn may(&self, kind: Kind, name: &str) -> bool {
        let within =
            |scopes: &[Scope]| scopes.is_empty() || scopes.iter().any(|scope| scope.covers(kind, name));
        within(&self.scopes) && within(&self.narrower)
    }
}

/// The authenticator of a server.
#[derive(Debug)]
pub(crate) enum Authenticator {
    /// Every caller is an operator. Only fit for loopback.
    Open,
    /// Callers need a token from the file.
    Tokens(TokenAuthenticator),
}

#[derive(Debug)]
pub(crate) struct TokenAuthenticator {
    file: TokenFile,
    latest: Mutex<Latest>,
}

#[derive(Debug)]
struct Latest {
    known: Arc<TokensAndKeys>,
    looked: Instant,
    version: Option<Version>,
}

/// Maximum time that a revoked token stays valid.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl TokenAuthenticator {
    pub fn new(file: TokenFile) -> Result<Self, Error> {
        let version = version(&file);
        let latest = Latest { version, known: Arc::new(file.read()?), looked: Instant::now() };
        Ok(Self { file, latest: Mutex::new(latest) })
    }

    /// The token file.
    pub fn file(&self) -> &TokenFile {
        &self.file
    }

    /// The content of the file, reloaded if it changed. While the file cannot be read, no new tokens are accepted.
    fn known(&self) -> Arc<TokensAndKeys> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.looked.elapsed() >= LOOK_EVERY {
            latest.looked = Instant::now();
            let version = version(&self.file);
            if version != latest.version {
                match self.file.read() {
                    Ok(known) => (latest.known, latest.version) = (Arc::new(known), version),
                    Err(error) => {
                        tracing::error!(%error, "cannot reload the token file; the tokens are unchanged")
                    }
                }
            }
        }
        Arc::clone(&latest.known)
    }

    fn caller(&self, bearer: &str) -> Option<Caller> {
        let known = self.known();
        match bearer.strip_prefix("rg_") {
            Some(rest) => known.bearer(bearer, rest),
            None => known.buyer(&Unread::of(bearer)?),
        }
    }
}

impl TokensAndKeys {
    /// Authenticates a token from the file.
    fn bearer(&self, bearer: &str, rest: &str) -> Option<Caller> {
        let (id, _) = rest.split_once('_')?;
        let hashed = digest(bearer);
        let entry = self.tokens.iter().find(|token| token.id == id)?;
        // The hashes are compared in constant time.
        let is_it = bool::from(hex(&hashed).as_bytes().ct_eq(entry.sha256.as_bytes()));
        is_it.then(|| Caller {
            id: entry.id.clone(),
            role: entry.role,
            scopes: entry.scopes.clone(),
            narrower: Vec::new(),
            buyer: entry.buyer.clone(),
            secret: hashed,
        })
    }

    /// Authenticates a token signed by one of the keys.
    fn buyer(&self, token: &Unread<'_>) -> Option<Caller> {
        let key = self.keys.iter().find(|key| key.id == token.kid)?;
        let Signed { buyer, scopes, secret } = key.read(token)?;
        Some(Caller {
            id: format!("{}/{buyer}", key.id),
            role: Role::Buyer,
            scopes: key.scopes.clone(),
            narrower: scopes,
            buyer: Some(buyer),
            secret,
        })
    }
}

/// Identity and time of the loaded file. The time alone is too coarse: two changes can fall into one tick.
type Version = (u64, u64, SystemTime);

fn version(file: &TokenFile) -> Option<Version> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(file.path()).ok()?;
    Some((data.ino(), data.len(), data.modified().ok()?))
}

impl Authenticator {
    /// Authenticates the value of an Authorization header; `None` if it is unknown.
    pub fn caller(&self, authorization: Option<&[u8]>) -> Option<Caller> {
        match self {
            Self::Open => Some(Caller::open()),
            Self::Tokens(authenticator) => {
                let header = std::str::from_utf8(authorization?).ok()?;
                let (scheme, bearer) = header.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| authenticator.caller(bearer.trim()))?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_names_one_thing_or_all_that_begin_so() {
        for (scope, kind, name, covered) in [
            ("queue:mail", Kind::Queue, "mail", true),
            ("queue:mail", Kind::Queue, "mail2", false),
            ("queue:mail", Kind::Lock, "mail", false),
            ("queue:mail*", Kind::Queue, "mail2", true),
            ("queue:mail*", Kind::Queue, "mai", false),
            ("sale:*", Kind::Sale, "anything", true),
        ] {
            let read: Scope = scope.parse().unwrap();
            assert_eq!(read.to_string(), scope);
            assert_eq!(read.covers(kind, name), covered, "{scope} {name}");
        }
        for wrong in ["", "queue", "queue:", "thing:a", "queue:a*b", "queue:**"] {
            assert!(wrong.parse::<Scope>().unwrap_err().is_invalid(), "{wrong}");
        }
    }

    #[test]
    fn the_file_has_no_secret_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::at(dir.path().join("tokens.json"));
        let new = NewToken { label: "x".into(), role: Role::Buyer, scopes: Vec::new(), buyer: None };
        let (_, secret) = file.create(new).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let random = secret.rsplit('_').next().unwrap();
        assert_eq!(random.len(), 64);
        assert!(!text.contains(random));
        for file in std::fs::read_dir(dir.path()).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "only the lock is left beside it");
    }

    #[test]
    fn concurrent_changes_lose_no_token_and_bring_none_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.json");
        let new = |label: &str| NewToken {
            label: label.into(),
            role: Role::Buyer,
            scopes: Vec::new(),
            buyer: None,
        };
        // Each thread has its own handle, as each process has.
        let work = |label: String| {
            let file = TokenFile::at(&path);
            for _ in 0..10 {
                let (revoked, _) = file.create(new(&label)).unwrap();
                file.create(new(&label)).unwrap();
                assert!(file.revoke(&revoked.id).unwrap(), "the token of thread {label} is gone");
            }
        };
        std::thread::scope(|scope| {
            for n in 0..8 {
                let work = &work;
                scope.spawn(move || work(n.to_string()));
            }
        });
        let left = TokenFile::at(&path).list().unwrap();
        for n in 0..8 {
            assert_eq!(left.iter().filter(|token| token.label == n.to_string()).count(), 10, "of thread {n}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "only the lock is left beside it");
    }

    #[test]
    fn only_the_whole_token_is_let_in() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::at(dir.path().join("tokens.json"));
        let new = NewToken { label: "x".into(), role: Role::Worker, scopes: Vec::new(), buyer: None };
        let (entry, secret) = file.create(new).unwrap();
        let authenticator = Authenticator::Tokens(TokenAuthenticator::new(file).unwrap());
        let knock = |header: &str| authenticator.caller(Some(header.as_bytes())).map(|caller| caller.id);
        assert_eq!(knock(&format!("Bearer {secret}")), Some(entry.id.clone()));
        assert_eq!(knock(&format!("bearer {secret}")), Some(entry.id.clone()));
        let cut = &secret[..secret.len() - 1];
        for wrong in
            [&secret, "Bearer", "Bearer ", &format!("Bearer {cut}"), &format!("Basic {secret}"), "Bearer rg_"]
        {
            assert_eq!(knock(wrong), None, "{wrong}");
        }
        assert!(authenticator.caller(None).is_none() && authenticator.caller(Some(b"Bearer \xff")).is_none());
        assert_eq!(Authenticator::Open.caller(None).map(|caller| caller.role), Some(Role::Operator));
    }
}
