<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\InvalidArgument;
use Rushgate\Internal\Checks;

/** A task to enqueue. All times are in seconds, except moments, which are µs since 1970 on the store's clock. */
final class NewTask
{
    public readonly string $id;
    public readonly Payload $payload;

    /**
     * @param string $id ID of the task: 1 to 200 bytes. A queue has at most one live task per ID
     * @param mixed $payload a {@see Payload}, or any value that can be encoded as JSON; null for none
     * @param ?string $kind kind of work, by which a worker selects the handler: 1 to 80 of A-Z, a-z, 0-9 and . _ : / -
     * @param int|float|null $delay delay before the task is due: at most 400 days. Default: due at once
     * @param ?int $dueUs moment at which the task is due, instead of $delay
     * @param int $priority 0 (first) to 9 (last). Default: 5
     * @param ?string $key name that tasks share, such as a tenant. Tasks of a key run in order; keys take turns
     * @param int $maxAttempts 1 to 1,000, before the task becomes a dead letter. Default: 20
     * @param string $onDuplicate what happens if the ID has a live task: `keep` (default), `replace`, `earliest` or
     *     `debounce`
     * @param int|float|null $maxWait with `debounce`: the longest time that a burst may postpone the run
     * @param int|float|null $deadline time from now after which the task does not start any more and becomes a dead
     *     letter: later than it is due, at most 400 days
     * @param ?int $deadlineUs the same as a moment, instead of $deadline
     * @param int|float|null $uniqueFor period in which the ID is not enqueued again, even after its task is done:
     *     1 ms to 400 days
     * @param list<string> $after IDs of tasks of this queue that must finish first: at most 1,000
     * @param string $ifDead what happens if one of them becomes a dead letter: `wait` (default), `fail` or `run`
     * @param bool $heldOpen opens a batch, whose callback is this task. It runs after {@see Queue::closeBatch}
     * @param ?string $partOf ID of the open batch that the task joins
     * @param ?string $traceparent W3C trace context of the current span
     * @throws InvalidArgument if a value is out of range
     */
    public function __construct(
        string $id,
        mixed $payload = null,
        public readonly ?string $kind = null,
        public readonly int|float|null $delay = null,
        public readonly ?int $dueUs = null,
        public readonly int $priority = Contract::DEFAULT_PRIORITY,
        public readonly ?string $key = null,
        public readonly int $maxAttempts = Contract::DEFAULT_ATTEMPTS,
        public readonly string $onDuplicate = 'keep',
        public readonly int|float|null $maxWait = null,
        public readonly int|float|null $deadline = null,
        public readonly ?int $deadlineUs = null,
        public readonly int|float|null $uniqueFor = null,
        public readonly array $after = [],
        public readonly string $ifDead = 'wait',
        public readonly bool $heldOpen = false,
        public readonly ?string $partOf = null,
        ?string $traceparent = null,
    ) {
        $this->id = Checks::name('the task ID', $id);
        $this->payload = Payload::of($payload)->with($kind, $traceparent);
        Checks::range('the priority', $priority, ...Contract::PRIORITY);
        Checks::range('the number of attempts', $maxAttempts, ...Contract::ATTEMPTS);
        $this->checkTimes();
        $this->checkDependencies();
        if ($key !== null) {
            Checks::name('the key', $key);
        }
    }

    private function checkTimes(): void
    {
        foreach (['the delay' => $this->delay, 'the maximum wait' => $this->maxWait] as $what => $seconds) {
            $seconds === null || Checks::delay($what, $seconds);
        }
        foreach (['the deadline' => $this->deadline, 'the uniqueness window' => $this->uniqueFor] as $what => $seconds) {
            $seconds === null || Checks::period($what, $seconds);
        }
        if ($this->delay !== null && $this->dueUs !== null) {
            throw Checks::invalid('the task', 'has a delay and a due time; set one of them');
        }
        if ($this->deadline !== null && $this->deadlineUs !== null) {
            throw Checks::invalid('the task', 'has two deadlines; set one of them');
        }
        Checks::word('the duplicate policy', $this->onDuplicate, Contract::ON_DUPLICATE);
        if (($this->onDuplicate === 'debounce') !== ($this->maxWait !== null)) {
            throw Checks::invalid('the maximum wait', 'is required by `debounce`, and applies to it only');
        }
    }

    private function checkDependencies(): void
    {
        Checks::range('the number of dependencies', count($this->after), ...Contract::AFTER);
        Checks::word('the policy for dead dependencies', $this->ifDead, Contract::IF_DEAD);
        foreach ([...$this->after, ...array_filter([$this->partOf])] as $other) {
            if (Checks::name('a dependency', $other) === $this->id) {
                throw Checks::invalid('the task', 'cannot depend on itself');
            }
        }
        if ($this->partOf !== null && $this->after !== []) {
            throw Checks::invalid('a member of a batch', 'cannot wait for other tasks');
        }
        if (($this->heldOpen || $this->after !== []) && $this->onDuplicate !== 'keep') {
            throw Checks::invalid('a task with dependencies', 'or an open batch must have the duplicate policy `keep`');
        }
    }
}
