package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.Holder;
import dev.rushgate.LockState;
import dev.rushgate.RushgateException;
import dev.rushgate.Waiter;
import dev.rushgate.internal.Bell;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Host;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.AcquireRequest;
import dev.rushgate.internal.Transport.Grant;
import dev.rushgate.internal.Transport.Locks;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/** Locks by the function library. */
final class RedisLocks implements Locks {
    private final Store store;
    private final Merger acquires;
    private final Merger releases;

    RedisLocks(Store store) {
        this.store = store;
        acquires = new Merger(false, (groups, args) -> store.callOrReplay("lock_acquire", "lock_confirm", groups, args));
        releases = new Merger(false, (groups, args) -> store.call("lock_release", groups, args));
    }

    /** What the locks of a call have in common: in a Cluster, the hash tag. */
    private String shared(String name) {
        return store.needsAllKeys() ? name : "";
    }

    @Override
    public Optional<Grant> acquire(String name, AcquireRequest request) {
        Inbox inbox = store.inbox();
        byte[] token = store.token();
        Bell bell = new Bell();
        Runnable ignore = inbox.listen(Inbox.granted(token), bell::ring);
        try {
            Optional<Grant> granted = waitInQueue(name, token, inbox, request, bell);
            if (granted.isEmpty() && !request.longestWait().isZero()) {
                leave(name, token);
            }
            return granted;
        } catch (RushgateException failed) {
            leaveIfPossible(name, token);
            throw failed;
        } finally {
            ignore.run();
        }
    }

    private Optional<Grant> waitInQueue(String name, byte[] token, Inbox inbox, AcquireRequest request, Bell bell) {
        Deadline until = Deadline.in(request.longestWait());
        while (true) {
            Deadline sent = Deadline.now();
            Duration left = until.left();
            Answer answer = ask(name, token, inbox.id(), request, left);
            switch (answer.word(Contract.ACQUIRED)) {
                case "granted" -> {
                    return Optional.of(grant(answer, HexFormat.of().formatHex(token), sent));
                }
                case "busy" -> {
                    return Optional.empty();
                }
                default -> { }
            }
            long position = answer.number();
            Duration checkAfter = Times.ofMicros(answer.number());
            if (left.isZero()) {
                return Optional.empty();
            }
            Duration byPosition = Contract.POSITION_SLEEP.multipliedBy(Math.max(position, 1));
            bell.await(Times.min(left, Times.max(checkAfter, Duration.ofMillis(1)), byPosition, Contract.LOCK_SLEEP));
        }
    }

    private Answer ask(String name, byte[] token, byte[] inbox, AcquireRequest request, Duration left) {
        List<Object> args = List.of(token, Store.us(request.lease()), Store.us(left), request.barging() ? "1" : "0", inbox,
                owner(request.label()));
        return new Answer(acquires.ask(shared(name), List.of(Group.lock(name)), args));
    }

    private void leave(String name, byte[] token) {
        store.call("lock_leave", List.of(Group.lock(name)), List.of(token));
    }

    /** The wait queue forgets a waiter at the end of its wait, so that a failure costs at most that. */
    private void leaveIfPossible(String name, byte[] token) {
        try {
            leave(name, token);
        } catch (RushgateException lost) {
            // The first failure matters.
        }
    }

    @Override
    public Optional<Grant> extend(String name, String token, Duration lease) {
        Deadline sent = Deadline.now();
        List<Object> args = List.of(HexFormat.of().parseHex(token), Store.us(lease));
        Answer answer = new Answer(store.call("lock_extend", List.of(Group.lock(name)), args));
        return answer.isEmpty() ? Optional.empty() : Optional.of(grant(answer, token, sent));
    }

    @Override
    public boolean release(String name, String token) {
        List<byte[]> args = List.of(HexFormat.of().parseHex(token));
        return Answer.number(releases.ask(shared(name), List.of(Group.lock(name)), args)) == 1;
    }

    @Override
    public Runnable watch(String token, Runnable lost) {
        return store.inbox().listen(Inbox.revoked(token), lost);
    }

    @Override
    public LockState show(String name) {
        Answer answer = new Answer(store.call("lock_show", List.of(Group.lock(name)), List.of()));
        return new LockState(name, holder(answer.list()).orElse(null), waiters(answer.list()));
    }

    @Override
    public Optional<Holder> forceRelease(String name) {
        return holder(new Answer(store.call("lock_force_release", List.of(Group.lock(name)), List.of())));
    }

    /** The lease counts from the time at which the call was sent. */
    private static Grant grant(Answer answer, String token, Deadline sent) {
        long fence = answer.number();
        answer.number();
        return new Grant(token, fence, sent.plus(Times.certain(Times.ofMicros(answer.number()))));
    }

    /** Process ID, host name and label. */
    private static byte[] owner(String label) {
        byte[] host = Check.cut(Host.NAME, Contract.LABEL_BYTES).getBytes(StandardCharsets.UTF_8);
        byte[] text = label.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(Integer.BYTES + Contract.HOST_LENGTH_BYTES + host.length + text.length)
                .putInt((int) Host.PID).put((byte) host.length).put(host).put(text).array();
    }

    private static Optional<Holder> holder(Answer answer) {
        if (answer.isEmpty()) {
            return Optional.empty();
        }
        answer.bytes();
        long fence = answer.number();
        long until = answer.number();
        Packed packed = new Packed(answer.bytes());
        long since = packed.fields(Contract.HOLDER_LAYOUT).number("since");
        packed.take(Contract.INBOX_BYTES);
        Records.Owner owner = Records.Owner.read(packed);
        return Optional.of(new Holder(owner.host(), owner.pid(), owner.label(), fence, Times.instant(since),
                Times.instant(until)));
    }

    private static List<Waiter> waiters(Answer answer) {
        record Queued(long ticket, Packed.Fields fields, Records.Owner owner) {}

        List<Queued> queued = new ArrayList<>();
        while (!answer.isEmpty()) {
            answer.bytes();
            Packed packed = new Packed(answer.bytes());
            Packed.Fields fields = packed.fields(Contract.WAITER_LAYOUT);
            packed.take(Contract.INBOX_BYTES);
            queued.add(new Queued(fields.number("ticket"), fields, Records.Owner.read(packed)));
        }
        queued.sort(Comparator.comparingLong(Queued::ticket));
        List<Waiter> waiters = new ArrayList<>();
        for (Queued one : queued) {
            waiters.add(new Waiter(waiters.size() + 1, one.owner().host(), one.owner().pid(), one.owner().label(),
                    Times.instant(one.fields().number("since")), Times.instant(one.fields().number("until"))));
        }
        return waiters;
    }
}
