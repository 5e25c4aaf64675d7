use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rushgate_core::TaskProgress;

/// Reports the progress of a task. Extractor of a handler.
///
/// The latest report is sent with the next extension of the lease, at no extra call, and is visible within a
/// third of the lease. Clones report on the same task.
///
/// ```
/// use rushgate::worker::Progress;
///
/// async fn send_all(to: Vec<String>, progress: Progress) {
///     for (n, one) in to.iter().enumerate() {
///         progress.percent(n * 100 / to.len());
///         progress.note(format_args!("to {one}"));
///         // … send it
///     }
/// }
/// # let _ = send_all;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    latest: TaskProgress,
    is_new: bool,
}

impl Progress {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the percentage done: 0 to 100. Higher values count as 100.
    pub fn percent(&self, percent: usize) {
        let mut told = self.told();
        told.latest.percent = Some(percent.min(100) as u8);
        told.is_new = true;
    }

    /// Sets a note on the current step. Cut to 200 bytes; control characters become spaces.
    pub fn note(&self, note: impl Display) {
        let note = note.to_string().replace(char::is_control, " ");
        let end = note.floor_char_boundary(TaskProgress::NOTE_MAX);
        let mut told = self.told();
        note[..end].clone_into(&mut told.latest.note);
        told.is_new = true;
    }

    /// The report to send, if it changed since the last call.
    pub(super) fn take_new(&self) -> Option<TaskProgress> {
        let mut told = self.told();
        std::mem::take(&mut told.is_new).then(|| told.latest.clone())
    }

    /// Marks the report as unsent, because the extension that carried it failed.
    pub(super) fn tell_again(&self) {
        self.told().is_new = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_within_the_limits_and_taken_once() {
        let progress = Progress::default();
        assert_eq!(progress.take_new(), None);
        progress.percent(250);
        progress.note("é\u{7}".repeat(200));
        let told = progress.clone().take_new().unwrap();
        told.check().unwrap();
        assert_eq!((told.percent, told.note.len()), (Some(100), 200));
        assert_eq!(progress.take_new(), None);
        progress.tell_again();
        assert_eq!(progress.take_new(), Some(told));
    }
}
