package dev.rushgate;

/** What an operator asks of a worker. */
public enum WorkerMode {
    /** It claims tasks. */
    WORK,
    /** It claims nothing from this queue. Its running tasks continue. */
    QUIET,
    /** It stops, as after {@link Worker#stop}. */
    STOP
}
