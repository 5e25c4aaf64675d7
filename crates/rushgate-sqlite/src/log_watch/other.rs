use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends a wait from another thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waker(Arc<(Mutex<bool>, Condvar)>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    pub(crate) fn wake(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_one();
    }
}

/// Replaces the watch where the kernel does not report writes.
#[derive(Debug)]
pub(crate) struct LogWatch {
    waker: Waker,
}

impl LogWatch {
    pub(crate) fn new(_file: &str, waker: Waker) -> Self {
        Self { waker }
    }

    pub(crate) fn sleep(&mut self) {
        let (woken, changed) = &*self.waker.0;
        let mut woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *woken) {
            woken = changed.wait(woken).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn wait(&mut self, _max: Duration) -> bool {
        false
    }

    pub(super) fn is_watched(&self) -> bool {
        false
    }
}
