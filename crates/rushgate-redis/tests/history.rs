//! Random histories: the store answers every call as the model does.

mod common;

use rushgate_testkit::history;

/// Histories with fixed seeds. Each test runs one more, from the time of day.
const SEEDS: u64 = 50;
const STEPS: usize = 400;

#[test]
fn redis_answers_as_the_model_does() {
    history::check(common::redis, 0..SEEDS, STEPS);
}

#[test]
fn valkey_answers_as_the_model_does() {
    history::check(common::valkey, 0..SEEDS, STEPS);
}
