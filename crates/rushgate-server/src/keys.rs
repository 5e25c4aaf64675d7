//! Idempotency keys: cached answers and requests in flight.
//!
//! The store itself handles the keys of reservations and of locks, for all processes. For all other routes,
//! this process caches the answers for a limited time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::http::{HeaderMap, StatusCode};

use crate::problem::{Code, Problem};

/// How long an answer is cached.
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Maximum number of cached answers. Beyond it, the oldest are dropped.
const KNOWN_MAX: usize = 10_000;
/// Maximum total size of cached answers, in bytes.
const WEIGHT_MAX: usize = 32 << 20;

/// Identity of a key: caller, request and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyName {
    pub caller: String,
    pub request: String,
    pub key: String,
}

/// A cached answer.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Default)]
pub(crate) struct Keys {
    known: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    entries: HashMap<KeyName, Entry>,
    /// In order of completion.
    answered: VecDeque<(Instant, KeyName)>,
    weight: usize,
}

struct Entry {
    /// Hash of the request body.
    content: [u8; 32],
    state: State,
}

enum State {
    InFlight,
    /// Done, at this time. Without an answer the same request may run again under this key.
    Done(Instant, Option<Remembered>),
}

/// State of a key when a request starts.
pub(crate) enum Begun {
    /// The key is new. While this value lives, requests with the same key are refused as concurrent.
    New(KeyLease),
    /// The request was answered before.
    Before(Remembered),
}

impl Keys {
    /// Starts a request under this key.
    pub fn begin(self: &Arc<Self>, name: KeyName, content: [u8; 32]) -> Result<Begun, Problem> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget_old();
        match known.entries.get(&name) {
            Some(entry) if entry.content != content => Err(Problem::plain(Code::IdempotencyKeyReused)),
            Some(Entry { state: State::Done(_, Some(answer)), .. }) => Ok(Begun::Before(answer.clone())),
            Some(Entry { state: State::InFlight, .. }) => Err(Problem::plain(Code::IdempotencyInFlight)),
            Some(Entry { state: State::Done(_, None), .. }) | None => {
                known.entries.insert(name.clone(), Entry { content, state: State::InFlight });
                Ok(Begun::New(KeyLease { keys: Arc::clone(self), name, ends: None }))
            }
        }
    }
}

impl Entries {
    fn forget_old(&mut self) {
        while let Some((at, _)) = self.answered.front() {
            let is_over = at.elapsed() > KNOWN_FOR;
            if !is_over && self.answered.len() <= KNOWN_MAX && self.weight <= WEIGHT_MAX {
                return;
            }
            let Some((at, name)) = self.answered.pop_front() else { return };
            // The key may have been used again since; it then has a later entry in this order.
            if !matches!(self.entries.get(&name), Some(Entry { state: State::Done(done, _), .. }) if *done == at)
            {
                continue;
            }
            if let Some(Entry { state: State::Done(_, Some(answer)), .. }) = self.entries.remove(&name) {
                self.weight -= answer.body.len();
            }
        }
    }
}

/// A request in flight. On drop the key becomes free again, unless [`remember`](Self::remember) or
/// [`bind`](Self::bind) was called.
pub(crate) struct KeyLease {
    keys: Arc<Keys>,
    name: KeyName,
    ends: Option<State>,
}

impl KeyLease {
    /// Caches this answer for repeated requests.
    pub fn remember(mut self, answer: Remembered) {
        self.ends = Some(State::Done(Instant::now(), Some(answer)));
    }

    /// After the drop the same request may run again under this key, and a different one is refused.
    pub fn bind(mut self) -> Self {
        self.ends = Some(State::Done(Instant::now(), None));
        self
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        let mut known = self.keys.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(State::Done(at, answer)) = self.ends.take() else {
            known.entries.remove(&self.name);
            return;
        };
        known.weight += answer.as_ref().map_or(0, |answer| answer.body.len());
        if let Some(entry) = known.entries.get_mut(&self.name) {
            entry.state = State::Done(at, answer);
            known.answered.push_back((at, self.name.clone()));
            known.forget_old();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> KeyName {
        KeyName { caller: "a".into(), request: "POST /x".into(), key: key.into() }
    }

    fn answer(bytes: usize) -> Remembered {
        Remembered { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from(vec![0; bytes]) }
    }

    fn code(begun: Result<Begun, Problem>) -> Option<Code> {
        begun.err().map(|problem| problem.code())
    }

    #[test]
    fn a_key_is_in_flight_then_answered_and_good_for_one_body_only() {
        let keys = Arc::new(Keys::default());
        let Ok(Begun::New(turn)) = keys.begin(name("k"), [1; 32]) else { panic!("it is new") };
        assert_eq!(code(keys.begin(name("k"), [1; 32])), Some(Code::IdempotencyInFlight));
        assert_eq!(code(keys.begin(name("k"), [2; 32])), Some(Code::IdempotencyKeyReused));
        turn.remember(answer(3));
        assert!(
            matches!(keys.begin(name("k"), [1; 32]), Ok(Begun::Before(answer)) if answer.body.len() == 3)
        );
        assert_eq!(code(keys.begin(name("k"), [2; 32])), Some(Code::IdempotencyKeyReused));
    }

    #[test]
    fn a_turn_that_came_to_nothing_leaves_the_key_as_it_was() {
        let keys = Arc::new(Keys::default());
        drop(keys.begin(name("k"), [1; 32]));
        assert!(matches!(keys.begin(name("k"), [2; 32]), Ok(Begun::New(_))));
    }

    #[test]
    fn a_bound_key_is_good_for_the_same_request_again() {
        let keys = Arc::new(Keys::default());
        for _ in 0..2 {
            let Ok(Begun::New(turn)) = keys.begin(name("k"), [1; 32]) else { panic!("it may run") };
            let turn = turn.bind();
            assert_eq!(code(keys.begin(name("k"), [1; 32])), Some(Code::IdempotencyInFlight));
            drop(turn);
            assert_eq!(code(keys.begin(name("k"), [2; 32])), Some(Code::IdempotencyKeyReused));
        }
    }

    #[test]
    fn the_oldest_answers_are_forgotten_once_they_weigh_too_much() {
        let keys = Arc::new(Keys::default());
        for key in ["a", "b", "c"] {
            let Ok(Begun::New(turn)) = keys.begin(name(key), [1; 32]) else { panic!("{key} is new") };
            turn.remember(answer(WEIGHT_MAX / 2));
        }
        assert!(matches!(keys.begin(name("a"), [1; 32]), Ok(Begun::New(_))));
        assert!(matches!(keys.begin(name("c"), [1; 32]), Ok(Begun::Before(_))));
    }
}
