//! Kills a process at each call of a task's life: before the call is sent, and after the store has executed
//! it without an answer. Checks the state of the tasks and how often each has run.
//!
//! Each scenario has two processes: the test, and a second instance of this test binary that runs one ignored
//! test and dies at its failpoint. The guarantees are checked against the store's state right after the
//! death.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::parts::{path, play};
use crate::common::{eventually, in_time, secs};
use rushgate::queue::{Listing, TaskInfo, TaskState};
use rushgate::schedule::Missed;
use rushgate::store::{Page, Store};
use rushgate::worker::{Backoff, Outcome, State};
use rushgate::{CancellationToken, Enqueued, Job, Queue, Recurrence, Rushgate, Timestamp, Worker};
use rushgate_core::{Verb, verb};
use rushgate_redis::RedisStore;
use rushgate_sqlite::SqliteStore;
use rushgate_test::faults::{FaultPlan, Faulty, Moment, Trap};
use rushgate_test::servers::{Kind, RedisSetup};
use rustix::process::{Signal, getpid, kill_process};
use tempfile::TempDir;

/// Lease of the dying process.
const LEASE: Duration = Duration::from_millis(1_500);
/// Longer than a process takes to die.
const LATER: Duration = Duration::from_millis(400);
/// The failpoint concerns the first of these tasks.
const TASKS: [&str; 4] = ["t0", "t1", "t2", "t3"];

/// Call at which the process dies, and the outcome of the first task.
#[derive(Clone, Copy)]
struct Step {
    /// Name of the verb.
    verb: &'static str,
    /// Outcome that the handler reports for the first task.
    way: &'static str,
    part: &'static str,
}

const fn step(verb: &'static str, way: &'static str) -> Step {
    Step { verb, way, part: "failpoints::worker_that_dies_at_its_failpoint" }
}

const CLAIM: Step = step(verb::Claim::NAME, "done");
const EXTEND: Step = step(verb::ExtendTasks::NAME, "stays");
const COMPLETE: Step = step(verb::Complete::NAME, "done");
const RETRY: Step = step(verb::Retry::NAME, "fails");
const DEAD: Step = step(verb::Retry::NAME, "gives-up");
const GIVE_BACK: Step = step(verb::ReleaseTasks::NAME, "snoozes");
const FIRE: Step = step(verb::Fire::NAME, "done");
const ENQUEUE: Step =
    Step { verb: verb::Enqueue::NAME, way: "done", part: "failpoints::client_that_dies_at_its_failpoint" };

/// Number of the call at which the process dies.
fn nth(verb: &str) -> u64 {
    if verb == verb::Enqueue::NAME { 3 } else { 1 }
}

fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
}

// ── the diary ──────────────────────────────────────────────────────────────────────────────────────────────

/// One run of a task, in any process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    id: String,
    attempt: u32,
    /// Time of the claim, on the store's clock.
    claimed: Timestamp,
    due: Timestamp,
}

/// Records every run at its start, and the process that it is in.
#[derive(Clone)]
struct Diary {
    path: PathBuf,
    mortal: bool,
}

impl Diary {
    fn in_folder(folder: &Path, mortal: bool) -> Self {
        Self { path: folder.join("diary"), mortal }
    }

    fn note(&self, job: &Job<String>) {
        let claim = job.ticket.claim.unwrap().as_u64();
        let line = format!("{} {} {claim} {}\n", job.ticket.id, job.attempt, job.ticket.due.as_micros());
        let mut file = fs::File::options().create(true).append(true).open(&self.path).unwrap();
        // In one write, so that a death leaves a whole line or none.
        file.write_all(line.as_bytes()).unwrap();
    }

    fn runs(&self) -> Vec<Run> {
        let diary = fs::read_to_string(&self.path).unwrap_or_default();
        let run = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let moment = |word: &str| Timestamp::from_micros(word.parse().unwrap());
            Run {
                id: words[0].to_owned(),
                attempt: words[1].parse().unwrap(),
                claimed: moment(words[2]),
                due: moment(words[3]),
            }
        };
        diary.lines().map(run).collect()
    }
}

async fn carry_out(job: Job<String>, State(diary): State<Diary>) -> Result<(), Outcome> {
    diary.note(&job);
    match job.payload.as_str() {
        "fails" if job.attempt == 1 => Err(Outcome::retry("on purpose")),
        "gives-up" => Err(Outcome::give_up("on purpose")),
        "snoozes" if diary.mortal => Err(Outcome::snooze(LATER)),
        "stays" if diary.mortal => std::future::pending().await,
        _ => Ok(()),
    }
}

// ── child processes ────────────────────────────────────────────────────────────────────────────────────────

/// The scenario's store, with its failpoint.
async fn trapped() -> Rushgate {
    let read = |file| fs::read_to_string(path(file)).unwrap();
    let (url, trap) = (read("url"), read("trap"));
    let (verb, moment) = trap.split_once(' ').unwrap();
    let verbs = [CLAIM, EXTEND, COMPLETE, RETRY, GIVE_BACK, FIRE, ENQUEUE].map(|step| step.verb);
    let verb = verbs.into_iter().find(|known| format!("{known:?}") == verb).unwrap();
    let moment = if moment == "After" { Moment::After } else { Moment::Before };
    let trap = Trap { verb, moment, nth: nth(verb), spring: die };
    fn behind(store: impl Store + 'static, trap: Trap) -> Rushgate {
        Rushgate::with_store(Arc::new(Faulty::new(store, FaultPlan::default(), 0).trapped(trap)))
    }
    if url.starts_with("sqlite") {
        behind(SqliteStore::open(&url).unwrap(), trap)
    } else {
        behind(RedisStore::open(&url).await.unwrap(), trap)
    }
}

#[tokio::test]
#[ignore = "a part: a worker that dies at its failpoint"]
async fn worker_that_dies_at_its_failpoint() {
    let diary = Diary::in_folder(Path::new(&path("")), true);
    let later = Backoff { base: LATER, factor: 1.0, max: LATER, jitter: false };
    let worker = Worker::new(&trapped().await.queue("tasks").unwrap()).lease(LEASE).concurrency(1);
    let worker = worker.retry_policy(later).state(diary).register("*", carry_out);
    worker.run(CancellationToken::new()).await.unwrap();
}

#[tokio::test]
#[ignore = "a part: a client that writes down what was acknowledged to it, and dies at its failpoint"]
async fn client_that_dies_at_its_failpoint() {
    let queue = trapped().await.queue_of::<String>("tasks").unwrap();
    for id in TASKS {
        queue.enqueue(id, "done".to_owned()).send().await.unwrap();
        let mut acknowledged =
            fs::File::options().create(true).append(true).open(path("acknowledged")).unwrap();
        acknowledged.write_all(format!("{id}\n").as_bytes()).unwrap();
    }
}

// ── scenarios ──────────────────────────────────────────────────────────────────────────────────────────────

struct Scene {
    folder: TempDir,
    queue: Queue<String>,
    diary: Diary,
}

impl Scene {
    async fn set(url: Option<&str>, step: Step, moment: Moment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let url = url.map_or_else(|| format!("sqlite:{}?durability=process", file.display()), str::to_owned);
        fs::write(folder.path().join("url"), &url).unwrap();
        fs::write(folder.path().join("trap"), format!("{:?} {moment:?}", step.verb)).unwrap();
        let queue = Rushgate::connect(&url).await.unwrap().queue_of("tasks").unwrap();
        let diary = Diary::in_folder(folder.path(), false);
        Self { folder, queue, diary }
    }

    async fn fill(&self, way: &str) {
        let way_of = |id: &str| if id == TASKS[0] { way.to_owned() } else { "done".to_owned() };
        let tasks = TASKS.iter().map(|id| self.queue.new_task(id, way_of(id)).unwrap());
        self.queue.enqueue_all(tasks.collect()).await.unwrap();
    }

    /// Runs the child process until the failpoint kills it.
    async fn play(&self, step: Step) {
        let mut part = play(step.part, &self.folder);
        let mut status = None;
        in_time(eventually(|| {
            status = part.try_wait().unwrap();
            std::future::ready(status.is_some())
        }))
        .await;
        assert_eq!(
            status.unwrap().signal(),
            Some(Signal::KILL.as_raw()),
            "the process reached its failpoint"
        );
    }

    /// All live tasks in the store.
    async fn look(&self) -> BTreeMap<String, TaskInfo> {
        let all = Listing::new(None, Page::first(1_000));
        let tasks = all.read_all(|page| self.queue.tasks(page)).await.unwrap();
        tasks.into_iter().map(|info| (info.task.ticket.id.to_string(), info)).collect()
    }

    /// Runs the remaining tasks, like another worker of the fleet, until `is_over`.
    async fn work_off<F: Future<Output = bool>>(&self, is_over: impl FnMut() -> F) {
        let shutdown = CancellationToken::new();
        let worker = Worker::new(&self.queue).state(self.diary.clone()).register("*", carry_out);
        let working = tokio::spawn(worker.run(shutdown.clone()));
        in_time(eventually(is_over)).await;
        shutdown.cancel();
        let report = working.await.unwrap().unwrap();
        assert_eq!((report.lost, report.unanswered), (0, 0));
    }

    async fn is_empty(&self) -> bool {
        self.look().await.is_empty()
    }
}

/// After the death: each task left in the store runs once more, a leased one only after its lease has
/// expired. A task that has left the store does not run again, and no enqueued task is missing.
async fn a_worker_dies(scene: Scene, step: Step, moment: Moment) {
    scene.fill(step.way).await;
    scene.play(step).await;
    let (ran, left) = (scene.diary.runs(), scene.look().await);
    for id in TASKS {
        assert!(left.contains_key(id) || ran.iter().any(|run| run.id == id), "{id} is missing");
    }
    let first = left.get(TASKS[0]);
    let claimed = ran.first().map(|run| run.claimed);
    match (step.verb, moment) {
        (verb::Claim::NAME, Moment::Before) => {
            assert!(left.values().all(|info| info.state == TaskState::Ready) && ran.is_empty());
        }
        (verb::Claim::NAME, Moment::After) => {
            let leased = left.values().filter(|info| info.state == TaskState::Leased).count();
            assert_eq!((first.unwrap().state, leased, ran.len()), (TaskState::Leased, 1, 0));
        }
        // A claim's number is its time, or slightly later.
        (verb::ExtendTasks::NAME, Moment::Before) => {
            assert!(first.unwrap().lease_until.unwrap() <= claimed.unwrap() + LEASE)
        }
        (verb::ExtendTasks::NAME, Moment::After) => {
            assert!(first.unwrap().lease_until.unwrap() > claimed.unwrap() + LEASE)
        }
        (verb::Complete::NAME, Moment::After) => assert_eq!(first, None),
        (verb::Retry::NAME, Moment::After) if step.way == "gives-up" => {
            assert_eq!(first, None);
            assert_eq!(scene.queue.dead_letter(TASKS[0]).await.unwrap().unwrap().attempts, 1);
        }
        (verb::Retry::NAME, Moment::After) => {
            let first = first.unwrap();
            assert_eq!((first.lease_until, first.error.as_deref()), (None, Some("on purpose")));
            assert_eq!(first.task.attempt, 1);
        }
        (verb::ReleaseTasks::NAME, Moment::After) => {
            let first = first.unwrap();
            assert_eq!((first.lease_until, first.task.attempt), (None, 0), "no attempt was counted");
        }
        // The store has not received the answer.
        _ => assert_eq!((first.unwrap().state, first.unwrap().task.attempt), (TaskState::Leased, 1)),
    }

    scene.work_off(async || scene.is_empty().await).await;
    let mut later = scene.diary.runs().split_off(ran.len());
    later.sort_by(|a, b| a.id.cmp(&b.id));
    let runs: Vec<_> = later.iter().map(|run| (run.id.as_str(), run.attempt)).collect();
    let due: Vec<_> = left.iter().map(|(id, info)| (id.as_str(), info.task.attempt + 1)).collect();
    assert_eq!(runs, due, "after {ran:?}");
    for run in &later {
        let until = left[&run.id].lease_until;
        assert!(until.is_none_or(|until| run.claimed >= until), "{run:?} under a lease until {until:?}");
    }
    let dead = scene.queue.dead(Page::first(10)).await.unwrap();
    assert_eq!(dead.len(), usize::from(step.way == "gives-up"), "{dead:?}");
}

/// A schedule that loses no occurrence and enqueues none twice.
async fn a_scheduler_dies(scene: Scene, step: Step, moment: Moment) {
    let each_second = Recurrence::every(secs(1)).unwrap().missed(Missed::All);
    scene.queue.schedule("beat", "done".to_owned(), each_second).save().await.unwrap();
    let first = scene.queue.find_schedule("beat").await.unwrap().unwrap().next.unwrap();
    scene.play(step).await;
    let beat = scene.queue.find_schedule("beat").await.unwrap().unwrap();
    let (ran, left) = (scene.diary.runs(), scene.look().await);
    match moment {
        Moment::Before => assert!(beat.next == Some(first) && left.is_empty() && ran.is_empty()),
        // The worker of the dying process may have finished the task before it died.
        Moment::After => {
            let once = left.len() == 1 || ran.len() == 1;
            assert!(beat.previous == Some(first) && once, "{beat:?} {left:?} {ran:?}");
        }
    }

    // A task that the dead process had claimed is due again when its lease expires.
    let moment_of = |run: &Run| left.get(&run.id).map_or(run.due, |info| info.task.ticket.due);
    let moments = || scene.diary.runs().iter().map(moment_of).collect::<BTreeSet<_>>();
    scene
        .work_off(async || {
            if moments().len() < 3 {
                return false;
            }
            scene.queue.unschedule("beat").await.unwrap();
            scene.is_empty().await
        })
        .await;
    for (n, moment) in moments().into_iter().enumerate() {
        assert_eq!(
            moment,
            first + secs(n as u64),
            "each occurrence was enqueued: {left:?} left by {ran:?}, {beat:?}"
        );
    }
    let mut runs = BTreeSet::new();
    for run in scene.diary.runs() {
        assert!(runs.insert((run.id.clone(), run.attempt)), "{} was enqueued twice", run.id);
        let until = left.get(&run.id).and_then(|info| info.lease_until);
        assert!(ran.contains(&run) || until.is_none_or(|until| run.claimed >= until));
    }
}

/// Every acknowledged task exists. A client without an answer enqueues again, and the task exists once.
async fn a_client_dies(scene: Scene, step: Step, moment: Moment) {
    scene.play(step).await;
    let acknowledged = fs::read_to_string(scene.folder.path().join("acknowledged")).unwrap();
    assert_eq!(acknowledged, "t0\nt1\n");
    let there = if moment == Moment::After { &TASKS[..3] } else { &TASKS[..2] };
    assert_eq!(scene.look().await.into_keys().collect::<Vec<_>>(), there);
    for id in &TASKS[2..] {
        let answer = scene.queue.enqueue(id, "done".to_owned()).send().await.unwrap();
        assert_eq!(matches!(answer, Enqueued::Kept { .. }), there.contains(id), "{answer:?}");
    }
    scene.work_off(async || scene.is_empty().await).await;
    let mut runs: Vec<_> = scene.diary.runs().into_iter().map(|run| (run.id, run.attempt)).collect();
    runs.sort();
    assert_eq!(runs, TASKS.map(|id| (id.to_owned(), 1)));
}

async fn play_both(url: [Option<&str>; 2], step: Step) {
    let scene = async |moment, url| {
        let scene = Scene::set(url, step, moment).await;
        match step.verb {
            verb::Fire::NAME => a_scheduler_dies(scene, step, moment).await,
            verb::Enqueue::NAME => a_client_dies(scene, step, moment).await,
            _ => a_worker_dies(scene, step, moment).await,
        }
    };
    tokio::join!(scene(Moment::Before, url[0]), scene(Moment::After, url[1]));
}

macro_rules! at_each_step {
    ($($name:ident $step:ident)*) => {
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::play_both([None; 2], super::$step).await }
        )* }
        mod redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let server = super::RedisSetup::new(super::Kind::Redis).start();
                let url = server.url();
                super::play_both([Some(&format!("{url}/0")), Some(&format!("{url}/1"))], super::$step).await
            }
        )* }
    };
}

at_each_step! {
    a_death_at_a_claim CLAIM
    a_death_at_a_heartbeat EXTEND
    a_death_at_a_completion COMPLETE
    a_death_at_a_retry RETRY
    a_death_at_a_dead_letter DEAD
    a_death_at_a_return GIVE_BACK
    a_death_at_a_schedules_moment FIRE
    a_death_at_an_enqueue ENQUEUE
}
