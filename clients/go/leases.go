package rushgate

import (
	"context"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Longest time before a failed heartbeat is sent again.
const beatAgain = time.Second

// leases extends the leases of a worker's claims together, after each third of the lease.
type leases struct {
	queue  *Queue
	lease  time.Duration
	wake   bell
	mu     sync.Mutex
	claims map[*leased]bool
}

// leased is a claim whose lease is extended until it is removed.
type leased struct {
	job    *Job
	ticket ticket
	ending *ending
	// until is the certain end of the lease.
	until, beatAt time.Time
}

func newLeases(queue *Queue, lease time.Duration) *leases {
	return &leases{queue: queue, lease: lease, wake: newBell(), claims: map[*leased]bool{}}
}

// add adds a claim that was sent at that time.
func (l *leases) add(job *Job, ending *ending, sent time.Time) *leased {
	one := &leased{
		job: job, ticket: readTicket(job.Ticket), ending: ending, until: sent.Add(certain(l.lease)), beatAt: sent.Add(l.lease / 3),
	}
	l.mu.Lock()
	l.claims[one] = true
	l.mu.Unlock()
	l.wake.ring()
	return one
}

func (l *leases) remove(one *leased) {
	l.mu.Lock()
	delete(l.claims, one)
	l.mu.Unlock()
}

// keep runs until the context ends.
func (l *leases) keep(ctx context.Context) {
	for ctx.Err() == nil {
		l.beat(ctx, l.due())
		l.wake.wait(ctx, l.pause())
	}
}

// due signals lost leases, and returns the claims whose heartbeat is due, or soon will be.
func (l *leases) due() []*leased {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var due []*leased
	for one := range l.claims {
		if !one.until.After(now) {
			l.lose(one)
		} else if !one.beatAt.After(now.Add(l.lease/10)) && len(due) < int(contract.Batch.Max) {
			due = append(due, one)
		}
	}
	return due
}

// lose needs the lock.
func (l *leases) lose(one *leased) {
	delete(l.claims, one)
	one.ending.end(claimLost(one.job.ID))
}

// pause is the time until the next heartbeat or the next end of a lease.
func (l *leases) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := l.lease
	for one := range l.claims {
		pause = least(pause, time.Until(one.beatAt)-l.lease/10, time.Until(one.until))
	}
	if pause < time.Millisecond {
		return time.Millisecond
	}
	return pause
}

func (l *leases) beat(ctx context.Context, due []*leased) {
	if len(due) == 0 {
		return
	}
	beats := make([]heartbeat, len(due))
	earliest := due[0].until
	for at, one := range due {
		beats[at] = heartbeat{ticket: one.ticket, progress: one.job.takeProgress()}
		if one.until.Before(earliest) {
			earliest = one.until
		}
	}
	sent := time.Now()
	// A call that takes longer must not delay the signal that a lease is lost.
	ctx, cancel := context.WithDeadline(ctx, earliest)
	defer cancel()
	outcomes, err := l.queue.queues.extend(ctx, l.queue.name, l.lease, beats)
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, one := range due {
		if err != nil {
			one.beatAt = time.Now().Add(l.lease/10 + least(l.lease/20, beatAgain))
			one.job.putBack(beats[at].progress)
		} else if l.claims[one] {
			l.answered(one, outcomes[at], sent)
		}
	}
}

// answered needs the lock.
func (l *leases) answered(one *leased, outcome ExtendOutcome, sent time.Time) {
	if outcome == ExtendLost {
		l.lose(one)
		return
	}
	one.until, one.beatAt = sent.Add(certain(l.lease)), sent.Add(l.lease/3)
	if outcome == ExtendCanceled {
		one.ending.end(&Error{Kind: ErrTaskCanceled, Message: "the task " + one.job.ID + " was canceled"})
	}
}

// count returns the number of claims whose lease is extended.
func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claims)
}
