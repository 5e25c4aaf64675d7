package dev.rushgate.internal.http;

import dev.rushgate.Holder;
import dev.rushgate.LockState;
import dev.rushgate.RushgateException;
import dev.rushgate.WaitInterruptedException;
import dev.rushgate.Waiter;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.AcquireRequest;
import dev.rushgate.internal.Transport.Grant;
import dev.rushgate.internal.Transport.Locks;
import dev.rushgate.internal.http.HttpLink.Call;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** Locks by the HTTP API. */
final class HttpLocks implements Locks {
    /** Longest time between request and answer for which a lease counts from the request. */
    private static final Duration QUICK = Duration.ofMillis(100);

    private final HttpLink link;

    HttpLocks(HttpLink link) {
        this.link = link;
    }

    /** Each request waits for as long as the server allows. Between two, the client is not in the wait queue. */
    @Override
    public Optional<Grant> acquire(String name, AcquireRequest request) {
        String key = UUID.randomUUID().toString();
        try {
            return Waiting.repeat(request.longestWait(), part -> acquireOnce(name, request, key, part), Optional::isPresent);
        } catch (WaitInterruptedException stopped) {
            putBack(name, request, key);
            throw stopped;
        }
    }

    /** A grant may have been under way when the wait was interrupted. The same key leads to the same acquisition. */
    private void putBack(String name, AcquireRequest request, String key) {
        try {
            acquireOnce(name, request, key, Duration.ZERO).ifPresent(grant -> release(name, grant.token()));
        } catch (RushgateException lost) {
            // After its lease, the lock is free in any case.
        }
    }

    private Optional<Grant> acquireOnce(String name, AcquireRequest request, String key, Duration wait) {
        Map<String, Object> body =
                Wire.fields("lease_ms", request.lease(), "label", request.label(), "barging", request.barging());
        Deadline sent = Deadline.now();
        Deadline quick = Deadline.in(QUICK);
        try {
            Wire view = Wire.of(link.send(Call.of(Operation.ACQUIRE, name).with(body).keyed(key).waiting(wait)).body());
            if (!quick.hasPassed()) {
                return Optional.of(grant(view, sent));
            }
            // After a wait, the time of the request says nothing about the lease. An extension starts it again.
            return extend(name, view.text("token"), request.lease());
        } catch (Problem problem) {
            if (problem.code().equals("lock_busy")) {
                return Optional.empty();
            }
            throw HttpLink.failure(problem);
        }
    }

    private static Grant grant(Wire view, Deadline sent) {
        return new Grant(view.text("token"), view.number("fence"), sent.plus(Times.certain(view.millis("lease_left_ms"))));
    }

    @Override
    public Optional<Grant> extend(String name, String token, Duration lease) {
        Deadline sent = Deadline.now();
        Map<String, Object> body = Wire.fields("token", token, "lease_ms", lease);
        return unlessLost(Call.of(Operation.EXTEND_LOCK, name).with(body)).map(view -> grant(view, sent));
    }

    @Override
    public boolean release(String name, String token) {
        return unlessLost(Call.of(Operation.RELEASE, name).with(Wire.fields("token", token))).isPresent();
    }

    private Optional<Wire> unlessLost(Call call) {
        try {
            return Optional.of(Wire.of(link.send(call).body()));
        } catch (Problem problem) {
            if (problem.code().equals("not_held")) {
                return Optional.empty();
            }
            throw HttpLink.failure(problem);
        }
    }

    /** The API does not push: a forced release shows at the next renewal. */
    @Override
    public Runnable watch(String token, Runnable lost) {
        return () -> { };
    }

    @Override
    public LockState show(String name) {
        Wire view = Wire.of(link.ask(Call.of(Operation.SHOW_LOCK, name)).body());
        return new LockState(view.text("name"), holder(view.optionalObject("holder")).orElse(null),
                view.list("waiters", HttpLocks::waiter));
    }

    @Override
    public Optional<Holder> forceRelease(String name) {
        Wire view = Wire.of(link.ask(Call.of(Operation.FORCE_RELEASE, name).with(Map.of())).body());
        return holder(view.optionalObject("holder"));
    }

    private static Optional<Holder> holder(Wire view) {
        return Optional.ofNullable(view).map(holder -> new Holder(holder.text("host"), holder.number("pid"),
                holder.text("label"), holder.number("fence"), holder.instant("since_us"), holder.instant("lease_until_us")));
    }

    private static Waiter waiter(Wire view) {
        return new Waiter(view.small("position"), view.text("host"), view.number("pid"), view.text("label"),
                view.instant("since_us"), view.instant("wait_until_us"));
    }
}
