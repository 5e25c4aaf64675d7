package rushgate

import (
	"errors"
	"fmt"
	"time"
)

// Kinds of errors. Test for them with errors.Is.
var (
	// ErrInvalid: an argument is out of range, malformed, or excluded by another one. Nothing was changed.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: the sale, SKU or other thing does not exist. Nothing was changed.
	ErrNotFound = errors.New("not found")
	// ErrLockBusy: another client holds the lock, and the wait has timed out.
	ErrLockBusy = errors.New("lock busy")
	// ErrLockLost: the lock was lost, because its lease ended or an operator released it. Another client may hold it.
	ErrLockLost = errors.New("lock lost")
	// ErrClaimLost: the claim of a task was lost. Another worker may have the task.
	ErrClaimLost = errors.New("claim lost")
	// ErrTaskCanceled: a client asked to cancel the task that a handler runs.
	ErrTaskCanceled = errors.New("task canceled")
	// ErrTaskTimeout: a handler exceeded the timeout of its worker, or the deadline of its task.
	ErrTaskTimeout = errors.New("task timeout")
	// ErrWorkerStopped: the worker stopped, and the grace of its handlers is over.
	ErrWorkerStopped = errors.New("worker stopped")
	// ErrUnavailable: the store did not answer. Nothing was changed, unless the error also is ErrOutcomeUnknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrOutcomeUnknown: no answer arrived, so the call may have taken effect.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrFull: the store is full. Nothing was written.
	ErrFull = errors.New("store full")
	// ErrForbidden: the token, the password or the rights do not allow the call.
	ErrForbidden = errors.New("forbidden")
	// ErrConflict: the state does not allow the call, such as an idempotency key that was used for another request.
	ErrConflict = errors.New("conflict")
	// ErrMisconfigured: the function library is missing, or speaks another protocol.
	ErrMisconfigured = errors.New("store misconfigured")
	// ErrCorrupt: the answer cannot be read. The data stays in the store.
	ErrCorrupt = errors.New("unreadable answer")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("client closed")
	// ErrBug: the server reported an internal error.
	ErrBug = errors.New("internal error")
)

// Error is an error of this package. Its kind is one of the variables above.
type Error struct {
	// Kind tells what happened to the data. errors.Is compares with it.
	Kind error
	// Message tells what failed and why.
	Message string
	// Field names the argument that is invalid.
	Field string
	// Hint tells what to do.
	Hint string
	// Code is the code of the HTTP API, if the server answered one.
	Code string
	// RetryAfter is the delay after which a retry of the same call may succeed. 0 if it is not known.
	RetryAfter time.Duration
	// Cause is the error below this one.
	Cause error
}

// Error returns the message and the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return "rushgate: " + e.Message
	}
	return fmt.Sprintf("rushgate: %s. %s", e.Message, e.Hint)
}

// Is reports whether the error is of a kind. An error whose outcome is unknown also is ErrUnavailable.
func (e *Error) Is(kind error) bool {
	return kind == e.Kind || kind == ErrUnavailable && e.Kind == ErrOutcomeUnknown
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether a retry of the same call may succeed: the store was unavailable or full, or the lock busy.
func Retryable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull) || errors.Is(err, ErrLockBusy)
}

func invalid(field, format string, args ...any) *Error {
	return &Error{Kind: ErrInvalid, Field: field, Message: field + " " + fmt.Sprintf(format, args...)}
}

func strange() *Error {
	return &Error{
		Kind: ErrCorrupt, Message: "the store answered something that this package does not know", Hint: "Update the package.",
	}
}

func lockLost(name string) *Error {
	return &Error{Kind: ErrLockLost, Message: fmt.Sprintf("the lock %q was lost", name)}
}

func lockBusy(name string, retryAfter time.Duration) *Error {
	return &Error{
		Kind: ErrLockBusy, Message: fmt.Sprintf("another client holds the lock %q", name), RetryAfter: retryAfter,
	}
}

func claimLost(id string) *Error {
	return &Error{Kind: ErrClaimLost, Message: fmt.Sprintf("the claim of the task %q was lost", id)}
}

func nothingKept(queue string) *Error {
	return &Error{
		Kind: ErrInvalid, Field: "queue", Message: fmt.Sprintf("the queue %q has no retention, so nothing can wait for its tasks", queue),
		Hint: "Set a retention with SetLimits.",
	}
}

func closedError() *Error { return &Error{Kind: ErrClosed, Message: "the client is closed"} }

// interrupted is the error of a call whose context ended.
func interrupted(cause error, mayHaveHappened bool) *Error {
	if !mayHaveHappened {
		return &Error{Kind: ErrUnavailable, Message: "the context ended before the call was sent", Cause: cause}
	}
	return &Error{Kind: ErrOutcomeUnknown, Message: "the context ended before the answer arrived", Cause: cause}
}
