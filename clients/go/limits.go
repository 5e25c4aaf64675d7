package rushgate

import (
	"context"
	"sort"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Limits of a queue, and what it keeps. A limit that is nil or 0 does not apply.
type Limits struct {
	// Bound is the capacity: the most live tasks. Set it with Ptr.
	Bound *uint64
	// Overflow decides what happens to a new task when the queue is full. Default: Refuse.
	Overflow Overflow
	// Concurrency is the most tasks that run at a time: 1 to 1,000,000.
	Concurrency int
	// Rate limits how many tasks start.
	Rate *Rate
	// PerKey has the same limits for the tasks of each key.
	PerKey KeyLimits
	// Retention of finished tasks. Default: none is kept.
	Retention *Retention
	// Events is how many of the latest events are kept: 1 to 100,000.
	Events int
}

// KeyLimits are the limits of each key.
type KeyLimits struct {
	// Concurrency is the most tasks of a key that run at a time: 1 to 1,000,000.
	Concurrency int
	Rate        *Rate
	// FIFO runs one task of a key at a time, and a failed task keeps its place.
	FIFO bool
}

// Rate is a sliding-window rate limit: at most N tasks in any period of Per.
type Rate struct {
	// N is 1 to 10,000.
	N int
	// Per is 1 ms to 400 days.
	Per time.Duration
}

// Retention keeps at most Count finished tasks for at most Age.
type Retention struct {
	// Age is 1 ms to 400 days.
	Age time.Duration
	// Count is 1 to 1,000,000.
	Count int
}

// Overflow decides what happens to a new task when the queue is full.
type Overflow string

// Overflow policies.
const (
	Refuse     Overflow = "refuse"
	DropNew    Overflow = "drop_new"
	DropOldest Overflow = "drop_oldest"
)

// SetLimits replaces all limits of the queue.
func (q *Queue) SetLimits(ctx context.Context, limits Limits) error {
	if limits.Overflow == "" {
		limits.Overflow = Refuse
	}
	if err := firstError(q.err, limits.check()); err != nil {
		return err
	}
	return q.queues.setLimits(ctx, q.name, limits)
}

func (l Limits) check() error {
	err := firstError(
		checkWord("overflow", string(l.Overflow), contract.Overflow),
		checkOptional("concurrency", l.Concurrency, contract.Concurrency), l.Rate.check(),
		checkOptional("perKey.concurrency", l.PerKey.Concurrency, contract.Concurrency), l.PerKey.Rate.check(),
		checkOptional("events", l.Events, contract.Events),
	)
	if err == nil && l.PerKey.FIFO && l.PerKey.Concurrency > 1 {
		err = invalid("perKey.concurrency", "is %d; it must be 1 if the order per key is FIFO", l.PerKey.Concurrency)
	}
	if err == nil && l.Bound != nil && *l.Bound > uint64(contract.Bound.Max) {
		err = invalid("bound", "is %d; it must be 0 to %d", *l.Bound, contract.Bound.Max)
	}
	if err == nil && l.Retention != nil {
		err = firstError(
			checkDuration("retention.age", l.Retention.Age, contract.PeriodMicros),
			checkRange("retention.count", int64(l.Retention.Count), contract.Retained),
		)
	}
	return err
}

func checkOptional(field string, value int, limits contract.Range) error {
	if value == 0 {
		return nil
	}
	return checkRange(field, int64(value), limits)
}

func (r *Rate) check() error {
	if r == nil {
		return nil
	}
	return firstError(checkRange("rate.n", int64(r.N), contract.Rate), checkDuration("rate.per", r.Per, contract.PeriodMicros))
}

// QueueStats are the task counts and limits of a queue.
type QueueStats struct {
	Queue string
	// Numbers of tasks in each state.
	Ready, Scheduled, Leased, Blocked, Dead, Done uint64
	// Dropped is the number of tasks that were dropped in total.
	Dropped uint64
	// Lag is how long the oldest ready task has been ready.
	Lag time.Duration
	// RateUntil is when the rate limit allows the next task. Zero if it does now.
	RateUntil time.Time
	// LastClaim is zero if there was none.
	LastClaim time.Time
	Paused    bool
	Limits    Limits
}

// Stats returns the task counts and limits of the queue.
func (q *Queue) Stats(ctx context.Context) (*QueueStats, error) {
	if q.err != nil {
		return nil, q.err
	}
	return q.queues.stats(ctx, q.name)
}

func sortedUnique(names []string) []string {
	sort.Strings(names)
	unique := names[:0]
	for at, name := range names {
		if at == 0 || name != names[at-1] {
			unique = append(unique, name)
		}
	}
	return unique
}
