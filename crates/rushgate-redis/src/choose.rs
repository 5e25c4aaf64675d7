//! Which of the waiting requests the next pipeline sends.

use std::collections::VecDeque;

use crate::function::Function;
use crate::work::Work;

/// Takes the requests that share calls with the oldest one, then those with the next, until they are `enough`, and at most
/// `most`. Callers that enqueue, claim and complete soon take turns, so that the calls are fewer and larger.
///
/// The oldest request is always taken, so none waits longer than a pipeline for each function. The order of requests that
/// share no calls, and of those for locks, is kept: a release must not precede the acquire. Queues and sales promise no
/// order to a client that does not wait for answers.
pub(crate) fn choose(waiting: &mut VecDeque<Work>, enough: usize, most: usize) -> Vec<Work> {
    let mut chosen = Vec::with_capacity(most.min(waiting.len()));
    if waiting.len() <= enough {
        chosen.extend(waiting.drain(..));
    }
    while chosen.len() < enough
        && let Some(oldest) = waiting.front()
    {
        let group = shared(oldest);
        for work in std::mem::take(waiting) {
            if chosen.len() < most && shared(&work) == group {
                chosen.push(work);
            } else {
                waiting.push_back(work);
            }
        }
    }
    chosen
}

/// The function, if the request is an item of calls for one queue or sale.
fn shared(work: &Work) -> Option<Function> {
    work.item().filter(|(_, item)| !item.has_keys()).map(|(call, _)| call.function())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rushgate_core::{LockName, QueueName};

    use super::Function::{
        LockAcquire, LockRelease, QueueClaim as Claim, QueueComplete as Complete, QueueEnqueue as Enqueue,
        QueuePause as Pause,
    };
    use super::*;
    use crate::command::{Call, Command};
    use crate::keys;
    use crate::work::{InFlight, What};

    fn work(call: Call) -> Work {
        Arc::new(InFlight::default()).enter(What::Call(call)).expect("the store is open").0
    }

    fn of_queue(function: Function) -> Work {
        let queue = QueueName::new("mail").expect("a name");
        work(Call::new(function, [keys::queue(&queue)]).item(1, Command::default()))
    }

    fn of_lock(function: Function, name: &str) -> Work {
        let name = LockName::new(name).expect("a name");
        work(Call::new(function, []).item_with_keys(1, keys::lock(&name), Command::default()))
    }

    /// A call without items, for the same queue.
    fn plain(function: Function) -> Work {
        let queue = QueueName::new("mail").expect("a name");
        work(Call::new(function, [keys::queue(&queue)]))
    }

    fn functions<'a>(works: impl IntoIterator<Item = &'a Work>) -> Vec<Function> {
        let function = |work: &Work| match &work.what {
            What::Call(call) => call.function(),
            _ => unreachable!("all are calls"),
        };
        works.into_iter().map(function).collect()
    }

    #[test]
    fn requests_that_share_calls_are_sent_together_and_the_oldest_first() {
        let mut waiting: VecDeque<_> =
            [Claim, Enqueue, Complete].into_iter().cycle().take(9).map(of_queue).collect();
        assert_eq!(functions(&choose(&mut waiting, 3, 5)), [Claim, Claim, Claim]);
        assert_eq!(functions(&waiting), [Enqueue, Complete, Enqueue, Complete, Enqueue, Complete]);
        assert_eq!(functions(&choose(&mut waiting, 4, 5)), [Enqueue, Enqueue, Enqueue, Complete, Complete]);
        assert_eq!(functions(&choose(&mut waiting, 4, 5)), [Complete]);
        assert!(choose(&mut waiting, 4, 5).is_empty());
    }

    #[test]
    fn requests_for_locks_keep_their_order() {
        let asked = [(LockAcquire, "a"), (LockAcquire, "b"), (LockRelease, "a"), (LockAcquire, "c")];
        let mut waiting: VecDeque<_> = asked.map(|(function, name)| of_lock(function, name)).into();
        assert_eq!(functions(&choose(&mut waiting, 1, 3)), [LockAcquire, LockAcquire, LockRelease]);
        assert_eq!(functions(&waiting), [LockAcquire]);
    }

    #[test]
    fn calls_that_are_not_shared_keep_their_order_and_pass_those_that_are() {
        let mut waiting = VecDeque::from([of_lock(LockAcquire, "a"), of_queue(Claim), plain(Pause)]);
        waiting.extend([of_lock(LockRelease, "a"), of_queue(Claim)]);
        assert_eq!(functions(&choose(&mut waiting, 1, 4)), [LockAcquire, Pause, LockRelease]);
        assert_eq!(functions(&choose(&mut waiting, 1, 4)), [Claim, Claim]);
    }
}
