package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * A task to enqueue. Immutable; {@link #builder} makes one.
 *
 * @param id ID of the task
 * @param content content
 * @param delay delay before it is due, or null
 * @param due when it is due, or null
 * @param deadlineAfter deadline from now, or null
 * @param deadline deadline, or null
 * @param priority priority, 0 to 9
 * @param onDuplicate what happens if the ID is live
 * @param maxWait longest postponement by a debounce, or null
 * @param maxAttempts maximum number of attempts, 1 to 1,000
 * @param uniqueFor uniqueness window, or null
 * @param key key that tasks share, or null
 * @param after IDs of tasks that must finish first
 * @param ifDead what happens if one of them becomes a dead letter
 * @param heldOpen whether the task is the callback of an open batch
 * @param partOf ID of the open batch that the task is a member of, or null
 */
public record NewTask(
        String id,
        Content content,
        Duration delay,
        Instant due,
        Duration deadlineAfter,
        Instant deadline,
        int priority,
        OnDuplicate onDuplicate,
        Duration maxWait,
        int maxAttempts,
        Duration uniqueFor,
        String key,
        List<String> after,
        IfDead ifDead,
        boolean heldOpen,
        String partOf) {
    /** Checks the limits. */
    public NewTask {
        id = Check.name("id", id);
        Check.present("content", content);
        Check.notBoth("delay", delay, "due", due);
        Check.notBoth("deadlineAfter", deadlineAfter, "deadline", deadline);
        Check.optionalMicros("delay", delay, Contract.DELAY_US);
        Check.optionalMicros("deadlineAfter", deadlineAfter, Contract.DELAY_US);
        Check.optionalMicros("maxWait", maxWait, Contract.DELAY_US);
        Check.optionalMicros("uniqueFor", uniqueFor, Contract.PERIOD_US);
        Check.optionalMoment("due", due);
        Check.optionalMoment("deadline", deadline);
        Check.whole("priority", priority, Contract.PRIORITY);
        Check.whole("maxAttempts", maxAttempts, Contract.ATTEMPTS);
        Check.present("onDuplicate", onDuplicate);
        Check.present("ifDead", ifDead);
        if ((onDuplicate == OnDuplicate.DEBOUNCE) != (maxWait != null)) {
            throw Check.invalid("maxWait", maxWait == null ? "is required by DEBOUNCE" : "applies to DEBOUNCE only");
        }
        key = key == null ? null : Check.name("key", key);
        partOf = partOf == null ? null : Check.name("partOf", partOf);
        after = Check.names("after", after, (int) Contract.AFTER.max());
        if (partOf != null && !after.isEmpty()) {
            throw Check.invalid("after", "cannot be set together with partOf");
        }
    }

    /** A task with an ID and content, and default settings. */
    public static NewTask of(String id, Content content) {
        return builder(id).content(content).build();
    }

    /** A builder for a task with an ID. */
    public static Builder builder(String id) {
        return new Builder(id);
    }

    /** Builds a task. */
    public static final class Builder {
        private final String id;
        private Content content = Content.empty();
        private Duration delay;
        private Instant due;
        private Duration deadlineAfter;
        private Instant deadline;
        private int priority = Contract.DEFAULT_PRIORITY;
        private OnDuplicate onDuplicate = OnDuplicate.KEEP;
        private Duration maxWait;
        private int maxAttempts = Contract.DEFAULT_ATTEMPTS;
        private Duration uniqueFor;
        private String key;
        private List<String> after = List.of();
        private IfDead ifDead = IfDead.WAIT;
        private boolean heldOpen;
        private String partOf;

        private Builder(String id) {
            this.id = id;
        }

        /** Content, with the kind and the trace of the task. Default: empty. */
        public Builder content(Content content) {
            this.content = content;
            return this;
        }

        /** Kind of work, by which a worker selects the handler. Set the content first. */
        public Builder kind(String kind) {
            content = content.withKind(kind);
            return this;
        }

        /** Delay before the task is due: 0 to 400 days. Default: 0. */
        public Builder delay(Duration delay) {
            this.delay = delay;
            return this;
        }

        /** When the task is due, instead of a delay. */
        public Builder due(Instant due) {
            this.due = due;
            return this;
        }

        /** Deadline from now, later than the due time. A task not started by then becomes a dead letter. */
        public Builder deadlineAfter(Duration deadlineAfter) {
            this.deadlineAfter = deadlineAfter;
            return this;
        }

        /** Deadline, instead of {@code deadlineAfter}. */
        public Builder deadline(Instant deadline) {
            this.deadline = deadline;
            return this;
        }

        /** Priority: 0 (first) to 9 (last). Default: 5. */
        public Builder priority(int priority) {
            this.priority = priority;
            return this;
        }

        /** What happens if a live task has the ID. Default: it is kept. */
        public Builder onDuplicate(OnDuplicate onDuplicate) {
            this.onDuplicate = onDuplicate;
            return this;
        }

        /** Replaces a live task with the ID. A burst postpones the run by {@code maxWait} at most, up to 400 days. */
        public Builder debounce(Duration maxWait) {
            onDuplicate = OnDuplicate.DEBOUNCE;
            this.maxWait = maxWait;
            return this;
        }

        /** Maximum number of attempts before the task becomes a dead letter: 1 to 1,000. Default: 20. */
        public Builder maxAttempts(int maxAttempts) {
            this.maxAttempts = maxAttempts;
            return this;
        }

        /** How long the ID stays unique from now, even after the task is done: 1 ms to 400 days. Default: not at all. */
        public Builder uniqueFor(Duration uniqueFor) {
            this.uniqueFor = uniqueFor;
            return this;
        }

        /** Key that tasks share, such as a tenant. Tasks of a key run in order; keys take turns. */
        public Builder key(String key) {
            this.key = key;
            return this;
        }

        /** IDs of tasks in this queue that must finish first: at most 1,000. */
        public Builder after(List<String> after) {
            this.after = after;
            return this;
        }

        /** What happens if a task that this one waits for becomes a dead letter. Default: it keeps waiting. */
        public Builder ifDead(IfDead ifDead) {
            this.ifDead = ifDead;
            return this;
        }

        /** Makes the task the callback of an open batch, which {@link Queue#closeBatch} closes. */
        public Builder heldOpen() {
            heldOpen = true;
            return this;
        }

        /** ID of the open batch that the task is a member of. */
        public Builder partOf(String partOf) {
            this.partOf = partOf;
            return this;
        }

        /** The task. Throws {@link InvalidException} if a setting is out of range. */
        public NewTask build() {
            return new NewTask(id, content, delay, due, deadlineAfter, deadline, priority, onDuplicate, maxWait, maxAttempts,
                    uniqueFor, key, after, ifDead, heldOpen, partOf);
        }
    }
}
