//! Rate limits per buyer and per address.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::http::{HeaderMap, HeaderName};
use rushgate::BuyerId;
use rushgate::queue::Rate;

use crate::access::{Caller, Role};
use crate::problem::{Code, Problem};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Shards of the table, so that lookups rarely wait for each other.
const SHARDS: usize = 16;

/// Maximum time that unused entries are kept.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Remote address of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// Rate limits of this process. They apply to buyers only: workers and operators send requests for many
/// buyers.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    of_buyer: Option<Meter<BuyerId>>,
    of_address: Option<Meter<IpAddr>>,
    /// Trusted proxies.
    proxies: Vec<IpAddr>,
}

impl Limits {
    pub fn new(of_buyer: Option<Rate>, of_address: Option<Rate>, proxies: Vec<IpAddr>) -> Self {
        Self {
            of_buyer: of_buyer.map(Meter::new),
            of_address: of_address.map(Meter::new),
            proxies: proxies.iter().map(IpAddr::to_canonical).collect(),
        }
    }

    /// Refuses a buyer who exceeds a limit. The request counts for the address even if the buyer's limit
    /// refuses it.
    pub fn check(&self, caller: &Caller, peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
        if caller.role != Role::Buyer {
            return Ok(());
        }
        if let Some(meter) = &self.of_address {
            meter
                .ask(network(self.origin(peer, headers)))
                .map_err(|wait| too_often("this address", meter.rate, wait))?;
        }
        match (&self.of_buyer, &caller.buyer) {
            (Some(meter), Some(buyer)) => {
                meter.ask(buyer.clone()).map_err(|wait| too_often("this buyer", meter.rate, wait))
            }
            _ => Ok(()),
        }
    }

    /// Scheme that the client used, as reported by a trusted proxy.
    pub fn scheme<'h>(&self, Peer(peer): Peer, headers: &'h HeaderMap) -> Option<&'h str> {
        let said = headers.get(FORWARDED_PROTO)?.to_str().ok()?;
        self.proxies.contains(&peer.to_canonical()).then_some(said)
    }

    /// Client address: as reported by the nearest proxy that is not trusted, or the remote address. Entries
    /// further left in the header could be forged.
    pub fn origin(&self, Peer(peer): Peer, headers: &HeaderMap) -> IpAddr {
        if !self.proxies.contains(&peer.to_canonical()) {
            return peer;
        }
        let said: Vec<_> = headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes()).collect();
        let mut nearest = peer;
        for address in said.iter().flat_map(|value| value.split(|byte| *byte == b',')).rev() {
            let Some(address) = read(address) else { return nearest };
            nearest = address;
            if !self.proxies.contains(&address.to_canonical()) {
                break;
            }
        }
        nearest
    }
}

/// Parses an address as proxies write it: some add a port, and brackets around an IPv6 address.
fn read(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bare)
}

fn too_often(who: &str, rate: Rate, wait: Duration) -> Problem {
    let Rate { n, per } = rate;
    Problem::new(Code::TooMany, format_args!("{who} may send {n} requests per {per:?}")).retry_after(wait)
}

/// The unit of a limit: an IPv6 client usually controls its whole /64 network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// Rate limiter per key: allows a burst of one period's quota, then the steady rate.
///
/// Uses the generic cell rate algorithm of ITU-T I.371: one timestamp per key, at which all its requests so
/// far would be done at the steady rate.
#[derive(Debug)]
struct Meter<K> {
    rate: Rate,
    hasher: RandomState,
    shards: [Mutex<Shard<K>>; SHARDS],
}

#[derive(Debug)]
struct Shard<K> {
    done_at: HashMap<K, Instant>,
    swept: Instant,
}

impl<K: Hash + Eq> Meter<K> {
    fn new(rate: Rate) -> Self {
        let shard = |_| Mutex::new(Shard { done_at: HashMap::new(), swept: Instant::now() });
        Self { rate, hasher: RandomState::new(), shards: std::array::from_fn(shard) }
    }

    fn ask(&self, key: K) -> Result<(), Duration> {
        self.ask_at(key, Instant::now())
    }

    /// Counts a request, or returns how long to wait.
    fn ask_at(&self, key: K, now: Instant) -> Result<(), Duration> {
        let Rate { n, per } = self.rate;
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        // A full quota needs no entry.
        if now.saturating_duration_since(shard.swept) > per.min(SWEEP_EVERY) {
            shard.done_at.retain(|_, done_at| *done_at > now);
            shard.swept = now;
        }
        let done_at = shard.done_at.get(&key).copied().unwrap_or(now).max(now) + per / n;
        let too_early = done_at.saturating_duration_since(now).saturating_sub(per);
        if !too_early.is_zero() {
            return Err(too_early);
        }
        shard.done_at.insert(key, done_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hyper::http::HeaderValue;

    use super::*;

    fn meter(n: u32, per: Duration) -> Meter<&'static str> {
        Meter::new(Rate::new(n, per))
    }

    #[test]
    fn as_many_as_the_rate_has_at_once_and_then_as_often_as_it_says() {
        let (meter, start) = (meter(4, Duration::from_secs(2)), Instant::now());
        let at = |ms: u64| meter.ask_at("ann", start + Duration::from_millis(ms));
        for _ in 0..4 {
            assert_eq!(at(0), Ok(()));
        }
        assert_eq!(at(0), Err(Duration::from_millis(500)));
        assert_eq!(at(499), Err(Duration::from_millis(1)));
        assert_eq!(at(500), Ok(()));
        assert_eq!(at(500), Err(Duration::from_millis(500)), "a refused request does not count");
        assert_eq!(meter.ask_at("bob", start), Ok(()), "another buyer has a separate limit");
        for _ in 0..4 {
            assert_eq!(at(60_000), Ok(()), "the full burst is available again");
        }
        assert!(at(60_000).is_err());
    }

    #[test]
    fn idle_buyers_are_forgotten() {
        let (meter, start) = (meter(2, Duration::from_secs(1)), Instant::now());
        let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        for name in &names {
            meter.ask_at(Box::leak(name.clone().into_boxed_str()), start).unwrap();
        }
        let known = || meter.shards.iter().map(|shard| shard.lock().unwrap().done_at.len()).sum::<usize>();
        assert_eq!(known(), 1_000);
        let later = start + Duration::from_secs(3);
        for name in &names[..200] {
            meter.ask_at(Box::leak(name.clone().into_boxed_str()), later).unwrap();
        }
        assert_eq!(known(), 200);
    }

    #[test]
    fn a_proxy_of_ours_says_where_a_request_comes_from_and_nobody_else_does() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let limits = Limits::new(None, None, vec![address("10.0.0.1"), address("10.0.0.2")]);
        let from = |peer: &str, said: &[&str]| {
            let mut headers = HeaderMap::new();
            for said in said {
                headers.append(FORWARDED_FOR, HeaderValue::from_str(said).unwrap());
            }
            limits.origin(Peer(address(peer)), &headers).to_string()
        };
        assert_eq!(from("9.9.9.9", &["1.1.1.1"]), "9.9.9.9", "not a trusted proxy");
        assert_eq!(from("10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(
            from("10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"]),
            "1.1.1.1",
            "the left is anybody's word"
        );
        assert_eq!(from("10.0.0.1", &["6.6.6.6", "1.1.1.1"]), "1.1.1.1", "two headers are one list");
        assert_eq!(from("::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(from("10.0.0.1", &["6.6.6.6", "nobody, 1.1.1.1:443"]), "1.1.1.1", "with a port");
        assert_eq!(from("10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(from("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
        let forged = HeaderValue::from_bytes(b"\xff, 10.0.0.2").unwrap();
        let headers = HeaderMap::from_iter([(FORWARDED_FOR, forged)]);
        assert_eq!(limits.origin(Peer(address("10.0.0.1")), &headers).to_string(), "10.0.0.2", "no further");
        for said in [&[][..], &["nobody"]] {
            assert_eq!(from("10.0.0.1", said), "10.0.0.1", "{said:?}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:1.2.3.4"), "1.2.3.4");
        assert_eq!(of("1.2.3.4"), "1.2.3.4");
    }
}
