package dev.rushgate;

import dev.rushgate.internal.Check;

/**
 * Part of a list: names greater than {@code after}, at most {@code limit} of them.
 *
 * @param after last name of the part before, or an empty text
 * @param limit the most entries
 */
public record Page(String after, int limit) {
    /** Refuses null. */
    public Page {
        Check.present("after", after);
    }

    /** The first part. */
    public static Page first(int limit) {
        return new Page("", limit);
    }
}
