package dev.rushgate;

/** What happens to occurrences of a schedule that passed while nothing fired it. */
public enum Missed {
    /** None runs, except one that is at most a minute old. */
    SKIP,
    /** The latest runs. */
    ONCE,
    /** Each of them runs. */
    ALL
}
