<?php

declare(strict_types=1);

require_once __DIR__ . '/Rushgate.php';

/**
 * The article's queue on Rushgate's functions: the same methods and defaults, plus `claim`, `complete` and `retry`.
 *
 * A queue holds at most one live task per ID. `top`, `pop` and `claim` return `['id' => …, 'score' => …, 'attempt' => …,
 * 'contentType' => …, 'kind' => …, 'payload' => …]`. The score is opaque: it identifies the revision and the claim.
 */
final class RedisQueue
{
    /** What happens if the ID is live: keep the task, replace it, or take the earlier due time. */
    public const KEEP = 0, REPLACE = 1, EARLIEST = 2;
    private const ENQUEUED = [1 => 'added', 'kept', 'replaced', 'full', 'dropped', 'displaced', 'recent', 'refused'];
    private const DEQUEUED = ['stale', 'removed', 'leased'];
    private const COMPLETED = ['stale', 'done', 'requeued'];
    private const RETRIED = ['stale', 'scheduled', 'dead', 'requeued', 'cancelled'];

    /** Polling interval of `claim` in seconds, in case a notification was lost. */
    private const SLEEP_MAX = 5;
    private const RECORD = [
        'arrival' => 6, 'turn' => 1, 'revision' => 6, 'first' => 7, 'due' => 7, 'priority' => 1, 'max' => 2,
    ];
    /** Content types that are encoded in one byte. */
    private const SHORT_TYPES = [0 => 'application/octet-stream', 255 => 'application/json'];
    private const KIND = '[A-Za-z0-9._:/-]{1,80}';
    private const RUN = ['claim' => 7, 'turn' => 1, 'attempts' => 2, 'flags' => 1, 'until' => 7, 'due' => 7];

    private readonly Rushgate $rushgate;
    /** @var array<string, true> queues that were added to the directory */
    private array $entered = [];

    public function __construct(Redis|RedisCluster $redis, mixed $auth = null)
    {
        $this->rushgate = new Rushgate($redis, $auth);
    }

    /**
     * Enqueues tasks.
     *
     * @param string|int|array $id one ID or several
     * @param int|float $timeout how long to retry while the server does not answer, in seconds
     * @param int|float $afterInterval delay in seconds
     * @param int $onDuplicate KEEP the live task, as the article's code does, or REPLACE it, as its text says
     * @param string|array $payload a string is stored as bytes, an array as JSON
     * @param int|float $uniqueFor uniqueness window in seconds: the ID is not enqueued again within it, even once its task
     *     is done; 0 for none
     * @param ?string $kind kind of the task, which selects the worker's handler
     * @return bool false if the queue is full, or no ID was given
     */
    public function enqueue(
        $name,
        $id,
        $timeout = 10,
        $afterInterval = 0,
        int $onDuplicate = self::KEEP,
        string|array $payload = '',
        int $priority = 5,
        $uniqueFor = 0,
        ?string $kind = null,
    ): bool {
        if (empty($name) || empty($id) || $timeout <= 0) {
            return false;
        }
        $this->enter($name);
        $body = self::body($payload, $kind);
        $terms = '+' . Rushgate::us(max($afterInterval, 0)) . " $priority $onDuplicate 0 20"
            . ($uniqueFor > 0 ? '!' . Rushgate::us($uniqueFor) : '');
        $arguments = [];
        foreach ((array) $id as $item) {
            array_push($arguments, '', Rushgate::nfc($item), $terms, $body);
        }
        // The first task is preceded by the request's op, the others by an empty string.
        $arguments[0] = $this->rushgate->op();
        $answers = $this->call('enqueue', $name, $arguments, $timeout, Rushgate::uniqueKeys((string) $name))[0];
        // Each answer is an outcome and one value (revision, capacity, time or reason); some have a task ID as well.
        $outcomes = [];
        for ($at = 0; $at < count($answers); $at += in_array($outcome, ['displaced', 'refused'], true) ? 3 : 2) {
            $outcomes[] = $outcome = Rushgate::meaning(self::ENQUEUED, $answers[$at]);
        }
        return array_intersect($outcomes, ['full', 'refused']) === [];
    }

    /** Removes a task. False if it was enqueued again since it was read, or a worker holds it. */
    public function dequeue($name, $id, $score, $timeout = 10): bool
    {
        [$revision, $claim] = self::read($score);
        [$outcome] = $this->call('dequeue', $name, [$this->rushgate->op(), Rushgate::nfc($id), $revision, $claim], $timeout);
        return Rushgate::meaning(self::DEQUEUED, $outcome) === 'removed';
    }

    /** Reads the first due tasks: one task or false if $count is 1, a list otherwise. */
    public function top($name, $count = 1): array|false
    {
        return self::given($this->rushgate->call('queue_top', Rushgate::queueKeys((string) $name), [$count]), $count);
    }

    /**
     * Removes and returns the first due tasks: one task or false if $count is 1, a list otherwise. They are lost if this
     * process dies: prefer `claim`.
     */
    public function pop($name, $count = 1, $timeout = 10): array|false
    {
        return self::given($this->call('pop', $name, [$this->rushgate->op(), $count], $timeout), $count);
    }

    /**
     * Claims due tasks under a lease. Call `complete` or `retry` for each before the lease expires; otherwise another worker
     * gets it.
     *
     * @param float $wait maximum wait for the first task, in seconds
     */
    public function claim($name, int $count = 1, float $lease = 30, float $wait = 0): array
    {
        $until = Rushgate::now() + $wait;
        while (true) {
            $arguments = [$this->rushgate->op(), $count, Rushgate::us($lease), 'php:' . getmypid()];
            [$answer] = $this->call('claim', $name, $arguments);
            [$nextDue, $wakes] = array_splice($answer, 0, 2);
            $left = $until - Rushgate::now();
            if ($answer !== [] || $left <= 0) {
                return self::tasks($answer);
            }
            $this->sleep($name, $wakes, min($left, $nextDue === '' ? self::SLEEP_MAX : $nextDue / 1e6, self::SLEEP_MAX));
        }
    }

    /** Completes a claimed task. False if its lease was lost: another worker has it or has completed it. */
    public function complete($name, array $task): bool
    {
        [, $claim] = self::read($task['score']);
        [[$outcome]] = $this->call('complete', $name, [$this->rushgate->op(), $task['id'], $claim]);
        return Rushgate::meaning(self::COMPLETED, $outcome) !== 'stale';
    }

    /** Fails the attempt: the task is due again after $delay seconds, or becomes a dead letter. */
    public function retry($name, array $task, string $error, float $delay = 0, bool $giveUp = false): bool
    {
        [, $claim] = self::read($task['score']);
        $arguments = [$this->rushgate->op(), $task['id'], $claim, Rushgate::us($delay), (int) $giveUp, $error];
        [$outcome] = $this->call('retry', $name, $arguments);
        return Rushgate::meaning(self::RETRIED, $outcome) !== 'stale';
    }

    /** Revision and claim of a score. */
    private static function read(mixed $score): array
    {
        if (!is_string($score) || !preg_match('/^(\d{1,19})\.(\d{1,19})$/D', $score, $parts)) {
            $what = is_scalar($score) ? "`$score`" : 'a ' . get_debug_type($score);
            throw new InvalidArgumentException("the score is $what; it must be one that top, pop or claim gave");
        }
        return array_slice($parts, 1);
    }

    /** An idempotent call: repeating it has no further effect and returns the same answer. */
    private function call(string $verb, $name, array $arguments, float $patience = 10, array $more = []): array
    {
        $keys = [...Rushgate::queueKeys((string) $name), ...$this->rushgate->answerKeys((string) $name), ...$more];
        return $this->rushgate->call("queue_$verb", $keys, $arguments, $patience);
    }

    /** Sleeps until a task is enqueued, for at most $seconds. Returns at once if one was enqueued since the claim. */
    private function sleep($name, int $wakes, float $seconds): void
    {
        $inbox = $this->rushgate->inbox();
        [$missed] = $this->rushgate->call('queue_listen', Rushgate::queueKeys((string) $name), [bin2hex($inbox->id), $wakes]);
        if ($missed === 0) {
            $inbox->wait(max($seconds, 0.001));
        }
    }

    /** Adds the queue to the directory that `rushgate queue ls` reads. */
    private function enter($name): void
    {
        if (!isset($this->entered[$name])) {
            $this->rushgate->send('rg:queues', ['ZADD', 'rg:queues', 0, Rushgate::nfc($name)]);
            $this->entered[$name] = true;
        }
    }

    private static function given(array $answer, int $count): array|false
    {
        $tasks = self::tasks($answer);
        return $count === 1 ? ($tasks[0] ?? false) : $tasks;
    }

    /** Decodes the ID, record and run of each task. */
    private static function tasks(array $answer): array
    {
        return array_map(function (array $row): array {
            [$id, $record, $run] = $row;
            $record = Rushgate::unpack($record, self::RECORD);
            $run = Rushgate::unpack($run, self::RUN);
            // Flag 1: the task is leased.
            $claim = $run['flags'] & 1 ? $run['claim'] + $run['turn'] : 0;
            $revision = $record['revision'] + $record['turn'];
            // A deadline is flagged by 64 in the priority and stored before the rest. A key is flagged by 16 and stored
            // before the body.
            $body = substr($record['rest'], $record['priority'] >= 64 ? 7 : 0);
            $body = $record['priority'] % 64 >= 16 ? substr($body, 1 + ord($body[0])) : $body;
            return [
                'id' => $id,
                'score' => "$revision.$claim",
                'attempt' => $run['attempts'],
            ] + self::content($body);
        }, array_chunk($answer, 3));
    }

    /** Encodes the content type, with the kind as a parameter, followed by the payload. */
    private static function body(string|array $payload, ?string $kind): string
    {
        $content = is_array($payload) ? json_encode($payload, JSON_THROW_ON_ERROR) : $payload;
        if ($kind === null) {
            return (is_array($payload) ? "\xff" : "\0") . $content;
        }
        if (!preg_match('~^' . self::KIND . '$~D', $kind)) {
            throw new InvalidArgumentException("the kind `$kind` is not 1 to 80 of A-Z, a-z, 0-9 and . _ : / -");
        }
        $type = 'application/' . (is_array($payload) ? 'json' : 'octet-stream') . ";kind=\"$kind\"";
        return chr(strlen($type)) . $type . $content;
    }

    /** Decodes a body into the content type without the kind, the kind, and the payload. Invalid JSON stays a string. */
    private static function content(string $body): array
    {
        $length = ord($body[0]);
        $start = isset(self::SHORT_TYPES[$length]) ? 1 : 1 + $length;
        $type = self::SHORT_TYPES[$length] ?? substr($body, 1, $length);
        $content = substr($body, $start);
        preg_match_all('/(?:[^;"]|"[^"]*")+/', $type, $parts);
        $kinds = preg_grep('~^kind="?' . self::KIND . '"?$~iD', $parts[0]);
        $isJson = preg_match('~^application/json$|\+json$~iD', $parts[0][0]);
        $payload = $isJson ? json_decode($content, true) : $content;
        return [
            'contentType' => implode(';', array_diff_key($parts[0], $kinds)),
            'kind' => $kinds === [] ? null : trim(substr(reset($kinds), strlen('kind=')), '"'),
            'payload' => $isJson && json_last_error() !== JSON_ERROR_NONE ? $content : $payload,
        ];
    }
}
