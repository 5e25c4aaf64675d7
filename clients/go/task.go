package rushgate

import (
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// NewTask is a task to enqueue.
type NewTask struct {
	// ID is the name of the task. A queue has at most one live task per ID.
	ID string
	// Payload is the content, at most 1 MiB: nil is empty, a []byte is stored as it is, and anything else becomes JSON. A
	// string becomes JSON too, unless ContentType is another type.
	Payload any
	// ContentType is the media type of the payload. Default: application/octet-stream for nil and []byte, otherwise
	// application/json.
	ContentType string
	// Kind selects the handler of a worker: 1 to 80 ASCII letters, digits and . _ : / -. Default: none.
	Kind string
	// Traceparent is the W3C trace to which the task belongs. Default: none.
	Traceparent string
	// Delay before the task is due: 0 to 400 days. Default: due at once.
	Delay time.Duration
	// DueAt is when the task is due, on the store's clock, instead of Delay.
	DueAt time.Time
	// DeadlineAfter is the time from now after which a task that has not started becomes a dead letter. Default: none.
	DeadlineAfter time.Duration
	// Deadline is that moment, on the store's clock, instead of DeadlineAfter.
	Deadline time.Time
	// Priority is 0 to 9; 0 is the highest. Default: 5. Set it with Ptr.
	Priority *int
	// OnDuplicate decides what happens if the ID already has a live task. Default: Keep.
	OnDuplicate OnDuplicate
	// MaxWait is how long later calls can postpone a debounced task: 0 to 400 days. Debounce needs it.
	MaxWait time.Duration
	// MaxAttempts before the task becomes a dead letter: 1 to 1,000. Default: 20.
	MaxAttempts int
	// UniqueFor is how long the ID stays unique, even after the task is done: 1 ms to 400 days. Default: while it is live.
	UniqueFor time.Duration
	// Key that tasks share, such as a tenant. Tasks of a key run in order, and keys take turns. Default: none.
	Key string
	// After has the IDs of tasks of this queue that must finish first: at most 1,000.
	After []string
	// IfDead decides what happens if a task in After becomes a dead letter. Default: IfDeadWait.
	IfDead IfDead
	// HeldOpen opens a batch whose callback is this task: it waits for its members and for CloseBatch.
	HeldOpen bool
	// PartOf is the ID of the open batch that the task is a member of. Default: none.
	PartOf string
}

// OnDuplicate decides what happens to a second task with the same ID.
type OnDuplicate string

// Choices for duplicates.
const (
	// Keep ignores the second task.
	Keep OnDuplicate = "keep"
	// Replace replaces the first task.
	Replace OnDuplicate = "replace"
	// Earliest gives the first task the due time of the second if that is earlier.
	Earliest OnDuplicate = "earliest"
	// Debounce replaces the first task, which is due at most MaxWait after it was enqueued.
	Debounce OnDuplicate = "debounce"
)

// IfDead decides what happens to a task if one that it waits for becomes a dead letter.
type IfDead string

// Choices for dead dependencies.
const (
	// IfDeadWait keeps waiting: the dead letter may be requeued.
	IfDeadWait IfDead = "wait"
	// IfDeadFail makes the task a dead letter too.
	IfDeadFail IfDead = "fail"
	// IfDeadRun runs the task.
	IfDeadRun IfDead = "run"
)

// encodedTask is a task that is checked, with its defaults and its content.
type encodedTask struct {
	NewTask
	content Content
}

// encode checks a task and returns a copy with normalized names and defaults.
func (t NewTask) encode() (encodedTask, error) {
	content, err := encodeContent("payload", t.Payload, t.ContentType, contract.PayloadBytes)
	if err != nil {
		return encodedTask{}, err
	}
	content.Kind, content.Traceparent = t.Kind, t.Traceparent
	t.setDefaults()
	err = firstError(t.checkNames(), t.checkTimes(), t.checkRules(), checkContentNames(content))
	return encodedTask{NewTask: t, content: content}, err
}

func checkContentNames(content Content) error {
	if content.Kind != "" {
		if err := checkKind(content.Kind); err != nil {
			return err
		}
	}
	if content.Traceparent != "" {
		return checkTraceparent(content.Traceparent)
	}
	return nil
}

func (t *NewTask) setDefaults() {
	if t.Priority == nil {
		t.Priority = Ptr(contract.DefaultPriority)
	}
	if t.MaxAttempts == 0 {
		t.MaxAttempts = contract.DefaultAttempts
	}
	if t.OnDuplicate == "" {
		t.OnDuplicate = Keep
	}
	if t.IfDead == "" {
		t.IfDead = IfDeadWait
	}
}

// checkNames normalizes the names.
func (t *NewTask) checkNames() error {
	var err error
	if t.ID, err = checkName("id", t.ID, contract.NameBytes); err != nil {
		return err
	}
	for _, optional := range []struct {
		field string
		name  *string
	}{{"key", &t.Key}, {"partOf", &t.PartOf}} {
		if *optional.name == "" {
			continue
		}
		if *optional.name, err = checkName(optional.field, *optional.name, contract.NameBytes); err != nil {
			return err
		}
	}
	after := make([]string, len(t.After))
	for at, id := range t.After {
		if after[at], err = checkName("after", id, contract.NameBytes); err != nil {
			return err
		}
	}
	t.After = after
	return nil
}

func (t *NewTask) checkTimes() error {
	if !t.DueAt.IsZero() && t.Delay != 0 {
		return invalid("dueAt", "cannot be set together with delay")
	}
	if !t.Deadline.IsZero() && t.DeadlineAfter != 0 {
		return invalid("deadline", "cannot be set together with deadlineAfter")
	}
	err := firstError(
		checkDuration("delay", t.Delay, contract.DelayMicros), checkDuration("deadlineAfter", t.DeadlineAfter, contract.DelayMicros),
		checkDuration("maxWait", t.MaxWait, contract.DelayMicros),
	)
	if err == nil && !t.DueAt.IsZero() {
		err = checkMoment("dueAt", t.DueAt)
	}
	if err == nil && !t.Deadline.IsZero() {
		err = checkMoment("deadline", t.Deadline)
	}
	if err == nil && t.UniqueFor != 0 {
		err = checkDuration("uniqueFor", t.UniqueFor, contract.PeriodMicros)
	}
	return err
}

func (t *NewTask) checkRules() error {
	if (t.OnDuplicate == Debounce) != (t.MaxWait != 0) {
		return invalid("maxWait", "must be set for Debounce, and only for it")
	}
	if t.PartOf != "" && len(t.After) > 0 {
		return invalid("partOf", "cannot be set together with after")
	}
	return firstError(
		checkRange("priority", int64(*t.Priority), contract.Priority),
		checkRange("maxAttempts", int64(t.MaxAttempts), contract.Attempts),
		checkRange("after", int64(len(t.After)), contract.After),
		checkWord("onDuplicate", string(t.OnDuplicate), contract.OnDuplicate),
		checkWord("ifDead", string(t.IfDead), contract.IfDead),
	)
}

// Task is a task that was read or claimed.
type Task struct {
	Content
	ID string
	// Ticket proves one claim of the task.
	Ticket string
	// Due is when the task was or is due.
	Due time.Time
	// Revision increases with each change of the task.
	Revision uint64
	// Fence is the fencing token of the claim. 0 if the task is not claimed.
	Fence uint64
	// ClaimedAt is when the task was claimed, exact to the duration of the claiming call. Zero if it is not claimed.
	ClaimedAt time.Time `wire:"claimed_us"`
	Priority  int
	// Attempt is the number of claims so far, this one included.
	Attempt     int
	MaxAttempts int
	// Key that tasks share. "" is none.
	Key string
	// Deadline is zero for none.
	Deadline time.Time
}

// Progress of a running task.
type Progress struct {
	// Percent is 0 to 100. Nil is unknown. Set it with Ptr.
	Percent *int
	// Note tells what the task is doing: at most 200 bytes.
	Note string
}

func (p *Progress) check() error {
	if p == nil {
		return nil
	}
	if p.Percent != nil {
		if err := checkRange("percent", int64(*p.Percent), contract.Percent); err != nil {
			return err
		}
	}
	return checkLabel("note", p.Note)
}

// PastRun is a run without success.
type PastRun struct {
	Attempt      int
	Began, Ended time.Time
	// How it ended: failed, lost or snoozed.
	How    string
	Worker string
	Error  string
}

// Finished tells how a retained task ended.
type Finished struct {
	At time.Time
	// How it ended: done, discarded, cancelled or dropped.
	How string
	// Result is nil if the task has none.
	Result *Content
}

// TaskState is the state of a task.
type TaskState string

// States of a task.
const (
	Scheduled TaskState = "scheduled"
	Ready     TaskState = "ready"
	Leased    TaskState = "leased"
	Blocked   TaskState = "blocked"
	Done      TaskState = "done"
)

// TaskInfo is a task and its state.
type TaskInfo struct {
	Task
	State TaskState
	// Waits is true if the task waits for other tasks.
	Waits bool
	// NotBefore is when the task may be claimed, if it is ready or scheduled.
	NotBefore time.Time
	// LeaseUntil and Worker are of the claim, if the task is leased.
	LeaseUntil time.Time
	Worker     string
	// Progress is nil if the worker reported none.
	Progress *Progress
	// Replaced is true if a pending replacement waits for the end of the run.
	Replaced bool
	// Canceled is true if a client asked to cancel the task.
	Canceled bool `wire:"cancelled"`
	// Error of the latest failed attempt.
	Error string
	// Past has up to ten runs without success.
	Past []PastRun
	// Finished is nil unless the state is Done.
	Finished *Finished
}

// Waited is a finished task that another one waited for.
type Waited struct {
	ID string
	At time.Time
	// End is done, discarded, cancelled, dropped, popped, deleted or dead.
	End string
	// Result is nil if the task has none.
	Result *Content
	// Error tells why the task failed, if it is dead.
	Error string
}

// DeadLetter is a task that failed for good.
type DeadLetter struct {
	Content
	ID          string
	Priority    int
	Attempts    int
	MaxAttempts int
	Error       string
	Died        time.Time
	Key         string
	Past        []PastRun
}

// Enqueued is the outcome of enqueueing a task.
type Enqueued struct {
	Outcome EnqueueOutcome
	// Revision of the task, if it is in the queue.
	Revision uint64
	// Dropped is the ID of the task that was dropped for this one, if the outcome is Displaced.
	Dropped string
	// Bound is the capacity of the queue, if the outcome is Full or Dropped.
	Bound uint64
	// Until is the end of the uniqueness window, if the outcome is Recent.
	Until time.Time
	// Task and Why tell which dependency or batch is impossible, if the outcome is Refused. Why is unknown, not_open or
	// taken.
	Task, Why string
}

// EnqueueOutcome tells what happened to a task that was enqueued.
type EnqueueOutcome string

// Outcomes of an enqueue. After Added, Kept, Replaced and Displaced the task is in the queue.
const (
	Added     EnqueueOutcome = "added"
	Kept      EnqueueOutcome = "kept"
	Replaced  EnqueueOutcome = "replaced"
	Displaced EnqueueOutcome = "displaced"
	Full      EnqueueOutcome = "full"
	Dropped   EnqueueOutcome = "dropped"
	Recent    EnqueueOutcome = "recent"
	Refused   EnqueueOutcome = "refused"
)

// Ended tells how a task ended.
type Ended struct {
	Outcome EndOutcome
	// Task is the retained task, if the outcome is EndFinished.
	Task *TaskInfo
	// Error, Attempts and Died are of the dead letter, if the outcome is EndDead.
	Error    string
	Attempts int
	Died     time.Time
}

// EndOutcome is what is left of a task that ended.
type EndOutcome string

// Outcomes of waiting for a task.
const (
	// EndFinished: the task is finished and retained.
	EndFinished EndOutcome = "finished"
	// EndDead: the task is a dead letter.
	EndDead EndOutcome = "dead"
	// EndGone: the task is neither live nor retained.
	EndGone EndOutcome = "gone"
	// EndPending: the task is live, and the wait has timed out.
	EndPending EndOutcome = "pending"
)

// Why is a reason why a task is not running. The fields that a reason has are set.
type Why struct {
	// Reason is running, paused, not_due, queue_busy, rate_limited, key_busy, in_line, waits_for, waiting, deadline, dead,
	// done, unique or unknown.
	Reason string
	// running
	Worker     string
	Attempt    int
	Fence      uint64
	LeaseUntil time.Time
	LeaseLeft  time.Duration
	Canceled   bool `wire:"cancelled"`
	Replaced   bool
	// not_due and rate_limited. Wait is the time left.
	Due, Until  time.Time
	Wait        time.Duration
	Attempts    int
	MaxAttempts int
	Error       string
	// queue_busy and key_busy
	Concurrency int
	Key         string
	Running     []Running
	// in_line: the ID of the first task of the key. waits_for: some of the tasks, dead ones first.
	FirstInLine string      `wire:"-"`
	WaitsFor    []WaitingOn `wire:"-"`
	Left, Dead  uint64
	IfDead      IfDead
	Open        bool
	// waiting. Ahead is nil for 1,000 or more tasks. LastClaim is zero for none.
	Ahead     *int
	Leased    uint64
	DueFor    time.Duration
	LastClaim time.Time
	// deadline and unique. TimeLeft is the time until then.
	Deadline time.Time
	TimeLeft time.Duration `wire:"left_ms"`
	// dead and done
	Died, Finished time.Time
	How            string
}

// Running is a running task.
type Running struct {
	ID, Worker string
	LeaseUntil time.Time
}

// WaitingOn is a task that another one waits for.
type WaitingOn struct {
	ID string
	// Error tells why it failed. "" if it is not dead.
	Error string
}
