package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.NewTask;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Times;
import java.time.Duration;
import java.time.Instant;

/** The terms of a task: due time and rules, as docs/protocol/queues.md describes them. */
final class Terms {
    private Terms() {}

    static String of(NewTask task) {
        StringBuilder terms = new StringBuilder();
        terms.append(time(task.delay(), task.due()))
                .append(' ').append(task.priority())
                .append(' ').append(Contract.ON_DUPLICATE.indexOf(Check.word(task.onDuplicate())))
                .append(' ').append(Store.us(task.maxWait() == null ? Duration.ZERO : task.maxWait()))
                .append(' ').append(task.maxAttempts());
        if (task.deadlineAfter() != null || task.deadline() != null) {
            terms.append('<').append(time(task.deadlineAfter(), task.deadline()));
        }
        if (task.uniqueFor() != null) {
            terms.append('!').append(Store.us(task.uniqueFor()));
        }
        if (task.key() != null) {
            terms.append(' ').append(task.key());
        }
        if (!task.after().isEmpty() || task.heldOpen() || task.partOf() != null) {
            dependencies(task, terms);
        }
        return terms.toString();
    }

    private static String time(Duration delay, Instant moment) {
        return moment == null ? "+" + Store.us(delay == null ? Duration.ZERO : delay) : Long.toString(Times.micros(moment));
    }

    private static void dependencies(NewTask task, StringBuilder terms) {
        terms.append('\n').append(Contract.IF_DEAD.indexOf(Check.word(task.ifDead()))).append(task.heldOpen() ? '1' : '0');
        if (task.partOf() != null) {
            terms.append(' ').append(task.partOf());
        }
        task.after().forEach(id -> terms.append('\n').append(id));
    }
}
