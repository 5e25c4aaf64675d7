//! A Cluster: the map from slots to nodes, and a connection to each primary.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use rushgate_core::{Error, Result};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::Opening;
use crate::check::{Checked, read_info};
use crate::command::Command;
use crate::connection::Connection;
use crate::fault;
use crate::inbox::Inbox;
use crate::library::Library;
use crate::link::PinnedConnection;
use crate::reply::{Answered, Fields, Refusal, Reply};
use crate::resolver::{Member, Nodes, Resolver};
use crate::runtime::Runtime;
use crate::slot::{SLOTS, slot};
use crate::transport::{ASK_AGAIN_MAX, ASK_FIRST_MAX, Address, Boxed, Server, ask_each};
use crate::work::{InFlight, Work};

/// Pause between two queries of the slot map.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    /// The nodes that the URL names.
    seeds: Vec<Server>,
    inbox: Arc<Inbox>,
    in_flight: Arc<InFlight>,
    runtime: Runtime,
    state: RwLock<State>,
    /// When the nodes were last queried.
    looked: tokio::sync::Mutex<Option<Instant>>,
    /// Whether a query is already scheduled.
    will_look: AtomicBool,
}

/// The slot map, and the connections that go with it.
struct State {
    /// The primaries. Like the replicas and the seeds, they are asked for the map.
    primaries: Vec<Address>,
    replicas: Vec<Address>,
    /// For each slot, the index of its node in `primaries`.
    owners: Vec<Option<u16>>,
    connections: HashMap<Address, Node>,
}

struct Node {
    connection: Arc<Connection>,
    /// Dropped when the node no longer serves slots, which ends the waits of everything that uses its connection.
    _serves: watch::Sender<()>,
}

/// The slot map as one node sees it. Each configuration change has an epoch; the greatest epoch is the latest.
struct View {
    whole: bool,
    epoch: u64,
    ranges: Vec<Range>,
}

/// A range of slots, the primary that serves it, and the replicas of that primary.
struct Range {
    slots: std::ops::RangeInclusive<u16>,
    primary: Address,
    replicas: Vec<Address>,
}

/// Where a redirection sends a request.
#[derive(Debug, PartialEq, Eq)]
enum Referral {
    /// The slot has moved there permanently.
    Moved(u16, Address),
    /// This request alone must be tried there.
    Ask(Address),
    /// No node can take it now.
    Later,
}

impl Cluster {
    /// Queries the slot map and connects to every primary.
    pub(crate) async fn start(
        seeds: Vec<Server>,
        library: Library,
        inbox: Arc<Inbox>,
        in_flight: Arc<InFlight>,
        runtime: Runtime,
    ) -> Result<Arc<Self>> {
        let state = State {
            primaries: Vec::new(),
            replicas: Vec::new(),
            owners: vec![None; SLOTS],
            connections: HashMap::new(),
        };
        let cluster = Arc::new(Self {
            seeds,
            inbox,
            in_flight,
            runtime,
            state: RwLock::new(state),
            looked: tokio::sync::Mutex::default(),
            will_look: AtomicBool::new(false),
        });
        let (mut opened, opening) = (Vec::new(), Opening::begin());
        while let Err(error) = cluster.meet(library, &mut opened).await {
            let asked = async { cluster.ask().await.is_ok() };
            opening.bear(error, asked).await?;
        }
        Ok(cluster)
    }

    /// Connects to every primary. `opened` holds the connections whose notifications are not read yet.
    async fn meet(
        self: &Arc<Self>,
        library: Library,
        opened: &mut Vec<(Arc<Connection>, Resolver)>,
    ) -> Result<()> {
        opened.extend(self.adopt(self.ask().await?));
        while let Some((connection, resolver)) = opened.last() {
            // A node whose endpoint has ended was replaced by another.
            if !resolver.has_ended() {
                library.prepare(&connection.pinned().await?).await?;
                self.inbox.open(resolver.clone(), &self.runtime).await?;
            }
            opened.pop();
        }
        self.pinned().await.map(drop)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the node that serves its slot.
    pub(crate) fn route(self: &Arc<Self>, mut work: Work) {
        work.asking = false;
        let slot = slot(&work.what.key());
        let connection = self.state().lane_of(slot);
        match connection {
            Some(connection) => connection.send(work),
            None => {
                self.query_soon();
                self.put_off(work, || unserved(slot));
            }
        }
    }

    /// A pinned connection to each primary.
    pub(crate) async fn pinned(&self) -> Result<Vec<PinnedConnection>> {
        let connections: Vec<_> = {
            let state = self.state();
            let connection =
                |address| state.connections.get(address).map(|node| Arc::clone(&node.connection));
            state.primaries.iter().filter_map(connection).collect()
        };
        let mut pinned = Vec::with_capacity(connections.len());
        for connection in connections {
            pinned.push(connection.pinned().await?);
        }
        Ok(pinned)
    }

    /// Drops every connection.
    pub(crate) fn disconnect(&self) {
        self.state().connections.values().for_each(|node| node.connection.link.disconnect());
    }

    /// What holds for all nodes: the weakest durability, and the run IDs together.
    pub(crate) fn checked(&self) -> Option<Checked> {
        let state = self.state();
        let mut all: Vec<_> =
            state.connections.values().filter_map(|node| node.connection.link.checked()).collect();
        all.sort_unstable_by(|one, other| one.run.cmp(&other.run));
        let runs: Vec<_> = all.iter().map(|checked| checked.run.clone()).collect();
        let sees_settings = all.iter().all(|checked| checked.sees_settings);
        let weakest = all.into_iter().min_by_key(|checked| checked.durability)?;
        Some(Checked { run: runs.join(" "), sees_settings, ..weakest })
    }

    /// Sends a redirected request to the node that the redirection names, or again after a pause.
    fn redirect(self: &Arc<Self>, mut work: Work, refusal: &Refusal, from: &Address) {
        match Referral::read(refusal, from) {
            Referral::Moved(slot, to) if work.goes_on() => {
                self.moved(slot, &to);
                work.asking = false;
                self.send_to(&to, work);
            }
            Referral::Ask(to) if work.goes_on() => {
                work.asking = true;
                self.send_to(&to, work);
            }
            _ => {
                // TRYAGAIN: the slot is migrating and the map is right. Any other refusal means that the map is out of
                // date.
                if refusal.code != "TRYAGAIN" {
                    self.query_soon();
                }
                self.put_off(work, || fault::refused(refusal));
            }
        }
    }

    /// Retries a request after a pause, until its retry deadline.
    fn put_off(self: &Arc<Self>, mut work: Work, error: impl FnOnce() -> Error) {
        let Some(pause) = work.pause() else { return work.answer(Err(error())) };
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(pause).await;
            cluster.route(work);
        });
    }

    fn send_to(self: &Arc<Self>, to: &Address, work: Work) {
        match self.lane_at(to) {
            Ok(connection) => connection.send(work),
            Err(error) => work.answer(Err(error)),
        }
    }

    /// The connection to a node, which may be new.
    fn lane_at(self: &Arc<Self>, address: &Address) -> Result<Arc<Connection>> {
        let mut state = self.state_mut();
        if let Some(node) = state.connections.get(address) {
            return Ok(Arc::clone(&node.connection));
        }
        let (connection, resolver) = state.open(self, address)?;
        drop(state);
        self.subscribe(resolver);
        Ok(connection)
    }

    fn subscribe(&self, resolver: Resolver) {
        self.inbox.go_on(resolver, None, &self.runtime);
    }

    fn moved(self: &Arc<Self>, slot: u16, to: &Address) {
        self.state_mut().assign(slot..=slot, to);
        self.query_soon();
    }

    /// Queries the map again in the background.
    fn query_soon(self: &Arc<Self>) {
        if self.will_look.swap(true, Ordering::SeqCst) {
            return;
        }
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move { cluster.query().await });
    }

    /// Queries the map again, unless another task has done so since this call.
    async fn query(self: &Arc<Self>) {
        let called = Instant::now();
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|looked| looked >= called) {
            return;
        }
        if let Some(looked) = *looked {
            tokio::time::sleep_until(looked + LOOK_EVERY).await;
        }
        // A reason to query that comes up from now on schedules another query after this one.
        let begun = Instant::now();
        self.will_look.store(false, Ordering::SeqCst);
        match self.ask().await {
            Ok(view) => {
                for (_, resolver) in self.adopt(view) {
                    self.subscribe(resolver);
                }
            }
            Err(error) => tracing::debug!(%error, "cannot read the slot map of the Cluster"),
        }
        *looked = Some(begun);
    }

    /// The latest slot map that a node knows.
    async fn ask(&self) -> Result<View> {
        let questions = [Command::new("CLUSTER").arg("INFO"), Command::new("CLUSTER").arg("SLOTS")];
        let max = if self.state().primaries.is_empty() { ASK_FIRST_MAX } else { ASK_AGAIN_MAX };
        let answers = ask_each(self.known(), &questions, max).await?;
        let mut failed = Error::unavailable("no node returned the slot map of the Cluster");
        let mut latest: Option<View> = None;
        for (server, answers) in answers {
            match View::read(answers, server.address()) {
                Ok(view) if latest.as_ref().is_none_or(|latest| view.is_later_than(latest)) => {
                    latest = Some(view)
                }
                Ok(_) => {}
                Err(error) => failed = error,
            }
        }
        latest.ok_or(failed)
    }

    /// Every known node, each once.
    fn known(&self) -> Vec<Server> {
        let state = self.state();
        let found = state.primaries.iter().chain(&state.replicas).filter_map(|at| self.seeds[0].at(at).ok());
        let mut servers: HashMap<_, _> = found
            .chain(self.seeds.iter().cloned())
            .map(|server| (server.address().clone(), server))
            .collect();
        servers.drain().map(|(_, server)| server).collect()
    }

    /// Applies a slot map. Returns the connections that it opened, whose notifications are not read yet.
    fn adopt(self: &Arc<Self>, view: View) -> Vec<(Arc<Connection>, Resolver)> {
        let mut state = self.state_mut();
        let before = state.forget();
        for range in &view.ranges {
            state.assign(range.slots.clone(), &range.primary);
            state.replicas.extend(range.replicas.iter().cloned());
        }
        state.close_all_but_primaries(&before);
        let mut opened = Vec::new();
        for address in state.primaries.clone() {
            if !state.connections.contains_key(&address) {
                match state.open(self, &address) {
                    Ok(new) => opened.push(new),
                    Err(error) => tracing::debug!(%error, "cannot query a node of the Cluster"),
                }
            }
        }
        opened
    }
}

impl Nodes for Cluster {
    fn serves(&self, at: &Address, slot: u16) -> bool {
        self.state().owner(slot).is_none_or(|owner| owner == at)
    }

    fn look(self: Arc<Self>) -> Boxed<'static, ()> {
        Box::pin(async move { self.query().await })
    }

    fn look_soon(self: Arc<Self>) {
        self.query_soon();
    }

    fn unsent(self: Arc<Self>, works: Vec<Work>, from: &Address, error: &Error) {
        for work in works {
            let elsewhere = self.state().owner(slot(&work.what.key())).is_some_and(|owner| owner != from);
            if elsewhere { self.route(work) } else { work.answer(Err(error.duplicate())) }
        }
    }

    fn refer(self: Arc<Self>, referred: Vec<(Work, Refusal)>, from: &Address) {
        referred.into_iter().for_each(|(work, refusal)| self.redirect(work, &refusal, from));
    }
}

fn unserved(slot: u16) -> Error {
    Error::unavailable(format_args!("no node of the Cluster serves the slot {slot}"))
        .hint("run `CLUSTER INFO` and `CLUSTER NODES` to see the state of the Cluster")
}

impl State {
    fn owner(&self, slot: u16) -> Option<&Address> {
        self.owners[usize::from(slot)].map(|at| &self.primaries[usize::from(at)])
    }

    fn lane_of(&self, slot: u16) -> Option<Arc<Connection>> {
        self.connections.get(self.owner(slot)?).map(|node| Arc::clone(&node.connection))
    }

    /// Clears the slot map and returns the previous primaries.
    fn forget(&mut self) -> Vec<Address> {
        self.replicas.clear();
        self.owners.fill(None);
        std::mem::take(&mut self.primaries)
    }

    fn assign(&mut self, slots: std::ops::RangeInclusive<u16>, to: &Address) {
        let at = self.primaries.iter().position(|primary| primary == to).unwrap_or_else(|| {
            self.primaries.push(to.clone());
            self.primaries.len() - 1
        });
        for slot in slots {
            self.owners[usize::from(slot)] = Some(at as u16);
        }
    }

    fn open(&mut self, cluster: &Arc<Cluster>, address: &Address) -> Result<(Arc<Connection>, Resolver)> {
        let server = cluster.seeds[0].at(address)?;
        let (serves, of) = watch::channel(());
        let nodes: Weak<Cluster> = Arc::downgrade(cluster);
        let resolver = Resolver::Member(Member { server, nodes, serves: of });
        let connection =
            Arc::new(Connection::open(resolver.clone(), Arc::clone(&cluster.in_flight), &cluster.runtime));
        let node = Node { connection: Arc::clone(&connection), _serves: serves };
        self.connections.insert(address.clone(), node);
        Ok((connection, resolver))
    }

    /// Closes the connections to nodes that are no primaries. A new node without slots is kept, because it may be about
    /// to get some.
    fn close_all_but_primaries(&mut self, before: &[Address]) {
        let Self { primaries, replicas, connections, .. } = self;
        let may_become = |address: &Address, node: &Node| {
            !before.contains(address) && !replicas.contains(address) && node.connection.link.is_connected()
        };
        connections.retain(|address, node| primaries.contains(address) || may_become(address, node));
    }
}

impl View {
    fn read(answers: Vec<Answered>, from: &Address) -> Result<Self> {
        let mut answers = answers.into_iter().map(|answer| {
            answer.map_err(|refusal| match () {
                () if refusal.text.contains("cluster support disabled") => fault::no_member(),
                () if fault::lacks_command(&refusal, "CLUSTER") => fault::is_sentinel(),
                () => fault::refused(&refusal),
            })
        });
        let mut next = || answers.next().ok_or_else(|| Error::bug("a node sent too few replies"))?;
        let info = read_info(&next()?.text()?);
        let fact = |name: &str| info.get(name).map_or("", String::as_str);
        let (whole, epoch) =
            (fact("cluster_state") == "ok", fact("cluster_current_epoch").parse().unwrap_or(0));
        let ranges = next()?.list()?.each(|rows| read_range(rows.list()?, from))?;
        Ok(Self { whole, epoch, ranges: ranges.into_iter().flatten().collect() })
    }

    fn is_later_than(&self, other: &Self) -> bool {
        (self.whole, self.epoch) > (other.whole, other.epoch)
    }
}

/// First slot, last slot, primary, replicas. `None` if the primary's address is not known.
fn read_range(mut row: Fields, from: &Address) -> Result<Option<Range>> {
    let (first, last) = (row.int()? as u16, row.int()? as u16);
    let mut nodes = row.each(|row| read_node(row.list()?, from))?.into_iter();
    let primary = nodes.next().flatten();
    Ok(primary.map(|primary| Range { slots: first..=last, primary, replicas: nodes.flatten().collect() }))
}

/// Host and port. An empty host means the host of the node that answered; `?` means unknown.
fn read_node(mut node: Fields, from: &Address) -> Result<Option<Address>> {
    let host = match node.next()? {
        Reply::Nil => from.host.clone(),
        host => match host.text()? {
            host if host.is_empty() => from.host.clone(),
            host => host,
        },
    };
    let port = node.int()? as u16;
    Ok((host != "?").then_some(Address { host, port }))
}

impl Referral {
    /// `MOVED slot host:port`, `ASK slot host:port`, or a temporary refusal.
    fn read(refusal: &Refusal, from: &Address) -> Self {
        let place = || {
            let (slot, address) = refusal.text.split_once(' ')?;
            let (host, port) = address.trim().rsplit_once(':')?;
            let host = if host.is_empty() { &from.host } else { host };
            let slot = slot.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
            Some((slot, Address { host: host.to_owned(), port: port.parse().ok()? }))
        };
        match (refusal.code.as_str(), place()) {
            ("MOVED", Some((slot, to))) => Self::Moved(slot, to),
            ("ASK", Some((_, to))) => Self::Ask(to),
            _ => Self::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    fn referral(code: &str, text: &str) -> Referral {
        Referral::read(&Refusal { code: code.into(), text: text.into() }, &address("here", 1))
    }

    #[test]
    fn a_referral_says_where_to() {
        assert_eq!(referral("MOVED", "3999 a:7001"), Referral::Moved(3999, address("a", 7001)));
        assert_eq!(referral("MOVED", "3999 :7001"), Referral::Moved(3999, address("here", 7001)));
        assert_eq!(referral("ASK", "3999 ::1:7001"), Referral::Ask(address("::1", 7001)));
        for (code, text) in
            [("MOVED", "99999 a:1"), ("MOVED", ""), ("TRYAGAIN", "Multiple keys"), ("ASK", "1 a")]
        {
            assert_eq!(referral(code, text), Referral::Later);
        }
    }

    fn list(parts: impl IntoIterator<Item = Reply>) -> Reply {
        Reply::List(parts.into_iter().collect())
    }

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn a_view_says_who_serves_what() {
        let node = |host, port| list([host, Reply::Int(port), text("id"), list([])]);
        let slots = list([
            list([Reply::Int(0), Reply::Int(99), node(text("a"), 1), node(text("b"), 2)]),
            list([Reply::Int(100), Reply::Int(100), node(Reply::Nil, 3)]),
            list([Reply::Int(101), Reply::Int(101), node(text("?"), 4)]),
        ]);
        let info = text("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
        let view = View::read(vec![Ok(info), Ok(slots)], &address("here", 9)).unwrap();
        assert_eq!((view.whole, view.epoch, view.ranges.len()), (true, 7, 2));
        assert_eq!((view.ranges[0].primary.clone(), view.ranges[0].slots.clone()), (address("a", 1), 0..=99));
        assert_eq!(view.ranges[0].replicas, [address("b", 2)]);
        assert_eq!(view.ranges[1].primary, address("here", 3));
    }

    #[test]
    fn a_node_without_a_cluster_is_said_to_be_none() {
        let refusal =
            || Refusal { code: "ERR".into(), text: "This instance has cluster support disabled".into() };
        let error = View::read(vec![Err(refusal()), Err(refusal())], &address("a", 1)).err().unwrap();
        assert!(error.is_misconfigured(), "{error}");
    }
}
