package rushgate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

func (t *httpTransport) post(ctx context.Context, to target, body object, key string, into any) error {
	return t.ask(ctx, request{target: to, body: body, key: key}, into)
}

func (t *httpTransport) enqueue(ctx context.Context, queue string, tasks []encodedTask) ([]Enqueued, error) {
	bodies := make([]object, len(tasks))
	for at, task := range tasks {
		bodies[at] = taskBody(task)
	}
	var view struct{ Outcomes []Enqueued }
	err := t.post(ctx, targetOf(contract.OpEnqueueAll, queue), object{"tasks": bodies}, newKey(), &view)
	return view.Outcomes, sameLength(err, len(view.Outcomes), len(tasks))
}

func sameLength(err error, got, want int) error {
	if err == nil && got != want {
		return strange()
	}
	return err
}

func taskBody(task encodedTask) object {
	body := object{"id": task.ID, "priority": *task.Priority, "max_attempts": task.MaxAttempts}
	body.setContent(task.content)
	body.setDuration("delay_ms", task.Delay)
	body.setMoment("due_us", task.DueAt)
	body.setDuration("deadline_after_ms", task.DeadlineAfter)
	body.setMoment("deadline_us", task.Deadline)
	body.set("on_duplicate", task.OnDuplicate)
	body.setDuration("max_wait_ms", task.MaxWait)
	body.setDuration("unique_for_ms", task.UniqueFor)
	body.set("key", task.Key)
	if len(task.After) > 0 {
		body["after"] = task.After
		body["if_dead"] = task.IfDead
	}
	body.set("held_open", task.HeldOpen)
	body.set("part_of", task.PartOf)
	return body
}

// claim counts the leases from the answer: after a wait, the time of the request says nothing about them.
func (t *httpTransport) claim(ctx context.Context, queue string, claim claimRequest) ([]Task, time.Time, error) {
	var tasks []Task
	err := waiting(ctx, claim.wait, func(part time.Duration) (bool, error) {
		var err error
		tasks, err = t.claimOnce(ctx, queue, claim, part)
		return len(tasks) > 0, err
	})
	return tasks, time.Now(), err
}

// claimOnce releases what an interrupted request has claimed: the request with the same key returns it.
func (t *httpTransport) claimOnce(ctx context.Context, queue string, claim claimRequest, wait time.Duration) ([]Task, error) {
	body := object{"n": claim.n, "lease_ms": wireMillis(claim.lease), "worker": claim.worker}
	sent := request{targetOf(contract.OpClaim, queue), body, newKey(), wait}
	var view struct{ Tasks []Task }
	err := t.ask(ctx, sent, &view)
	if err != nil && ctx.Err() != nil {
		later, cancel := context.WithTimeout(detached{ctx}, putBackTime)
		defer cancel()
		sent.wait = 0
		if t.ask(later, sent, &view) == nil {
			putBack(later, t, queue, view.Tasks)
		}
		return nil, err
	}
	return view.Tasks, err
}

func (t *httpTransport) complete(ctx context.Context, queue string, ends []completion) ([]CompleteOutcome, error) {
	return grouped[CompleteOutcome](ctx, t, queue, contract.OpComplete, ends, func(end completion) (ticket, object, bool) {
		body := object{}
		body.set("discarded", end.discarded)
		if end.result != nil {
			body["result_base64"] = base64.StdEncoding.EncodeToString(end.result.Payload)
			body["result_type"] = end.result.ContentType
		}
		return end.ticket, body, end.result != nil
	})
}

func (t *httpTransport) retry(ctx context.Context, queue string, ends []failure) ([]RetryOutcome, error) {
	return grouped[RetryOutcome](ctx, t, queue, contract.OpRetry, ends, func(end failure) (ticket, object, bool) {
		body := object{"error": end.err, "give_up": end.giveUp}
		body.setDuration("delay_ms", end.delay)
		return end.ticket, body, true
	})
}

func (t *httpTransport) release(ctx context.Context, queue string, ends []release) ([]ReleaseOutcome, error) {
	return grouped[ReleaseOutcome](ctx, t, queue, contract.OpReleaseTasks, ends, func(end release) (ticket, object, bool) {
		body := object{}
		body.setDuration("delay_ms", end.delay)
		return end.ticket, body, false
	})
}

func (t *httpTransport) extend(
	ctx context.Context, queue string, lease time.Duration, beats []heartbeat,
) ([]ExtendOutcome, error) {
	return grouped[ExtendOutcome](ctx, t, queue, contract.OpExtendTasks, beats, func(beat heartbeat) (ticket, object, bool) {
		body := object{"lease_ms": wireMillis(lease)}
		if beat.progress != nil {
			progress := object{"note": beat.progress.Note}
			progress.set("percent", beat.progress.Percent)
			body["progress"] = progress
		}
		return beat.ticket, body, beat.progress != nil
	})
}

// bodyPart is a request for the entries at these positions.
type bodyPart struct {
	body      object
	tickets   []string
	positions []int
}

// grouped sends one request for all entries with the same fields, and one for each entry that is alone.
func grouped[O ~string, E any](
	ctx context.Context, t *httpTransport, queue string, operation contract.Operation, entries []E, read func(E) (ticket, object, bool),
) ([]O, error) {
	parts := map[string]*bodyPart{}
	for at, entry := range entries {
		ticket, body, alone := read(entry)
		name := fmt.Sprint(body)
		if alone {
			name = strconv.Itoa(at)
		}
		if parts[name] == nil {
			parts[name] = &bodyPart{body: body}
		}
		parts[name].tickets = append(parts[name].tickets, ticket.text)
		parts[name].positions = append(parts[name].positions, at)
	}
	outcomes := make([]O, len(entries))
	for _, one := range parts {
		one.body["tickets"] = one.tickets
		key := newKey()
		if operation == contract.OpExtendTasks {
			key = ""
		}
		var view struct{ Outcomes []struct{ Outcome O } }
		err := t.post(ctx, targetOf(operation, queue), one.body, key, &view)
		if err := sameLength(err, len(view.Outcomes), len(one.tickets)); err != nil {
			return nil, err
		}
		for at, position := range one.positions {
			outcomes[position] = view.Outcomes[at].Outcome
		}
	}
	return outcomes, nil
}

// found sends a request, and reports whether what its path names exists.
func (t *httpTransport) found(ctx context.Context, r request, into any) (bool, error) {
	err := t.ask(ctx, r, into)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (t *httpTransport) cancelTask(ctx context.Context, queue, id string) (CancelOutcome, error) {
	var view struct{ Outcome CancelOutcome }
	found, err := t.found(ctx, request{target: targetOf(contract.OpCancel, queue, id)}, &view)
	if err == nil && !found {
		return CancelNotFound, nil
	}
	return view.Outcome, err
}

func (t *httpTransport) top(ctx context.Context, queue string, n int) ([]Task, error) {
	var view struct{ Tasks []Task }
	err := t.ask(ctx, request{target: targetOf(contract.OpTop, queue).with(url.Values{"n": {strconv.Itoa(n)}})}, &view)
	return view.Tasks, err
}

func (t *httpTransport) pop(ctx context.Context, queue string, n int) ([]Task, error) {
	var view struct{ Tasks []Task }
	sent := request{target: targetOf(contract.OpPop, queue), body: object{"n": n}, key: newKey()}
	err := t.ask(ctx, sent, &view)
	return view.Tasks, err
}

func (t *httpTransport) dequeue(ctx context.Context, queue string, ticket ticket) (bool, error) {
	sent := request{target: targetOf(contract.OpDequeue, queue), body: object{"ticket": ticket.text}}
	_, err := t.send(ctx, sent)
	if code := codeOf(err); code == "stale" || code == "leased" {
		return false, nil
	}
	if err != nil {
		return false, httpError(err)
	}
	return true, nil
}

func (t *httpTransport) reschedule(ctx context.Context, queue, id string, options RescheduleOptions) (Rescheduled, error) {
	body := object{}
	body.setDuration("delay_ms", options.Delay)
	body.setMoment("due_us", options.DueAt)
	answer, err := t.send(ctx, request{target: targetOf(contract.OpReschedule, queue, id), body: body, key: newKey()})
	var rescheduled Rescheduled
	var refusal *problem
	switch {
	case err == nil:
		return rescheduled, fromWire(answer.body, &rescheduled)
	case !errors.As(err, &refusal):
		return rescheduled, err
	case refusal.Code == "leased" || refusal.Code == "not_found":
		return Rescheduled{Outcome: RescheduleOutcome(refusal.Code)}, nil
	}
	if err := fromWire(refusal.body, &rescheduled); err != nil || rescheduled.Deadline.IsZero() {
		return Rescheduled{}, httpError(refusal)
	}
	rescheduled.Outcome = RescheduleTooLate
	return rescheduled, nil
}

func (t *httpTransport) task(ctx context.Context, queue, id string) (*TaskInfo, error) {
	ended, live, err := t.look(ctx, queue, id, 0)
	if live != nil {
		return live, err
	}
	return ended.Task, err
}

// look returns how a task ended, or the task if it is live.
func (t *httpTransport) look(ctx context.Context, queue, id string, wait time.Duration) (Ended, *TaskInfo, error) {
	task := &TaskInfo{}
	sent := request{target: targetOf(contract.OpTask, queue, id), wait: wait}
	answer, err := t.send(ctx, sent)
	switch codeOf(err) {
	case "not_found":
		return Ended{Outcome: EndGone}, nil, nil
	case "dead":
		ended := Ended{Outcome: EndDead}
		var refusal *problem
		errors.As(err, &refusal)
		return ended, nil, fromWire(refusal.body, &ended)
	}
	if err != nil {
		return Ended{}, nil, httpError(err)
	}
	if err := fromWire(answer.body, task); err != nil {
		return Ended{}, nil, err
	}
	if task.State == Done {
		return Ended{Outcome: EndFinished, Task: task}, nil, nil
	}
	return Ended{Outcome: EndPending}, task, nil
}

func (t *httpTransport) waitFor(ctx context.Context, queue, id string, wait time.Duration) (Ended, error) {
	var ended Ended
	err := waiting(ctx, wait, func(part time.Duration) (bool, error) {
		var err error
		ended, _, err = t.look(ctx, queue, id, part)
		return ended.Outcome != EndPending, err
	})
	return ended, err
}

func (t *httpTransport) why(ctx context.Context, queue, id string) ([]Why, error) {
	answer, err := t.send(ctx, request{target: targetOf(contract.OpWhy, queue, id)})
	if err != nil {
		return nil, httpError(err)
	}
	var view struct{ Reasons []Why }
	var first struct {
		Reasons []struct{ First json.RawMessage }
	}
	err = firstError(fromWire(answer.body, &view), json.Unmarshal(answer.body, &first))
	for at := 0; at < len(view.Reasons) && err == nil; at++ {
		err = view.Reasons[at].readFirst(first.Reasons[at].First)
	}
	return view.Reasons, err
}

// readFirst reads the field first, whose type depends on the reason.
func (w *Why) readFirst(data json.RawMessage) error {
	switch {
	case len(data) == 0:
		return nil
	case w.Reason == "in_line":
		return fromWire(data, &w.FirstInLine)
	default:
		return fromWire(data, &w.WaitsFor)
	}
}

func (t *httpTransport) closeBatch(ctx context.Context, queue, id string) (Closed, error) {
	sent := request{target: targetOf(contract.OpCloseBatch, queue, id), body: object{}, key: newKey()}
	answer, err := t.send(ctx, sent)
	if code := codeOf(err); code == "not_open" || code == "not_found" {
		return Closed{Outcome: code}, nil
	}
	if err != nil {
		return Closed{}, httpError(err)
	}
	var closed Closed
	return closed, fromWire(answer.body, &closed)
}

func (t *httpTransport) dependents(ctx context.Context, queue, id string, n int) ([]string, error) {
	var view struct {
		IDs []string `wire:"ids"`
	}
	to := targetOf(contract.OpDependents, queue, id).with(url.Values{"n": {strconv.Itoa(n)}})
	err := t.ask(ctx, request{target: to}, &view)
	return view.IDs, err
}

func (t *httpTransport) waited(ctx context.Context, queue, id string, page Page) ([]Waited, error) {
	return pageOf[Waited](ctx, t, targetOf(contract.OpWaited, queue, id), page)
}

// pageOf reads a page. Large payloads make a page of the server smaller.
func pageOf[E any](ctx context.Context, t *httpTransport, to target, page Page) ([]E, error) {
	var entries []E
	for next := &page.After; next != nil && len(entries) < page.Limit; {
		query := url.Values{"after": {*next}, "limit": {strconv.Itoa(page.Limit - len(entries))}}
		var view struct {
			Items []E
			Next  *string
		}
		err := t.ask(ctx, request{target: to.with(query)}, &view)
		if err != nil {
			return nil, err
		}
		entries, next = append(entries, view.Items...), view.Next
	}
	return entries, nil
}

func (t *httpTransport) clearUnique(ctx context.Context, queue, id string) (time.Time, error) {
	var view struct{ Until time.Time }
	_, err := t.found(ctx, request{target: targetOf(contract.OpClearUnique, queue, id)}, &view)
	return view.Until, err
}

func (t *httpTransport) stats(ctx context.Context, queue string) (*QueueStats, error) {
	stats := &QueueStats{}
	return stats, t.ask(ctx, request{target: targetOf(contract.OpStats, queue)}, stats)
}

func (t *httpTransport) setLimits(ctx context.Context, queue string, limits Limits) error {
	perKey := object{"fifo": limits.PerKey.FIFO}
	perKey.set("concurrency", limits.PerKey.Concurrency)
	perKey.set("rate", rateBody(limits.PerKey.Rate))
	body := object{"overflow": limits.Overflow, "per_key": perKey}
	body.set("bound", limits.Bound)
	body.set("concurrency", limits.Concurrency)
	body.set("rate", rateBody(limits.Rate))
	body.set("events", limits.Events)
	if limits.Retention != nil {
		body["retention"] = object{"age_ms": wireMillis(limits.Retention.Age), "count": limits.Retention.Count}
	}
	return t.ask(ctx, request{target: targetOf(contract.OpLimit, queue), body: body}, nil)
}

func rateBody(rate *Rate) object {
	if rate == nil {
		return nil
	}
	return object{"n": rate.N, "per_ms": wireMillis(rate.Per)}
}

func (t *httpTransport) setPaused(ctx context.Context, queue string, paused bool) error {
	operation := contract.OpResume
	if paused {
		operation = contract.OpPause
	}
	return t.post(ctx, targetOf(operation, queue), object{}, "", nil)
}

func (t *httpTransport) dead(ctx context.Context, queue string, page Page) ([]DeadLetter, error) {
	return pageOf[DeadLetter](ctx, t, targetOf(contract.OpDead, queue), page)
}

func selectionBody(selected selection) object {
	if selected.all {
		return object{"all": true}
	}
	return object{"ids": selected.ids}
}

func (t *httpTransport) requeueDead(ctx context.Context, queue string, selected selection) (Requeued, error) {
	var requeued Requeued
	return requeued, t.post(ctx, targetOf(contract.OpRequeueDead, queue), selectionBody(selected), "", &requeued)
}

func (t *httpTransport) deleteDead(ctx context.Context, queue string, selected selection) (int, error) {
	var view struct{ Deleted int }
	err := t.post(ctx, targetOf(contract.OpDeleteDead, queue), selectionBody(selected), "", &view)
	return view.Deleted, err
}

func (t *httpTransport) saveSchedule(
	ctx context.Context, queue string, schedule encodedSchedule,
) (ScheduleOutcome, error) {
	body := object{"priority": *schedule.Priority, "max_attempts": schedule.MaxAttempts, "missed": schedule.Missed}
	body.setContent(schedule.content)
	body.set("cron", schedule.Cron)
	body.set("zone", schedule.Zone)
	body.setDuration("every_ms", schedule.Every)
	body.set("paused", schedule.Paused)
	answer, err := t.send(ctx, request{target: targetOf(contract.OpSchedule, queue, schedule.ID), body: body})
	if codeOf(err) == "queue_full" {
		return ScheduleFull, nil
	}
	if err != nil {
		return "", httpError(err)
	}
	var view struct{ Outcome ScheduleOutcome }
	err = fromWire(answer.body, &view)
	return view.Outcome, err
}

func (t *httpTransport) schedules(ctx context.Context, queue string, page Page) ([]Schedule, error) {
	return pageOf[Schedule](ctx, t, targetOf(contract.OpSchedules, queue), page)
}

func (t *httpTransport) deleteSchedule(ctx context.Context, queue, id string) (bool, error) {
	return t.found(ctx, request{target: targetOf(contract.OpUnschedule, queue, id)}, nil)
}

func (t *httpTransport) announce(ctx context.Context, queue string, worker announcement) (WorkerMode, error) {
	body := object{"name": worker.name, "version": worker.version, "concurrency": worker.concurrency, "running": worker.running}
	body.setDuration("lease_ms", worker.lease)
	var view struct{ Mode WorkerMode }
	err := t.ask(ctx, request{target: targetOf(contract.OpAnnounce, queue, worker.id), body: body}, &view)
	return view.Mode, err
}

func (t *httpTransport) endWorker(ctx context.Context, queue, id string) error {
	return t.ask(ctx, request{target: targetOf(contract.OpEndWorker, queue, id)}, nil)
}

func (t *httpTransport) workers(ctx context.Context, queue string, page Page) ([]WorkerInfo, error) {
	return pageOf[WorkerInfo](ctx, t, targetOf(contract.OpWorkers, queue), page)
}

func (t *httpTransport) setWorker(ctx context.Context, queue, id string, mode WorkerMode) (bool, error) {
	return t.found(ctx, request{target: targetOf(contract.OpSetWorker, queue, id), body: object{"mode": mode}}, nil)
}
