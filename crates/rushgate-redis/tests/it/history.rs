//! Random histories: the store answers every call like the model.

use crate::common;
use rushgate_test::history;

/// Fixed seeds. Each test also runs one random seed.
const SEEDS: u64 = 30;
const STEPS: usize = 400;
/// The same for histories that need several servers.
const SEEDS_OF_GROUPS: u64 = 6;
/// The same for servers with replicas.
const SEEDS_OF_WHOLE_GROUPS: u64 = 1;
const STEPS_OF_WHOLE_GROUPS: usize = 150;

#[test]
fn redis_answers_as_the_model_does() {
    history::check(common::redis, 0..SEEDS, STEPS);
}

#[test]
fn valkey_answers_as_the_model_does() {
    history::check(common::valkey, 0..SEEDS, STEPS);
}

#[test]
fn redis_behind_a_sentinel_answers_as_the_model_does() {
    history::check(common::redis_sentinel, 0..SEEDS_OF_GROUPS, STEPS);
}

#[test]
fn valkey_behind_a_sentinel_answers_as_the_model_does() {
    history::check(common::valkey_sentinel, 0..SEEDS_OF_GROUPS, STEPS);
}

#[test]
fn a_redis_cluster_answers_as_the_model_does() {
    history::check(common::redis_cluster, 0..SEEDS_OF_GROUPS, STEPS);
}

#[test]
fn a_valkey_cluster_answers_as_the_model_does() {
    history::check(common::valkey_cluster, 0..SEEDS_OF_GROUPS, STEPS);
}

#[test]
fn a_primary_of_redis_with_two_replicas_and_three_sentinels_answers_as_the_model_does() {
    history::check(common::redis_sentinel_group, 0..SEEDS_OF_WHOLE_GROUPS, STEPS_OF_WHOLE_GROUPS);
}

#[test]
fn three_primaries_of_redis_with_replicas_answer_as_the_model_does() {
    history::check(common::redis_cluster_group, 0..SEEDS_OF_WHOLE_GROUPS, STEPS_OF_WHOLE_GROUPS);
}

#[test]
fn a_primary_of_valkey_with_two_replicas_and_three_sentinels_answers_as_the_model_does() {
    history::check(common::valkey_sentinel_group, 0..SEEDS_OF_WHOLE_GROUPS, STEPS_OF_WHOLE_GROUPS);
}

#[test]
fn three_primaries_of_valkey_with_replicas_answer_as_the_model_does() {
    history::check(common::valkey_cluster_group, 0..SEEDS_OF_WHOLE_GROUPS, STEPS_OF_WHOLE_GROUPS);
}
