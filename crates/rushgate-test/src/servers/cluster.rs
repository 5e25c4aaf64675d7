use std::ops::RangeInclusive;
use std::time::Duration;

use rushgate_core::Timestamp;

use super::ports::free_port;
use super::redis::{RedisServer, RedisSetup};
use super::sentinel::{cut_off_replicas, online_replicas};
use super::setup::{Kind, Settings, Setup};
use super::wait_until;

/// Number of slots of a Cluster.
const SLOTS: usize = 16_384;

/// Configuration of a Cluster.
pub type ClusterSetup = Setup<Nodes>;

/// Number of primaries, and of replicas per primary.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    primaries: usize,
    replicas: usize,
}

impl ClusterSetup {
    /// Three primaries with a replica each. The node timeout is one second.
    pub fn new(kind: Kind) -> Self {
        Self { settings: Settings::of(kind), shape: Nodes { primaries: 3, replicas: 1 } }
    }

    /// Sets the number of primaries, and of replicas per primary.
    #[must_use]
    pub fn of(mut self, primaries: usize, replicas: usize) -> Self {
        self.shape = Nodes { primaries, replicas };
        self
    }

    /// Starts the nodes and waits until they serve all slots.
    pub fn start(self) -> ClusterGroup {
        let group = self.start_nodes();
        wait_until("the Cluster", || {
            if let Some(clock) = &self.settings.clock {
                // A node takes part two seconds after its start, on this clock.
                clock.advance(Duration::from_millis(500));
                group.set_clock(clock.now());
            }
            group.is_whole()
        });
        group
    }

    fn start_nodes(&self) -> ClusterGroup {
        let Nodes { primaries, replicas } = self.shape;
        let count = primaries * (1 + replicas);
        let group = rand::random();
        let plan: Vec<_> = (0..count).map(|number| self.node(group, number)).collect();
        let nodes = (0..count).map(|number| self.setup(&plan, number).start()).collect();
        ClusterGroup { nodes, group, shape: self.shape }
    }

    /// The first nodes are the primaries. The replicas follow, one of each primary in turn.
    fn node(&self, group: u128, number: usize) -> Planned {
        let primaries = self.shape.primaries;
        let slots =
            (number < primaries).then(|| number * SLOTS / primaries..=(number + 1) * SLOTS / primaries - 1);
        Planned { id: id(group, number), port: free_port(), bus: free_port(), slots }
    }

    /// A node that knows the whole Cluster from the start, as after a restart, so that no node has to be introduced.
    fn setup(&self, plan: &[Planned], number: usize) -> RedisSetup {
        let primaries = self.shape.primaries;
        let lines = plan.iter().enumerate().map(|(at, node)| {
            let myself = if at == number { "myself," } else { "" };
            let (part, of, slots) = match &node.slots {
                Some(slots) => ("master", "-", format!(" {}-{}", slots.start(), slots.end())),
                None => ("slave", plan[at % primaries].id.as_str(), String::new()),
            };
            let (epoch, Planned { id, port, bus, .. }) = (at % primaries + 1, node);
            format!("{id} 127.0.0.1:{port}@{bus} {myself}{part} {of} 0 0 {epoch} connected{slots}\n")
        });
        let text = lines.collect::<String>() + &format!("vars currentEpoch {primaries} lastVoteEpoch 0\n");
        let Planned { port, bus, .. } = &plan[number];
        let missed: &[&str] = match self.settings.clock {
            Some(_) => &NEVER_MISSED,
            None => &["--cluster-node-timeout", "1000"],
        };
        let setup = RedisSetup::of(self.settings.clone()).on_port(*port).with_file(NODES_FILE, text);
        setup.with(missed).with(&[
            "--cluster-enabled",
            "yes",
            "--cluster-config-file",
            NODES_FILE,
            "--cluster-port",
            &bus.to_string(),
            "--repl-diskless-sync-delay",
            "0",
        ])
    }
}

const NODES_FILE: &str = "nodes.conf";
const NEVER_MISSED: [&str; 4] = ["--cluster-node-timeout", "2000000000", "--repl-timeout", "2000000000"];

/// A node before its start.
struct Planned {
    id: String,
    port: u16,
    bus: u16,
    slots: Option<RangeInclusive<usize>>,
}

/// An ID that no node of another group has. Otherwise a node that finds its own ID on a reused port would take that
/// node into its Cluster.
fn id(group: u128, number: usize) -> String {
    format!("{group:032x}{number:08x}")
}

/// The nodes of a Cluster. Dropping the value ends them.
pub struct ClusterGroup {
    /// The nodes. The first ones were the primaries at the start.
    pub nodes: Vec<RedisServer>,
    group: u128,
    shape: Nodes,
}

impl ClusterGroup {
    /// The URL with all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("{}+cluster://{}", self.nodes[0].settings().scheme(), hosts.join(","))
    }

    /// Whether every running node reports that all slots are served.
    pub fn is_up(&self) -> bool {
        let mut running = self.nodes.iter().filter(|node| node.pid().is_some());
        running.all(|node| node.ask(&["CLUSTER", "INFO"]).concat().contains("cluster_state:ok"))
    }

    /// Whether all slots are served and all replicas are in sync.
    fn is_whole(&self) -> bool {
        let Nodes { primaries, replicas } = self.shape;
        self.is_up() && self.nodes[..primaries].iter().all(|node| online_replicas(node) == replicas)
    }

    /// The node that serves the slot of a key, according to the first running node.
    pub fn owner(&self, key: &str) -> usize {
        self.find_owner(key).expect("a node serves the slot")
    }

    /// Like [`owner`](Self::owner); `None` if no node serves the slot.
    pub fn find_owner(&self, key: &str) -> Option<usize> {
        let asked = self.nodes.iter().find(|node| node.pid().is_some()).expect("one runs");
        let slot = &asked.ask(&["CLUSTER", "KEYSLOT", key])[0];
        let slot: usize = slot.parse().expect("a slot is a number");
        let text = asked.ask(&["CLUSTER", "NODES"]).concat();
        let line = text.lines().find(|line| serves(line, slot))?;
        (0..self.nodes.len()).find(|number| line.starts_with(&id(self.group, *number)))
    }

    /// Keeps the replicas away from a primary while it runs: only the primary has what it acknowledges from now on.
    /// Its clients and the other nodes do not notice.
    pub fn cut_off_replicas(&self, primary: usize) {
        cut_off_replicas(&self.nodes[primary]);
    }

    /// The replica that one of the first primaries was started with.
    pub fn replica_of(&self, primary: usize) -> &RedisServer {
        &self.nodes[primary + self.shape.primaries]
    }

    fn running_primaries(&self) -> Vec<usize> {
        let is_primary = |node: &RedisServer| node.pid().is_some() && node.ask(&["ROLE"])[0] == "master";
        (0..self.nodes.len()).filter(|number| is_primary(&self.nodes[*number])).collect()
    }

    /// Moves the slot of a key, with its content, to another primary, as an operator would.
    pub fn move_slot(&self, key: &str, to: usize) {
        let mut moving = self.begin_move(key, to);
        while moving.step() {}
        moving.end();
    }

    /// Starts to move the slot of a key to another primary. No key has moved yet.
    pub fn begin_move(&self, key: &str, to: usize) -> SlotMove<'_> {
        let from = self.owner(key);
        let slot = self.nodes[from].ask(&["CLUSTER", "KEYSLOT", key]).concat();
        let moving = SlotMove { group: self, slot, from, to };
        moving.set(to, &["IMPORTING", &id(self.group, from)]);
        moving.set(from, &["MIGRATING", &id(self.group, to)]);
        moving
    }

    /// Sets the nodes' clocks.
    pub fn set_clock(&self, now: Timestamp) {
        self.nodes.iter().for_each(|node| node.set_clock(now));
    }
}

/// A slot that is being moved between primaries.
pub struct SlotMove<'g> {
    group: &'g ClusterGroup,
    slot: String,
    from: usize,
    to: usize,
}

impl SlotMove<'_> {
    fn set(&self, node: usize, how: &[&str]) {
        let words: Vec<_> = ["CLUSTER", "SETSLOT", &self.slot].iter().chain(how).copied().collect();
        assert_eq!(self.group.nodes[node].command(&words), "+OK", "{words:?}");
    }

    /// Moves one key. Returns false if none is left.
    pub fn step(&mut self) -> bool {
        let from = &self.group.nodes[self.from];
        let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "1"]);
        let Some(key) = keys.first() else { return false };
        let port = self.group.nodes[self.to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        words.extend(from.settings().password.iter().flat_map(|password| ["AUTH", password]));
        let answer = from.command(&words);
        // The key may have expired or been removed in between.
        assert!(["+OK", "+NOKEY"].contains(&answer.as_str()), "{answer}");
        true
    }

    /// Finishes the move: tells every primary which one serves the slot.
    pub fn end(self) {
        let mut others = self.group.running_primaries();
        others.retain(|node| ![self.from, self.to].contains(node));
        for node in [self.to, self.from].into_iter().chain(others) {
            self.set(node, &["NODE", &id(self.group.group, self.to)]);
        }
    }
}

/// Whether a line of `CLUSTER NODES` describes the primary that serves a slot.
fn serves(line: &str, slot: usize) -> bool {
    let ranges = line.split(' ').skip(8).filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    !line.contains("fail") && ranges.into_iter().any(|range| range.contains(&slot))
}
