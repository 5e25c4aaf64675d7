//! The model keeps the contract that it specifies.

use std::sync::Arc;

use rushgate_testkit::contract::ModelHarness;

async fn harness() -> Arc<ModelHarness> {
    Arc::new(ModelHarness::new())
}

rushgate_testkit::contract_suite!(harness);
