//! The connection to one server. It sends pending requests in pipelines and delivers the replies.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::poll;
use rushgate_core::{Error, Result};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::check::Checked;
use crate::command::Command;
use crate::conn::Conn;
use crate::fault::{self, Broken};
use crate::functions::ensure_on;
use crate::reply::{Answered, Refusal, Reply};
use crate::runtime::Runtime;
use crate::way::{Linked, Way};
use crate::work::{Books, What, Work, fail};

/// The most requests in a pipeline.
const BATCH_MAX: usize = 128;
/// The most items in one call, and the most work they may be together, unless one item alone is more.
const ITEMS_MAX: usize = 128;
const WEIGHT_MAX: u32 = 1_000;
/// The most pipelines in flight: one that the server executes, and one that is ready when it has finished. Requests
/// that arrive meanwhile share the next pipeline, which costs the server less.
const IN_FLIGHT_MAX: usize = 2;
/// How often the server may miss a function before the request fails.
const INSTALLS_MAX: usize = 3;
/// Timeout of WAIT for the replicas of a pipeline.
const REPLICATED_MAX: Duration = Duration::from_secs(1);
/// How long a Cluster node may be silent before the other nodes are asked whether it was replaced.
const SILENCE_MAX: Duration = Duration::from_millis(500);
/// How often a request is sent again because the server is no longer the primary.
const MOVES_MAX: usize = 3;

/// The request queue and the connection of one server.
pub(crate) struct Lane {
    queue: mpsc::UnboundedSender<Work>,
    link: Arc<Link>,
}

impl Lane {
    /// Starts the task that sends requests, on the store's runtime.
    pub(crate) fn open(way: Way, books: Arc<Books>, runtime: &Runtime) -> Self {
        let (queue, steps) = mpsc::unbounded_channel();
        let next = tokio::sync::Mutex::new(Next { at: None, backoff: Backoff::new() });
        let link = Arc::new(Link { way, slot: Mutex::default(), next, books });
        runtime.spawn(pump(Arc::clone(&link), steps));
        Self { queue, link }
    }

    pub(crate) fn send(&self, work: Work) {
        if let Err(unsent) = self.queue.send(work) {
            unsent.0.answer(Err(self.link.books.ended()));
        }
    }

    /// A pinned connection: the current one, or a new one.
    pub(crate) async fn walk(&self) -> Result<Walk> {
        Ok(Walk { conn: self.link.conn().await?, link: Arc::clone(&self.link) })
    }

    /// Whether a connection exists. It may have been lost without notice.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.slot().conn.is_some()
    }

    /// Whether a failover by sentinels can replace the server.
    pub(crate) fn follows_sentinels(&self) -> bool {
        self.link.way.follows_sentinels()
    }

    /// Drops the connection.
    pub(crate) fn disconnect(&self) {
        self.link.slot().conn = None;
    }

    /// The result of the latest check.
    pub(crate) fn checked(&self) -> Option<Checked> {
        self.link.slot().checked.clone()
    }
}

/// A pinned connection, for queries that must go to one server process: a SCAN cursor is invalid on another server and
/// after a restart.
pub(crate) struct Walk {
    link: Arc<Link>,
    conn: Arc<Linked>,
}

impl Walk {
    /// Sends a command on this connection.
    pub(crate) async fn ask(&self, question: Command) -> Result<Reply> {
        self.try_ask(question).await?.map_err(|refusal| fault::refused(&refusal))
    }

    /// The same, with the server's error reply if it refuses.
    pub(crate) async fn try_ask(&self, question: Command) -> Result<Answered> {
        self.link.books.sent(1, 1);
        match self.conn.conn.send(&[question]).await {
            Ok(answers) => {
                answer_of(answers.into_iter()).ok_or_else(|| Error::bug("the server sent no reply"))
            }
            Err(error) => {
                self.link.lost(&self.conn);
                Err(fault::broken(&error))
            }
        }
    }
}

/// Takes requests from the queue and sends them.
async fn pump(link: Arc<Link>, mut steps: mpsc::UnboundedReceiver<Work>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut is_crowded = false;
    loop {
        // Requests collect here until a pipeline may be sent.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let mut batch = Vec::new();
        if steps.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return;
        }
        if is_crowded {
            // Under load, let other tasks that are ready to run send first, so that their requests join this pipeline.
            // A single caller does not wait.
            yield_now().await;
            while batch.len() < BATCH_MAX
                && let Ok(step) = steps.try_recv()
            {
                batch.push(step);
            }
        }
        is_crowded = batch.len() > 1;
        match link.conn().await {
            Ok(conn) => {
                let link = Arc::clone(&link);
                let mut carrying = Box::pin(async move {
                    link.carry(conn, batch).await;
                    drop(slot);
                });
                // The first poll sends the pipeline. It must happen before the next pipeline is sent, to keep the
                // order.
                if poll!(unconstrained(&mut carrying)).is_pending() {
                    tokio::spawn(carrying);
                }
            }
            Err(error) => link.unsent(batch, &error),
        }
    }
}

/// The connection to the server, with reconnection.
struct Link {
    way: Way,
    slot: Mutex<Slot>,
    next: tokio::sync::Mutex<Next>,
    books: Arc<Books>,
}

#[derive(Default)]
struct Slot {
    conn: Option<Arc<Linked>>,
    /// The result of the latest check.
    checked: Option<Checked>,
}

/// When the next attempt to connect is due. The task that holds the lock makes the attempt.
struct Next {
    /// The earliest moment of the attempt.
    at: Option<Instant>,
    backoff: Backoff,
}

impl Link {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current connection, if it has not been lost and the server was not replaced.
    fn current(&self) -> Option<Arc<Linked>> {
        let mut slot = self.slot();
        slot.conn.take_if(|conn| self.way.is_left(&conn.at));
        slot.conn.clone()
    }

    /// The current connection. If there is none, makes one attempt to connect when the backoff allows it.
    async fn conn(&self) -> Result<Arc<Linked>> {
        if let Some(conn) = self.current() {
            return Ok(conn);
        }
        let mut next = self.next.lock().await;
        if let Some(conn) = self.current() {
            return Ok(conn);
        }
        if let Some(at) = next.at {
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = self.way.news() => {}
            }
        }
        let made = self.connect().await;
        if made.is_ok() {
            next.backoff = Backoff::new();
        }
        next.at = Some(Instant::now() + next.backoff.draw());
        made
    }

    /// Connects, and checks the server.
    async fn connect(&self) -> Result<Arc<Linked>> {
        let linked = Arc::new(self.way.connect().await?);
        *self.slot() = Slot { conn: Some(Arc::clone(&linked)), checked: Some(linked.checked.clone()) };
        Ok(linked)
    }

    fn lost(&self, conn: &Arc<Linked>) {
        self.slot().conn.take_if(|current| Arc::ptr_eq(current, conn));
    }

    /// Handles requests for which there was no connection.
    fn unsent(&self, works: Vec<Work>, error: &Error) {
        match self.way.cluster() {
            Some((cluster, at)) => cluster.unsent(works, at, error),
            None => fail(works, error),
        }
    }

    /// Sends a pipeline and delivers its replies. Requests are resent as needed, which is safe because each carries a
    /// token, an op or a key that makes it idempotent.
    async fn carry(self: &Arc<Self>, mut conn: Arc<Linked>, mut batch: Vec<Work>) {
        let (mut installs, mut moves) = (0, 0);
        while !batch.is_empty() {
            let plan = Plan::of(batch, conn.checked.replicas, self.way.cluster().is_some());
            self.books.sent(plan.steps.len(), plan.commands.len());
            let answers = match self.send(&conn, &plan.commands).await {
                Ok(answers) => answers,
                Err(error) => {
                    self.lost(&conn);
                    tracing::debug!(%error, "lost the connection to the store");
                    return fail(plan.works(), &fault::broken(&error));
                }
            };
            let rest = plan.hand_out(answers, |refusal| match refusal.code.as_str() {
                _ if fault::lacks_function(refusal) && installs < INSTALLS_MAX => Fate::Install,
                "READONLY" if self.way.follows_sentinels() && moves < MOVES_MAX => Fate::Follow,
                "OOM" => Fate::Full,
                _ if fault::is_referral(refusal) && self.way.cluster().is_some() => Fate::Refer,
                _ => Fate::Refused,
            });
            self.refer(rest.referred);
            batch = rest.again;
            if rest.lacks_functions {
                installs += 1;
                let server = Walk { link: Arc::clone(self), conn: Arc::clone(&conn) };
                if let Err(error) = ensure_on(&server).await.and_then(|installed| installed) {
                    return fail(batch, &error);
                }
            }
            if rest.is_replica {
                moves += 1;
                self.lost(&conn);
                conn = match self.conn().await {
                    Ok(conn) => conn,
                    Err(error) => return fail(batch, &error),
                };
            }
        }
    }

    /// Sends commands, and stops waiting if another server replaces this one.
    async fn send(&self, conn: &Linked, commands: &[Command]) -> std::result::Result<Vec<Answered>, Broken> {
        let mut answers = conn.conn.send(commands);
        loop {
            tokio::select! {
                biased;
                // Whatever this server answers from now on, it is no longer the primary.
                () = self.way.left(&conn.at) => return Err(Broken::Replaced),
                answers = &mut answers => return answers,
                () = sleep(SILENCE_MAX), if self.way.cluster().is_some() => {
                    self.way.cluster().inspect(|(cluster, _)| cluster.look_soon());
                }
            }
        }
    }

    fn refer(&self, referred: Vec<(Work, Refusal)>) {
        if let Some((cluster, at)) = self.way.cluster() {
            referred.into_iter().for_each(|(work, refusal)| cluster.refer(work, &refusal, at));
        }
    }
}

/// The commands of a pipeline, and the requests that they answer.
struct Plan {
    commands: Vec<Command>,
    steps: Vec<Step>,
    /// Replicas that must acknowledge the writes. If not 0, the last command is WAIT.
    replicas: u32,
}

/// Consecutive commands that form one step.
struct Step {
    /// The number of commands.
    count: usize,
    /// The requests that the step answers.
    works: Vec<Work>,
    /// The total weight of the items, if the function takes items.
    weight: Option<u32>,
}

/// The requests that are still unanswered after a pipeline.
#[derive(Default)]
struct Rest {
    again: Vec<Work>,
    /// To be sent to another node, or to this one later.
    referred: Vec<(Work, Refusal)>,
    lacks_functions: bool,
    is_replica: bool,
}

/// How to handle a refused step.
enum Fate {
    /// Install the functions, then send it again.
    Install,
    /// Send it again to the current primary.
    Follow,
    /// Ask whether it can be answered without adding anything.
    Full,
    /// Let the Cluster route it.
    Refer,
    /// Return the error to the callers.
    Refused,
}

impl Plan {
    fn of(batch: Vec<Work>, replicas: u32, is_cluster: bool) -> Self {
        let mut steps: Vec<Step> = Vec::with_capacity(batch.len());
        // The latest step of each key: a request must not be merged into a step before an earlier request for the same
        // key, such as a release that precedes an acquire.
        let mut latest = HashMap::new();
        for work in batch {
            let key = hash_of(work.what.key());
            let from = if work.has_own_keys() { latest.get(&key).copied().unwrap_or(0) } else { 0 };
            let may_join = !(is_cluster && work.has_own_keys());
            let step = (from..steps.len()).find(|at| may_join && steps[*at].takes(&work));
            match step {
                Some(at) => steps[at].join(work),
                None => steps.push(Step::new(work)),
            }
            latest.insert(key, step.unwrap_or(steps.len() - 1));
        }
        let mut commands = Vec::with_capacity(steps.len() + 1);
        for step in &mut steps {
            let before = commands.len();
            step.write(&mut commands);
            step.count = commands.len() - before;
        }
        if replicas > 0 {
            let wait = Command::new("WAIT").arg(replicas.to_string());
            commands.push(wait.arg(REPLICATED_MAX.as_millis().to_string()));
        }
        Self { commands, steps, replicas }
    }

    /// All requests of the pipeline.
    fn works(self) -> impl Iterator<Item = Work> {
        self.steps.into_iter().flat_map(|step| step.works)
    }

    /// Whether enough replicas acknowledged the writes.
    fn is_replicated(&self, answers: &[Answered]) -> bool {
        match answers.last() {
            _ if self.replicas == 0 => true,
            Some(Ok(Reply::Int(have))) => *have >= self.replicas.into(),
            _ => false,
        }
    }

    /// Delivers the replies, and returns the requests that must be sent again.
    fn hand_out(self, answers: Vec<Answered>, fate: impl Fn(&Refusal) -> Fate) -> Rest {
        let replicated = self.is_replicated(&answers);
        let mut answers = answers.into_iter();
        let mut rest = Rest::default();
        for step in self.steps {
            match answer_of(answers.by_ref().take(step.count)) {
                Some(Ok(reply)) if reply.is("AGAIN") => rest.again.extend(step.works),
                Some(Ok(reply)) if replicated => step.answer(reply),
                Some(Ok(_)) => fail(step.works, &fault::not_replicated()),
                Some(Err(refusal)) if step.works.len() > 1 && matches!(fate(&refusal), Fate::Refused) => {
                    let wanted = step.works.into_iter().filter(|work| !work.is_given_up());
                    rest.again.extend(wanted.map(Work::by_itself));
                }
                Some(Err(refusal)) => rest.add(step.works, &refusal, &fate),
                None => fail(step.works, &Error::bug("the server sent too few replies").maybe_happened()),
            }
        }
        rest
    }
}

impl Step {
    fn new(work: Work) -> Self {
        Self { count: 0, weight: work.item().map(|(_, item)| item.weight), works: vec![work] }
    }

    /// Whether a request can join this step as a further item.
    fn takes(&self, work: &Work) -> bool {
        let (Some((call, item)), Some(first)) = (work.item(), self.works.first()) else { return false };
        self.works.len() < ITEMS_MAX
            && self.weight.is_some_and(|weight| weight.saturating_add(item.weight) <= WEIGHT_MAX)
            && !work.travels_alone()
            && !first.travels_alone()
            && first.item().is_some_and(|(of_first, _)| of_first.takes(call))
    }

    fn join(&mut self, work: Work) {
        let more = work.item().map_or(0, |(_, item)| item.weight);
        self.weight = self.weight.map(|weight| weight.saturating_add(more));
        self.works.push(work);
    }

    fn write(&self, commands: &mut Vec<Command>) {
        let Some(first) = self.works.first() else { return };
        if first.asking {
            commands.push(Command::new("ASKING"));
        }
        match &first.what {
            What::Call(call) => {
                let items = self.works.iter().filter_map(Work::item).map(|(_, item)| item);
                commands.push(call.command(items));
            }
            What::Command(command) => commands.push(command.clone()),
            What::Together(together) => {
                commands.push(Command::new("MULTI"));
                commands.extend(together.iter().cloned());
                commands.push(Command::new("EXEC"));
            }
        }
    }

    /// Delivers the reply: one entry of the list to each item, or the whole reply to all.
    fn answer(self, reply: Reply) {
        match reply {
            Reply::List(answers) if self.weight.is_some() => {
                let mut answers = answers.into_iter();
                for work in self.works {
                    let answer = answers.next();
                    let missing = || Error::bug("the server sent too few replies").maybe_happened();
                    work.answer(answer.ok_or_else(missing));
                }
            }
            reply => self.works.into_iter().for_each(|work| work.answer(Ok(reply.clone()))),
        }
    }
}

impl Rest {
    fn add(&mut self, works: Vec<Work>, refusal: &Refusal, fate: impl Fn(&Refusal) -> Fate) {
        match fate(refusal) {
            Fate::Install => {
                self.lacks_functions = true;
                self.again.extend(works);
            }
            Fate::Follow => {
                self.is_replica = true;
                self.again.extend(works);
            }
            Fate::Full => {
                for mut work in works {
                    if work.try_when_full() {
                        self.again.push(work);
                    } else {
                        fail([work], &fault::refused(refusal));
                    }
                }
            }
            Fate::Refer => self.referred.extend(works.into_iter().map(|work| (work, refusal.clone()))),
            Fate::Refused => fail(works, &fault::refused(refusal)),
        }
    }
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The reply of a step: that of its last command, which in a transaction is the list of all replies. If a command was
/// refused, that error is the reply, because it names the reason.
fn answer_of(answers: impl Iterator<Item = Answered>) -> Option<Answered> {
    let mut last: Option<std::result::Result<Reply, _>> = None;
    for answer in answers {
        if !matches!(last, Some(Err(_))) {
            last = Some(answer);
        }
    }
    last
}
