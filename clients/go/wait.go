package rushgate

import (
	"context"
	"math/rand"
	"time"
)

// putBackTime is the time for releasing what an interrupted call has acquired.
const putBackTime = 5 * time.Second

// detached has the values of a context, but does not end with it.
type detached struct{ parent context.Context }

func (d detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (d detached) Done() <-chan struct{}       { return nil }
func (d detached) Err() error                  { return nil }
func (d detached) Value(key any) any           { return d.parent.Value(key) }

// sleep returns early if the context ends.
func sleep(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// bell wakes one waiter. A ring before the wait ends the wait at once.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait returns after a ring, after the duration, or at the end of the context.
func (b bell) wait(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-b:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Pauses between attempts grow from the first to the longest.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// pauses draws the times between attempts, at random, so that clients do not repeat together.
type pauses struct{ next time.Duration }

func (p *pauses) draw() time.Duration {
	if p.next == 0 {
		p.next = firstPause
	}
	pause := p.next/2 + time.Duration(rand.Int63n(int64(p.next)))
	p.next = least(p.next*2, longestPause)
	return pause
}
