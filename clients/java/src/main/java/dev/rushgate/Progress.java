package dev.rushgate;

import dev.rushgate.internal.Check;

/**
 * Progress of a task.
 *
 * @param percent percentage, 0 to 100, or null if it is not known
 * @param note what the task is doing: at most 200 bytes
 */
public record Progress(Integer percent, String note) {
    /** Checks the limits. */
    public Progress {
        if (percent != null) {
            Check.whole("percent", percent, Contract.PERCENT);
        }
        note = Check.label("note", note);
    }

    /** A percentage without a note. */
    public static Progress percent(int percent) {
        return new Progress(percent, "");
    }
}
