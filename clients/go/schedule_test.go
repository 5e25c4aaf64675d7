package rushgate

import (
	"testing"
	"time"
)

func TestMissedOccurrencesFollowThePolicyOfTheSchedule(t *testing.T) {
	first := time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)
	late, after := first.Add(3*time.Hour+30*time.Minute), first.Add(4*time.Hour)
	for _, one := range []struct {
		recurrence Recurrence
		now        time.Time
		most       int
		// Hours after the first.
		runs []int
		next time.Time
	}{
		{Recurrence{Cron: "0 * * * *", Missed: MissedSkip}, late, 1_000, nil, after},
		{Recurrence{Cron: "0 * * * *", Missed: MissedSkip}, first.Add(2 * time.Second), 1_000, []int{0}, first.Add(time.Hour)},
		{Recurrence{Cron: "0 * * * *", Missed: MissedOnce}, late, 1_000, []int{3}, after},
		{Recurrence{Cron: "0 * * * *", Missed: MissedAll}, late, 1_000, []int{0, 1, 2, 3}, after},
		{Recurrence{Every: time.Hour, Missed: MissedAll}, late, 2, []int{0, 1}, first.Add(2 * time.Hour)},
		{Recurrence{Every: time.Hour, Missed: MissedOnce}, first, 1, []int{0}, first.Add(time.Hour)},
	} {
		runs, next, err := one.recurrence.due(first, one.now, one.most)
		if err != nil || !next.Equal(one.next) || len(runs) != len(one.runs) {
			t.Fatalf("%+v: %v, %v, %v", one.recurrence, runs, next, err)
		}
		for at, hours := range one.runs {
			if want := first.Add(time.Duration(hours) * time.Hour); !runs[at].Equal(want) {
				t.Errorf("%+v: %v, not %v", one.recurrence, runs[at], want)
			}
		}
	}
}
