package dev.rushgate.internal;

import dev.rushgate.RushgateException.Details;
import dev.rushgate.WaitInterruptedException;
import java.time.Duration;

/** A signal that can be rung before or during a wait, so that a ring between two waits is not missed. */
public final class Bell {
    private boolean rung;

    /** Ends the current wait, or the next one at once. */
    public synchronized void ring() {
        rung = true;
        notifyAll();
    }

    /** Waits for a ring, for at most a duration. Throws {@link WaitInterruptedException} if the thread is interrupted. */
    public synchronized void await(Duration longest) {
        Deadline until = Deadline.in(longest);
        try {
            while (!rung && !until.hasPassed()) {
                wait(Math.max(1, until.left().toMillis()));
            }
        } catch (InterruptedException cause) {
            throw interrupted(cause);
        }
        rung = false;
    }

    /** The error for an interrupted wait. Sets the flag of the thread again. */
    public static WaitInterruptedException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        return new WaitInterruptedException("The wait was interrupted.", Details.cause(cause));
    }
}
