package rushgate

import (
	"context"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

const (
	// Longest time until a schedule that another program has saved is noticed.
	lookEvery = 5 * time.Second
	// Time between two looks while a schedule cannot be read.
	unreadableWait = time.Second
	// Maximum payload size of one step of a schedule, unless a single task exceeds it.
	stepBytes = 4 << 20
	// How late an occurrence may be noticed before it counts as missed.
	lateAfter = time.Minute
)

// fireSchedules fires due schedules, and returns the time until the next look. A schedule that cannot be read stays due, for
// other programs.
func (t *redisTransport) fireSchedules(ctx context.Context, queue string, warn func(Schedule, error)) (time.Duration, error) {
	args := arguments{}
	args.number(uint64(contract.Batch.Max))
	answer, err := listFrom(t.call(ctx, "queue_due_schedules", []group{scheduleGroup(queue)}, args))
	if err != nil {
		return 0, err
	}
	now, next := answer.moment(), answer.moment()
	wait := lookEvery
	if !next.IsZero() {
		wait = min(max(next.Sub(now), 0), lookEvery)
	}
	for answer.more() {
		id, record := answer.text(), answer.bytes()
		var step arguments
		schedule, err := readSchedule(id, record)
		if err == nil {
			step, err = schedule.step(len(record), now)
		}
		if err != nil {
			warn(schedule, err)
			wait = max(wait, unreadableWait)
			continue
		}
		if _, err := t.call(ctx, "queue_fire", []group{queueGroup(queue), scheduleGroup(queue)}, step); err != nil {
			return 0, err
		}
		// More occurrences may be due.
		wait = 0
	}
	return wait, answer.err
}

// step returns what fires a schedule: its due occurrences, and the next one.
func (s Schedule) step(size int, now time.Time) (arguments, error) {
	most := min(max(stepBytes/size, 1), int(contract.Batch.Max))
	runs, next, err := s.Recurrence.due(s.Next, now, most)
	if err != nil {
		return nil, err
	}
	args := arguments{[]byte(s.ID)}
	args.number(s.Revision)
	args.number(uint64(next.UnixMicro()))
	for _, at := range runs {
		// A schedule that was changed while another program fired it may list an occurrence again.
		if at.After(s.Previous) {
			args.text(s.ID + "@" + at.UTC().Format(time.RFC3339Nano))
			args.number(uint64(at.UnixMicro()))
		}
	}
	return args, nil
}

// due returns what a schedule does now whose next occurrence is first: at most `most` runs, and the next occurrence.
func (r Recurrence) due(first, now time.Time, most int) (runs []time.Time, next time.Time, err error) {
	if err = r.check(); err != nil {
		return nil, time.Time{}, err
	}
	if r.Missed == MissedAll {
		runs = []time.Time{first}
		for next, err = r.next(first); err == nil && !next.After(now) && len(runs) < most; next, err = r.next(next) {
			runs = append(runs, next)
		}
		return runs, next, err
	}
	latest, err := r.latestUntil(first, now)
	if err == nil && (r.Missed == MissedOnce || now.Sub(latest) <= lateAfter) {
		runs = []time.Time{latest}
	}
	if err == nil {
		next, err = r.next(now)
	}
	return runs, next, err
}

// latestUntil returns the latest occurrence at or before a moment. first is an earlier one.
func (r Recurrence) latestUntil(first, moment time.Time) (time.Time, error) {
	// The latest one is after low, and none is after high, in ms.
	low, high := first.UnixMilli(), moment.UnixMilli()
	for low < high {
		middle := (low + high) / 2
		next, err := r.next(time.UnixMilli(middle))
		if err != nil {
			return time.Time{}, err
		}
		if next.After(moment) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if latest := time.UnixMilli(low); latest.After(first) {
		return latest, nil
	}
	return first, nil
}
