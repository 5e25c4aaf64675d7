//! A call to the writer, from its execution in a group to its answer.

use rushgate_core::Error;
use tokio::sync::oneshot;

use crate::fault::{Result, Stop, caught};
use crate::step::Step;

/// What the writer does with a call.
pub(crate) trait Job: Send {
    /// Executes the call. May run again after a rollback. After an error, its writes must be rolled back.
    fn run(&mut self, step: &mut Step<'_>) -> Result<()>;
    /// Answers the caller, with the result of `run` if the group was committed.
    fn answer(self: Box<Self>, failed: Option<&Error>);
}

/// A verb, its answer once it has run, and its caller.
pub(crate) struct Call<F, T> {
    verb: F,
    found: Option<std::result::Result<T, Error>>,
    reply: oneshot::Sender<std::result::Result<T, Error>>,
}

impl<F, T> Call<F, T> {
    /// The receiver gets the answer.
    pub(crate) fn new(verb: F) -> (Self, oneshot::Receiver<std::result::Result<T, Error>>) {
        let (reply, answer) = oneshot::channel();
        (Self { verb, found: None, reply }, answer)
    }
}

impl<F, T> Job for Call<F, T>
where
    F: FnMut(&mut Step<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, step: &mut Step<'_>) -> Result<()> {
        let before = step.conn.total_changes();
        self.found = match caught(|| (self.verb)(step)) {
            Ok(answer) => Some(Ok(answer)),
            // Refused before its first write, so the rest of the group can continue.
            Err(Stop::Refused(error)) if step.conn.total_changes() == before && !error.is_bug() => {
                Some(Err(error))
            }
            Err(stop) => return Err(stop),
        };
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&Error>) {
        let lost = || Err(Error::bug("a call was answered before it ran"));
        let answer = match failed {
            Some(error) => Err(error.duplicate()),
            None => self.found.unwrap_or_else(lost),
        };
        // The caller may have dropped the receiver. The step stands.
        let _ = self.reply.send(answer);
    }
}
