// Package contract holds the constants of the Redis protocol and of the HTTP API, as pure data. docs/protocol.md and
// docs/http.md describe them.
package contract

import "time"

// Protocol is the number of the protocol that this module speaks.
const Protocol = 1

const (
	// FunctionPrefix begins the name of every function of the library.
	FunctionPrefix = "rushgate_1_"
	// KeyPrefix begins every key. The hash tag follows.
	KeyPrefix = "rg:"
	// InboxPrefix begins the channel of an inbox. 16 hexadecimal digits follow.
	InboxPrefix = "rg:in:"
	// QueueDirectory is the key that lists the names of queues.
	QueueDirectory = "rg:queues"
	// SaleDirectory is the key that lists the IDs of sales.
	SaleDirectory = "rg:sales"
)

// First letters of a hash tag, by what the keys belong to.
const (
	LockTag  = "l"
	QueueTag = "q"
	SaleTag  = "s"
)

// Endings of the keys of each group, in the order in which a Cluster gets them.
var (
	LockKeys  = []string{"lock", "line", "waiters", "ends"}
	QueueKeys = []string{
		"meta", "records", "runs", "newcomers", "leases", "listeners", "at_once", "waiting0", "waiting1", "waiting2", "waiting3",
		"waiting4", "waiting5", "waiting6", "waiting7", "waiting8", "waiting9", "blocked", "held", "groups", "key_leases",
		"starts", "starts_until", "dead", "dead_ids", "done", "done_ids", "by_age", "by_deadline", "dependents",
		"dependencies", "results", "result_ids", "unsettled", "unsettled_ids", "events", "watchers",
	}
	ReplayKeys   = []string{"young", "old"}
	ScheduleKeys = []string{"schedules", "schedule_ids", "schedule_moments"}
	UniqueKeys   = []string{"unique"}
	WorkerKeys   = []string{"workers", "worker_ids", "worker_ends"}
	AttemptKeys  = []string{"attempts", "attempts_of", "attempt_servers"}
	HomeKeys     = []string{"home"}
	SaleKeys     = []string{"row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed"}
)

// Endings of keys of a queue that a client reads directly. The priority follows WaitingKey.
const (
	LeasesKey  = "leases"
	WaitingKey = "waiting"
)

// Lengths of identifiers, in bytes.
const (
	ClientBytes      = 8
	OpBytes          = 8
	TokenBytes       = 16
	InboxBytes       = 8
	SecretBytes      = 16
	ReservationBytes = 16
)

// Field is an unsigned integer of a packed record, most significant byte first.
type Field struct {
	Name  string
	Bytes int
}

// Layout is the fixed part of a packed record.
type Layout []Field

// Fixed parts of the packed records.
var (
	Record = Layout{
		{"arrival", 6}, {"placeTurn", 1}, {"revision", 6}, {"first", 7}, {"due", 7}, {"priority", 1}, {"maxAttempts", 2},
	}
	Run      = Layout{{"claim", 7}, {"turn", 1}, {"attempts", 2}, {"flags", 1}, {"leaseUntil", 7}, {"due", 7}}
	Past     = Layout{{"attempt", 2}, {"began", 7}, {"ended", 7}, {"how", 1}}
	Dead     = Layout{{"died", 7}, {"attempts", 2}, {"maxAttempts", 2}, {"priority", 1}}
	Finished = Layout{{"at", 7}, {"how", 1}}
	Schedule = Layout{
		{"revision", 6}, {"paused", 1}, {"next", 7}, {"previous", 7}, {"priority", 1}, {"maxAttempts", 2},
	}
	Worker = Layout{
		{"since", 7}, {"seen", 7}, {"leaseUntil", 7}, {"mode", 1}, {"concurrency", 3}, {"running", 3},
	}
	// The bytes of an inbox and an owner follow these two.
	Holder = Layout{{"since", 7}}
	Waiter = Layout{{"ticket", 7}, {"lease", 7}, {"since", 7}, {"until", 7}}
	Owner  = Layout{{"pid", 4}}
	Hold   = Layout{
		{"state", 1}, {"deadline", 7}, {"event", 6}, {"generation", 4}, {"linesBytes", 2}, {"buyerBytes", 1},
	}
	Units = Layout{{"sku", 2}, {"first", 4}, {"last", 4}}
	SKU   = Layout{
		{"total", 4}, {"next", 4}, {"ahead", 4}, {"returned", 4}, {"held", 4}, {"confirmed", 4}, {"withdrawn", 4},
		{"perBuyer", 2},
	}
)

// Lengths of single fields of packed records, in bytes.
const (
	DeadlineBytes         = 7
	KeyLengthBytes        = 1
	WorkerLengthBytes     = 1
	NoteLengthBytes       = 1
	PercentBytes          = 1
	PastLengthBytes       = 2
	PastTextLengthBytes   = 1
	ErrorLengthBytes      = 2
	ResultLengthBytes     = 4
	RunLengthBytes        = 4
	RecurrenceLengthBytes = 2
	HostLengthBytes       = 1
	BodyTypeLengthBytes   = 1
)

// Lengths in bytes of what precedes the ID in the members of the sorted sets of leased and of waiting tasks.
const (
	LeaseMemberHead   = 8
	WaitingMemberHead = 7
)

// NoPercent is the percentage of a progress that is not known.
const NoPercent = 255

// Values that are added to the priority in a record, and to the priority of a dead letter.
const (
	PriorityKeyed    = 16
	PriorityPast     = 32
	PriorityDeadline = 64
	PriorityWaits    = 128
)

// Bits of the flags of a run.
const (
	RunLeased   = 1
	RunCanceled = 2
	RunFailed   = 4
	RunReplaced = 8
	RunPast     = 64
	RunProgress = 128
)

// First bytes of a body whose content type is one of these. Otherwise it is the length of the content type.
const (
	BytesByte = 0
	JSONByte  = 255
	BytesType = "application/octet-stream"
	JSONType  = "application/json"
)

// Meanings of the numbers in answers. The position is the number, and "" is no meaning.
var (
	Acquired     = []string{"", "granted", "waiting", "busy"}
	Released     = []string{"not_held", "released"}
	Enqueued     = []string{"", "added", "kept", "replaced", "full", "dropped", "displaced", "recent", "refused"}
	Unmet        = []string{"unknown", "not_open", "taken"}
	Completed    = []string{"stale", "done", "requeued"}
	Retried      = []string{"stale", "scheduled", "dead", "requeued", "cancelled"}
	TaskReleased = []string{"stale", "waiting", "cancelled"}
	Extended     = []string{"lost", "extended", "cancelled"}
	Canceled     = []string{"not_found", "removed", "marked"}
	Dequeued     = []string{"stale", "removed", "leased"}
	Rescheduled  = []string{"not_found", "rescheduled", "leased", "too_late"}
	Closed       = []string{"not_found", "closed", "not_open"}
	Scheduled    = []string{"", "added", "changed", "unchanged", "full", "stale"}
	Created      = []string{"exists", "created"}
	SaleStatus   = []string{"created", "open", "ended"}
	Reserved     = []string{
		"", "reserved", "replayed", "key_reused", "sold_out", "all_held", "limit_reached", "not_open", "ended",
		"no_such_sku", "halted",
	}
	Restored = []string{
		"", "restored", "known", "", "none_left", "none_left", "limit_reached", "", "", "", "halted", "expired",
	}
	Decided     = []string{"unknown", "done", "pending", "refused", "halted"}
	Finishes    = []string{"done", "discarded", "cancelled", "dropped"}
	TaskEnds    = []string{"done", "discarded", "cancelled", "dropped", "popped", "deleted", "dead"}
	PastEnds    = []string{"failed", "lost", "snoozed"}
	WorkerModes = []string{"work", "quiet", "stop"}
	IfDead      = []string{"wait", "fail", "run"}
	OnDuplicate = []string{"keep", "replace", "earliest", "debounce"}
	Overflow    = []string{"refuse", "drop_new", "drop_oldest"}
	Missed      = []string{"skip", "once", "all"}
	HoldStates  = []string{
		"held", "confirming", "cancelling", "expiring", "confirmed", "cancelled", "expired", "rejected",
	}
	HaltReasons = []string{"lost_writes", "operator", "rebuilding"}
)

// FinalHoldStates are the states of a hold that do not change any more.
var FinalHoldStates = []string{"confirmed", "cancelled", "expired", "rejected"}

// First bytes of a notification.
const (
	NotifyGranted  = 'A'
	NotifyRevoked  = 'R'
	NotifyTasks    = 'Q'
	NotifyFinished = 'T'
	NotifySale     = 'S'
)

// Statuses that a function answers instead of a value.
const (
	StatusAgain   = "AGAIN"
	StatusMissing = "MISSING"
)

// Parts of a receipt: prefix of the text, and what precedes the content under the signature.
const (
	ReceiptPrefix = "rg1."
	ReceiptDomain = "rushgate receipt 1\x00"
)

// Range has the smallest and the largest valid value.
type Range struct{ Min, Max int64 }

// Limits of arguments. Durations are in µs, lengths in bytes.
var (
	Lease       = Range{10_000, 86_400_000_000}
	Wait        = Range{0, 86_400_000_000}
	Delay       = Range{0, 34_560_000_000_000}
	Window      = Range{1_000, 34_560_000_000_000}
	Moment      = Range{0, 9_007_199_254_740_991}
	Interval    = Range{1_000_000, 34_560_000_000_000}
	HoldTime    = Range{10_000, 2_592_000_000_000}
	Priority    = Range{0, 9}
	Attempts    = Range{1, 1_000}
	Percent     = Range{0, 100}
	Tasks       = Range{1, 1_000}
	After       = Range{0, 1_000}
	Page        = Range{1, 1_000}
	WaitedPage  = Range{1, 100}
	Schedules   = Range{1, 10_000}
	Workers     = Range{1, 10_000}
	Concurrency = Range{1, 1_000_000}
	Bound       = Range{0, 9_007_199_254_740_991}
	Rate        = Range{1, 10_000}
	Retained    = Range{1, 1_000_000}
	Events      = Range{1, 100_000}
	SKUs        = Range{1, 1_000}
	SKUUnits    = Range{1, 10_000_000}
	PerBuyer    = Range{1, 10_000}
	Lines       = Range{1, 32}
	Quantity    = Range{1, 1_000}
	Expire      = Range{1, 1_000}
)

// Largest lengths, in bytes.
const (
	NameBytes           = 200
	LabelBytes          = 200
	KindBytes           = 80
	ContentTypeBytes    = 200
	IdempotencyKeyBytes = 128
	ScheduleIDBytes     = 170
	RecurrenceBytes     = 4_096
	PayloadBytes        = 1_048_576
	ResultBytes         = 65_536
	ErrorBytes          = 2_000
)

// Invisible has the first and last of each range of characters that a name may not contain because they are invisible.
var Invisible = [][2]rune{
	{0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	{0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfdd0, 0xfdef}, {0xfe00, 0xfe0f},
	{0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}

// Longest sleeps of a waiter in ms, in case a notification was lost. SleepPerPosition is multiplied by the position.
const (
	SleepPerPosition = 1_000
	SleepForLock     = 10_000
	SleepForTask     = 5_000
	SleepForResult   = 5_000
	SleepForSale     = 5_000
)

// AnnounceEach is the time between the announcements of a worker. Tests shorten it.
var AnnounceEach = 10 * time.Second

// Default values of settings. Durations are in ms.
const (
	DefaultLease         = 30_000
	DefaultPriority      = 5
	DefaultMaxAttempts   = 20
	DefaultHold          = 300_000
	DefaultPerBuyer      = 1
	DefaultQuantity      = 1
	DefaultTimeout       = 5_000
	DefaultRetryFor      = 10_000
	DefaultConcurrency   = 16
	DefaultGrace         = 10_000
	DefaultBackoffBase   = 1_000
	DefaultBackoffFactor = 2
	DefaultBackoffMax    = 3_600_000
)

// Names and limits of the HTTP API.
const (
	HTTPLongestWaitSeconds = 60
	HTTPProblemType        = "application/problem+json"
	HTTPReplayedHeader     = "Idempotency-Replayed"
	HTTPKeyHeader          = "Idempotency-Key"
)

// How many tasks of each sort a client reads to find out why a task is not running, and how often it tries.
const (
	WhyAhead   = 1_000
	WhyListed  = 10_000
	WhyRunning = 10
	WhyTries   = 5
)
