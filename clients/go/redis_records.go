package rushgate

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

var (
	parameterPattern = regexp.MustCompile(`(?:[^;"]|"[^"]*")+`)
	kindParameter    = regexp.MustCompile(`(?i)^kind="?([A-Za-z0-9._:/-]{1,80})"?$`)
	traceParameter   = regexp.MustCompile(`(?i)^traceparent="?([0-9a-f-]{55})"?$`)
)

// writeBody writes content type and payload. The two common types are a single byte.
func writeBody(content Content) []byte {
	media := content.ContentType
	if content.Kind != "" {
		media += `;kind="` + content.Kind + `"`
	}
	if content.Traceparent != "" {
		media += ";traceparent=" + content.Traceparent
	}
	switch media {
	case contract.BytesType:
		return concat([]byte{contract.BytesCode}, content.Payload)
	case contract.JSONType:
		return concat([]byte{contract.JSONCode}, content.Payload)
	default:
		return concat([]byte{byte(len(media))}, []byte(media), content.Payload)
	}
}

// readBody reads content type and payload: the rest of a record.
func readBody(p *packed) Content {
	var media string
	switch first := p.number(1); first {
	case contract.BytesCode:
		media = contract.BytesType
	case contract.JSONCode:
		media = contract.JSONType
	default:
		media = string(p.take(int(first)))
	}
	content := Content{Payload: p.rest}
	var others []string
	for _, parameter := range parameterPattern.FindAllString(media, -1) {
		if found := kindParameter.FindStringSubmatch(strings.TrimSpace(parameter)); found != nil {
			content.Kind = found[1]
		} else if found := traceParameter.FindStringSubmatch(strings.TrimSpace(parameter)); found != nil {
			content.Traceparent = found[1]
		} else {
			others = append(others, parameter)
		}
	}
	content.ContentType = strings.Join(others, ";")
	return content
}

// readTask reads a task, and what its record and its run tell about its state. An empty run is of a task that was never
// claimed.
func readTask(id string, record, run []byte) (TaskInfo, error) {
	p := packed{rest: record}
	fields := p.fields(contract.RecordLayout)
	priority := fields.int("priority")
	task := TaskInfo{Waits: priority&contract.PriorityWaits != 0}
	due := fields["first"]
	if priority&contract.PriorityAtOnce == 0 {
		due = p.number(contract.DueBytes)
	}
	task.ID, task.Due = id, moment(due)
	task.Revision = fields["revision"] + fields["turn"]
	task.Priority, task.MaxAttempts = priority%contract.PriorityKeyed, fields.int("maxAttempts")
	if priority&contract.PriorityDeadline != 0 {
		task.Deadline = moment(p.number(contract.DeadlineBytes))
	}
	if priority&contract.PriorityKeyed != 0 {
		task.Key = p.text(contract.KeyLengthBytes)
	}
	task.Content = readBody(&p)
	if p.err != nil {
		return TaskInfo{}, p.err
	}
	if len(run) > 0 {
		var err error
		if due, err = readRun(&task, run); err != nil {
			return TaskInfo{}, err
		}
	}
	task.Ticket = writeTicket(task.Revision, task.Fence, due, id)
	return task, nil
}

// readRun adds what a run tells about a task, and returns the due time in µs.
func readRun(task *TaskInfo, run []byte) (uint64, error) {
	p := packed{rest: run}
	fields := p.fields(contract.RunLayout)
	flags := fields.int("flags")
	task.Due, task.Attempt = fields.moment("due"), fields.int("attempts")
	task.Worker = p.text(contract.WorkerLengthBytes)
	task.Canceled, task.Replaced = flags&contract.RunCanceled != 0, flags&contract.RunReplaced != 0
	if flags&contract.RunLeased != 0 {
		task.State, task.Fence, task.LeaseUntil = Leased, fields["claim"]+fields["turn"], fields.moment("leaseUntil")
		// Claims are numbered by the time.
		task.ClaimedAt = moment(task.Fence)
	}
	if flags&contract.RunProgress != 0 {
		task.Progress = readProgress(&p)
	}
	if flags&contract.RunPast != 0 {
		task.Past = readPast(&p)
	}
	if flags&contract.RunFailed != 0 {
		task.Error = string(p.rest)
	}
	return fields["due"], p.err
}

func readProgress(p *packed) *Progress {
	length := p.number(contract.NoteLengthBytes)
	percent := int(p.number(contract.PercentBytes))
	progress := &Progress{Note: string(p.take(int(length)))}
	if percent != contract.NoPercent {
		progress.Percent = &percent
	}
	return progress
}

func readPast(p *packed) []PastRun {
	past := packed{rest: p.sized(contract.PastLengthBytes)}
	var runs []PastRun
	for len(past.rest) > 0 && past.err == nil {
		fields := past.fields(contract.PastLayout)
		how, err := meaning(fields["how"], contract.PastEnd)
		run := PastRun{
			Attempt: fields.int("attempt"), Began: fields.moment("began"), Ended: fields.moment("ended"), How: how,
			Worker: past.text(contract.WorkerLengthBytes), Error: past.text(contract.PastErrorLengthBytes),
		}
		past.err = firstError(past.err, err)
		runs = append(runs, run)
	}
	p.err = firstError(p.err, past.err)
	return runs
}

// settle sets the state of a task that is not finished. known is false if its key blocks it.
func settle(task *TaskInfo, notBefore time.Time, known bool, now time.Time) {
	if task.State == Leased {
		return
	}
	task.Worker, task.Progress = "", nil
	if !known {
		task.State = Blocked
		return
	}
	if task.Key == "" || notBefore.IsZero() {
		notBefore = task.Due
	}
	task.NotBefore, task.State = notBefore, Scheduled
	if !notBefore.After(now) {
		task.State = Ready
	}
}

// readFinished reads a finished task that is retained.
func readFinished(id string, entry []byte) (TaskInfo, error) {
	p := packed{rest: entry}
	fields := p.fields(contract.FinishedLayout)
	how, err := meaning(fields["how"], contract.TaskEnd)
	result := p.sized(contract.ResultLengthBytes)
	run := p.sized(contract.RunLengthBytes)
	if err := firstError(p.err, err); err != nil {
		return TaskInfo{}, err
	}
	task, err := readTask(id, p.rest, run)
	if err != nil {
		return TaskInfo{}, err
	}
	if task.State != Leased {
		task.Worker = ""
	}
	task.State, task.Waits, task.Replaced, task.Canceled = Done, false, false, false
	task.LeaseUntil, task.Progress = time.Time{}, nil
	task.Finished = &Finished{At: fields.moment("finished"), How: how}
	task.Finished.Result, err = readResult(result)
	return task, err
}

func readResult(body []byte) (*Content, error) {
	if len(body) == 0 {
		return nil, nil
	}
	p := packed{rest: body}
	content := readBody(&p)
	return &content, p.err
}

func readWaited(id string, entry []byte) (Waited, error) {
	p := packed{rest: entry}
	fields := p.fields(contract.FinishedLayout)
	end, err := meaning(fields["how"], contract.TaskEnd)
	waited := Waited{ID: id, At: fields.moment("finished"), End: end}
	if end == "dead" {
		waited.Error = string(p.rest)
	} else if err == nil {
		waited.Result, err = readResult(p.rest)
	}
	return waited, firstError(p.err, err)
}

func readDead(id string, entry []byte) (DeadLetter, error) {
	p := packed{rest: entry}
	fields := p.fields(contract.DeadLetterLayout)
	priority := fields.int("priority")
	letter := DeadLetter{
		ID: id, Died: fields.moment("died"), Attempts: fields.int("attempts"), MaxAttempts: fields.int("maxAttempts"),
		Priority: priority % contract.PriorityKeyed, Error: p.text(contract.DeadLetterErrorLengthBytes),
	}
	if priority&contract.PriorityPast != 0 {
		letter.Past = readPast(&p)
	}
	if priority&contract.PriorityKeyed != 0 {
		letter.Key = p.text(contract.KeyLengthBytes)
	}
	letter.Content = readBody(&p)
	return letter, p.err
}

// storedRecurrence is the stored form of a recurrence, which Rust programs read.
type storedRecurrence struct {
	Cron   string `json:"cron,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Every  int64  `json:"every_ms,omitempty"`
	Missed Missed `json:"missed"`
}

func writeRecurrence(r Recurrence) []byte {
	stored, _ := json.Marshal(storedRecurrence{Cron: r.Cron, Zone: r.Zone, Every: r.Every.Milliseconds(), Missed: r.Missed})
	return stored
}

// readRecurrence returns an empty recurrence if it cannot read the stored one.
func readRecurrence(text []byte) Recurrence {
	stored := storedRecurrence{Missed: MissedOnce}
	if json.Unmarshal(text, &stored) != nil {
		return Recurrence{}
	}
	return Recurrence{Cron: stored.Cron, Zone: stored.Zone, Every: millis(stored.Every), Missed: stored.Missed}
}

func readWorker(id string, entry []byte) (WorkerInfo, error) {
	p := packed{rest: entry}
	fields := p.fields(contract.WorkerLayout)
	worker := WorkerInfo{
		ID: id, Name: p.text(contract.NameLengthBytes), Concurrency: fields.int("concurrency"),
		Running: fields.int("running"), Since: fields.moment("since"), Seen: fields.moment("seen"),
		LeaseUntil: fields.moment("leaseUntil"),
	}
	if mode := fields.int("mode"); p.err == nil && mode < len(contract.WorkerMode) {
		worker.Mode = WorkerMode(contract.WorkerMode[mode])
	}
	worker.Version = string(p.rest)
	return worker, p.err
}

func readSchedule(id string, entry []byte) (Schedule, error) {
	p := packed{rest: entry}
	fields := p.fields(contract.ScheduleLayout)
	schedule := Schedule{
		ID: id, Recurrence: readRecurrence(p.sized(contract.RecurrenceLengthBytes)), Priority: fields.int("priority"),
		MaxAttempts: fields.int("maxAttempts"), Next: fields.moment("next"), Previous: fields.moment("previous"),
		Paused: fields["paused"] == 1, Revision: fields["revision"],
	}
	schedule.Content = readBody(&p)
	return schedule, p.err
}
