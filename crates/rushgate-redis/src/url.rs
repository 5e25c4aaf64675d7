//! Parses the URL of a store: one server, a Sentinel service or a Cluster.

use rushgate_core::{Error, Result};

use crate::transport::Server;

/// The kind of deployment in the URL.
pub(crate) enum Deployment {
    /// One server.
    Alone(Server),
    /// A Sentinel service. Each node has the credentials and database of the primary.
    Sentinel { nodes: Vec<Server>, service: String },
    /// A Cluster, by some of its nodes.
    Cluster { nodes: Vec<Server> },
}

/// A parsed URL.
pub(crate) struct Url {
    pub(crate) deployment: Deployment,
    /// The URL without secrets.
    pub(crate) shown: String,
}

const SENTINEL_PORT: u16 = 26379;

/// The parts of a URL with several hosts.
struct Parts<'u> {
    /// `redis` or `rediss`.
    scheme: &'static str,
    user_info: Option<&'u str>,
    hosts: Vec<&'u str>,
    path: Vec<&'u str>,
}

impl Url {
    /// Parses a URL. `valkey` is a synonym of `redis`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once("://") else { return Err(wrong("has no scheme")) };
        match scheme {
            "redis+sentinel" | "valkey+sentinel" => sentinel(Parts::read("redis", rest)?),
            "rediss+sentinel" | "valkeys+sentinel" => sentinel(Parts::read("rediss", rest)?),
            "redis+cluster" | "valkey+cluster" => cluster(Parts::read("redis", rest)?),
            "rediss+cluster" | "valkeys+cluster" => cluster(Parts::read("rediss", rest)?),
            "redis" | "valkey" => alone("redis", rest),
            "rediss" | "valkeys" => alone("rediss", rest),
            _ => Err(wrong("has an unsupported scheme")),
        }
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid("the store's URL", why).hint(
        "use redis://[user[:password]@]host[:port][/database], redis+sentinel://host[:port],…/service[/database] \
         or redis+cluster://host[:port],…; rediss for TLS; user and password percent-encoded",
    )
}

/// Rejects options. There are none, and ignoring one could change what the URL means.
fn without_options(rest: &str) -> Result<&str> {
    match rest.contains(['?', '#']) {
        true => Err(wrong(
            "has options after `?` or `#`, which are not supported (write %3F and %23 in a password)",
        )),
        false => Ok(rest),
    }
}

fn alone(scheme: &str, rest: &str) -> Result<Url> {
    let url = format!("{scheme}://{}", without_options(rest)?);
    let server = Server::parse(&url).ok_or_else(|| wrong("is malformed"))?;
    let shown = server.shown().to_owned();
    Ok(Url { deployment: Deployment::Alone(server), shown })
}

fn sentinel(parts: Parts<'_>) -> Result<Url> {
    let (service, database) = match parts.path[..] {
        [service] if !service.is_empty() => (service, "0"),
        [service, database] if !service.is_empty() => (service, database),
        _ => return Err(wrong("lacks the service name after the sentinels")),
    };
    let nodes = parts.servers(SENTINEL_PORT, database)?;
    let suffix = if database == "0" { String::new() } else { format!("/{database}") };
    let shown = format!("{}/{service}{suffix}", parts.shown("sentinel", &nodes));
    Ok(Url { deployment: Deployment::Sentinel { nodes, service: service.to_owned() }, shown })
}

fn cluster(parts: Parts<'_>) -> Result<Url> {
    if !matches!(parts.path[..], [] | ["" | "0"]) {
        return Err(wrong("names a database, but a Cluster has only database 0"));
    }
    let nodes = parts.servers(6379, "0")?;
    let shown = parts.shown("cluster", &nodes);
    Ok(Url { deployment: Deployment::Cluster { nodes }, shown })
}

impl<'u> Parts<'u> {
    fn read(scheme: &'static str, rest: &'u str) -> Result<Self> {
        let rest = without_options(rest)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let path = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        Ok(Self { scheme, user_info, hosts: hosts.split(',').collect(), path })
    }

    /// A server for each host, as if the URL had only that host.
    fn servers(&self, port: u16, database: &str) -> Result<Vec<Server>> {
        let user_info = self.user_info.map_or(String::new(), |user_info| format!("{user_info}@"));
        let server = |host: &&str| {
            let port = if has_port(host) { String::new() } else { format!(":{port}") };
            Server::parse(&format!("{}://{user_info}{host}{port}/{database}", self.scheme))
        };
        let servers: Option<Vec<_>> =
            self.hosts.iter().map(|host| server(host).filter(|_| !host.is_empty())).collect();
        servers.ok_or_else(|| wrong("is malformed"))
    }

    fn shown(&self, kind: &str, nodes: &[Server]) -> String {
        let user = self.user_info.and_then(|info| info.split(':').next()).filter(|user| !user.is_empty());
        let user = user.map_or(String::new(), |user| format!("{user}@"));
        let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
        format!("{}+{kind}://{user}{}", self.scheme, hosts.join(","))
    }
}

/// Whether a host has a port. Colons within the brackets of an IPv6 address do not count.
fn has_port(host: &str) -> bool {
    !host.ends_with(']') && host.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Url {
        Url::parse(url).unwrap()
    }

    fn hosts(url: &str) -> Vec<String> {
        let (Deployment::Sentinel { nodes, .. } | Deployment::Cluster { nodes }) = read(url).deployment
        else {
            panic!("{url} names one server")
        };
        nodes.iter().map(|node| node.address().to_string()).collect()
    }

    #[test]
    fn several_servers_are_read_with_their_ports() {
        assert_eq!(hosts("redis+cluster://a,b:7001,[::1]:7002"), ["a:6379", "b:7001", "[::1]:7002"]);
        assert_eq!(hosts("valkey+sentinel://a,b:7001/shop"), ["a:26379", "b:7001"]);
    }

    #[test]
    fn a_service_and_a_database_follow_the_sentinels() {
        let Deployment::Sentinel { service, .. } = read("redis+sentinel://a/shop/2").deployment else {
            panic!("these are sentinels")
        };
        assert_eq!(service, "shop");
        assert_eq!(
            read("rediss+sentinel://u:secret@a,b:1/shop/2").shown,
            "rediss+sentinel://u@a:26379,b:1/shop/2"
        );
        assert_eq!(read("redis+sentinel://:secret@a/shop").shown, "redis+sentinel://a:26379/shop");
        assert_eq!(read("redis+cluster://u:secret@a,b").shown, "redis+cluster://u@a:6379,b:6379");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_a_secret() {
        for url in [
            "redis+sentinel://:secret@a",
            "redis+sentinel://:secret@a/",
            "redis+sentinel://:secret@a/shop/x",
            "redis+sentinel://:secret@a/shop/1/2",
            "redis+cluster://:secret@",
            "redis+cluster://:secret@a,,b",
            "redis+cluster://:secret@a:port",
            "redis+cluster://:secret@a/1",
            "redis+cluster://:secret@a?x=y",
            "redis://:secret@a?x=y",
            "valkey://:secret@a/0?protocol=resp3",
            "rediss://:secret@a/#insecure",
            "redis://:secret#1@a",
            "secret",
        ] {
            let error = Url::parse(url).err().expect("the URL is wrong");
            assert!(error.is_invalid(), "{url}: {error:?}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
