package dev.rushgate.internal.http;

import dev.rushgate.Contract;
import dev.rushgate.internal.Bell;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Times;
import java.time.Duration;
import java.util.function.Function;
import java.util.function.Predicate;

/** Repeats a request that the server lets wait. */
final class Waiting {
    /** Shortest time between two requests that wait, if the server does not wait. */
    private static final Duration AGAIN = Duration.ofMillis(250);

    private Waiting() {}

    /** Repeats until the answer is final or the wait ends. Returns the last answer. */
    static <T> T repeat(Duration wait, Function<Duration, T> request, Predicate<T> isFinal) {
        Deadline until = Deadline.in(wait);
        Duration part = Times.min(wait, Contract.HTTP_WAIT);
        while (true) {
            Deadline again = Deadline.in(AGAIN);
            T answer = request.apply(part);
            if (isFinal.test(answer) || until.hasPassed()) {
                return answer;
            }
            if (!again.hasPassed()) {
                new Bell().await(Times.min(again.left(), until.left()));
            }
            part = Times.min(until.left(), Contract.HTTP_WAIT);
        }
    }
}
