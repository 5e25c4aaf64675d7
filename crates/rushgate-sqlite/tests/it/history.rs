//! Random histories: the store gives the same answers as the model.

use crate::common;
use rushgate_test::history;

/// Number of histories with fixed seeds. Each test runs one more, seeded from the time of day.
const SEEDS: u64 = 60;
const STEPS: usize = 400;

#[test]
fn a_store_on_a_file_answers_as_the_model_does() {
    history::check(common::file, 0..SEEDS, STEPS);
}

#[test]
fn a_store_in_memory_answers_as_the_model_does() {
    history::check(common::memory, 0..SEEDS, STEPS);
}
