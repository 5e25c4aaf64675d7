<?php

declare(strict_types=1);

namespace Rushgate;

/**
 * Constants of the Redis protocol: keys, functions, packed records, outcomes and limits. Pure data.
 *
 * docs/protocol.md explains them. Durations are in µs, sizes in bytes.
 */
final class Contract
{
    public const PROTOCOL = 1;
    public const FUNCTION_PREFIX = 'rushgate_1_';

    /** Key groups: the beginning of the keys, and their ends in order. The second `%s` is the client ID. */
    public const KEY_GROUPS = [
        'lock' => ['rg:{l:%s}:', ['lock', 'line', 'waiters', 'ends']],
        'queue' => ['rg:{q:%s}:', [
            'meta', 'records', 'runs', 'newcomers', 'leases', 'listeners', 'at_once', 'waiting0', 'waiting1', 'waiting2',
            'waiting3', 'waiting4', 'waiting5', 'waiting6', 'waiting7', 'waiting8', 'waiting9', 'blocked', 'held',
            'groups', 'key_leases', 'starts', 'starts_until', 'dead', 'dead_ids', 'done', 'done_ids', 'by_age',
            'by_deadline', 'dependents', 'dependencies', 'results', 'result_ids', 'unsettled', 'unsettled_ids',
            'events', 'watchers',
        ]],
        'replay_cache' => ['rg:{q:%s}:', ['young:%s', 'old:%s']],
        'schedules' => ['rg:{q:%s}:', ['schedules', 'schedule_ids', 'schedule_moments']],
        'unique' => ['rg:{q:%s}:', ['unique']],
        'workers' => ['rg:{q:%s}:', ['workers', 'worker_ids', 'worker_ends']],
        'attempts' => ['rg:{s:%s}:', ['attempts', 'attempts_of', 'attempt_servers']],
        'home' => ['rg:{s:%s}:', ['home']],
        'sale' => ['rg:{s:%s}:', [
            'row', 'returned', 'withdrawn', 'buyers', 'holds', 'deadlines', 'events', 'failed',
        ]],
    ];

    /** Sorted set that clients read without a function. */
    public const LEASES_KEY = 'rg:{q:%s}:leases';

    /** Sorted sets with the names of all queues and sales. */
    public const QUEUE_DIRECTORY = 'rg:queues';
    public const SALE_DIRECTORY = 'rg:sales';

    /** Functions that this client calls, each with its key groups. */
    public const FUNCTIONS = [
        'version' => [],
        'lock_acquire' => ['lock'],
        'lock_confirm' => ['lock'],
        'lock_extend' => ['lock'],
        'lock_force_release' => ['lock'],
        'lock_held' => ['lock'],
        'lock_leave' => ['lock'],
        'lock_release' => ['lock'],
        'lock_show' => ['lock'],
        'queue_announce' => ['workers'],
        'queue_cancel' => ['queue', 'replay_cache'],
        'queue_claim' => ['queue', 'replay_cache'],
        'queue_clear_unique' => ['unique', 'replay_cache'],
        'queue_close_batch' => ['queue', 'replay_cache'],
        'queue_complete' => ['queue', 'replay_cache'],
        'queue_dead' => ['queue'],
        'queue_dead_letter' => ['queue'],
        'queue_delete_dead' => ['queue', 'replay_cache'],
        'queue_dependents' => ['queue'],
        'queue_dequeue' => ['queue', 'replay_cache'],
        'queue_due_schedules' => ['schedules'],
        'queue_enqueue' => ['queue', 'replay_cache', 'unique'],
        'queue_extend' => ['queue'],
        'queue_finish' => ['queue', 'replay_cache'],
        'queue_fire' => ['queue', 'schedules'],
        'queue_limit' => ['queue'],
        'queue_listen' => ['queue'],
        'queue_pause' => ['queue'],
        'queue_pop' => ['queue', 'replay_cache'],
        'queue_release' => ['queue', 'replay_cache'],
        'queue_replay' => ['queue', 'replay_cache', 'unique'],
        'queue_requeue_dead' => ['queue', 'replay_cache'],
        'queue_reschedule' => ['queue', 'replay_cache'],
        'queue_retry' => ['queue', 'replay_cache'],
        'queue_ring' => ['queue'],
        'queue_schedule' => ['queue', 'schedules'],
        'queue_schedules' => ['schedules'],
        'queue_set_worker' => ['workers'],
        'queue_stats' => ['queue'],
        'queue_tasks' => ['queue'],
        'queue_top' => ['queue'],
        'queue_unique_until' => ['unique'],
        'queue_unschedule' => ['schedules'],
        'queue_waited' => ['queue'],
        'queue_waits' => ['queue'],
        'queue_watch' => ['queue'],
        'queue_workers' => ['workers'],
        'sale_cancel_hold' => ['sale'],
        'sale_confirm' => ['sale'],
        'sale_create' => ['home', 'sale'],
        'sale_end' => ['sale'],
        'sale_listen' => ['sale'],
        'sale_open' => ['sale'],
        'sale_reservation' => ['sale'],
        'sale_reserve_by_key' => ['sale'],
        'sale_restore' => ['sale'],
        'sale_show' => ['sale'],
    ];

    /** Status answers of functions. */
    public const AGAIN = 'AGAIN';
    public const MISSING = 'MISSING';

    /** Outcomes by number. */
    public const ACQUIRED = [1 => 'granted', 2 => 'waiting', 3 => 'busy'];
    public const RELEASED = [0 => 'not_held', 1 => 'released'];
    public const ENQUEUED = [
        1 => 'added', 2 => 'kept', 3 => 'replaced', 4 => 'full', 5 => 'dropped', 6 => 'displaced', 7 => 'recent',
        8 => 'refused',
    ];
    public const UNMET = ['unknown', 'not_open', 'taken'];
    public const COMPLETED = ['stale', 'done', 'requeued'];
    public const RETRIED = ['stale', 'scheduled', 'dead', 'requeued', 'cancelled'];
    public const TASK_RELEASED = ['stale', 'waiting', 'cancelled'];
    public const TASK_EXTENDED = ['lost', 'extended', 'cancelled'];
    public const CANCELLED = ['not_found', 'removed', 'marked'];
    public const RESCHEDULED = ['not_found', 'rescheduled', 'leased', 'too_late'];
    public const DEQUEUED = ['stale', 'removed', 'leased'];
    public const CLOSED = ['not_found', 'closed', 'not_open'];
    public const SCHEDULED = [1 => 'added', 2 => 'changed', 3 => 'unchanged', 4 => 'full', 5 => 'stale'];
    public const FINISHED = ['done', 'discarded', 'cancelled', 'dropped', 'popped', 'deleted', 'dead'];
    public const PAST_ENDS = ['failed', 'lost', 'snoozed'];
    public const ON_DUPLICATE = ['keep' => 0, 'replace' => 1, 'earliest' => 2, 'debounce' => 3];
    public const IF_DEAD = ['wait' => 0, 'fail' => 1, 'run' => 2];
    public const OVERFLOW = ['refuse' => 0, 'drop_new' => 1, 'drop_oldest' => 2];
    public const WORKER_MODES = ['work' => 0, 'quiet' => 1, 'stop' => 2];
    public const RESERVED = [
        1 => 'reserved', 2 => 'replayed', 3 => 'idempotency_key_reused', 4 => 'sold_out', 5 => 'all_held',
        6 => 'limit_reached', 7 => 'sale_not_open', 8 => 'sale_ended', 9 => 'not_found', 10 => 'sale_halted',
    ];
    public const RESTORED = [
        1 => 'restored', 2 => 'known', 4 => 'sold_out', 5 => 'sold_out', 6 => 'limit_reached', 10 => 'sale_halted',
        11 => 'hold_expired',
    ];
    public const DECIDED = ['not_found', 'done', 'pending', 'decided', 'sale_halted'];
    public const SALE_STATUS = ['created', 'open', 'ended'];
    public const HALT_REASONS = ['lost_writes', 'operator', 'rebuilding'];
    public const HOLD_STATES = [
        'held', 'confirming', 'cancelling', 'expiring', 'confirmed', 'cancelled', 'expired', 'rejected',
    ];
    /** States of a hold that never change again. */
    public const FINAL_STATES = ['confirmed', 'cancelled', 'expired', 'rejected'];

    /** Packed records: fields of fixed size in bytes, in order. */
    public const RECORD = [
        'arrival' => 6, 'turn' => 1, 'revision' => 6, 'first' => 7, 'due' => 7, 'priority' => 1, 'max_attempts' => 2,
    ];
    public const RUN = ['claim' => 7, 'turn' => 1, 'attempts' => 2, 'flags' => 1, 'lease_until' => 7, 'due' => 7];
    public const PAST_RUN = ['attempt' => 2, 'began' => 7, 'ended' => 7, 'how' => 1];
    public const DEAD_LETTER = ['died' => 7, 'attempts' => 2, 'max_attempts' => 2, 'priority' => 1, 'error' => 2];
    public const FINISHED_TASK = ['finished' => 7, 'how' => 1, 'result' => 4];
    public const WAITED = ['finished' => 7, 'how' => 1];
    public const SCHEDULE = [
        'revision' => 6, 'paused' => 1, 'next' => 7, 'previous' => 7, 'priority' => 1, 'max_attempts' => 2,
        'recurrence' => 2,
    ];
    public const WORKER = [
        'since' => 7, 'seen' => 7, 'lease_until' => 7, 'mode' => 1, 'concurrency' => 3, 'running' => 3,
    ];
    /** An inbox and an owner follow: the process ID, the host, and the label. */
    public const HOLDER = ['since' => 7];
    public const WAITER = ['ticket' => 7, 'lease' => 7, 'since' => 7, 'until' => 7];
    public const PID_BYTES = 4;
    public const LEASE_MEMBER = ['claim' => 7, 'turn' => 1];
    public const HOLD = ['state' => 1, 'deadline' => 7, 'event' => 6, 'generation' => 4, 'lines' => 2, 'buyer' => 1];
    public const UNIT_RANGE = ['sku' => 2, 'first' => 4, 'last' => 4];
    public const SKU = [
        'total' => 4, 'next' => 4, 'ahead' => 4, 'returned' => 4, 'held' => 4, 'confirmed' => 4, 'withdrawn' => 4,
        'per_buyer' => 2,
    ];

    /** Parts of a record's priority. */
    public const PRIORITY_COUNT = 16;
    public const HAS_KEY = 16;
    public const DEAD_HAS_PAST = 32;
    public const HAS_DEADLINE = 64;
    public const WAITS = 128;

    /** Flags of a run. */
    public const RUN_LEASED = 1;
    public const RUN_CANCELLED = 2;
    public const RUN_FAILED = 4;
    public const RUN_REPLACED = 8;
    public const RUN_HAS_PAST = 64;
    public const RUN_HAS_NOTE = 128;
    public const PERCENT_MAX = 100;

    /** Content types that a body encodes in one byte. Any other is preceded by its length. */
    public const SHORT_TYPES = [0 => 'application/octet-stream', 255 => 'application/json'];

    /** Notifications. */
    public const CHANNEL_PREFIX = 'rg:in:';
    public const LOCK_REVOKED = 'R';
    public const TASKS_READY = 'Q';
    public const TOKEN_BYTES = 16;
    public const ID_BYTES = 8;

    /** Longest sleeps without a notification. */
    public const LOCK_SLEEP_MAX = 10_000_000;
    public const LOCK_SLEEP_PER_POSITION = 1_000_000;
    public const QUEUE_SLEEP_MAX = 5_000_000;
    public const SALE_SLEEP_MAX = 1_000_000;

    /** Receipts. */
    public const RECEIPT_PREFIX = 'rg1.';
    public const RECEIPT_DOMAIN = "rushgate receipt 1\0";

    /** Limits. */
    public const NAME_MAX = 200;
    public const SCHEDULE_ID_MAX = 170;
    public const LABEL_MAX = 200;
    public const KIND_MAX = 80;
    public const CONTENT_TYPE_MAX = 200;
    public const PAYLOAD_MAX = 1 << 20;
    public const RESULT_MAX = 64 << 10;
    public const ERROR_MAX = 2_000;
    public const LEASE_MIN = 10_000;
    public const LEASE_MAX = 86_400_000_000;
    public const WAIT_MAX = 86_400_000_000;
    public const DELAY_MAX = 34_560_000_000_000;
    public const MOMENT_MAX = 9_007_199_254_740_991;
    public const PERIOD_MIN = 1_000;
    public const BATCH_MAX = 1_000;
    public const DEPENDENCIES_MAX = 1_000;
    public const DEPENDENCIES_PER_CALL_MAX = 10_000;
    public const CONCURRENCY_MAX = 1_000_000;
    public const RATE_MAX = 10_000;
    public const RETAINED_MAX = 1_000_000;
    public const EVENTS_MAX = 100_000;
    public const BOUND_MAX = 9_007_199_254_740_991;
    public const ATTEMPTS_MAX = 1_000;
    public const ATTEMPTS_DEFAULT = 20;
    public const PRIORITY_MAX = 9;
    public const PRIORITY_DEFAULT = 5;
    public const PAGE_MAX = 10_000;
    public const WAITED_PAGE_MAX = 100;
    public const LINES_MAX = 32;
    public const QUANTITY_MAX = 1_000;
    public const SKUS_MAX = 1_000;
    public const UNITS_MAX = 10_000_000;
    public const PER_BUYER_MAX = 10_000;
    public const HOLD_MIN = 10_000;
    public const HOLD_MAX = 2_592_000_000_000;
    public const EVERY_MIN = 1_000_000;
    public const IDEMPOTENCY_KEY_MAX = 128;
}
