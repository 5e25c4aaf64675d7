//! The model passes the contract suite.

use std::sync::Arc;

use rushgate_testkit::contract::ModelHarness;

async fn harness() -> Arc<ModelHarness> {
    Arc::new(ModelHarness::new())
}

rushgate_testkit::contract_suite!(harness);

#[test]
fn a_history_is_answered_by_the_model_as_by_itself() {
    rushgate_testkit::history::check(harness, 0..20, 400);
}
