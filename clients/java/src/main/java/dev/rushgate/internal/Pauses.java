package dev.rushgate.internal;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Delays between tries: exponential from 25 ms to 500 ms, with jitter. */
public final class Pauses {
    private static final long FIRST_MS = 25;
    private static final long LONGEST_MS = 500;

    private long next = FIRST_MS;

    /** The next delay. */
    public Duration draw() {
        long longest = next;
        next = Math.min(longest * 2, LONGEST_MS);
        return Duration.ofMillis(ThreadLocalRandom.current().nextLong(longest / 2, longest + 1));
    }

    /** Sleeps without regard to interrupts, whose flag is set again at the end. */
    public static void sleep(Duration duration) {
        Deadline until = Deadline.in(duration);
        boolean interrupted = false;
        while (!until.hasPassed()) {
            try {
                Thread.sleep(Math.max(1, until.left().toMillis()));
            } catch (InterruptedException again) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
