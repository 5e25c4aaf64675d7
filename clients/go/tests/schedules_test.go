package tests

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// ran collects the jobs of workers.
type ran struct {
	mu   sync.Mutex
	jobs []*rushgate.Job
}

func (r *ran) handle(_ context.Context, job *rushgate.Job) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, job)
	return nil, nil
}

func (r *ran) all() []*rushgate.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*rushgate.Job(nil), r.jobs...)
}

func TestWorkersFireEachOccurrenceOfAScheduleOnce(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		beat := rushgate.NewSchedule{ID: "beat", Payload: map[string]int{"n": 1}, Kind: "pulse"}
		beat.Every = time.Second
		testenv.Must[rushgate.ScheduleOutcome](t)(queue.SaveSchedule(ctx, beat))
		seen := &ran{}
		var workers []*running
		for range [2]int{} {
			worker := client.Worker(queue.Name(), rushgate.WorkerOptions{})
			worker.Handle(rushgate.AnyKind, seen.handle)
			workers = append(workers, start(t, worker))
		}
		testenv.Until(t, "three occurrences", func() bool { return len(seen.all()) >= 3 })
		for _, worker := range workers {
			worker.stop()
		}
		moments := map[time.Time]bool{}
		first := time.Time{}
		for _, job := range seen.all() {
			id, moment, _ := strings.Cut(job.ID, "@")
			at := testenv.Must[time.Time](t)(time.Parse(time.RFC3339, moment))
			if moments[at] || id != "beat" || job.Kind != "pulse" {
				t.Errorf("%s of kind %s", job.ID, job.Kind)
			}
			moments[at] = true
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		for n := range seen.all() {
			if at := first.Add(time.Duration(n) * time.Second); !moments[at] {
				t.Errorf("no task for %v", at)
			}
		}
	})
}

func TestAScheduleThatCannotBeReadStaysAndStopsNoOther(t *testing.T) {
	isPlain := func(target testenv.Target) bool { return testenv.Single(target) && testenv.Redis(target) }
	testenv.Each(t, isPlain, func(t *testing.T, target testenv.Target) {
		ctx, client := testenv.Context(t), target.Connect(t)
		queue := client.Queue(testenv.Unique("queue"))
		beat := rushgate.NewSchedule{ID: "beat"}
		beat.Every = time.Second
		testenv.Must[rushgate.ScheduleOutcome](t)(queue.SaveSchedule(ctx, beat))
		// As later versions or other programs might write them, and due.
		key := func(ending string) string { return "rg:{q:" + queue.Name() + "}:" + ending }
		record := string(testenv.Command(t, target, "HGET", key("schedules"), "beat").([]byte))
		broken := map[string]string{"cut off": record[:3]}
		for _, recurrence := range []string{`{"cron":"0 X * "`, `{"cron":5       `, `{"zone":"UTC"   `, `{"every_ms":0   `, `{"every_ms":-100`} {
			broken[recurrence] = strings.Replace(record, `{"every_ms":1000`, recurrence, 1)
		}
		for id, record := range broken {
			testenv.Command(t, target, "HSET", key("schedules"), id, record)
			testenv.Command(t, target, "ZADD", key("schedule_moments"), "1", id)
		}

		seen, reported := &ran{}, make(chan error, 10)
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{OnError: func(err error) { reported <- err }})
		worker.Handle(rushgate.AnyKind, seen.handle)
		running := start(t, worker)
		testenv.Until(t, "three occurrences", func() bool { return len(seen.all()) >= 3 })
		running.stop()
		// A server on the same store would keep logging them.
		defer testenv.Command(t, target, "DEL", key("schedules"), key("schedule_ids"), key("schedule_moments"))
		if due := testenv.Command(t, target, "ZCOUNT", key("schedule_moments"), "1", "1"); due != int64(len(broken)) {
			t.Errorf("%v are due", due)
		}
		for _, job := range seen.all() {
			if !strings.HasPrefix(job.ID, "beat@") {
				t.Errorf("task %s", job.ID)
			}
		}
		for n := len(broken); n > 0; n-- {
			err := <-reported
			for id := range broken {
				if strings.Contains(err.Error(), "the schedule "+id+" of") {
					delete(broken, id)
				}
			}
		}
		if len(broken) > 0 || len(reported) > 0 {
			t.Errorf("%v were not reported; %d more errors", broken, len(reported))
		}
	})
}
