//! Parses the ledger's URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rushgate_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);
const POOL: usize = 4;
const SCHEMA: &str = "rushgate";

const HINT: &str = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE with percent-escapes for special characters, and any \
                    of ?schema=NAME, pool=N (1 to 64), statement_timeout=MILLISECONDS, connect_timeout=SECONDS, \
                    sslmode=disable|prefer|require, sslrootcert=FILE and the other options of a PostgreSQL URL";

/// How the server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Not at all: prevents eavesdropping, but not impersonation.
    Anything,
    /// With the root certificates of this machine.
    System,
    /// With the root certificates in a file.
    File(PathBuf),
}

/// Options from a URL. They contain the password, which neither Debug nor Display prints.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) config: Config,
    /// The configuration of each host alone, in order.
    pub(crate) hosts: Vec<Config>,
    pub(crate) schema: String,
    pub(super) pool: usize,
    pub(crate) statement_timeout: Duration,
    pub(crate) trust: Trust,
}

impl Options {
    /// Parses a URL. Errors repeat no part of it, because any part may belong to a password with an unescaped
    /// character.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let not_understood = || Error::invalid("the ledger's URL", "is malformed").hint(HINT);
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut options = Self {
            config: Config::new(),
            hosts: Vec::new(),
            schema: SCHEMA.into(),
            pool: POOL,
            statement_timeout: STATEMENT_TIMEOUT,
            trust: Trust::Anything,
        };
        let mut theirs = Vec::new();
        let (mut verify, mut root) = (false, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(not_understood)?;
            let value = unescape(value).ok_or_else(not_understood)?;
            match (key, value.as_str()) {
                ("schema", name) => options.schema = check_schema(name)?,
                ("pool", text) => options.pool = number("pool", text, 1, 64)? as usize,
                ("statement_timeout", text) => {
                    let millis = number("statement_timeout", text, 10, 3_600_000)?;
                    options.statement_timeout = Duration::from_millis(millis);
                }
                ("sslrootcert", path) => root = Some(PathBuf::from(path)),
                ("sslmode", "require" | "verify-ca" | "verify-full") => {
                    verify = true;
                    theirs.push("sslmode=require".to_owned());
                }
                _ => theirs.push(pair.to_owned()),
            }
        }
        options.trust = match root {
            Some(path) if path.as_os_str() != "system" => Trust::File(path),
            Some(_) => Trust::System,
            None if verify => Trust::System,
            None => Trust::Anything,
        };
        let theirs = theirs.join("&");
        let understood =
            |address: &str| Config::from_str(&format!("{address}?{theirs}")).map_err(|_| not_understood());
        options.config = understood(address)?;
        // The options can also name hosts or their order. Then the client library's own loop is used.
        let alone = hosts_of(address);
        let as_library = !options.config.get_hostaddrs().is_empty()
            || options.config.get_load_balance_hosts() != LoadBalanceHosts::Disable
            || alone.len() != options.config.get_hosts().len();
        let alone = if as_library { vec![address.to_owned()] } else { alone };
        options.hosts = alone.iter().map(|address| understood(address)).collect::<Result<_>>()?;
        // Of several hosts, connect to the one that accepts writes.
        let takes_writes = options.config.get_hosts().len() > 1
            && options.config.get_target_session_attrs() == TargetSessionAttrs::Any;
        for config in options.hosts.iter_mut().chain([&mut options.config]) {
            settle(config);
            if takes_writes {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
        }
        Ok(options)
    }

    /// Time limit for connecting, all hosts together.
    pub(crate) fn connect_max(&self) -> Duration {
        if self.hosts.len() > 1 {
            self.host_max() * self.hosts.len() as u32
        } else {
            self.connect_timeout() * (self.config.get_hosts().len().max(1) as u32 + 1)
        }
    }

    /// Time limit for one host, including startup messages. It suffices for a name with two addresses.
    pub(crate) fn host_max(&self) -> Duration {
        if self.hosts.len() > 1 { self.connect_timeout() * 2 } else { self.connect_max() }
    }

    /// Time limit for a host to accept a connection.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT)
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }

    /// Time limit of a step, after which its connection is closed, whatever the server does.
    pub(crate) fn step_max(&self) -> Duration {
        self.statement_timeout * 2 + CONNECT_TIMEOUT
    }
}

/// Sets defaults for what the URL does not specify.
fn settle(config: &mut Config) {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host("localhost");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("rushgate");
    }
    // These detect a server that disappeared silently, in addition to the limit on each step.
    config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
}

/// Splits an address by host: `postgres://ann@a:1,b/shop` is `postgres://ann@a:1/shop` and `postgres://ann@b/shop`.
fn hosts_of(address: &str) -> Vec<String> {
    let Some((scheme, rest)) = address.split_once("://") else { return vec![address.to_owned()] };
    let (authority, database) =
        rest.split_once('/').map_or((rest, None), |(first, rest)| (first, Some(rest)));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    let database = database.map(|name| format!("/{name}")).unwrap_or_default();
    hosts.split(',').map(|host| format!("{scheme}://{user}{at}{host}{database}")).collect()
}

/// The URL without the password.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            if let Some(port) = ports.get(at).or_else(|| ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        if let Some(database) = self.config.get_dbname() {
            write!(f, "/{database}")?;
        }
        if self.schema != SCHEMA {
            write!(f, "?schema={}", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn number(key: &str, text: &str, min: u64, max: u64) -> Result<u64> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        Error::invalid("the ledger's URL", format_args!("has an invalid {key}; it must be {min} to {max}"))
            .hint(HINT)
    })
}

fn check_schema(name: &str) -> Result<String> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && name.len() <= 63 && !name.starts_with("pg_") {
        return Ok(name.to_owned());
    }
    Err(Error::invalid(
        "the ledger's URL",
        "has an invalid schema; it must be 1 to 63 of a-z, 0-9 and _, and must not start with a digit or pg_",
    ))
}

/// Decodes percent-escapes.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_leaves_open_is_settled() {
        let options = Options::parse("postgresql://ann@db/shop").unwrap();
        assert_eq!(
            (options.pool, options.schema.as_str(), &options.trust),
            (4, "rushgate", &Trust::Anything)
        );
        assert_eq!(options.config.get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert!(options.uses_tls());
        let hosts = Options::parse("postgres://a,b/shop").unwrap();
        assert_eq!(hosts.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn hosts_whose_addresses_or_order_are_said_are_left_to_the_library() {
        for more in ["hostaddr=127.0.0.1,127.0.0.2", "load_balance_hosts=random"] {
            let options = Options::parse(&format!("postgres://one,two/shop?{more}")).unwrap();
            assert_eq!(options.hosts.len(), 1, "{more}");
            assert_eq!(options.hosts[0].get_hosts().len(), 2, "{more}");
            assert_eq!(options.connect_max(), CONNECT_TIMEOUT * 3, "{more}");
        }
    }

    #[test]
    fn several_hosts_are_parsed_separately() {
        let url = "postgres://ann:pa%40ss@one:1,two,[::1]:3/shop?sslmode=disable&schema=sales";
        let options = Options::parse(url).unwrap();
        assert_eq!(options.hosts.len(), 3);
        for (at, host) in options.hosts.iter().enumerate() {
            assert_eq!(host.get_hosts(), [options.config.get_hosts()[at].clone()]);
            assert_eq!(host.get_ports()[0], [1, 5432, 3][at]);
            assert_eq!((host.get_user(), host.get_dbname()), (Some("ann"), Some("shop")));
            assert_eq!(host.get_password(), Some(&b"pa@ss"[..]));
            assert_eq!(host.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        let one = Options::parse("postgres://db/shop").unwrap();
        assert_eq!((one.hosts.len(), one.hosts[0].get_target_session_attrs()), (1, TargetSessionAttrs::Any));
        assert_eq!(Options::parse("postgres:///shop").unwrap().hosts.len(), 1);
    }

    #[test]
    fn options_of_our_own_and_of_postgres_stand_side_by_side() {
        let url = "postgres://db:5433/shop?schema=sales&pool=2&statement_timeout=500&sslmode=require\
                   &sslrootcert=%2Fetc%2Froot.pem&connect_timeout=2";
        let options = Options::parse(url).unwrap();
        assert_eq!((options.pool, options.schema.as_str()), (2, "sales"));
        assert_eq!(options.statement_timeout, Duration::from_millis(500));
        assert_eq!(options.trust, Trust::File("/etc/root.pem".into()));
        assert_eq!(options.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(options.to_string(), "postgres://db:5433/shop?schema=sales");
        assert!(!Options::parse("postgres://db/shop?sslmode=disable").unwrap().uses_tls());
        assert_eq!(Options::parse("postgres://db/shop?sslmode=require").unwrap().trust, Trust::System);
    }

    #[test]
    fn a_password_is_never_shown() {
        let options = Options::parse("postgres://ann:hunter2@db/shop?password=hunter2").unwrap();
        assert!(!format!("{options} {options:?} {:?}", options.config).contains("hunter2"));
        for url in [
            "postgres://ann:hunter2?@db/shop",
            "postgres://ann:hunter2@db:port/shop",
            "postgres://ann@db/shop?hunter2=1",
            "postgres://ann@db/shop?pool=hunter2",
            "postgres://ann@db/shop?schema=Hunter2%20hunter2",
        ] {
            let error = Options::parse(url).unwrap_err();
            assert!(error.is_invalid(), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error:?}");
        }
    }
}
