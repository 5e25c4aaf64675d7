package rushgate

import (
	"context"
	"sync"
)

// Most entries per call. It keeps a call short, so that other calls get their turn.
const laneBatch = 256

// lane collects the ends of claims of one sort, and sends those that wait together.
type lane[E, O any] struct {
	send func(ctx context.Context, entries []E) ([]O, error)
	// hurry ends when there is no more time to repeat a call.
	hurry   context.Context
	mu      sync.Mutex
	pending []pending[E, O]
	sending bool
}

type pending[E, O any] struct {
	entry    E
	answered chan<- *O
}

func newLane[E, O any](hurry context.Context, send func(context.Context, []E) ([]O, error)) *lane[E, O] {
	return &lane[E, O]{send: send, hurry: hurry}
}

// push returns the outcome of an entry. Nil if the store did not take it: the lease ends, and the task runs again.
func (l *lane[E, O]) push(entry E) *O {
	answered := make(chan *O, 1)
	l.mu.Lock()
	l.pending = append(l.pending, pending[E, O]{entry, answered})
	if !l.sending {
		l.sending = true
		go l.sendAll()
	}
	l.mu.Unlock()
	return <-answered
}

func (l *lane[E, O]) sendAll() {
	for batch := l.next(); len(batch) > 0; batch = l.next() {
		entries := make([]E, len(batch))
		for at, one := range batch {
			entries[at] = one.entry
		}
		outcomes := l.sendUntilAnswered(entries)
		for at, one := range batch {
			if outcomes == nil {
				one.answered <- nil
			} else {
				one.answered <- &outcomes[at]
			}
		}
	}
}

func (l *lane[E, O]) next() []pending[E, O] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.pending), laneBatch)
	batch := l.pending[:n:n]
	l.pending = l.pending[n:]
	l.sending = n > 0
	return batch
}

// sendUntilAnswered outlasts an outage. An answer that arrives too late is stale and has no effect.
func (l *lane[E, O]) sendUntilAnswered(entries []E) []O {
	for pauses := (pauses{}); ; sleep(l.hurry, pauses.draw()) {
		outcomes, err := l.send(l.hurry, entries)
		if err == nil {
			return outcomes
		}
		if !Retryable(err) || l.hurry.Err() != nil {
			return nil
		}
	}
}
