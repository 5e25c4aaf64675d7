package rushgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Version of this module.
const Version = "0.1.0"

const (
	// How long a worker is listed after its last announcement.
	listedTime = 30 * time.Second
	// Time limit for saying that the worker has ended.
	leaveTime = time.Second
)

// WorkerMode is what an operator asks of a worker.
type WorkerMode string

// Modes of a worker. WorkerQuiet: it claims nothing from the queue, and its running tasks continue.
const (
	WorkerWork  WorkerMode = "work"
	WorkerQuiet WorkerMode = "quiet"
	WorkerStop  WorkerMode = "stop"
)

// number returns the position of a mode in the protocol. -1 if there is no such mode.
func (m WorkerMode) number() int {
	for number, word := range contract.WorkerMode {
		if word == string(m) {
			return number
		}
	}
	return -1
}

// WorkerInfo is a worker of a queue, busy or idle.
type WorkerInfo struct {
	ID string
	// Name under which it claims.
	Name string
	// Version has program and version.
	Version     string
	Concurrency int
	// Running is how many tasks of the queue it ran at its latest announcement.
	Running int
	// Since and Seen are its first and its latest announcement.
	Since, Seen, LeaseUntil time.Time
	Mode                    WorkerMode
}

// Workers returns workers that run, busy or idle, by ID.
func (q *Queue) Workers(ctx context.Context, page Page) ([]WorkerInfo, error) {
	page, err := q.checkPage(page, contract.WorkersPage)
	if err != nil {
		return nil, err
	}
	return q.queues.workers(ctx, q.name, page)
}

// SetWorker lets a worker work, be quiet or stop, for operators, and reports whether it is listed. The worker obeys within
// 10 s.
func (q *Queue) SetWorker(ctx context.Context, id string, mode WorkerMode) (bool, error) {
	id, err := q.checkTask(id)
	if err == nil && mode.number() < 0 {
		err = invalid("mode", "must be work, quiet or stop")
	}
	if err != nil {
		return false, err
	}
	return q.queues.setWorker(ctx, q.name, id, mode)
}

// presence announces a worker to its queue, and does what an operator asks of it.
type presence struct {
	worker *Worker
	id     string
	// stop stops the worker, whose claims end with running.
	running context.Context
	stop    context.CancelFunc
	mu      sync.Mutex
	// claiming ends while the worker claims nothing, and is replaced when it may claim again.
	claiming context.Context
	pause    context.CancelFunc
	resumed  chan struct{}
}

func newPresence(worker *Worker, running context.Context, stop context.CancelFunc) *presence {
	p := &presence{worker: worker, id: newKey()[:16], running: running, stop: stop, resumed: make(chan struct{}, 1)}
	p.claiming, p.pause = context.WithCancel(running)
	return p
}

// mayClaim waits until the worker may claim. The context that it returns ends when it may not.
func (p *presence) mayClaim() context.Context {
	for {
		p.mu.Lock()
		claiming := p.claiming
		p.mu.Unlock()
		if claiming.Err() == nil || p.running.Err() != nil {
			return claiming
		}
		select {
		case <-p.resumed:
		case <-p.running.Done():
		}
	}
}

// announce announces the worker until over ends. Then it says that the worker has ended: if that fails, the worker is
// listed a while longer. A failure never stops the worker: outages show in the claims, and a refusal, such as that of a
// library without the function, is reported once.
func (p *presence) announce(over context.Context) {
	w, ctx, isRefused := p.worker, context.Background(), false
	for over.Err() == nil {
		mode, err := w.queue.queues.announce(ctx, w.queue.name, announcement{
			id: p.id, name: w.options.Label, version: "rushgate-go " + Version, concurrency: w.options.Concurrency,
			running: w.leases.count(), lease: listedTime,
		})
		switch {
		case err == nil:
			p.obey(mode)
		case !Retryable(err) && !errors.Is(err, ErrClosed) && !isRefused:
			isRefused = true
			w.options.OnError(fmt.Errorf("cannot announce the worker to the queue %s: %w", w.queue.name, err))
		}
		sleep(over, contract.AnnounceEach)
	}
	_ = w.queue.queues.endWorker(ctx, w.queue.name, p.id)
}

func (p *presence) obey(mode WorkerMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case mode == WorkerStop:
		p.stop()
	case mode == WorkerQuiet:
		p.pause()
	case p.claiming.Err() != nil && p.running.Err() == nil:
		p.claiming, p.pause = context.WithCancel(p.running)
		select {
		case p.resumed <- struct{}{}:
		default:
		}
	}
}
