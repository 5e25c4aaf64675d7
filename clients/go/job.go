package rushgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Job is a claimed task, as its handler gets it.
type Job struct {
	Task
	queue    *Queue
	mu       sync.Mutex
	progress *Progress
}

// Report reports progress, which operators see after the next heartbeat.
func (j *Job) Report(progress Progress) error {
	if err := progress.check(); err != nil {
		return err
	}
	j.mu.Lock()
	j.progress = &progress
	j.mu.Unlock()
	return nil
}

// Waited returns the finished tasks that this task waited for, with their results.
func (j *Job) Waited(ctx context.Context) ([]Waited, error) {
	var all []Waited
	for page := (Page{}); ; page.After = all[len(all)-1].ID {
		some, err := j.queue.Waited(ctx, j.ID, page)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < int(contract.WaitedPage.Max) {
			return all, nil
		}
	}
}

// takeProgress returns progress that no heartbeat has sent yet.
func (j *Job) takeProgress() *Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	progress := j.progress
	j.progress = nil
	return progress
}

// putBack keeps progress for the next heartbeat, unless there is newer one.
func (j *Job) putBack(progress *Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress == nil {
		j.progress = progress
	}
}

// Handler runs a task. What it returns is the result of the task, as for Claimed.Complete. An error or a panic fails the
// attempt, except for the errors of GiveUp, Discard, Snooze and RetryAfter.
//
// The context ends if the handler must stop: the claim is lost, the task is canceled, its time is over, or the grace after
// the end of the worker. A handler cannot be stopped from outside, so pass the context on. Since Go 1.20, context.Cause
// returns ErrClaimLost, ErrTaskCanceled, ErrTaskTimeout or ErrWorkerStopped.
type Handler func(ctx context.Context, job *Job) (result any, err error)

// JSON turns a function of a decoded payload into a handler. A payload that cannot be decoded fails the attempt, so it
// becomes a dead letter and is not lost.
func JSON[T any](handle func(ctx context.Context, payload T, job *Job) (result any, err error)) Handler {
	return func(ctx context.Context, job *Job) (any, error) {
		var payload T
		if err := job.Decode(&payload); err != nil {
			return nil, err
		}
		return handle(ctx, payload, job)
	}
}

// verdict is an error of a handler that decides what happens to the task.
type verdict struct {
	how   verdictKind
	delay time.Duration
	err   error
}

type verdictKind int

const (
	failed verdictKind = iota
	gaveUpOn
	discarded
	snoozed
)

func (v *verdict) Error() string { return v.err.Error() }

// Unwrap returns the cause.
func (v *verdict) Unwrap() error { return v.err }

// GiveUp is the error of a handler that makes the task a dead letter now.
func GiveUp(err error) error { return &verdict{how: gaveUpOn, err: err} }

// Discard is the error of a handler that ends the task without work, because there is nothing to do.
func Discard(err error) error { return &verdict{how: discarded, err: err} }

// Snooze is the error of a handler that returns the task to the queue, due after a delay of at most 400 days. The attempt
// does not count.
func Snooze(delay time.Duration) error {
	return &verdict{how: snoozed, delay: delay, err: fmt.Errorf("due again after %v", delay)}
}

// RetryAfter is the error of a handler whose attempt failed, with the delay before the next one: at most 400 days.
func RetryAfter(delay time.Duration, err error) error { return &verdict{delay: delay, err: err} }

func verdictOf(err error, backoff time.Duration) verdict {
	var found *verdict
	if !errors.As(err, &found) {
		return verdict{delay: backoff, err: err}
	}
	decided := *found
	decided.err = err
	decided.delay = least(decided.delay, micros(contract.DelayMicros.Max))
	if decided.delay < 0 {
		decided.delay = 0
	}
	return decided
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// Length of the message in the text of an error, in bytes. The rest is for the end of the trace.
const messageBytes = 500

// errorText has the message, and the end of the trace if there is one: that of a panic, or what the format %+v adds.
func errorText(err error) string {
	message, trace := err.Error(), fmt.Sprintf("%+v", err)
	var panic *panicked
	if errors.As(err, &panic) {
		trace = string(panic.stack)
	}
	if trace == message {
		return cut(message, contract.ErrorBytes)
	}
	message = cut(message, messageBytes)
	const between = "\n…\n"
	return message + between + tail(trace, contract.ErrorBytes-len(message)-len(between))
}
