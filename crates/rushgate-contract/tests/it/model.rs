//! The model passes the contract suite.

use std::sync::Arc;

use rushgate_test::ModelHarness;

async fn harness() -> Arc<ModelHarness> {
    Arc::new(ModelHarness::new())
}

rushgate_contract::contract_suite!(harness);

#[test]
fn a_history_is_answered_by_the_model_as_by_itself() {
    rushgate_test::history::check(harness, 0..20, 400);
}
