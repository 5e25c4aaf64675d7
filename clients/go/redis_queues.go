package rushgate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// ask calls a function of a queue that changes nothing, or that is harmless to repeat.
func (t *redisTransport) ask(ctx context.Context, queue, verb string, args arguments) (any, error) {
	return t.call(ctx, "queue_"+verb, []group{queueGroup(queue)}, args)
}

// once calls a function of a queue with an op, so that it is executed once.
func (t *redisTransport) once(ctx context.Context, queue, verb string, args arguments) (any, error) {
	args = append(arguments{t.op()}, args...)
	return t.call(ctx, "queue_"+verb, []group{queueGroup(queue), t.replays(queue)}, args)
}

// listFrom turns an answer into a list.
func listFrom(reply any, err error) (*list, error) {
	if err != nil {
		return nil, err
	}
	answer := listOf(reply)
	return answer, answer.err
}

// firstOp returns the op for the first task of a request, and an empty one for the others.
func firstOp(op []byte, at int) []byte {
	if at == 0 {
		return op
	}
	return nil
}

func (t *redisTransport) enqueue(ctx context.Context, queue string, tasks []encodedTask) ([]Enqueued, error) {
	if err := t.register(ctx, contract.QueueDirectory, queue); err != nil {
		return nil, err
	}
	op, args := t.op(), arguments{}
	for at, task := range tasks {
		args.bytes(firstOp(op, at))
		args.text(task.ID, termsOf(task.NewTask))
		args.bytes(writeBody(task.content))
	}
	groups := []group{queueGroup(queue), t.replays(queue), uniqueGroup(queue)}
	answers, err := listFrom(t.callOrReplay(ctx, "queue_enqueue", "queue_replay", groups, args))
	if err != nil {
		return nil, err
	}
	answer := answers.list()
	outcomes := make([]Enqueued, len(tasks))
	for at := range outcomes {
		outcomes[at] = readEnqueued(answer)
	}
	return outcomes, firstError(answers.err, answer.err)
}

// termsOf writes the due time and the rules of a task, as docs/protocol/queues.md describes them.
func termsOf(task NewTask) string {
	var terms strings.Builder
	mode := positionOf(string(task.OnDuplicate), contract.OnDuplicate)
	fmt.Fprintf(
		&terms, "%s %d %d %s %d", timeText(task.Delay, task.DueAt), *task.Priority, mode, microsText(task.MaxWait),
		task.MaxAttempts,
	)
	if task.DeadlineAfter != 0 || !task.Deadline.IsZero() {
		terms.WriteString("<" + timeText(task.DeadlineAfter, task.Deadline))
	}
	if task.UniqueFor != 0 {
		terms.WriteString("!" + microsText(task.UniqueFor))
	}
	if task.Key != "" {
		terms.WriteString(" " + task.Key)
	}
	if len(task.After) > 0 || task.HeldOpen || task.PartOf != "" {
		terms.WriteString("\n" + dependenciesOf(task))
	}
	return terms.String()
}

func timeText(delay time.Duration, at time.Time) string {
	if at.IsZero() {
		return "+" + microsText(delay)
	}
	return fmt.Sprint(at.UnixMicro())
}

func dependenciesOf(task NewTask) string {
	open := 0
	if task.HeldOpen {
		open = 1
	}
	head := fmt.Sprintf("%d%d", positionOf(string(task.IfDead), contract.IfDead), open)
	if task.PartOf != "" {
		head += " " + task.PartOf
	}
	return strings.Join(append([]string{head}, task.After...), "\n")
}

func readEnqueued(answer *list) Enqueued {
	outcome := Enqueued{Outcome: EnqueueOutcome(answer.word(contract.Enqueued))}
	switch outcome.Outcome {
	case Full, Dropped:
		outcome.Bound = answer.number()
	case Displaced:
		outcome.Revision, outcome.Dropped = answer.number(), answer.text()
	case Recent:
		outcome.Until = answer.moment()
	case Refused:
		outcome.Why, outcome.Task = answer.word(contract.Unmet), answer.text()
	default:
		outcome.Revision = answer.number()
	}
	return outcome
}

func (t *redisTransport) claim(ctx context.Context, queue string, request claimRequest) ([]Task, time.Time, error) {
	for until := time.Now().Add(request.wait); ; {
		sent := time.Now()
		answer, err := t.claimNow(ctx, queue, request)
		if err != nil {
			return nil, sent, err
		}
		left := time.Until(until)
		if len(answer.tasks) > 0 || left <= 0 {
			return answer.tasks, sent, nil
		}
		if err := t.sleepForTask(ctx, queue, answer, left); err != nil {
			return nil, sent, err
		}
	}
}

type claimAnswer struct {
	tasks []Task
	// nextDue is how long it is until a task may be claimable.
	nextDue time.Duration
	wakeUps uint64
}

// claimNow releases what an interrupted call has claimed: the call with the same op returns it.
func (t *redisTransport) claimNow(ctx context.Context, queue string, request claimRequest) (claimAnswer, error) {
	args := arguments{t.op()}
	args.number(uint64(request.n))
	args.duration(request.lease)
	args.text(request.worker)
	groups := []group{queueGroup(queue), t.replays(queue)}
	reply, err := t.call(ctx, "queue_claim", groups, args)
	if err == nil {
		return readClaim(reply)
	}
	if ctx.Err() != nil {
		later, cancel := context.WithTimeout(detached{ctx}, putBackTime)
		defer cancel()
		if reply, again := t.call(later, "queue_claim", groups, args); again == nil {
			answer, _ := readClaim(reply)
			putBack(later, t, queue, answer.tasks)
		}
	}
	return claimAnswer{}, err
}

// putBack releases tasks that an interrupted call has claimed. If it fails, they become due when their leases end.
func putBack(ctx context.Context, queues queues, queue string, tasks []Task) {
	if len(tasks) == 0 {
		return
	}
	releases := make([]release, len(tasks))
	for at, task := range tasks {
		releases[at].ticket = readTicket(task.Ticket)
	}
	queues.release(ctx, queue, releases)
}

func readClaim(reply any) (claimAnswer, error) {
	answers := listOf(reply)
	answer := answers.list()
	claimed := claimAnswer{nextDue: contract.ClaimSleep}
	if us, known := answer.optional(); known {
		claimed.nextDue = micros(int64(us))
	}
	claimed.wakeUps = answer.number()
	tasks, err := readTasks(answer)
	claimed.tasks = tasks
	return claimed, firstError(answers.err, err)
}

func readTasks(answer *list) ([]Task, error) {
	var tasks []Task
	for answer.more() {
		task, err := readTask(answer.text(), answer.bytes(), answer.bytes())
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task.Task)
	}
	return tasks, answer.err
}

// sleepForTask returns at once if the client missed a wake-up since the claim.
func (t *redisTransport) sleepForTask(ctx context.Context, queue string, answer claimAnswer, left time.Duration) error {
	if err := t.inbox.open(ctx); err != nil {
		return err
	}
	tasks := t.inbox.listen(tasksTopic(queue))
	defer tasks.ignore()
	args := arguments{}
	args.text(t.inbox.hex())
	args.number(answer.wakeUps)
	listened, err := listFrom(t.ask(ctx, queue, "listen", args))
	if err != nil {
		return err
	}
	if missed := listened.number(); missed == 0 && listened.err == nil {
		next := answer.nextDue
		if next < time.Millisecond {
			next = time.Millisecond
		}
		tasks.bell.wait(ctx, least(left, next, contract.ClaimSleep))
	}
	if ctx.Err() != nil {
		// The notification may have been for this client only.
		t.declineWakeUp(queue)
		return interrupted(ctx.Err(), false)
	}
	return listened.err
}

// declineWakeUp wakes another process instead. If it fails, the task waits for the next claim.
func (t *redisTransport) declineWakeUp(queue string) {
	go func() {
		ctx, cancel := context.WithTimeout(t.closing, putBackTime)
		defer cancel()
		t.ask(ctx, queue, "ring", nil)
	}()
}

func (t *redisTransport) complete(ctx context.Context, queue string, ends []completion) ([]CompleteOutcome, error) {
	verb := "complete"
	for _, end := range ends {
		if end.result != nil || end.discarded {
			verb = "finish"
		}
	}
	op, args := t.op(), arguments{}
	for at, end := range ends {
		args.bytes(firstOp(op, at))
		args.text(end.ticket.id)
		args.number(end.ticket.claim)
		if verb == "finish" {
			args.flag(end.discarded)
			args.bytes(writeResult(end.result))
		}
	}
	answers, err := listFrom(t.call(ctx, "queue_"+verb, []group{queueGroup(queue), t.replays(queue)}, args))
	if err != nil {
		return nil, err
	}
	return outcomesOf[CompleteOutcome](answers.list(), len(ends), contract.Completed)
}

func writeResult(result *Content) []byte {
	if result == nil {
		return nil
	}
	return writeBody(*result)
}

// outcomesOf reads one outcome per entry.
func outcomesOf[O ~string](answer *list, n int, words []string) ([]O, error) {
	outcomes := make([]O, n)
	for at := range outcomes {
		outcomes[at] = O(answer.word(words))
	}
	return outcomes, answer.err
}

func (t *redisTransport) retry(ctx context.Context, queue string, ends []failure) ([]RetryOutcome, error) {
	args := arguments{}
	for _, end := range ends {
		args.text(end.ticket.id)
		args.number(end.ticket.claim)
		args.duration(end.delay)
		args.flag(end.giveUp)
		args.text(end.err)
	}
	answer, err := listFrom(t.once(ctx, queue, "retry", args))
	if err != nil {
		return nil, err
	}
	outcomes := make([]RetryOutcome, len(ends))
	for at := range outcomes {
		outcomes[at] = RetryOutcome(answer.word(contract.Retried))
		answer.next()
	}
	return outcomes, answer.err
}

func (t *redisTransport) release(ctx context.Context, queue string, ends []release) ([]ReleaseOutcome, error) {
	args := arguments{}
	for _, end := range ends {
		args.text(end.ticket.id)
		args.number(end.ticket.claim)
		args.duration(end.delay)
	}
	answer, err := listFrom(t.once(ctx, queue, "release", args))
	if err != nil {
		return nil, err
	}
	return outcomesOf[ReleaseOutcome](answer, len(ends), contract.TaskReleased)
}

func (t *redisTransport) extend(
	ctx context.Context, queue string, lease time.Duration, beats []heartbeat,
) ([]ExtendOutcome, error) {
	args := arguments{}
	args.duration(lease)
	for _, beat := range beats {
		args.text(beat.ticket.id)
		args.number(beat.ticket.claim)
		args.flag(beat.progress != nil)
		if beat.progress == nil {
			args.text("", "")
			continue
		}
		if beat.progress.Percent == nil {
			args.text("")
		} else {
			args.number(uint64(*beat.progress.Percent))
		}
		args.text(beat.progress.Note)
	}
	answer, err := listFrom(t.ask(ctx, queue, "extend", args))
	if err != nil {
		return nil, err
	}
	return outcomesOf[ExtendOutcome](answer, len(beats), contract.TaskExtended)
}

func (t *redisTransport) cancelTask(ctx context.Context, queue, id string) (CancelOutcome, error) {
	answer, err := listFrom(t.once(ctx, queue, "cancel", arguments{[]byte(id)}))
	if err != nil {
		return "", err
	}
	return CancelOutcome(answer.word(contract.Canceled)), answer.err
}

func (t *redisTransport) reschedule(ctx context.Context, queue, id string, options RescheduleOptions) (Rescheduled, error) {
	args := arguments{[]byte(id)}
	if options.DueAt.IsZero() {
		args.number(uint64(options.Delay.Microseconds()))
		args.number(1)
	} else {
		args.number(uint64(options.DueAt.UnixMicro()))
		args.number(0)
	}
	answer, err := listFrom(t.once(ctx, queue, "reschedule", args))
	if err != nil {
		return Rescheduled{}, err
	}
	rescheduled := Rescheduled{Outcome: RescheduleOutcome(answer.word(contract.Rescheduled))}
	switch at := answer.moment(); rescheduled.Outcome {
	case RescheduleDone:
		rescheduled.Due = at
	case RescheduleTooLate:
		rescheduled.Deadline = at
	}
	return rescheduled, answer.err
}

func (t *redisTransport) task(ctx context.Context, queue, id string) (*TaskInfo, error) {
	_, tasks, err := t.tasks(ctx, queue, []string{id})
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	return &tasks[0], nil
}

// tasks returns the time of the store, and those of the tasks that are live or retained.
func (t *redisTransport) tasks(ctx context.Context, queue string, ids []string) (time.Time, []TaskInfo, error) {
	args := arguments{}
	args.flag(false)
	args.text(ids...)
	answer, err := listFrom(t.ask(ctx, queue, "tasks", args))
	if err != nil {
		return time.Time{}, nil, err
	}
	now := answer.moment()
	var tasks []TaskInfo
	for answer.more() {
		task, err := readInfo(answer, now)
		if err != nil {
			return now, nil, err
		}
		tasks = append(tasks, task)
	}
	return now, tasks, answer.err
}

func readInfo(answer *list, now time.Time) (TaskInfo, error) {
	id, record, run := answer.text(), answer.bytes(), answer.bytes()
	notBefore, known := answer.optional()
	if answer.err != nil {
		return TaskInfo{}, answer.err
	}
	if len(record) == 0 {
		return readFinished(id, run)
	}
	task, err := readTask(id, record, run)
	settle(&task, moment(notBefore), known, now)
	return task, err
}

// top returns the first due tasks.
func (t *redisTransport) top(ctx context.Context, queue string, n int) ([]Task, error) {
	args := arguments{}
	args.number(uint64(n))
	answer, err := listFrom(t.ask(ctx, queue, "top", args))
	if err != nil {
		return nil, err
	}
	return readTasks(answer)
}

func (t *redisTransport) pop(ctx context.Context, queue string, n int) ([]Task, error) {
	args := arguments{}
	args.number(uint64(n))
	answer, err := listFrom(t.once(ctx, queue, "pop", args))
	if err != nil {
		return nil, err
	}
	return readTasks(answer)
}

func (t *redisTransport) dequeue(ctx context.Context, queue string, ticket ticket) (bool, error) {
	args := arguments{[]byte(ticket.id)}
	args.number(ticket.revision)
	args.number(ticket.claim)
	answer, err := listFrom(t.once(ctx, queue, "dequeue", args))
	if err != nil {
		return false, err
	}
	return answer.word(contract.Dequeued) == "removed", answer.err
}

func (t *redisTransport) waitFor(ctx context.Context, queue, id string, wait time.Duration) (Ended, error) {
	if err := t.inbox.open(ctx); err != nil {
		return Ended{}, err
	}
	finished := t.inbox.listen(finishedTopic(queue, id))
	defer finished.ignore()
	args := arguments{}
	args.text(t.inbox.hex(), id)
	for until := time.Now().Add(wait); ; {
		// The inbox is registered before the read, so that no end is missed in between.
		reply, err := t.ask(ctx, queue, "watch", args)
		if err != nil {
			return Ended{}, err
		}
		watched, err := numberOf(reply)
		if err != nil {
			return Ended{}, err
		}
		ended, err := t.ended(ctx, queue, id)
		if err != nil || ended.Outcome != EndPending {
			return ended, err
		}
		left := time.Until(until)
		if left <= 0 {
			return ended, nil
		}
		if watched == 0 {
			if err := t.checkRetention(ctx, queue); err != nil {
				return Ended{}, err
			}
		}
		finished.bell.wait(ctx, least(left, contract.ResultSleep))
		if ctx.Err() != nil {
			return Ended{}, interrupted(ctx.Err(), false)
		}
	}
}

func (t *redisTransport) checkRetention(ctx context.Context, queue string) error {
	stats, err := t.stats(ctx, queue)
	if err == nil && stats.Limits.Retention == nil {
		return nothingKept(queue)
	}
	return err
}

// ended tells how a task ended. Of a task that is live, the outcome is EndPending.
func (t *redisTransport) ended(ctx context.Context, queue, id string) (Ended, error) {
	task, err := t.task(ctx, queue, id)
	if err != nil || task != nil && task.State != Done {
		return Ended{Outcome: EndPending}, err
	}
	letter, err := t.deadLetter(ctx, queue, id)
	if err != nil {
		return Ended{}, err
	}
	switch {
	case letter != nil && (task == nil || task.Finished.At.Before(letter.Died)):
		return Ended{Outcome: EndDead, Error: letter.Error, Attempts: letter.Attempts, Died: letter.Died}, nil
	case task != nil:
		return Ended{Outcome: EndFinished, Task: task}, nil
	}
	// A dead letter may have been requeued between the two reads.
	if task, err = t.task(ctx, queue, id); task != nil && task.State != Done {
		return Ended{Outcome: EndPending}, err
	}
	return Ended{Outcome: EndGone}, err
}

func (t *redisTransport) deadLetter(ctx context.Context, queue, id string) (*DeadLetter, error) {
	letters, err := readLetters(t.ask(ctx, queue, "dead_letter", arguments{[]byte(id)}))
	if err != nil || len(letters) == 0 {
		return nil, err
	}
	return &letters[0], nil
}

func readLetters(reply any, err error) ([]DeadLetter, error) {
	return readEntries(reply, err, readDead)
}

// readEntries reads a list of IDs and packed records.
func readEntries[E any](reply any, err error, read func(id string, entry []byte) (E, error)) ([]E, error) {
	answer, err := listFrom(reply, err)
	if err != nil {
		return nil, err
	}
	var entries []E
	for answer.more() {
		entry, err := read(answer.text(), answer.bytes())
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, answer.err
}

func pageArgs(page Page) arguments {
	args := arguments{}
	args.text(page.After)
	args.number(uint64(page.Limit))
	return args
}

func (t *redisTransport) closeBatch(ctx context.Context, queue, id string) (Closed, error) {
	answer, err := listFrom(t.once(ctx, queue, "close_batch", arguments{[]byte(id)}))
	if err != nil {
		return Closed{}, err
	}
	closed := Closed{Outcome: answer.word(contract.Closed)}
	if closed.Outcome == "closed" {
		closed.Left = answer.number()
	}
	return closed, answer.err
}

func (t *redisTransport) dependents(ctx context.Context, queue, id string, n int) ([]string, error) {
	args := arguments{[]byte(id)}
	args.number(uint64(n))
	answer, err := listFrom(t.ask(ctx, queue, "dependents", args))
	if err != nil {
		return nil, err
	}
	var ids []string
	for answer.more() {
		ids = append(ids, answer.text())
	}
	return ids, answer.err
}

func (t *redisTransport) waited(ctx context.Context, queue, id string, page Page) ([]Waited, error) {
	reply, err := t.ask(ctx, queue, "waited", append(arguments{[]byte(id)}, pageArgs(page)...))
	return readEntries(reply, err, readWaited)
}

func (t *redisTransport) clearUnique(ctx context.Context, queue, id string) (time.Time, error) {
	args := arguments{t.op(), []byte(id)}
	answer, err := listFrom(t.call(ctx, "queue_clear_unique", []group{uniqueGroup(queue), t.replays(queue)}, args))
	if err != nil {
		return time.Time{}, err
	}
	return answer.moment(), answer.err
}

func (t *redisTransport) stats(ctx context.Context, queue string) (*QueueStats, error) {
	answer, err := listFrom(t.ask(ctx, queue, "stats", nil))
	if err != nil {
		return nil, err
	}
	stats := &QueueStats{
		Queue: queue, Ready: answer.number(), Scheduled: answer.number(), Leased: answer.number(), Blocked: answer.number(),
		Dead: answer.number(), Done: answer.number(), Dropped: answer.number(), Lag: micros(int64(answer.number())),
		RateUntil: answer.moment(), LastClaim: answer.moment(), Paused: answer.number() == 1,
	}
	bound, isBound := answer.optional()
	limits, err := readLimits(answer.text())
	if isBound {
		limits.Bound = &bound
	}
	stats.Limits = limits
	return stats, firstError(answer.err, err)
}

func (t *redisTransport) setLimits(ctx context.Context, queue string, limits Limits) error {
	if err := t.register(ctx, contract.QueueDirectory, queue); err != nil {
		return err
	}
	_, err := t.ask(ctx, queue, "limit", writeLimits(limits))
	return err
}

func writeLimits(limits Limits) arguments {
	args := arguments{}
	optional := func(number uint64) {
		if number == 0 {
			args.text("")
		} else {
			args.number(number)
		}
	}
	rate := func(rate *Rate) {
		if rate == nil {
			rate = &Rate{}
		}
		optional(uint64(rate.N))
		optional(uint64(rate.Per.Microseconds()))
	}
	if limits.Bound == nil {
		args.text("")
	} else {
		args.number(*limits.Bound)
	}
	optional(uint64(limits.Concurrency))
	rate(limits.Rate)
	optional(uint64(limits.PerKey.Concurrency))
	rate(limits.PerKey.Rate)
	args.flag(limits.PerKey.FIFO)
	retention := limits.Retention
	if retention == nil {
		retention = &Retention{}
	}
	optional(uint64(retention.Age.Microseconds()))
	optional(uint64(retention.Count))
	args.number(uint64(positionOf(string(limits.Overflow), contract.Overflow)))
	optional(uint64(limits.Events))
	return args
}

// readLimits reads the limits other than the capacity: words, with - for none. Further words may follow.
func readLimits(text string) (Limits, error) {
	limits := Limits{Overflow: Refuse}
	words := strings.Fields(text)
	if len(words) == 0 {
		return limits, nil
	}
	values := list{}
	for _, word := range words {
		if word == "-" {
			word = ""
		}
		values.entries = append(values.entries, []byte(word))
	}
	optional := func() uint64 { value, _ := values.optional(); return value }
	rate := func() *Rate {
		rate := Rate{N: int(optional()), Per: micros(int64(optional()))}
		if rate.N == 0 {
			return nil
		}
		return &rate
	}
	limits.Concurrency, limits.Rate = int(optional()), rate()
	limits.PerKey = KeyLimits{Concurrency: int(optional()), Rate: rate(), FIFO: optional() == 1}
	if retention := (Retention{Age: micros(int64(optional())), Count: int(optional())}); retention.Count > 0 {
		limits.Retention = &retention
	}
	overflow, err := meaning(optional(), contract.Overflow)
	limits.Overflow, limits.Events = Overflow(overflow), int(optional())
	return limits, firstError(values.err, err)
}

func (t *redisTransport) setPaused(ctx context.Context, queue string, paused bool) error {
	if err := t.register(ctx, contract.QueueDirectory, queue); err != nil {
		return err
	}
	args := arguments{}
	args.flag(paused)
	_, err := t.ask(ctx, queue, "pause", args)
	return err
}

func (t *redisTransport) dead(ctx context.Context, queue string, page Page) ([]DeadLetter, error) {
	return readLetters(t.ask(ctx, queue, "dead", pageArgs(page)))
}

func selectionArgs(selected selection) arguments {
	args := arguments{}
	args.flag(selected.all)
	args.text(selected.ids...)
	return args
}

func (t *redisTransport) requeueDead(ctx context.Context, queue string, selected selection) (Requeued, error) {
	answer, err := listFrom(t.once(ctx, queue, "requeue_dead", selectionArgs(selected)))
	if err != nil {
		return Requeued{}, err
	}
	return Requeued{Requeued: int(answer.number()), Kept: int(answer.number())}, answer.err
}

func (t *redisTransport) deleteDead(ctx context.Context, queue string, selected selection) (int, error) {
	answer, err := listFrom(t.once(ctx, queue, "delete_dead", selectionArgs(selected)))
	if err != nil {
		return 0, err
	}
	return int(answer.number()), answer.err
}

func (t *redisTransport) saveSchedule(
	ctx context.Context, queue string, schedule encodedSchedule,
) (ScheduleOutcome, error) {
	// Nothing is sent for a recurrence that this package does not know.
	if _, err := schedule.next(time.Now()); err != nil {
		return "", err
	}
	if err := t.register(ctx, contract.QueueDirectory, queue); err != nil {
		return "", err
	}
	now, err := t.clock(ctx, queue)
	if err != nil {
		return "", err
	}
	next, err := schedule.next(now)
	if err != nil {
		return "", err
	}
	args := arguments{[]byte(schedule.ID), writeRecurrence(schedule.Recurrence), writeBody(schedule.content)}
	args.number(uint64(*schedule.Priority))
	args.number(uint64(schedule.MaxAttempts))
	args.number(uint64(next.UnixMicro()))
	if schedule.Paused == nil {
		args.text("")
	} else {
		args.flag(*schedule.Paused)
	}
	args.text("")
	answer, err := listFrom(t.call(ctx, "queue_schedule", []group{queueGroup(queue), scheduleGroup(queue)}, args))
	if err != nil {
		return "", err
	}
	return ScheduleOutcome(answer.word(contract.Scheduled)), answer.err
}

// clock returns the time of the store.
func (t *redisTransport) clock(ctx context.Context, queue string) (time.Time, error) {
	args := arguments{}
	args.number(1)
	answer, err := listFrom(t.call(ctx, "queue_due_schedules", []group{scheduleGroup(queue)}, args))
	if err != nil {
		return time.Time{}, err
	}
	return answer.moment(), answer.err
}

func (t *redisTransport) schedules(ctx context.Context, queue string, page Page) ([]Schedule, error) {
	reply, err := t.call(ctx, "queue_schedules", []group{scheduleGroup(queue)}, pageArgs(page))
	schedules, err := readEntries(reply, err, readSchedule)
	for at := range schedules {
		schedules[at].Upcoming = schedules[at].upcoming()
	}
	return schedules, err
}

func (t *redisTransport) deleteSchedule(ctx context.Context, queue, id string) (bool, error) {
	reply, err := t.call(ctx, "queue_unschedule", []group{scheduleGroup(queue)}, arguments{[]byte(id)})
	if err != nil {
		return false, err
	}
	deleted, err := numberOf(reply)
	return deleted == 1, err
}

func (t *redisTransport) announce(ctx context.Context, queue string, worker announcement) (WorkerMode, error) {
	if worker.lease > 0 {
		if err := t.register(ctx, contract.QueueDirectory, queue); err != nil {
			return "", err
		}
	}
	args := arguments{[]byte(worker.id), []byte(worker.name), []byte(worker.version)}
	args.number(uint64(worker.concurrency))
	args.number(uint64(worker.running))
	args.number(uint64(worker.lease.Microseconds()))
	reply, err := t.call(ctx, "queue_announce", []group{workerGroup(queue)}, args)
	if err != nil {
		return "", err
	}
	mode, err := numberOf(reply)
	if err != nil || int(mode) >= len(contract.WorkerMode) {
		return "", firstError(err, strange())
	}
	return WorkerMode(contract.WorkerMode[mode]), nil
}

func (t *redisTransport) endWorker(ctx context.Context, queue, id string) error {
	_, err := t.announce(ctx, queue, announcement{id: id, concurrency: 1})
	return err
}

func (t *redisTransport) workers(ctx context.Context, queue string, page Page) ([]WorkerInfo, error) {
	reply, err := t.call(ctx, "queue_workers", []group{workerGroup(queue)}, pageArgs(page))
	return readEntries(reply, err, readWorker)
}

func (t *redisTransport) setWorker(ctx context.Context, queue, id string, mode WorkerMode) (bool, error) {
	args := arguments{[]byte(id)}
	args.number(uint64(mode.number()))
	reply, err := t.call(ctx, "queue_set_worker", []group{workerGroup(queue)}, args)
	if err != nil {
		return false, err
	}
	found, err := numberOf(reply)
	return found == 1, err
}
