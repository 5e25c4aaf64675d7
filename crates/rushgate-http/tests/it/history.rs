//! Random histories: the store gives the same answers as the model.

use crate::common;
use rushgate_test::history;

#[test]
fn a_store_behind_a_server_answers_as_the_model_does() {
    history::check(common::two_clients, 0..6, 400);
}
