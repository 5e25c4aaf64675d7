<?php

declare(strict_types=1);

namespace Rushgate\Internal;

use Rushgate\WorkerReport;

/**
 * Child processes of a worker. A child that fails is replaced. SIGTERM and SIGINT are passed on.
 *
 * @internal
 */
final class Forks
{
    private const RESTART_AFTER = 1;

    /** @var array<int, resource> pipes with the reports, by process ID */
    private array $children = [];
    private bool $isStopping = false;

    /** @param \Closure(): WorkerReport $work what each child runs */
    public function __construct(private readonly int $count, private readonly \Closure $work)
    {
    }

    public function run(): WorkerReport
    {
        pcntl_async_signals(true);
        $report = new WorkerReport();
        foreach ([SIGTERM, SIGINT] as $signal) {
            // Without a restart of system calls, so that the wait below returns.
            pcntl_signal($signal, $this->stop(...), false);
        }
        while (count($this->children) < $this->count) {
            $this->start();
        }
        while ($this->children !== []) {
            $this->await($report);
        }
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        return $report;
    }

    private function stop(): void
    {
        $this->isStopping = true;
        foreach (array_keys($this->children) as $child) {
            posix_kill($child, SIGTERM);
        }
    }

    private function start(): void
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        // A signal between the fork and its registration waits until the child is known.
        pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGINT], $before);
        $child = pcntl_fork();
        if ($child === 0) {
            $this->children = [];
            pcntl_signal(SIGTERM, SIG_DFL);
            pcntl_signal(SIGINT, SIG_DFL);
            pcntl_sigprocmask(SIG_SETMASK, $before);
            exit($this->inChild($theirs));
        }
        $this->children[$child] = $ours;
        pcntl_sigprocmask(SIG_SETMASK, $before);
    }

    /**
     * @param resource $pipe
     * @return int exit status
     */
    private function inChild($pipe): int
    {
        try {
            fwrite($pipe, json_encode(($this->work)(), JSON_THROW_ON_ERROR));
            return 0;
        } catch (\Throwable $failure) {
            fwrite(STDERR, 'rushgate worker: ' . Text::ofError($failure, 2_000) . "\n");
            return 1;
        }
    }

    private function await(WorkerReport $report): void
    {
        $child = pcntl_wait($status);
        if (!isset($this->children[$child])) {
            return;
        }
        $pipe = $this->children[$child];
        unset($this->children[$child]);
        // The child has exited, but its children may hold the other end.
        stream_set_blocking($pipe, false);
        $report->add(json_decode((string) stream_get_contents($pipe), true) ?? []);
        if ($status !== 0 && !$this->isStopping) {
            sleep(self::RESTART_AFTER);
            $this->isStopping || $this->start();
        }
    }
}
