use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    Acquire, Acquired, Busy, ClientId, Enqueued, Extend, Extended, Fence, Grant, Holder, Lease, Left,
    LockName, LockState, Notification, Op, Owner, Page, Queued, ReleaseWith, Released, ReleasedWith, Reply,
    Result, Timestamp, Token, WaiterState,
};

use super::{Model, Planted};

/// All locks ever used. A lock's fencing token must survive its holders.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    by_name: BTreeMap<LockName, Lock>,
    /// Tokens with a listener in this process: a grant to one of them needs no claim window.
    pub(super) listening: BTreeSet<Token>,
    /// Notifications of the last step.
    pub(super) notifications: Vec<(Token, Notification)>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    holder: Option<Holder>,
    line: Vec<Waiter>,
    fence: u64,
    /// Tokens of the latest releases, newest first.
    released: Vec<Token>,
}

#[derive(Clone, Debug)]
struct Waiter {
    token: Token,
    owner: Owner,
    lease: Lease,
    since: Timestamp,
    wait_until: Timestamp,
    place: Place,
}

/// State of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits,
    /// Was granted the lock for the claim window and has not confirmed.
    Granted,
    /// Let the claim window pass. Skipped until it asks again.
    Lapsed,
}

impl Waiter {
    fn state(&self) -> WaiterState {
        WaiterState {
            token: self.token,
            owner: self.owner.clone(),
            since: self.since,
            wait_until: self.wait_until,
        }
    }
}

impl Lock {
    fn live_holder(&self, now: Timestamp) -> Option<&Holder> {
        self.holder.as_ref().filter(|holder| holder.lease_until > now)
    }

    fn holds(&self, now: Timestamp, token: Token) -> bool {
        self.live_holder(now).is_some_and(|holder| holder.token == token)
    }

    /// Current waiters. A waiter that was granted the lock is its holder instead; one whose grant lapsed counts
    /// again.
    fn waiting(&self, now: Timestamp) -> impl Iterator<Item = &Waiter> {
        let granted = move |waiter: &Waiter| waiter.place == Place::Granted && self.holds(now, waiter.token);
        self.line.iter().filter(move |waiter| waiter.wait_until > now && !granted(waiter))
    }

    /// Removes an expired holder and expired waiters.
    fn tidy(&mut self, now: Timestamp, bug: Option<Planted>) {
        if self.live_holder(now).is_none() {
            self.holder = None;
            for waiter in self.line.iter_mut().filter(|waiter| waiter.place == Place::Granted) {
                waiter.place = Place::Lapsed;
            }
        }
        if bug != Some(Planted::DeadWaiterBlocks) {
            self.line.retain(|waiter| waiter.wait_until > now);
        }
    }

    fn take_from_line(&mut self, token: Token) {
        self.line.retain(|waiter| waiter.token != token);
    }

    fn grant(&mut self, now: Timestamp, token: Token, owner: Owner, lease_until: Timestamp, repeat: bool) {
        self.fence = if repeat { self.fence } else { (self.fence + 1).max(now.as_micros()) };
        let fence = Fence::from_u64(self.fence);
        self.holder = Some(Holder { token, fence, owner, since: now, lease_until });
    }

    fn first_in_line(&self, bug: Option<Planted>) -> Option<usize> {
        match bug {
            Some(Planted::HandOverToTheLast) => {
                self.line.iter().rposition(|waiter| waiter.place == Place::Waits)
            }
            Some(Planted::DeadWaiterBlocks) => (!self.line.is_empty()).then_some(0),
            _ => self.line.iter().position(|waiter| waiter.place == Place::Waits),
        }
    }

    fn state(&self, name: &LockName, now: Timestamp) -> LockState {
        LockState {
            name: name.clone(),
            holders: self.live_holder(now).cloned().into_iter().collect(),
            waiters: self.waiting(now).map(Waiter::state).collect(),
        }
    }

    fn grant_now(&self, now: Timestamp) -> Option<Grant> {
        self.live_holder(now).map(|holder| Grant {
            fence: holder.fence,
            lease_until: holder.lease_until,
            lease_left: holder.lease_until.since(now),
        })
    }
}

impl Model {
    fn lock(&mut self, name: &LockName) -> &mut Lock {
        self.locks.by_name.entry(name.clone()).or_default()
    }

    /// Hands a free lock to the first waiter that has not lapsed.
    fn hand_over(&mut self, now: Timestamp, name: &LockName) {
        let bug = self.bug;
        let Some(lock) = self.locks.by_name.get_mut(name) else { return };
        lock.tidy(now, bug);
        if lock.holder.is_some() {
            return;
        }
        let Some(first) = lock.first_in_line(bug) else { return };
        let waiter = lock.line[first].clone();
        let listens = self.locks.listening.contains(&waiter.token);
        let lease = waiter.lease.get();
        let lease = if listens { lease } else { lease.min(Acquire::CLAIM_WINDOW) };
        lock.grant(now, waiter.token, waiter.owner, now + lease, false);
        if listens {
            lock.line.remove(first);
            let grant = lock.grant_now(now).expect("it was just granted");
            self.locks.notifications.push((waiter.token, Notification::Granted(grant)));
        } else {
            lock.line[first].place = Place::Granted;
        }
    }

    /// See [`Verbs::acquire`](rushgate_core::Verbs::acquire).
    pub fn acquire(&mut self, now: Timestamp, request: Acquire) -> Result<Acquired> {
        let bug = self.bug;
        let lock = self.lock(&request.name);
        let expired = lock.holder.is_some() && lock.live_holder(now).is_none();
        lock.tidy(now, bug);
        if let Some(waiter) = lock.line.iter_mut().find(|waiter| waiter.token == request.token)
            && waiter.place == Place::Lapsed
        {
            waiter.place = Place::Waits;
        }
        if lock.holds(now, request.token) {
            return Ok(Acquired::Granted(self.confirm_lock(now, &request)));
        }
        let before = lock.first_in_line(bug);
        let first = before.is_none_or(|first| lock.line[first].token == request.token);
        if lock.holder.is_none() && (first || request.barging) {
            lock.take_from_line(request.token);
            let repeat = expired && bug == Some(Planted::FenceRepeatsAfterExpiry);
            lock.grant(now, request.token, request.owner, now + request.lease.get(), repeat);
            return Ok(Acquired::Granted(lock.grant_now(now).expect("it was just granted")));
        }
        self.stand_in_line(now, &request);
        self.hand_over(now, &request.name);
        Ok(self.place_in_line(now, &request))
    }

    fn confirm_lock(&mut self, now: Timestamp, request: &Acquire) -> Grant {
        let lock = self.lock(&request.name);
        lock.take_from_line(request.token);
        let holder = lock.holder.as_mut().expect("the caller saw that the token holds the lock");
        holder.lease_until = now + request.lease.get();
        lock.grant_now(now).expect("it holds the lock")
    }

    fn stand_in_line(&mut self, now: Timestamp, request: &Acquire) {
        let twice = self.bug == Some(Planted::AskingAgainQueuesTwice);
        let lock = self.lock(&request.name);
        let stands = lock.line.iter().any(|waiter| waiter.token == request.token);
        if request.wait.is_zero() || (stands && !twice) {
            return;
        }
        lock.line.push(Waiter {
            token: request.token,
            owner: request.owner.clone(),
            lease: request.lease,
            since: now,
            wait_until: now + request.wait,
            place: Place::Waits,
        });
    }

    fn place_in_line(&mut self, now: Timestamp, request: &Acquire) -> Acquired {
        let lock = self.lock(&request.name);
        let left = lock.live_holder(now).map_or(Default::default(), |holder| holder.lease_until.since(now));
        // Lapsed waiters are skipped until they ask again, so they do not count in positions.
        let line = || lock.waiting(now).filter(|waiter| waiter.place == Place::Waits);
        let waiters = line().count() as u64;
        let at = line().position(|waiter| waiter.token == request.token);
        match at {
            Some(at) if !request.wait.is_zero() => {
                let fence = Fence::from_u64(lock.fence);
                Acquired::Queued(Queued { position: at as u64 + 1, check_after: left, fence })
            }
            _ => Acquired::Busy(Busy { retry_after: left, waiters }),
        }
    }

    /// See [`Verbs::release`](rushgate_core::Verbs::release).
    pub fn release(&mut self, now: Timestamp, name: &LockName, token: Token) -> Result<Released> {
        let bug = self.bug;
        let anybody = bug == Some(Planted::ReleaseWithoutOwner);
        let Some(lock) = self.locks.by_name.get_mut(name) else { return Ok(Released::NotHeld) };
        let answer = if lock.holds(now, token) || (anybody && lock.live_holder(now).is_some()) {
            lock.holder = None;
            lock.take_from_line(token);
            lock.released.insert(0, token);
            let latest =
                if bug == Some(Planted::OnlyTheLastReleaseIsRemembered) { 1 } else { Released::REMEMBERED };
            lock.released.truncate(latest);
            Released::Released
        } else if lock.released.contains(&token) {
            Released::Released
        } else {
            Released::NotHeld
        };
        self.hand_over(now, name);
        Ok(answer)
    }

    /// See [`Verbs::release_with`](rushgate_core::Verbs::release_with).
    pub fn release_with(&mut self, now: Timestamp, op: Op, release: ReleaseWith) -> Result<ReleasedWith> {
        let holds = |lock: &Lock| lock.holds(now, release.token);
        if !self.locks.by_name.get(&release.name).is_some_and(holds) {
            return Ok(match self.kept_answer(op) {
                Some(Reply::ReleaseWith(answer)) => answer,
                _ => ReleasedWith::NotHeld,
            });
        }
        let answer = self.release_with_now(now, release)?;
        if matches!(answer, ReleasedWith::Released(_)) {
            self.keep_answer(op, Reply::ReleaseWith(answer.clone()));
        }
        Ok(answer)
    }

    fn release_with_now(&mut self, now: Timestamp, release: ReleaseWith) -> Result<ReleasedWith> {
        let ReleaseWith { name, token, queue, task } = release;
        task.check_at(now)?;
        match self.offer(now, &queue, task)? {
            refused @ (Enqueued::Full { .. } | Enqueued::Refused { .. }) => {
                Ok(ReleasedWith::NotTaken(refused))
            }
            enqueued => {
                self.release(now, &name, token)?;
                Ok(ReleasedWith::Released(enqueued))
            }
        }
    }

    /// See [`Verbs::extend`](rushgate_core::Verbs::extend).
    pub fn extend(&mut self, now: Timestamp, leases: Vec<Extend>) -> Result<Vec<Extended>> {
        Ok(leases.into_iter().map(|lease| self.extend_one(now, &lease)).collect())
    }

    fn extend_one(&mut self, now: Timestamp, extend: &Extend) -> Extended {
        let lapsed_too = self.bug == Some(Planted::LapsedLeaseIsExtended);
        let Some(lock) = self.locks.by_name.get_mut(&extend.name) else { return Extended::NotHeld };
        let owner = lock.holder.as_ref().is_some_and(|holder| holder.token == extend.token);
        if !(lock.holds(now, extend.token) || (lapsed_too && owner)) {
            return Extended::NotHeld;
        }
        lock.take_from_line(extend.token);
        if let Some(holder) = &mut lock.holder {
            holder.lease_until = now + extend.lease.get();
        }
        lock.grant_now(now).map_or(Extended::NotHeld, Extended::Extended)
    }

    /// See [`Verbs::held`](rushgate_core::Verbs::held).
    pub fn held(&self, now: Timestamp, name: &LockName, token: Token) -> Result<Option<Grant>> {
        let lock = self.locks.by_name.get(name).filter(|lock| lock.holds(now, token));
        Ok(lock.and_then(|lock| lock.grant_now(now)))
    }

    /// See [`Verbs::leave`](rushgate_core::Verbs::leave).
    pub fn leave(&mut self, now: Timestamp, name: &LockName, token: Token) -> Result<Left> {
        let Some(lock) = self.locks.by_name.get_mut(name) else { return Ok(Left::Nothing) };
        if lock.holds(now, token) {
            self.release(now, name, token)?;
            return Ok(Left::Lock);
        }
        let stood = lock.waiting(now).any(|waiter| waiter.token == token);
        lock.take_from_line(token);
        Ok(if stood { Left::Line } else { Left::Nothing })
    }

    /// See [`Verbs::release_all`](rushgate_core::Verbs::release_all).
    pub fn release_all(&mut self, now: Timestamp, client: ClientId) -> Result<u64> {
        let names: Vec<LockName> = self.locks.by_name.keys().cloned().collect();
        let mut released = 0;
        for name in names {
            let lock = self.lock(&name);
            lock.line.retain(|waiter| waiter.token.client() != client);
            let holder = lock.live_holder(now).map(|holder| holder.token);
            if let Some(token) = holder.filter(|token| token.client() == client) {
                self.release(now, &name, token)?;
                released += 1;
            }
        }
        Ok(released)
    }

    /// See [`Verbs::force_release`](rushgate_core::Verbs::force_release).
    pub fn force_release(&mut self, now: Timestamp, name: &LockName) -> Result<Option<Holder>> {
        let Some(lock) = self.locks.by_name.get_mut(name) else { return Ok(None) };
        let lost = lock.live_holder(now).cloned();
        if let Some(holder) = &lost {
            lock.holder = None;
            lock.take_from_line(holder.token);
            self.locks.notifications.push((holder.token, Notification::Revoked));
        }
        self.hand_over(now, name);
        Ok(lost)
    }

    /// See [`Verbs::show`](rushgate_core::Verbs::show).
    pub fn show(&self, now: Timestamp, name: &LockName) -> Result<LockState> {
        Ok(self.locks.by_name.get(name).unwrap_or(&Lock::default()).state(name, now))
    }

    /// See [`Verbs::list`](rushgate_core::Verbs::list).
    pub fn list(&self, now: Timestamp, page: &Page) -> Result<Vec<LockState>> {
        let after = self.locks.by_name.iter().filter(|(name, _)| name.as_str() > page.after.as_str());
        let states = after.map(|(name, lock)| lock.state(name, now));
        let used = states.filter(|state| !state.holders.is_empty() || !state.waiters.is_empty());
        Ok(used.take(page.limit as usize).collect())
    }

    /// The notification that a token missed: it was granted a lock that it has not confirmed.
    pub(super) fn missed_notice(&self, now: Timestamp, token: Token) -> Option<Notification> {
        let granted = |lock: &Lock| {
            let row = lock.line.iter().any(|waiter| waiter.token == token && waiter.place == Place::Granted);
            row && lock.holds(now, token)
        };
        self.locks.by_name.values().any(granted).then_some(Notification::Ask)
    }
}
