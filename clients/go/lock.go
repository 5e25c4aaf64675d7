package rushgate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Longest time between two attempts of a failed renewal.
const renewAgain = time.Second

// LockOptions are the settings of a lock. The zero value has the defaults.
type LockOptions struct {
	// Lease of an acquisition: 10 ms to 24 h. Default: 30 s.
	Lease time.Duration
	// ManualRenewal turns off the automatic renewal after each third of the lease.
	ManualRenewal bool
	// Barging takes a free lock ahead of the wait queue.
	Barging bool
	// Label that operators see: at most 200 bytes.
	Label string
}

// AcquireOptions are the settings of one acquisition. The zero value does not wait.
type AcquireOptions struct {
	// Wait is how long to stay in the wait queue: 0 to 24 h. Default: 0.
	Wait time.Duration
}

// Lock is a distributed lock. At most one client holds it at a time. Waiters get it in the order of their arrival.
type Lock struct {
	locks   locks
	name    string
	options LockOptions
	err     error
}

func newLock(locks locks, name string, options LockOptions) *Lock {
	options.Lease = orDefault(options.Lease, contract.DefaultLease)
	name, err := checkName("lock", name, contract.NameBytes)
	err = firstError(err, checkDuration("lease", options.Lease, contract.LeaseMicros), checkLabel("label", options.Label))
	return &Lock{locks: locks, name: name, options: options, err: err}
}

// Name returns the normalized name.
func (l *Lock) Name() string { return l.name }

// Acquire acquires the lock. It fails with ErrLockBusy if another client holds the lock when the wait ends. If the
// context ends first, the client leaves the wait queue.
func (l *Lock) Acquire(ctx context.Context, options AcquireOptions) (*Held, error) {
	if err := firstError(l.err, checkDuration("wait", options.Wait, contract.WaitMicros)); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx.Err(), false)
	}
	request := acquireRequest{
		lease: l.options.Lease, wait: options.Wait, barging: l.options.Barging, label: l.options.Label,
	}
	got, err := l.locks.acquireLock(ctx, l.name, request)
	if err != nil {
		return nil, err
	}
	return newHeld(ctx, l, got), nil
}

// Run acquires the lock, calls work, and releases the lock, also if work panics. The context of work ends when ctx ends
// or the lock is lost. Run fails with ErrLockBusy as Acquire does, with the error of work, or with ErrLockLost if the
// lock was lost before work returned.
func (l *Lock) Run(ctx context.Context, options AcquireOptions, work func(ctx context.Context, held *Held) error) error {
	held, err := l.Acquire(ctx, options)
	if err != nil {
		return err
	}
	defer held.Release(ctx)
	if err := work(held.Context(), held); err != nil {
		return err
	}
	return held.Release(ctx)
}

// State returns the holder and the wait queue.
func (l *Lock) State(ctx context.Context) (*LockState, error) {
	if l.err != nil {
		return nil, l.err
	}
	return l.locks.lockState(ctx, l.name)
}

// ForceRelease takes the lock from its holder, who is notified, and grants it to the next waiter. It returns the former
// holder, nil if there was none. For operators.
func (l *Lock) ForceRelease(ctx context.Context) (*LockHolder, error) {
	if l.err != nil {
		return nil, l.err
	}
	return l.locks.forceReleaseLock(ctx, l.name)
}

// Held is a lock that is held. It is renewed until it is released or lost.
type Held struct {
	lock  *Lock
	token string
	fence uint64
	// ending has the reason errReleased or ErrLockLost.
	ending *ending
	// changed wakes the keeper after an extension.
	changed bell
	// turn lets one extension be sent at a time, so that the last answer has the end of the lease.
	turn   chan struct{}
	once   sync.Once
	result error
	mu     sync.Mutex
	// lease is that of the latest extension, which renewals repeat.
	lease   time.Duration
	until   time.Time
	renewAt time.Time
}

func newHeld(ctx context.Context, lock *Lock, got grant) *Held {
	lease := lock.options.Lease
	h := &Held{
		lock: lock, token: got.token, fence: got.fence, ending: newEnding(ctx), changed: newBell(),
		turn: make(chan struct{}, 1), lease: lease, until: got.until, renewAt: time.Now().Add(lease / 3),
	}
	unwatch := lock.locks.watchLock(got.token, h.lose)
	go h.keep(unwatch)
	return h
}

// Fence returns the fencing token: greater than that of every earlier grant. Let the protected resource refuse smaller
// ones.
func (h *Held) Fence() uint64 { return h.fence }

// Token returns the secret proof of this acquisition.
func (h *Held) Token() string { return h.token }

// Context returns a context that ends before the store can grant the lock to another client, when the lock is released,
// and when the context of Acquire ends. Stop the work then. Since Go 1.20, context.Cause returns ErrLockLost after a loss.
func (h *Held) Context() context.Context { return h.ending.ctx }

// Err returns ErrLockLost if the lock was lost, and otherwise nil.
func (h *Held) Err() error {
	if reason := h.ending.why(); reason != errReleased {
		return reason
	}
	return nil
}

// LeaseLeft returns how long the lock is certainly held unless it is renewed. 0 if it was lost or released.
func (h *Held) LeaseLeft() time.Duration {
	if left := time.Until(h.certainUntil()); left > 0 && h.ending.why() == nil {
		return left
	}
	return 0
}

func (h *Held) certainUntil() time.Time {
	until, _ := h.times()
	return until
}

// times returns the certain end of the lease, and when to renew it.
func (h *Held) times() (until, renewAt time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until, h.renewAt
}

// Extend makes the lease end the given time from now, which may be earlier than before: 10 ms to 24 h, or 0 for the
// lease of the lock. Later renewals use it too. It fails with ErrLockLost if the lock was lost or released.
func (h *Held) Extend(ctx context.Context, lease time.Duration) error {
	if lease == 0 {
		lease = h.lock.options.Lease
	}
	if err := checkDuration("lease", lease, contract.LeaseMicros); err != nil {
		return err
	}
	h.mu.Lock()
	h.lease = lease
	h.mu.Unlock()
	return h.extend(ctx)
}

// extend sends one extension, after those that were sent before.
func (h *Held) extend(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.ending.why() != nil {
		return lockLost(h.lock.name)
	}
	lease, begun := h.shorten()
	got, err := h.lock.locks.extendLock(ctx, h.lock.name, h.token, lease)
	if errors.Is(err, ErrLockLost) {
		h.lose()
	} else if err != nil {
		h.renewSoon()
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.until, h.renewAt = got.until, begun.Add(lease/3)
	h.mu.Unlock()
	h.changed.ring()
	return nil
}

// shorten moves the certain end of the lease to that of the extension which is about to be sent, if that is earlier:
// without an answer, the lease ends at the old or the new time.
func (h *Held) shorten() (lease time.Duration, begun time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun = time.Now()
	if until := begun.Add(h.lease); until.Before(h.until) {
		h.until = until
		h.changed.ring()
	}
	return h.lease, begun
}

var errReleased = errors.New("the lock was released")

// Release releases the lock. It fails with ErrLockLost if the lock was lost before. Another call returns the same
// answer. If it fails with ErrUnavailable, the lock ends with its lease. It works after the end of the context too, for at
// most 5 s.
func (h *Held) Release(ctx context.Context) error {
	h.once.Do(func() {
		if ctx.Err() != nil {
			later, cancel := context.WithTimeout(detached{ctx}, putBackTime)
			defer cancel()
			ctx = later
		}
		if lost := h.ending.end(errReleased); lost != errReleased {
			h.result = lost
			return
		}
		h.result = h.lock.locks.releaseLock(ctx, h.lock.name, h.token)
	})
	return h.result
}

func (h *Held) lose() { h.ending.end(lockLost(h.lock.name)) }

// keep renews the lease after each third of it, and signals the loss at its certain end.
func (h *Held) keep(unwatch func()) {
	defer unwatch()
	for h.ending.why() == nil {
		until, renewAt := h.times()
		now := time.Now()
		switch {
		case !now.Before(until):
			h.lose()
		case !h.lock.options.ManualRenewal && !now.Before(renewAt):
			h.renew(until)
		default:
			h.sleep(until, renewAt)
		}
	}
}

// renew extends the lease.
func (h *Held) renew(until time.Time) {
	ctx, cancel := context.WithDeadline(detached{h.ending.ctx}, until)
	defer cancel()
	_ = h.extend(ctx)
}

// renewSoon sets the next renewal after a failed extension. The lease ends at the old or the new time, so a third of either
// could be too late.
func (h *Held) renewSoon() {
	h.mu.Lock()
	h.renewAt = time.Now().Add(least(h.lease/20, renewAgain))
	h.mu.Unlock()
	h.changed.ring()
}

// sleep ends at the next renewal, at the end of the lease, and when either changes.
func (h *Held) sleep(until, renewAt time.Time) {
	left := time.Until(until)
	if !h.lock.options.ManualRenewal {
		left = least(left, time.Until(renewAt))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-h.ending.over:
	case <-h.changed:
	case <-timer.C:
	}
}

// LockState is the holder and the wait queue of a lock.
type LockState struct {
	Name string
	// Holder is nil if the lock is free.
	Holder  *LockHolder
	Waiters []LockWaiter
}

// LockHolder is the holder of a lock.
type LockHolder struct {
	Fence      uint64
	Host       string
	PID        int
	Label      string
	Since      time.Time
	LeaseUntil time.Time
}

// LockWaiter is a client in the wait queue of a lock.
type LockWaiter struct {
	// Position is 1 for the next waiter.
	Position  int
	Host      string
	PID       int
	Label     string
	Since     time.Time
	WaitUntil time.Time
}
