use std::sync::Arc;
use std::time::SystemTime;

use rushgate_core::Timestamp;

/// The store's clock. All processes of a machine read the same clock.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(crate) fn system() -> Clock {
    Arc::new(|| SystemTime::now().try_into().unwrap_or_default())
}
