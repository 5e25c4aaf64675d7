package rushgate

import (
	"context"
	"sync"
)

// ending ends a context once, for a reason.
type ending struct {
	ctx    context.Context
	cancel func(error)
	// over is closed at the end, but not when the parent of the context ends.
	over   chan struct{}
	mu     sync.Mutex
	reason error
}

func newEnding(parent context.Context) *ending {
	ctx, cancel := withCancelCause(parent)
	return &ending{ctx: ctx, cancel: cancel, over: make(chan struct{})}
}

// end ends the context unless that has happened before, and returns the first reason.
func (e *ending) end(reason error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reason == nil {
		e.reason = reason
		e.cancel(reason)
		close(e.over)
	}
	return e.reason
}

// why returns the reason, nil before the end.
func (e *ending) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reason
}
