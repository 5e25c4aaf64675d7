package dev.rushgate;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Constants of the Redis protocol and of the HTTP API: pure data, described in docs/protocol.md and docs/http.md. */
public final class Contract {
    private Contract() {}

    /** Number of the protocol that this package speaks. */
    public static final int PROTOCOL = 1;
    /** Prefix of the names of the library's functions. */
    public static final String FUNCTION_PREFIX = "rushgate_1_";
    /** Beginning of every key. */
    public static final String KEY_PREFIX = "rg:";
    /** Prefix of the channel of an inbox. 16 hexadecimal digits follow. */
    public static final String INBOX_PREFIX = "rg:in:";
    /** Key that lists the names of queues. */
    public static final String QUEUES = "rg:queues";
    /** Key that lists the IDs of sales. */
    public static final String SALES = "rg:sales";

    /** First letter of the hash tag of a lock. */
    public static final String LOCK_TAG = "l";
    /** First letter of the hash tag of a queue. */
    public static final String QUEUE_TAG = "q";
    /** First letter of the hash tag of a sale. */
    public static final String SALE_TAG = "s";

    /** Endings of the keys of a lock. */
    public static final List<String> LOCK_KEYS = List.of("lock", "line", "waiters", "ends");
    /** Endings of the keys of a queue. */
    public static final List<String> QUEUE_KEYS = List.of(
            "meta", "records", "runs", "newcomers", "leases", "listeners", "at_once", "waiting0", "waiting1", "waiting2",
            "waiting3", "waiting4", "waiting5", "waiting6", "waiting7", "waiting8", "waiting9", "blocked", "held",
            "groups", "key_leases", "starts", "starts_until", "dead", "dead_ids", "done", "done_ids", "by_age",
            "by_deadline", "dependents", "dependencies", "results", "result_ids", "unsettled", "unsettled_ids", "events",
            "watchers");
    /** Endings of the keys of the replay cache. A colon and the client ID follow. */
    public static final List<String> ANSWER_KEYS = List.of("young", "old");
    /** Endings of the keys of the schedules of a queue. */
    public static final List<String> SCHEDULE_KEYS = List.of("schedules", "schedule_ids", "schedule_moments");
    /** Ending of the key of the uniqueness windows of a queue. */
    public static final List<String> UNIQUE_KEYS = List.of("unique");
    /** Endings of the keys of the workers of a queue. */
    public static final List<String> WORKER_KEYS = List.of("workers", "worker_ids", "worker_ends");
    /** Endings of the keys of the attempts at a sale. */
    public static final List<String> ATTEMPT_KEYS = List.of("attempts", "attempts_of", "attempt_servers");
    /** Ending of the key of the home of a sale. */
    public static final List<String> HOME_KEYS = List.of("home");
    /** Endings of the keys of a sale. */
    public static final List<String> SALE_KEYS = List.of(
            "row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed");

    /** Key of a queue that {@code why} reads: its leases. */
    public static final String LEASES = "leases";
    /** Key of a queue that {@code why} reads: its waiting tasks of one priority, which follows. */
    public static final String WAITING = "waiting";
    /** Length of what precedes the ID in a member of the leases, in bytes. */
    public static final int LEASE_HEAD_BYTES = 8;
    /** Length of what precedes the ID in a member of the waiting tasks, in bytes. */
    public static final int PLACE_HEAD_BYTES = 7;

    /** Length of a client ID, in bytes. */
    public static final int CLIENT_BYTES = 8;
    /** Length of an op, in bytes. */
    public static final int OP_BYTES = 8;
    /** Length of a lock token, in bytes. */
    public static final int TOKEN_BYTES = 16;
    /** Length of an inbox, in bytes. */
    public static final int INBOX_BYTES = 8;
    /** Length of the secret of a sale, in bytes. */
    public static final int SECRET_BYTES = 16;
    /** Length of a reservation ID, in bytes. */
    public static final int RESERVATION_BYTES = 16;

    /** A field of a packed record: its name, and its length in bytes. Numbers have their most significant byte first. */
    public record Field(String name, int bytes) {}

    private static Field f(String name, int bytes) {
        return new Field(name, bytes);
    }

    /** Fixed part of a task's record. */
    public static final List<Field> RECORD = List.of(
            f("arrival", 6), f("place_turn", 1), f("revision", 6), f("first", 7), f("due", 7), f("priority", 1),
            f("max_attempts", 2));
    /** Fixed part of a run. */
    public static final List<Field> RUN = List.of(
            f("claim", 7), f("turn", 1), f("attempts", 2), f("flags", 1), f("lease_until", 7), f("due", 7));
    /** Fixed part of a past run. */
    public static final List<Field> PAST = List.of(f("attempt", 2), f("began", 7), f("ended", 7), f("how", 1));
    /** Fixed part of a dead letter. */
    public static final List<Field> DEAD = List.of(f("died", 7), f("attempts", 2), f("max_attempts", 2), f("priority", 1));
    /** Fixed part of a finished task. */
    public static final List<Field> FINISHED = List.of(f("at", 7), f("how", 1));
    /** Fixed part of a schedule. */
    public static final List<Field> SCHEDULE = List.of(
            f("revision", 6), f("paused", 1), f("next", 7), f("previous", 7), f("priority", 1), f("max_attempts", 2));
    /** Fixed part of a worker. Its name with its length, and its version follow. */
    public static final List<Field> WORKER = List.of(
            f("since", 7), f("seen", 7), f("lease_until", 7), f("mode", 1), f("concurrency", 3), f("running", 3));
    /** Fixed part of a holder of a lock. An inbox and an owner follow. */
    public static final List<Field> HOLDER = List.of(f("since", 7));
    /** Fixed part of a waiter of a lock. An inbox and an owner follow. */
    public static final List<Field> WAITER = List.of(f("ticket", 7), f("lease", 7), f("since", 7), f("until", 7));
    /** Fixed part of an owner. The host with its length and the label follow. */
    public static final List<Field> OWNER = List.of(f("pid", 4));
    /** Fixed part of a hold. The buyer, the lines and the units follow. */
    public static final List<Field> HOLD = List.of(
            f("state", 1), f("deadline", 7), f("event", 6), f("generation", 4), f("lines_bytes", 2), f("buyer_bytes", 1));
    /** A range of units. */
    public static final List<Field> UNITS = List.of(f("sku", 2), f("first", 4), f("last", 4));
    /** The stock of a SKU. */
    public static final List<Field> SKU = List.of(
            f("total", 4), f("next", 4), f("ahead", 4), f("returned", 4), f("held", 4), f("confirmed", 4), f("withdrawn", 4),
            f("per_buyer", 2));

    /** Length of a deadline in a record, in bytes. */
    public static final int DEADLINE_BYTES = 7;
    /** Length of the length of a task's key, in bytes. */
    public static final int KEY_LENGTH_BYTES = 1;
    /** Length of the length of a worker's name, in bytes. */
    public static final int WORKER_LENGTH_BYTES = 1;
    /** Length of the length of a note, in bytes. */
    public static final int NOTE_LENGTH_BYTES = 1;
    /** Length of a percentage, in bytes. */
    public static final int PERCENT_BYTES = 1;
    /** Length of the length of past runs, in bytes. */
    public static final int PAST_LENGTH_BYTES = 2;
    /** Length of the lengths of the texts of a past run, in bytes. */
    public static final int PAST_TEXT_LENGTH_BYTES = 1;
    /** Length of the length of an error, in bytes. */
    public static final int ERROR_LENGTH_BYTES = 2;
    /** Length of the length of a result, in bytes. */
    public static final int RESULT_LENGTH_BYTES = 4;
    /** Length of the length of a run, in bytes. */
    public static final int RUN_LENGTH_BYTES = 4;
    /** Length of the length of a recurrence, in bytes. */
    public static final int RECURRENCE_LENGTH_BYTES = 2;
    /** Length of the length of a host's name, in bytes. */
    public static final int HOST_LENGTH_BYTES = 1;
    /** Percentage of a progress that is unknown. */
    public static final int NO_PERCENT = 255;

    /** Added to the priority of a record or dead letter with a key. */
    public static final int HAS_KEY = 16;
    /** Added to the priority of a dead letter with past runs. */
    public static final int HAS_PAST = 32;
    /** Added to the priority of a record with a deadline. */
    public static final int HAS_DEADLINE = 64;
    /** Added to the priority of a record that waits for others. */
    public static final int WAITS = 128;

    /** Flag of a run: leased. */
    public static final int RUN_LEASED = 1;
    /** Flag of a run: its cancellation was requested. */
    public static final int RUN_CANCELED = 2;
    /** Flag of a run: it failed before and has an error. */
    public static final int RUN_FAILED = 4;
    /** Flag of a run: a pending replacement waits for its end. */
    public static final int RUN_REPLACED = 8;
    /** Flag of a run: it has past runs. */
    public static final int RUN_PAST = 64;
    /** Flag of a run: it has a progress. */
    public static final int RUN_PROGRESS = 128;

    /** Content types that a body writes as one byte. Any other has its length in that byte. */
    public static final Map<Integer, String> SHORT_CONTENT_TYPES =
            Map.of(0, "application/octet-stream", 255, "application/json");

    /** Outcomes of an acquisition, from 1. */
    public static final List<String> ACQUIRED = List.of("", "granted", "waiting", "busy");
    /** Outcomes of an enqueue, from 1. */
    public static final List<String> ENQUEUED =
            List.of("", "added", "kept", "replaced", "full", "dropped", "displaced", "recent", "refused");
    /** Outcomes of removing a task that was read. */
    public static final List<String> DEQUEUED = List.of("stale", "removed", "leased");
    /** Outcomes of rescheduling a task. */
    public static final List<String> RESCHEDULED = List.of("not_found", "rescheduled", "leased", "too_late");
    /** Outcomes of closing a batch. */
    public static final List<String> CLOSED = List.of("not_found", "closed", "not_open");
    /** Outcomes of saving a schedule, from 1. */
    public static final List<String> SCHEDULED = List.of("", "added", "changed", "unchanged", "full", "stale");
    /** Outcomes of a retry. */
    public static final List<String> RETRIED = List.of("stale", "scheduled", "dead", "requeued", "cancelled");
    /** Outcomes of a reservation, from 1. */
    public static final List<String> RESERVED = List.of(
            "", "reserved", "replayed", "key_reused", "sold_out", "all_held", "limit_reached", "not_open", "ended",
            "no_such_sku", "halted");
    /** Outcomes of restoring a reservation, from 1. */
    public static final List<String> RESTORED = List.of(
            "", "restored", "known", "", "none_left", "none_left", "limit_reached", "", "", "", "halted", "expired");
    /** Outcomes of a decision. */
    public static final List<String> DECIDED = List.of("unknown", "done", "pending", "refused", "halted");
    /** Outcomes of completing a task. */
    public static final List<String> COMPLETED = List.of("stale", "done", "requeued");
    /** Outcomes of releasing a task. */
    public static final List<String> TASK_RELEASED = List.of("stale", "waiting", "cancelled");
    /** Outcomes of extending the lease of a task. */
    public static final List<String> TASK_EXTENDED = List.of("lost", "extended", "cancelled");
    /** Outcomes of canceling a task. */
    public static final List<String> CANCELED = List.of("not_found", "removed", "marked");
    /** Reasons for refusing a task with dependencies. */
    public static final List<String> UNMET = List.of("unknown", "not_open", "taken");
    /** How tasks end. */
    public static final List<String> TASK_END =
            List.of("done", "discarded", "cancelled", "dropped", "popped", "deleted", "dead");
    /** How runs without success end. */
    public static final List<String> PAST_END = List.of("failed", "lost", "snoozed");
    /** What a task does if a dependency is dead. */
    public static final List<String> IF_DEAD = List.of("wait", "fail", "run");
    /** What happens to a second task with an ID. */
    public static final List<String> ON_DUPLICATE = List.of("keep", "replace", "earliest", "debounce");
    /** Overflow policies. */
    public static final List<String> OVERFLOW = List.of("refuse", "drop_new", "drop_oldest");
    /** What happens to missed occurrences of a schedule. */
    public static final List<String> MISSED_OCCURRENCES = List.of("skip", "once", "all");
    /** What an operator may ask of a worker. */
    public static final List<String> WORKER_MODES = List.of("work", "quiet", "stop");
    /** States of a hold. */
    public static final List<String> HOLD_STATES = List.of(
            "held", "confirming", "cancelling", "expiring", "confirmed", "cancelled", "expired", "rejected");
    /** States of a sale. */
    public static final List<String> SALE_STATUSES = List.of("created", "open", "ended");
    /** Reasons for which a sale is halted. */
    public static final List<String> HALT_REASONS = List.of("lost_writes", "operator", "rebuilding");

    /** First byte of a notification: a lock was granted. */
    public static final char GRANTED = 'A';
    /** First byte of a notification: a lock was force-released. */
    public static final char REVOKED = 'R';
    /** First byte of a notification: tasks can be claimed. */
    public static final char TASKS = 'Q';
    /** First byte of a notification: a task has finished. */
    public static final char TASK_ENDED = 'T';
    /** First byte of a notification: a sale has new events. */
    public static final char SALE_EVENTS = 'S';

    /** Status of a call of which more is left to do. */
    public static final String AGAIN = "AGAIN";
    /** Status of a call whose sale is not under its keys. */
    public static final String MISSING = "MISSING";

    /** Prefix of a receipt. */
    public static final String RECEIPT_PREFIX = "rg1.";
    /** What precedes the content of a receipt under its signature. */
    public static final String RECEIPT_DOMAIN = "rushgate receipt 1\0";

    /** Range of a number, inclusive. */
    public record Range(long min, long max) {}

    /** Most bytes of a name. */
    public static final int NAME_BYTES = 200;
    /** Most bytes of a label. */
    public static final int LABEL_BYTES = 200;
    /** Most bytes of the ID of a schedule. */
    public static final int SCHEDULE_ID_BYTES = 170;
    /** Most bytes of a recurrence. */
    public static final int RECURRENCE_BYTES = 4_096;
    /** Most bytes of a kind. */
    public static final int KIND_BYTES = 80;
    /** Most bytes of a content type with its parameters. */
    public static final int CONTENT_TYPE_BYTES = 200;
    /** Most bytes of an idempotency key. */
    public static final int IDEMPOTENCY_KEY_BYTES = 128;
    /** Most bytes of a payload. */
    public static final int PAYLOAD_BYTES = 1_048_576;
    /** Most bytes of a result. */
    public static final int RESULT_BYTES = 65_536;
    /** Most bytes of an error. */
    public static final int ERROR_BYTES = 2_000;
    /** Lease, in µs. */
    public static final Range LEASE_US = new Range(10_000, 86_400_000_000L);
    /** Wait, in µs. */
    public static final Range WAIT_US = new Range(0, 86_400_000_000L);
    /** Delay, in µs. */
    public static final Range DELAY_US = new Range(0, 34_560_000_000_000L);
    /** Uniqueness window, retention and period of a rate, in µs. */
    public static final Range PERIOD_US = new Range(1_000, 34_560_000_000_000L);
    /** Interval of a schedule, in µs. */
    public static final Range INTERVAL_US = new Range(1_000_000, 34_560_000_000_000L);
    /** Hold duration, in µs. */
    public static final Range HOLD_US = new Range(10_000, 2_592_000_000_000L);
    /** Timestamp, in µs since 1970. */
    public static final Range MOMENT_US = new Range(0, 9_007_199_254_740_991L);
    /** Priority. */
    public static final Range PRIORITY = new Range(0, 9);
    /** Maximum number of attempts. */
    public static final Range ATTEMPTS = new Range(1, 1_000);
    /** Percentage. */
    public static final Range PERCENT = new Range(0, 100);
    /** Tasks per call. */
    public static final Range BATCH = new Range(1, 1_000);
    /** Dead letters per page. */
    public static final Range DEAD_PAGE = new Range(1, 1_000);
    /** Finished dependencies per page. */
    public static final Range WAITED_PAGE = new Range(1, 100);
    /** Schedules per page. */
    public static final Range SCHEDULES_PAGE = new Range(1, 10_000);
    /** Schedules per page. */
    public static final Range WORKERS_PAGE = new Range(1, 10_000);
    /** Most dependencies of a task. */
    public static final int DEPENDENCIES = 1_000;
    /** Capacity of a queue. */
    public static final Range CAPACITY = new Range(0, 9_007_199_254_740_991L);
    /** Concurrency limit. */
    public static final Range CONCURRENCY = new Range(1, 1_000_000);
    /** Tasks per period of a rate limit. */
    public static final Range RATE = new Range(1, 10_000);
    /** Finished tasks that are kept. */
    public static final Range RETAINED = new Range(1, 1_000_000);
    /** Events of a queue that are kept. */
    public static final Range EVENTS = new Range(1, 100_000);
    /** SKUs of a sale. */
    public static final Range SKUS = new Range(1, 1_000);
    /** Units of a SKU. */
    public static final Range UNITS_OF_SKU = new Range(1, 10_000_000);
    /** Purchase limit. */
    public static final Range PER_BUYER = new Range(1, 10_000);
    /** Lines of a cart. */
    public static final Range LINES = new Range(1, 32);
    /** Quantity of a line. */
    public static final Range QUANTITY = new Range(1, 1_000);
    /** Most holds that one call expires. */
    public static final int EXPIRE = 1_000;

    /** First and last of each range of characters that a name may not contain because they are invisible. */
    public static final int[][] INVISIBLE = {
        {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
        {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfdd0, 0xfdef}, {0xfe00, 0xfe0f},
        {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };

    /** Longest sleep of the first waiter of a lock. Those behind it sleep as many times longer as their position. */
    public static final Duration LOCK_SLEEP = Duration.ofSeconds(1);
    /** Longest sleep of any waiter of a lock. */
    public static final Duration LOCK_SLEEP_MAX = Duration.ofSeconds(10);
    /** Longest sleep of a process that waits for tasks. */
    public static final Duration CLAIM_SLEEP = Duration.ofSeconds(5);
    /** Longest first sleep of a process that waits for a result. It doubles. */
    public static final Duration RESULT_SLEEP = Duration.ofSeconds(5);
    /** Longest sleep of a process that waits for a result. */
    public static final Duration RESULT_SLEEP_MAX = Duration.ofSeconds(40);
    /** Longest sleep of a process that follows a sale. */
    public static final Duration SALE_SLEEP = Duration.ofSeconds(5);

    /** Default lease. */
    public static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);
    /** Default hold duration. */
    public static final Duration DEFAULT_HOLD = Duration.ofMinutes(5);
    /** Default priority. */
    public static final int DEFAULT_PRIORITY = 5;
    /** Default maximum number of attempts. */
    public static final int DEFAULT_ATTEMPTS = 20;
    /** Default purchase limit. */
    public static final int DEFAULT_PER_BUYER = 1;

    /** Longest wait that a request of the HTTP API asks for. */
    public static final Duration LONGEST_WAIT = Duration.ofMinutes(1);
    /** Media type of an error of the HTTP API. */
    public static final String PROBLEM_TYPE = "application/problem+json";
    /** Header of an answer that is an idempotent replay. */
    public static final String REPLAYED_HEADER = "Idempotency-Replayed";

    /** Due tasks that {@code why} searches. */
    public static final int WHY_AHEAD = 1_000;
    /** Leased or waiting tasks that {@code why} searches. */
    public static final int WHY_LISTED = 10_000;
    /** Running tasks that {@code why} lists. */
    public static final int WHY_RUNNING = 10;
    /** Attempts of {@code why} to get a consistent answer. */
    public static final int WHY_TRIES = 5;
}
