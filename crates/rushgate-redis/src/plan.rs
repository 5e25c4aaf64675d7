//! A pipeline: merges requests into steps, and hands out the replies.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use rushgate_core::Error;

use crate::command::{Command, Passed};
use crate::fault;
use crate::reply::{Answered, Refusal, Reply};
use crate::work::{What, Work, fail};

/// The most items in one call, and the most work they may be together, unless one item alone is more.
const ITEMS_MAX: usize = 128;
const WEIGHT_MAX: u32 = 1_000;
/// Timeout of WAIT for the replicas of a pipeline.
const REPLICATED_MAX: Duration = Duration::from_secs(1);

/// The commands of a pipeline, and the requests that they answer.
pub(crate) struct Plan {
    pub(crate) commands: Vec<Command>,
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
pub(crate) struct Rest {
    pub(crate) again: Vec<Work>,
    /// To be sent to another node, or to this one later.
    pub(crate) referred: Vec<(Work, Refusal)>,
    pub(crate) lacks_functions: bool,
    pub(crate) is_replica: bool,
}

/// How to handle a refused step.
pub(crate) enum Fate {
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
    pub(crate) fn of(batch: Vec<Work>, replicas: u32, is_cluster: bool) -> Self {
        let mut steps: Vec<Step> = Vec::with_capacity(batch.len());
        // The latest step of each key: a request must not be merged into a step before an earlier request for the same
        // key, such as a release that precedes an acquire.
        let mut latest = HashMap::new();
        for work in batch {
            let key = hash_of(&work.what.key());
            let from = if work.has_own_keys() { latest.get(&key).copied().unwrap_or(0) } else { 0 };
            let may_join = !(is_cluster && work.has_own_keys());
            let step = (from..steps.len()).find(|at| may_join && steps[*at].takes(&work));
            match step {
                Some(at) => steps[at].join(work),
                None => steps.push(Step::new(work)),
            }
            latest.insert(key, step.unwrap_or(steps.len() - 1));
        }
        let passed = if is_cluster { Passed::All } else { Passed::First };
        let mut commands = Vec::with_capacity(steps.len() + 1);
        for step in &mut steps {
            let before = commands.len();
            step.write(&mut commands, passed);
            step.count = commands.len() - before;
        }
        if replicas > 0 {
            let wait = Command::new("WAIT").arg(replicas.to_string());
            commands.push(wait.arg(REPLICATED_MAX.as_millis().to_string()));
        }
        Self { commands, steps, replicas }
    }

    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// All requests of the pipeline.
    pub(crate) fn works(self) -> impl Iterator<Item = Work> {
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
    pub(crate) fn hand_out(self, answers: Vec<Answered>, fate: impl Fn(&Refusal) -> Fate) -> Rest {
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

    fn write(&self, commands: &mut Vec<Command>, passed: Passed) {
        let Some(first) = self.works.first() else { return };
        if first.asking {
            commands.push(Command::new("ASKING"));
        }
        match &first.what {
            What::Call(call) => {
                let items = self.works.iter().filter_map(Work::item).map(|(_, item)| item);
                commands.push(call.command(items, passed));
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
    let mut last: Option<Result<Reply, _>> = None;
    for answer in answers {
        if !matches!(last, Some(Err(_))) {
            last = Some(answer);
        }
    }
    last
}
