package rushgate

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// AnyKind is the kind of the handler for all tasks without a handler of their own.
const AnyKind = "*"

const (
	// Longest wait of one claim.
	claimWait = time.Minute
	// Time for storing the remaining ends after the last handler has ended.
	flushTime = 5 * time.Second
)

var workerConcurrency = contract.Range{Min: 1, Max: 10_000}

// WorkerOptions are the settings of a worker. The zero value has the defaults.
type WorkerOptions struct {
	// Concurrency is how many handlers run at a time: 1 to 10,000. Default: 16.
	Concurrency int
	// Lease of a claim: 10 ms to 24 h. Default: 30 s. Heartbeats extend it after each third of it. If the worker dies, its
	// tasks can be claimed again after it.
	Lease time.Duration
	// Timeout is the longest run time of a handler, after which the attempt has failed. Default: none. The deadline of a
	// task applies in any case.
	Timeout time.Duration
	// Grace is the time that handlers have to end after a stop or a cancellation: at most 400 days. Default: 10 s.
	Grace time.Duration
	// Backoff is the retry delay of failed tasks.
	Backoff Backoff
	// Label that operators see: at most 200 bytes. Default: host and process ID.
	Label string
	// OnError is called with errors that concern no task, such as a schedule that cannot be read, which is reported once.
	// Default: log.Print.
	OnError func(error)
}

// Report counts the tasks that a worker has claimed, and how they ended.
type Report struct {
	Claimed, Done, Discarded, Retried, Dead, Released, Canceled int
	// Lost: the claim was lost before the end was stored.
	Lost int
	// Unanswered: the store did not take the end, so the task runs again.
	Unanswered int
}

// Worker claims tasks of a queue, runs a handler for each, and reports one outcome per task.
type Worker struct {
	queue    *Queue
	options  WorkerOptions
	err      error
	handlers map[string]Handler
	leases   *leases
	// slots has an entry for each handler that may start.
	slots chan struct{}
	// handling and settling count the handlers that run, and the ends that are being stored.
	handling, settling sync.WaitGroup
	// aborting ends at the end of the grace, and hurry when there is no more time to store ends.
	aborting, hurry *ending
	completions     *lane[completion, CompleteOutcome]
	failures        *lane[failure, RetryOutcome]
	releases        *lane[release, ReleaseOutcome]
	mu              sync.Mutex
	report          Report
	hasRun          bool
}

func newWorker(queue *Queue, options WorkerOptions) *Worker {
	if options.Concurrency == 0 {
		options.Concurrency = contract.DefaultConcurrency
	}
	if options.Label == "" {
		options.Label = hostAndProcess()
	}
	options.Lease = orDefault(options.Lease, contract.DefaultLease)
	options.Grace = orDefault(options.Grace, contract.DefaultGrace)
	options.Backoff = options.Backoff.withDefaults()
	if options.OnError == nil {
		options.OnError = func(err error) { log.Print(err) }
	}
	w := &Worker{
		queue: queue, options: options, handlers: map[string]Handler{}, leases: newLeases(queue, options.Lease),
		aborting: newEnding(context.Background()), hurry: newEnding(context.Background()),
	}
	w.err = firstError(
		queue.err, checkRange("concurrency", int64(options.Concurrency), workerConcurrency),
		checkDuration("lease", options.Lease, contract.LeaseMicros), checkDuration("timeout", options.Timeout, contract.DelayMicros),
		checkDuration("grace", options.Grace, contract.DelayMicros), checkLabel("label", options.Label), options.Backoff.check(),
	)
	w.completions = newLane(w.hurry.ctx, func(ctx context.Context, ends []completion) ([]CompleteOutcome, error) {
		return queue.queues.complete(ctx, queue.name, ends)
	})
	w.failures = newLane(w.hurry.ctx, func(ctx context.Context, ends []failure) ([]RetryOutcome, error) {
		return queue.queues.retry(ctx, queue.name, ends)
	})
	w.releases = newLane(w.hurry.ctx, func(ctx context.Context, ends []release) ([]ReleaseOutcome, error) {
		return queue.queues.release(ctx, queue.name, ends)
	})
	return w
}

// Handle sets the handler for a kind, or with AnyKind for all kinds without a handler of their own. Call it before Run,
// once per kind. An invalid kind fails Run.
func (w *Worker) Handle(kind string, handler Handler) {
	err := checkKindOrAny(kind)
	if w.handlers[kind] != nil || handler == nil {
		err = firstError(err, invalid("kind", "%q needs exactly one handler", kind))
	}
	w.err = firstError(w.err, err)
	w.handlers[kind] = handler
}

func checkKindOrAny(kind string) error {
	if kind == AnyKind {
		return nil
	}
	return checkKind(kind)
}

// Report returns the counters, also while the worker runs.
func (w *Worker) Report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

func (w *Worker) count(counter func(*Report) *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*counter(&w.report)++
}

// Run claims and handles tasks until the context ends, or an operator stops the worker. Then it claims no more, lets handlers end within the grace, returns
// the other tasks to the queue, and returns nil. Outages are not errors: the worker waits until they end. Any other error
// of a claim is returned after the same shutdown. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	ctx, stopClaims := context.WithCancel(ctx)
	defer stopClaims()
	presence := newPresence(w, ctx, stopClaims)
	over, end := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		presence.announce(over)
	}()
	beating, stop := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Add(1)
	go func() {
		defer beats.Done()
		w.leases.keep(beating)
	}()
	firing, stopFiring := context.WithCancel(ctx)
	defer stopFiring()
	if scheduler, is := w.queue.queues.(scheduler); is {
		go w.fireSchedules(firing, scheduler)
	}
	err := w.claimAll(ctx, presence)
	stopFiring()
	w.finish()
	stop()
	beats.Wait()
	end()
	limit := time.NewTimer(leaveTime)
	defer limit.Stop()
	select {
	case <-gone:
	case <-limit.C:
	}
	return err
}

func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if len(w.handlers) == 0 || w.hasRun {
		return invalid("worker", "has no handler, or has run before")
	}
	w.hasRun = true
	w.slots = make(chan struct{}, w.options.Concurrency)
	for n := 0; n < w.options.Concurrency; n++ {
		w.slots <- struct{}{}
	}
	return nil
}

// claimAll claims tasks whenever a handler may start.
func (w *Worker) claimAll(ctx context.Context, presence *presence) error {
	var outage pauses
	for {
		n := w.takeSlots(ctx)
		if n == 0 {
			return nil
		}
		claiming := presence.mayClaim()
		claimed, err := w.claim(claiming, n)
		for ; claimed < n; claimed++ {
			w.slots <- struct{}{}
		}
		switch {
		case err == nil:
			outage = pauses{}
		case ctx.Err() != nil:
			return nil
		case claiming.Err() != nil:
			// An operator quieted the worker.
		case !Retryable(err):
			return err
		default:
			sleep(ctx, outage.draw())
		}
	}
}

// fireSchedules fires the schedules of the queue until the context ends. Outages show in the claims.
func (w *Worker) fireSchedules(ctx context.Context, scheduler scheduler) {
	reported := map[string]uint64{}
	warn := func(schedule Schedule, err error) {
		if revision, is := reported[schedule.ID]; !is || revision != schedule.Revision {
			w.options.OnError(fmt.Errorf("cannot fire the schedule %s of the queue %s: %w", schedule.ID, w.queue.name, err))
		}
		reported[schedule.ID] = schedule.Revision
	}
	var outage pauses
	for ctx.Err() == nil {
		wait, err := scheduler.fireSchedules(ctx, w.queue.name, warn)
		switch {
		case err == nil:
			outage = pauses{}
		case ctx.Err() != nil:
			return
		case Retryable(err):
			wait = outage.draw()
		default:
			w.options.OnError(fmt.Errorf("cannot fire the schedules of the queue %s: %w", w.queue.name, err))
			wait = claimWait
		}
		sleep(ctx, wait)
	}
}

// takeSlots waits for a free slot, and takes all that are free. 0 if the context ended.
func (w *Worker) takeSlots(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-w.slots:
	}
	n := 1
	for ; n < int(contract.Batch.Max); n++ {
		select {
		case <-w.slots:
			continue
		default:
		}
		break
	}
	return n
}

// claim claims up to n tasks, and starts a handler for each.
func (w *Worker) claim(ctx context.Context, n int) (int, error) {
	tasks, err := w.queue.Claim(ctx, ClaimOptions{N: n, Lease: w.options.Lease, Wait: claimWait, Worker: w.options.Label})
	w.mu.Lock()
	w.report.Claimed += len(tasks)
	w.mu.Unlock()
	for _, task := range tasks {
		job := &Job{Task: task.Task, queue: w.queue}
		if ctx.Err() == nil {
			w.handling.Add(1)
			go w.handle(ctx, job, task.sent)
			continue
		}
		w.settling.Add(1)
		go func() {
			defer w.settling.Done()
			w.release(job, 0)
		}()
	}
	return len(tasks), err
}

// handled is how a handler ended.
type handled struct {
	result any
	err    error
}

// handle runs the handler of a job. The end is stored afterwards, so that the next handler can start meanwhile.
func (w *Worker) handle(ctx context.Context, job *Job, sent time.Time) {
	defer w.handling.Done()
	ending := newEnding(detached{ctx})
	defer ending.cancel(nil)
	lease := w.leases.add(job, ending, sent)
	if timeout, limited := w.timeOf(job); limited {
		timer := time.AfterFunc(timeout, func() { ending.end(timedOut(timeout)) })
		defer timer.Stop()
	}
	ended := make(chan handled, 1)
	go func() { ended <- w.call(ending.ctx, job) }()
	end := w.await(ending, ended)
	reason := ending.why()
	w.settling.Add(1)
	go func() {
		defer w.settling.Done()
		defer w.leases.remove(lease)
		w.settle(job, end, reason)
	}()
	w.slots <- struct{}{}
}

// timeOf returns how long the handler of a job may run: until its timeout, or the deadline of the task. The claim number
// is the time of the claim on the store's clock.
func (w *Worker) timeOf(job *Job) (time.Duration, bool) {
	timeout := w.options.Timeout
	if job.Deadline.IsZero() {
		return timeout, timeout > 0
	}
	left := job.Deadline.Sub(time.UnixMicro(int64(job.Fence)))
	if timeout > 0 {
		left = least(left, timeout)
	}
	return left, true
}

func timedOut(timeout time.Duration) error {
	return &Error{Kind: ErrTaskTimeout, Message: fmt.Sprintf("the handler did not end within %v", timeout)}
}

// call calls the handler of a job.
func (w *Worker) call(ctx context.Context, job *Job) (end handled) {
	defer func() {
		if value := recover(); value != nil {
			end = handled{err: &panicked{value, debug.Stack()}}
		}
	}()
	handler := w.handlers[job.Kind]
	if handler == nil {
		handler = w.handlers[AnyKind]
	}
	if handler == nil {
		return handled{err: fmt.Errorf("no handler for the kind %q", job.Kind)}
	}
	result, err := handler(ctx, job)
	return handled{result, err}
}

// await returns how the handler ended, or the reason why nothing waits for it any more. A handler whose task was canceled
// has the grace to end.
func (w *Worker) await(ending *ending, ended <-chan handled) handled {
	select {
	case end := <-ended:
		return end
	case <-w.aborting.over:
		ending.end(w.aborting.why())
	case <-ending.over:
	}
	if errors.Is(ending.why(), ErrTaskCanceled) {
		grace := time.NewTimer(w.options.Grace)
		defer grace.Stop()
		select {
		case end := <-ended:
			return end
		case <-grace.C:
		case <-w.aborting.over:
		}
	}
	return handled{err: ending.why()}
}

// settle stores how a task ended.
func (w *Worker) settle(job *Job, end handled, reason error) {
	switch {
	case errors.Is(reason, ErrClaimLost):
		w.count(func(r *Report) *int { return &r.Lost })
	case errors.Is(reason, ErrTaskCanceled):
		w.complete(job, completion{}, func(r *Report) *int { return &r.Canceled })
	case end.err == nil:
		w.succeed(job, end.result)
	case errors.Is(reason, ErrWorkerStopped):
		w.release(job, 0)
	case reason != nil:
		w.fail(job, reason)
	default:
		w.fail(job, end.err)
	}
}

// succeed completes a task. A result that cannot be stored makes it a dead letter, so that no client waits in vain.
func (w *Worker) succeed(job *Job, value any) {
	result, err := encodeResult(value)
	if err != nil {
		w.fail(job, GiveUp(err))
		return
	}
	w.complete(job, completion{result: result}, func(r *Report) *int { return &r.Done })
}

func (w *Worker) fail(job *Job, err error) {
	decided := verdictOf(err, w.options.Backoff.draw(job.Attempt))
	switch decided.how {
	case discarded:
		w.complete(job, completion{discarded: true}, func(r *Report) *int { return &r.Discarded })
	case snoozed:
		w.release(job, decided.delay)
	default:
		w.retry(job, failure{delay: decided.delay, giveUp: decided.how == gaveUpOn, err: errorText(decided.err)})
	}
}

func (w *Worker) complete(job *Job, end completion, counter func(*Report) *int) {
	end.ticket = readTicket(job.Ticket)
	outcome := w.completions.push(end)
	if outcome != nil && *outcome == CompleteStale {
		counter = func(r *Report) *int { return &r.Lost }
	}
	w.countAnswer(outcome != nil, counter)
}

func (w *Worker) retry(job *Job, end failure) {
	end.ticket = readTicket(job.Ticket)
	outcome := w.failures.push(end)
	w.countAnswer(outcome != nil, func(r *Report) *int {
		switch *outcome {
		case RetryDead:
			return &r.Dead
		case RetryCanceled:
			return &r.Canceled
		case RetryStale:
			return &r.Lost
		default:
			return &r.Retried
		}
	})
}

func (w *Worker) release(job *Job, delay time.Duration) {
	outcome := w.releases.push(release{ticket: readTicket(job.Ticket), delay: delay})
	w.countAnswer(outcome != nil, func(r *Report) *int {
		switch *outcome {
		case ReleaseCanceled:
			return &r.Canceled
		case ReleaseStale:
			return &r.Lost
		default:
			return &r.Released
		}
	})
}

func (w *Worker) countAnswer(answered bool, counter func(*Report) *int) {
	if !answered {
		counter = func(r *Report) *int { return &r.Unanswered }
	}
	w.count(counter)
}

// finish shuts down in order. Heartbeats continue until the last end is stored.
func (w *Worker) finish() {
	grace := time.AfterFunc(w.options.Grace, func() {
		w.aborting.end(&Error{Kind: ErrWorkerStopped, Message: "the worker has stopped"})
	})
	w.handling.Wait()
	grace.Stop()
	flush := time.AfterFunc(flushTime, func() { w.hurry.end(context.DeadlineExceeded) })
	w.settling.Wait()
	flush.Stop()
	w.aborting.cancel(nil)
	w.hurry.cancel(nil)
}
