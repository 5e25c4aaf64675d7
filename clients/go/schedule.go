package rushgate

import (
	"context"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/cron"
)

// Number of occurrences that a schedule lists.
const listedOccurrences = 5

// NewSchedule is a schedule to save: it enqueues a task at each occurrence. Set Cron or Every.
type NewSchedule struct {
	// ID of the schedule: a name of at most 170 bytes. The IDs of its tasks begin with it.
	ID string
	Recurrence
	// Payload, ContentType and Kind of its tasks, as in NewTask.
	Payload     any
	ContentType string
	Kind        string
	// Priority of its tasks: 0 to 9. Default: 5. Set it with Ptr.
	Priority *int
	// MaxAttempts of its tasks: 1 to 1,000. Default: 20.
	MaxAttempts int
	// Paused is whether the schedule is paused. Default: unchanged; a new schedule is active. Set it with Ptr.
	Paused *bool
}

// Recurrence tells when a schedule fires: by a cron pattern, or at an interval that is counted from 1970.
type Recurrence struct {
	// Cron is a pattern: minute hour day month weekday, with seconds in front if there are six fields. Numbers, names,
	// lists, ranges and steps are known over Redis. A Rushgate server knows more, such as L for the last day.
	Cron string
	// Zone is the IANA time zone of the pattern. Default: UTC.
	Zone string
	// Every is the interval: 1 s to 400 days, in whole milliseconds.
	Every time.Duration
	// Missed decides what happens to occurrences that passed while nothing fired them. Default: MissedOnce.
	Missed Missed
}

// Missed decides what happens to missed occurrences.
type Missed string

// Choices for missed occurrences.
const (
	MissedSkip Missed = "skip"
	MissedOnce Missed = "once"
	MissedAll  Missed = "all"
)

// Schedule of a queue.
type Schedule struct {
	Content
	ID          string
	Recurrence  Recurrence
	Priority    int
	MaxAttempts int
	// Next is zero if the schedule does not fire again. Previous is zero if it never fired.
	Next, Previous time.Time
	// Upcoming are its next occurrences: at most five, and none while the schedule is paused.
	Upcoming []time.Time `wire:"upcoming_us"`
	Paused   bool
	Revision uint64
}

// ScheduleOutcome tells what happened to a schedule that was saved.
type ScheduleOutcome string

// Outcomes of saving a schedule. ScheduleFull: the queue has 10,000 schedules, which is the limit.
const (
	ScheduleAdded     ScheduleOutcome = "added"
	ScheduleChanged   ScheduleOutcome = "changed"
	ScheduleUnchanged ScheduleOutcome = "unchanged"
	ScheduleFull      ScheduleOutcome = "full"
)

type encodedSchedule struct {
	NewSchedule
	content Content
}

// SaveSchedule creates or changes a schedule. Workers of the queue and rushgate serve fire it: each occurrence enqueues a task
// with an ID such as ID@2026-11-22T03:30:00Z.
func (q *Queue) SaveSchedule(ctx context.Context, schedule NewSchedule) (ScheduleOutcome, error) {
	if q.err != nil {
		return "", q.err
	}
	encoded, err := schedule.encode()
	if err != nil {
		return "", err
	}
	return q.queues.saveSchedule(ctx, q.name, encoded)
}

func (s NewSchedule) encode() (encodedSchedule, error) {
	if s.Priority == nil {
		s.Priority = Ptr(contract.DefaultPriority)
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = contract.DefaultAttempts
	}
	if s.Missed == "" {
		s.Missed = MissedOnce
	}
	id, err := checkName("id", s.ID, contract.ScheduleIDBytes)
	if err != nil {
		return encodedSchedule{}, err
	}
	s.ID = id
	content, err := encodeContent("payload", s.Payload, s.ContentType, contract.PayloadBytes)
	if err != nil {
		return encodedSchedule{}, err
	}
	content.Kind = s.Kind
	err = firstError(
		checkContentNames(content), s.Recurrence.check(),
		checkRange("priority", int64(*s.Priority), contract.Priority),
		checkRange("maxAttempts", int64(s.MaxAttempts), contract.Attempts),
	)
	return encodedSchedule{NewSchedule: s, content: content}, err
}

func (r Recurrence) check() error {
	if (r.Cron == "") == (r.Every == 0) {
		return invalid("cron", "or every must be set, and not both")
	}
	if r.Cron == "" {
		if r.Zone != "" {
			return invalid("zone", "is only for cron patterns")
		}
		if r.Every%time.Millisecond != 0 {
			return invalid("every", "must be a whole number of milliseconds")
		}
		return firstError(checkDuration("every", r.Every, contract.IntervalMicros), r.checkMissed())
	}
	if len(r.Cron) > contract.NameBytes {
		return invalid("cron", "has more than %d bytes", contract.NameBytes)
	}
	return r.checkMissed()
}

func (r Recurrence) checkMissed() error {
	return checkWord("missed", string(r.Missed), contract.Missed)
}

// next returns the first occurrence after a moment.
func (r Recurrence) next(after time.Time) (time.Time, error) {
	if r.Cron == "" {
		every := r.Every.Microseconds()
		return time.UnixMicro((after.UnixMicro()/every + 1) * every), nil
	}
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "Local" {
		return time.Time{}, invalid("zone", "is %q, which is unknown; use a name such as Europe/Berlin", r.Zone)
	}
	next, err := cron.Next(r.Cron, after.In(zone))
	if err != nil {
		return time.Time{}, invalid("cron", "%v", err)
	}
	return next, nil
}

// upcoming returns the next occurrences, from the next one on. A recurrence that cannot be read has no others.
func (s Schedule) upcoming() []time.Time {
	if s.Next.IsZero() || s.Paused {
		return nil
	}
	moments := []time.Time{s.Next}
	for s.Recurrence.check() == nil && len(moments) < listedOccurrences {
		next, err := s.Recurrence.next(moments[len(moments)-1])
		if err != nil {
			break
		}
		// Without the zone of the pattern, as all other times.
		moments = append(moments, time.UnixMicro(next.UnixMicro()))
	}
	return moments
}

// Schedules returns the schedules of the queue. A page has at most 10,000.
func (q *Queue) Schedules(ctx context.Context, page Page) ([]Schedule, error) {
	page, err := q.checkPage(page, contract.SchedulesPage)
	if err != nil {
		return nil, err
	}
	return q.queues.schedules(ctx, q.name, page)
}

// DeleteSchedule deletes a schedule, and reports whether there was one. Tasks that it enqueued stay.
func (q *Queue) DeleteSchedule(ctx context.Context, id string) (bool, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return false, err
	}
	return q.queues.deleteSchedule(ctx, q.name, id)
}
