package dev.rushgate.internal;

import java.time.Duration;

/** A number of things under way, for which a thread can wait to reach zero. */
public final class Tally {
    private long number;

    /** One more. */
    public synchronized void up() {
        number++;
    }

    /** One less. */
    public synchronized void down() {
        number--;
        notifyAll();
    }

    /** Waits for zero, without regard to interrupts. False if there are some left after a duration. */
    public synchronized boolean awaitZero(Duration longest) {
        Deadline until = Deadline.in(longest);
        boolean interrupted = false;
        while (number > 0 && !until.hasPassed()) {
            try {
                wait(Math.max(1, until.left().toMillis()));
            } catch (InterruptedException again) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return number == 0;
    }
}
