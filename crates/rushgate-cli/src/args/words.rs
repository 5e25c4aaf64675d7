//! Options whose values are words of the library's types. A word is the type's JSON, with hyphens.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rushgate::queue::{IfDead, Overflow, TaskState, WorkerMode};
use rushgate::schedule::Missed;
use rushgate_server::Role;
use serde::de::DeserializeOwned;

pub(super) fn if_dead() -> impl TypedValueParser<Value = IfDead> {
    words(&[
        ("wait", "Keep waiting: the dead letter may be requeued"),
        ("fail", "Become a dead letter too"),
        ("run", "Run anyway"),
    ])
}

pub(super) fn task_state() -> impl TypedValueParser<Value = TaskState> {
    words(&[
        ("scheduled", "Not due yet"),
        ("ready", "Due, and not claimed"),
        ("leased", "Claimed"),
        ("blocked", "Behind others of its key"),
        ("done", "Finished, and kept by the queue's retention"),
    ])
}

pub(super) fn overflow() -> impl TypedValueParser<Value = Overflow> {
    words(&[
        ("refuse", "Refuse the new task"),
        ("drop-new", "Drop the new task"),
        ("drop-oldest", "Drop the oldest waiting task for the new one"),
    ])
}

pub(super) fn missed() -> impl TypedValueParser<Value = Missed> {
    words(&[
        ("skip", "Skip them, except one that is at most a minute old"),
        ("once", "Run the latest one"),
        ("all", "Run all of them"),
    ])
}

pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    words(&[
        ("buyer", "Reads sales, reserves and cancels"),
        ("worker", "Also uses locks and queues, and confirms"),
        ("operator", "Does everything"),
    ])
}

pub(super) fn worker_mode() -> impl TypedValueParser<Value = WorkerMode> {
    words(&[
        ("work", "Claim and run tasks"),
        ("quiet", "Claim no tasks from this queue; running ones continue"),
        ("stop", "Let running tasks end, then exit"),
    ])
}

/// A parser for these words, each with its help.
fn words<T>(words: &'static [(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = words.iter().map(|(word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|word| serde_json::from_value(word.replace('-', "_").into()))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn check(parser: &impl TypedValueParser) {
        for word in parser.possible_values().unwrap() {
            let read = parser.parse_ref(&Command::new("rushgate"), None, word.get_name().as_ref());
            assert!(read.is_ok(), "{}", word.get_name());
        }
    }

    #[test]
    fn every_word_in_the_help_is_a_word_of_its_type() {
        check(&if_dead());
        check(&task_state());
        check(&overflow());
        check(&missed());
        check(&role());
        check(&worker_mode());
    }
}
