package dev.rushgate.internal.redis;

import dev.rushgate.FullException;
import dev.rushgate.InvalidException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Sends the requests of one function that threads make during a call of it as the next call together. That costs client and server
 * less than separate calls. A request is answered by its entry in the answer of the call.
 */
final class Merger {
    /** The most requests in a call, which is the limit of the functions of locks. */
    private static final int REQUESTS = 128;
    /** Requests whose arguments exceed this size do not share a call. */
    private static final int BYTES = 1 << 20;
    /** How long a request waits for the call under way, before it gets a call of its own: the server may be slow, or away. */
    private static final long PATIENCE_MS = 5;

    private final Send send;
    private final boolean sameKeys;
    /** Requests that wait for the call under way, by what they have in common. */
    private final Map<String, Deque<Request>> busy = new HashMap<>();

    /** Makes a call. */
    interface Send {
        Object call(List<Group> groups, List<?> args);
    }

    /** What a waiting thread is to do. */
    private enum Turn {
        /** It sends its request with those that wait. */
        LEADS,
        /** It sends its request alone. */
        ALONE
    }

    private record Request(List<Group> groups, List<?> args, CompletableFuture<Object> answer) {
        int bytes() {
            int bytes = 0;
            for (Object arg : args) {
                bytes += arg instanceof byte[] binary ? binary.length : arg.toString().length();
            }
            return bytes;
        }
    }

    /**
     * A merger of one function.
     *
     * @param sameKeys whether all requests of a call have the same keys; otherwise each adds its own
     */
    Merger(boolean sameKeys, Send send) {
        this.sameKeys = sameKeys;
        this.send = send;
    }

    /** The answer of a request. Only requests with the same {@code name} share a call. */
    Object ask(String name, List<Group> groups, List<?> args) {
        Request request = new Request(groups, args, new CompletableFuture<>());
        if (!isFirst(name, request)) {
            Object answer = await(name, request);
            if (answer == Turn.ALONE) {
                return alone(groups, args);
            }
            if (answer != Turn.LEADS) {
                return answer;
            }
        }
        return lead(name, request);
    }

    /** The answer of a request that has its own call. */
    Object alone(List<Group> groups, List<?> args) {
        return new Answer(send.call(groups, args)).next();
    }

    private synchronized boolean isFirst(String name, Request request) {
        Deque<Request> waiting = busy.get(name);
        if (waiting == null) {
            busy.put(name, new ArrayDeque<>());
            return true;
        }
        waiting.add(request);
        return false;
    }

    private Object await(String name, Request request) {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return request.answer.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                } catch (TimeoutException slow) {
                    if (leaves(name, request)) {
                        return Turn.ALONE;
                    }
                } catch (InterruptedException again) {
                    // A call is not interrupted.
                    interrupted = true;
                } catch (ExecutionException failed) {
                    if (failed.getCause() instanceof Error error) {
                        throw error;
                    }
                    throw (RuntimeException) failed.getCause();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** False if the request is part of a call, or leads the next one. */
    private synchronized boolean leaves(String name, Request request) {
        Deque<Request> waiting = busy.get(name);
        return waiting != null && waiting.remove(request);
    }

    private Object lead(String name, Request own) {
        List<Request> requests = together(name, own);
        try {
            Answer answer = new Answer(send(requests));
            Object first = answer.next();
            for (Request other : requests.subList(1, requests.size())) {
                other.answer.complete(answer.next());
            }
            return first;
        } catch (RuntimeException | Error failed) {
            // A refused call changed nothing. One of its requests may be the reason, so each is sent alone.
            boolean refused = requests.size() > 1 && (failed instanceof InvalidException || failed instanceof FullException);
            for (Request other : requests.subList(1, requests.size())) {
                if (refused) {
                    other.answer.complete(Turn.ALONE);
                } else {
                    other.answer.completeExceptionally(failed);
                }
            }
            if (refused) {
                return alone(own.groups, own.args);
            }
            throw failed;
        } finally {
            passOn(name);
        }
    }

    private synchronized List<Request> together(String name, Request own) {
        Deque<Request> waiting = busy.get(name);
        if (waiting.isEmpty()) {
            return List.of(own);
        }
        List<Request> requests = new ArrayList<>(List.of(own));
        int bytes = own.bytes();
        while (!waiting.isEmpty() && requests.size() < REQUESTS && bytes + waiting.peek().bytes() <= BYTES) {
            bytes += waiting.peek().bytes();
            requests.add(waiting.poll());
        }
        return requests;
    }

    private Object send(List<Request> requests) {
        if (requests.size() == 1) {
            return send.call(requests.get(0).groups, requests.get(0).args);
        }
        List<Group> groups = new ArrayList<>();
        List<Object> args = new ArrayList<>();
        for (Request request : requests) {
            if (!sameKeys || groups.isEmpty()) {
                groups.addAll(request.groups);
            }
            args.addAll(request.args);
        }
        return send.call(groups, args);
    }

    /** Lets the next request lead, or notes that no call is under way. */
    private void passOn(String name) {
        Request next;
        synchronized (this) {
            next = busy.get(name).poll();
            if (next == null) {
                busy.remove(name);
            }
        }
        if (next != null) {
            next.answer.complete(Turn.LEADS);
        }
    }
}
