use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rushgate_core::Timestamp;

/// The store's clock. All processes of a machine read the same clock.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(crate) fn system() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(since.as_micros() as u64)
    })
}
