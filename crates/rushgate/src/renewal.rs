//! Lease renewal of one client: one task renews all leases and signals lost locks before the store can grant
//! them again.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Claim, Extend, Extended, Lease, Store, Token, Verbs};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{Boot, margin};
use crate::held::{Held, LostReason, NewGrant};

/// Maximum sleep. The runtime's timers stop while the machine is suspended, but leases do not.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// All locks that this client holds, and the task that renews them.
pub(crate) struct Renewals {
    store: Arc<dyn Store>,
    closing: CancellationToken,
    state: Mutex<Keep>,
    /// Locks whose listeners have a notification. A waker may be called while anything else is locked, so it locks only
    /// this.
    heard: Mutex<Vec<Token>>,
    changed: Notify,
}

#[derive(Default)]
struct Keep {
    entries: HashMap<Token, Entry>,
    /// True while the task runs. It sleeps until `wakes_at` at the latest.
    runs: bool,
    /// Whether a lock was added since the task last looked.
    is_used: bool,
    wakes_at: Option<Boot>,
}

struct Entry {
    held: Held,
    revoked: Revoked,
    lease: Lease,
    /// Basis for pauses: the lease, or the time left before the first renewal.
    pace: Duration,
    /// True if renewal is enabled.
    renews: bool,
    renew_at: Option<Boot>,
    max_until: Option<Boot>,
    /// Number of times the caller changed the lease.
    change: u64,
}

/// Resolves when the lock is force-released.
type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wakes the renewal task when a lock's listener has a notification.
struct Nudge {
    renewals: Weak<Renewals>,
    token: Token,
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        let Some(renewals) = self.renewals.upgrade() else { return };
        renewals.heard.lock().unwrap_or_else(PoisonError::into_inner).push(self.token);
        renewals.changed.notify_one();
    }
}

impl Renewals {
    pub(crate) fn new(store: Arc<dyn Store>, closing: CancellationToken) -> Self {
        Self { store, closing, state: Mutex::default(), heard: Mutex::default(), changed: Notify::new() }
    }

    fn keep(&self) -> MutexGuard<'_, Keep> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(self: &Arc<Self>, held: Held, grant: &NewGrant, revoked: Revoked) {
        let token = grant.token;
        let now = Boot::now();
        let entry = Entry::of(held, grant, revoked, now);
        let next = entry.next(now);
        let mut keep = self.keep();
        keep.entries.insert(token, entry);
        keep.is_used = true;
        if !keep.runs {
            keep.runs = true;
            keep.wakes_at = None;
            tokio::spawn(Keeper { renewals: Arc::clone(self), over: false }.run());
        } else if keep.wakes_at.is_some_and(|wakes_at| next < wakes_at) {
            self.changed.notify_one();
        }
        drop(keep);
        self.listen(token);
    }

    /// Polls the listener of a lock. A task for each listener would wake another thread at each grant.
    fn listen(self: &Arc<Self>, token: Token) {
        let waker = Waker::from(Arc::new(Nudge { renewals: Arc::downgrade(self), token }));
        let mut keep = self.keep();
        let Some(entry) = keep.entries.get_mut(&token) else { return };
        if entry.revoked.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            return;
        }
        let entry = keep.entries.remove(&token);
        drop(keep);
        if let Some(entry) = entry {
            entry.held.lose(LostReason::Revoked);
        }
    }

    /// Polls the listeners that have a notification.
    fn listen_again(self: &Arc<Self>) {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        heard.into_iter().for_each(|token| self.listen(token));
    }

    pub(crate) fn remove(&self, token: Token) {
        self.keep().entries.remove(&token);
    }

    pub(crate) fn lose(&self, token: Token, reason: LostReason) {
        let entry = self.keep().entries.remove(&token);
        if let Some(entry) = entry {
            entry.held.lose(reason);
        }
    }

    pub(crate) fn lose_all(&self, reason: LostReason) {
        let entries = std::mem::take(&mut self.keep().entries);
        for entry in entries.into_values() {
            entry.held.lose(reason);
        }
    }

    /// Sets the lock's lease for the extension that is about to be sent. Returns the lease to request, or
    /// `None` if the lock is lost or has reached `max_hold`.
    pub(crate) fn change(&self, token: Token, lease: Lease) -> Option<Lease> {
        let mut keep = self.keep();
        let entry = keep.entries.get_mut(&token)?;
        let now = Boot::now();
        let lease = entry.capped(lease, now)?;
        entry.lease = lease;
        entry.pace = entry.pace.min(lease.get());
        entry.change += 1;
        // A shorter lease may take effect at any time from now on, so the guard assumes it at once.
        entry.held.set_until(entry.held.until().min(believed(now, lease)));
        self.changed.notify_one();
        Some(lease)
    }

    pub(crate) fn extended(&self, token: Token, lease: Lease, sent: Boot) {
        if let Some(entry) = self.keep().entries.get_mut(&token) {
            entry.acknowledged(lease, sent);
        }
        self.changed.notify_one();
    }

    /// Signals lost leases, and returns the extensions to send and the time of the next check.
    fn due(&self, now: Boot) -> (Vec<Wish>, Boot) {
        let mut keep = self.keep();
        let mut batch = Vec::new();
        let mut lost = Vec::new();
        let mut next = now + SLEEP_MAX;
        for (token, entry) in &mut keep.entries {
            if entry.held.until() <= now {
                lost.push(*token);
            } else if entry.is_due(now) && batch.len() < Claim::BATCH_MAX {
                batch.extend(entry.wish(*token, now));
            }
            next = next.min(entry.next(now));
        }
        for token in lost {
            if let Some(entry) = keep.entries.remove(&token) {
                entry.held.lose(entry.reason_at(now));
            }
        }
        keep.wakes_at = Some(next);
        (batch, next)
    }

    fn answered(&self, batch: &[Wish], sent: Boot, answers: &[Extended]) {
        let mut keep = self.keep();
        for (wish, answer) in batch.iter().zip(answers) {
            let token = wish.extend.token;
            let Some(entry) = keep.entries.get_mut(&token) else { continue };
            match answer {
                Extended::Extended(_) if entry.change == wish.change => {
                    entry.acknowledged(wish.extend.lease, sent);
                }
                // The lease was changed after this request was sent, so the answer does not tell the current
                // lease.
                Extended::Extended(_) => {}
                Extended::NotHeld => {
                    entry.held.lose(LostReason::NotHeld);
                    keep.entries.remove(&token);
                }
            }
        }
        self.changed.notify_one();
    }

    fn failed(&self, batch: &[Wish]) {
        let (mut keep, now) = (self.keep(), Boot::now());
        for wish in batch {
            if let Some(entry) = keep.entries.get_mut(&wish.extend.token) {
                entry.failed(now);
            }
        }
        self.changed.notify_one();
    }

    /// True, once, if no locks are left to renew and none was added since the last look. A task that ended with the last
    /// lock would be started again for each of many short locks, and so wake another thread each time.
    fn is_over(&self) -> bool {
        let mut keep = self.keep();
        let is_used = std::mem::take(&mut keep.is_used);
        let over = keep.entries.is_empty() && !is_used || self.closing.is_cancelled();
        if over {
            keep.runs = false;
        }
        over
    }
}

/// Shortens the pause at random, so that clients do not renew in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.8..1.0))
}

/// End of a lease that was requested at `sent`, less the safety margin.
fn believed(sent: Boot, lease: Lease) -> Boot {
    (sent + lease.get()).minus(margin(lease.get()))
}

impl Entry {
    fn of(held: Held, grant: &NewGrant, revoked: Revoked, now: Boot) -> Self {
        let pace = now.until(grant.until);
        Self {
            held,
            revoked,
            lease: grant.lease,
            pace,
            renews: grant.renew,
            renew_at: grant.renew.then(|| now + jittered(pace / 3)),
            max_until: grant.max_until,
            change: 0,
        }
    }

    /// Returns a renewal to send, and schedules a retry in case no answer comes.
    fn wish(&mut self, token: Token, now: Boot) -> Option<Wish> {
        let lease = self.capped(self.lease, now)?;
        self.renew_at = Some(now + self.pace / 4);
        let extend = Extend { name: self.held.name().clone(), token, lease };
        Some(Wish { extend, change: self.change })
    }

    fn acknowledged(&mut self, lease: Lease, sent: Boot) {
        // A late answer must not undo a newer one.
        self.held.set_until(self.held.until().max(believed(sent, lease)));
        self.pace = self.lease.get();
        self.renew_at = self.renews.then(|| sent + jittered(self.pace / 3));
    }

    /// Schedules a retry. A failed renewal is retried until the lease ends; it never releases the lock.
    fn failed(&mut self, now: Boot) {
        let pause = (self.pace / 20).clamp(Duration::from_millis(2), Duration::from_secs(1));
        self.renew_at = Some(now + pause.mul_f64(rand::rng().random_range(0.5..1.0)));
    }

    fn capped(&self, lease: Lease, now: Boot) -> Option<Lease> {
        let longest = self.max_until.map_or(Duration::MAX, |until| now.until(until));
        Lease::new(lease.get().min(longest)).ok()
    }

    /// Leases that are nearly due join the batch.
    fn is_due(&self, now: Boot) -> bool {
        let soon = now + self.pace / 20;
        self.renew_at.is_some_and(|at| at <= soon) && !self.is_at_max(now)
    }

    /// True if the lease already reaches `max_hold`, so that a renewal could not extend it.
    fn is_at_max(&self, now: Boot) -> bool {
        let least = margin(self.lease.get()) * 2;
        self.max_until.is_some_and(|max| self.held.until() + least >= max || now + Lease::MIN > max)
    }

    fn reason_at(&self, now: Boot) -> LostReason {
        if self.is_at_max(now) { LostReason::MaxHold } else { LostReason::Expired }
    }

    /// Next time at which this lock needs attention.
    fn next(&self, now: Boot) -> Boot {
        let until = self.held.until();
        match self.renew_at {
            Some(at) if !self.is_at_max(at.max(now)) => at.min(until),
            _ => until,
        }
    }
}

/// One renewal request.
struct Wish {
    extend: Extend,
    change: u64,
}

/// The renewal task. However it ends, the next acquired lock starts another.
struct Keeper {
    renewals: Arc<Renewals>,
    over: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.over {
            self.renewals.keep().runs = false;
        }
    }
}

impl Keeper {
    async fn run(mut self) {
        while !self.renewals.is_over() {
            self.renewals.listen_again();
            let now = Boot::now();
            let (batch, next) = self.renewals.due(now);
            if !batch.is_empty() {
                // In its own task, so that a slow answer delays neither other renewals nor the signal of a
                // loss.
                tokio::spawn(renew(Arc::clone(&self.renewals), batch, now));
            }
            tokio::select! {
                () = tokio::time::sleep(now.until(next)) => {}
                () = self.renewals.changed.notified() => {}
                () = self.renewals.closing.cancelled() => {}
            }
        }
        self.over = true;
    }
}

async fn renew(renewals: Arc<Renewals>, batch: Vec<Wish>, sent: Boot) {
    let extends = batch.iter().map(|wish| wish.extend.clone()).collect();
    match renewals.store.extend(extends).await {
        Ok(answers) => renewals.answered(&batch, sent, &answers),
        Err(error) => {
            tracing::debug!(%error, "lease renewal failed; retrying");
            renewals.failed(&batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use rushgate_core::{ClientId, Fence};

    use super::*;

    /// An entry with 500 ms left of a lease of 1 min, because its answer was late.
    fn late(now: Boot) -> Entry {
        let grant = NewGrant {
            name: "x".parse().unwrap(),
            token: Token::new(ClientId::from_u64(1), 1),
            fence: Fence::from_u64(1),
            lease: Lease::new(Duration::from_secs(60)).unwrap(),
            until: now + Duration::from_millis(500),
            renew: true,
            max_until: None,
        };
        Entry::of(Held::new(&grant), &grant, Box::pin(std::future::pending()), now)
    }

    #[test]
    fn a_renewal_that_fails_or_is_not_answered_is_tried_again_before_the_lock_is_lost() {
        let now = Boot::now();
        let mut entry = late(now);
        let token = entry.held.token();
        for _ in 0..5 {
            entry.wish(token, now).expect("the lease can be extended");
            assert!(entry.next(now) < entry.held.until());
            entry.failed(now);
            assert!(entry.next(now) < entry.held.until());
        }
    }

    #[test]
    fn an_acknowledged_renewal_paces_the_next_by_the_full_lease() {
        let now = Boot::now();
        let mut entry = late(now);
        assert!(entry.is_due(now + Duration::from_millis(500) / 3));
        entry.acknowledged(entry.lease, now);
        assert_eq!(entry.pace, Duration::from_secs(60));
        assert!(!entry.is_due(now + Duration::from_secs(1)));
    }
}
