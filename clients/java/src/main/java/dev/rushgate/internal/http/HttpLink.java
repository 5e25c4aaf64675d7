package dev.rushgate.internal.http;

import dev.rushgate.ClosedException;
import dev.rushgate.ConflictException;
import dev.rushgate.Contract;
import dev.rushgate.CorruptException;
import dev.rushgate.ForbiddenException;
import dev.rushgate.FullException;
import dev.rushgate.InvalidException;
import dev.rushgate.MisconfiguredException;
import dev.rushgate.NotFoundException;
import dev.rushgate.OutcomeUnknownException;
import dev.rushgate.RushgateException;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.UnavailableException;
import dev.rushgate.internal.Bell;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Pauses;
import dev.rushgate.internal.Times;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;

/** Sends requests, and repeats a request whose answer was lost, with the same key. */
final class HttpLink implements AutoCloseable {
    private final HttpClient client;
    private final String base;
    private final String token;
    private final Duration timeout;
    private final Duration retryFor;
    private final Set<CompletableFuture<?>> inFlight = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    HttpLink(String url, String token, SSLContext ssl, Duration timeout, Duration retryFor) {
        base = checkedUrl(url);
        this.token = token == null ? null : Check.visibleAscii("token", token);
        client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).sslContext(ssl).build();
        this.timeout = timeout;
        this.retryFor = retryFor;
    }

    /** The URL without slashes at its end. */
    private static String checkedUrl(String url) {
        try {
            URI parsed = new URI(url);
            if (parsed.getHost() != null && parsed.getRawQuery() == null && parsed.getRawFragment() == null
                    && parsed.getRawUserInfo() == null) {
                return url.replaceAll("/+$", "");
            }
        } catch (URISyntaxException malformed) {
            throw Check.invalid("url", "is malformed", malformed);
        }
        throw new InvalidException("The URL is no URL of a server.",
                new Details("url", "Use http://HOST:PORT or https://HOST, and pass the token separately.", null, null));
    }

    /** A request. The body and the idempotency key may be null. The server may wait for {@code longestWait} at most. */
    record Call(Operation operation, String path, Object body, String key, Duration longestWait) {
        private static final Pattern PARAMETER = Pattern.compile("\\{\\w+}");

        /** A request with the parameters of the path, in their order. */
        static Call of(Operation operation, String... parameters) {
            Iterator<String> next = List.of(parameters).iterator();
            String path = PARAMETER.matcher(operation.path).replaceAll(found -> Wire.encoded(next.next()));
            return new Call(operation, path, null, null, Duration.ZERO);
        }

        Call query(String query) {
            return new Call(operation, path + "?" + query, body, key, longestWait);
        }

        Call with(Object content) {
            return new Call(operation, path, content, key, longestWait);
        }

        Call keyed(String newKey) {
            return new Call(operation, path, body, newKey, longestWait);
        }

        Call waiting(Duration longest) {
            return new Call(operation, path, body, key, longest);
        }
    }

    /** An answer: JSON, and whether it is an idempotent replay. */
    record Reply(int status, Map<?, ?> body, boolean replayed) {}

    /** The answer, with every refusal as an error of this package. */
    Reply ask(Call call) {
        try {
            return send(call);
        } catch (Problem problem) {
            throw failure(problem);
        }
    }

    /** Sends a request until it is answered, for as long as the retry budget lasts. */
    Reply send(Call call) throws Problem {
        Deadline until = Deadline.in(retryFor.plus(call.longestWait()));
        Pauses pauses = new Pauses();
        boolean mayHaveHappened = false;
        while (true) {
            if (closed) {
                throw new ClosedException("The client is closed.", Details.NONE);
            }
            Duration pause = pauses.draw();
            Exception failed;
            try {
                return once(call);
            } catch (Problem problem) {
                if (!Contract.PASSING_PROBLEMS.contains(problem.code())) {
                    throw problem;
                }
                mayHaveHappened |= problem.code().equals("outcome_unknown");
                pause = problem.retryAfter() == null ? pause : problem.retryAfter();
                failed = problem;
            } catch (IOException lost) {
                mayHaveHappened |= !(lost instanceof ConnectException || lost instanceof HttpConnectTimeoutException);
                failed = lost;
            }
            if (until.left().compareTo(pause) <= 0) {
                throw gaveUp(failed, mayHaveHappened);
            }
            rest(pause, call);
        }
    }

    /** A request that waits can be interrupted. */
    private static void rest(Duration pause, Call call) {
        if (call.longestWait().isZero()) {
            Pauses.sleep(pause);
        } else {
            new Bell().await(pause);
        }
    }

    private Reply once(Call call) throws IOException, Problem {
        CompletableFuture<HttpResponse<byte[]>> sent = client.sendAsync(request(call), BodyHandlers.ofByteArray());
        inFlight.add(sent);
        try {
            return read(call.longestWait().isZero() ? answer(sent, timeout) : interruptibly(sent, call));
        } finally {
            inFlight.remove(sent);
        }
    }

    private HttpRequest request(Call call) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + call.path()));
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        if (call.key() != null) {
            request.header(Contract.HTTP_KEY_HEADER, call.key());
        }
        if (!call.longestWait().isZero()) {
            request.header("Prefer", "wait=" + (Times.millis(call.longestWait()) + 999) / 1_000);
        }
        if (call.body() == null) {
            return request.method(call.operation().method, BodyPublishers.noBody()).build();
        }
        request.header("Content-Type", "application/json");
        return request.method(call.operation().method, BodyPublishers.ofString(Json.write(call.body()), StandardCharsets.UTF_8)).build();
    }

    /** A short request is not interrupted, so that its outcome is known. */
    private static <T> T answer(CompletableFuture<T> sent, Duration longest) throws IOException {
        Deadline until = Deadline.in(longest);
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return get(sent, until);
                } catch (InterruptedException again) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The end of the connection tells the server that nothing waits any more. */
    private <T> T interruptibly(CompletableFuture<T> sent, Call call) throws IOException {
        try {
            return get(sent, Deadline.in(timeout.plus(call.longestWait())));
        } catch (InterruptedException cause) {
            sent.cancel(true);
            throw Bell.interrupted(cause);
        }
    }

    private static <T> T get(CompletableFuture<T> sent, Deadline until) throws IOException, InterruptedException {
        try {
            return sent.get(until.left().toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException cause) {
            sent.cancel(true);
            throw new IOException("no answer in time", cause);
        } catch (CancellationException cause) {
            throw new IOException("the client is closed", cause);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof IOException cause ? cause : new IOException(failed.getCause());
        }
    }

    private static Reply read(HttpResponse<byte[]> response) throws IOException, Problem {
        String text = new String(response.body(), StandardCharsets.UTF_8);
        boolean isProblem = response.headers().firstValue("Content-Type").orElse("").startsWith(Contract.HTTP_PROBLEM_TYPE);
        if (response.statusCode() >= 300) {
            throw new Problem(response.statusCode(), isProblem ? json(text) : Map.of());
        }
        boolean replayed = response.headers().firstValue(Contract.HTTP_REPLAYED_HEADER).orElse("").equals("true");
        return new Reply(response.statusCode(), json(text), replayed);
    }

    private static Map<?, ?> json(String text) {
        if (text.isEmpty()) {
            return Map.of();
        }
        if (Json.read(text) instanceof Map<?, ?> body) {
            return body;
        }
        throw new CorruptException("The server answered something that is no JSON object.", Details.NONE);
    }

    private static UnavailableException gaveUp(Exception cause, boolean mayHaveHappened) {
        String message = "The server did not answer: " + cause + ".";
        return mayHaveHappened ? new OutcomeUnknownException(message, Details.cause(cause))
                : new UnavailableException(message, Details.cause(cause));
    }

    /** The error for a refusal. */
    static RushgateException failure(Problem problem) {
        Details details = new Details(text(problem, "field"), text(problem, "hint"), problem.retryAfter(), problem);
        String code = problem.code();
        String message = problem.getMessage();
        switch (code) {
            case "corrupt":
                return new CorruptException(code, message, details);
            case "misconfigured":
                return new MisconfiguredException(code, message, details);
            case "full":
                return new FullException(code, message, details);
            case "not_found":
                return new NotFoundException(code, message, details);
            case "nothing_kept":
                return new InvalidException(code, message, details);
            case "idempotency_key_reused":
                return new ConflictException(code, message, details);
            default:
                return byStatus(problem.status(), code, message, details);
        }
    }

    private static RushgateException byStatus(int status, String code, String message, Details details) {
        return switch (status) {
            case 401, 403 -> new ForbiddenException(code, message, details);
            case 409, 410 -> new ConflictException(code, message, details);
            case 429, 503 -> new UnavailableException(code, message, details);
            default -> status < 500 ? new InvalidException(code, message, details)
                    : new RushgateException(code.isEmpty() ? "bug" : code, message, details);
        };
    }

    private static String text(Problem problem, String field) {
        return problem.body().get(field) instanceof String text ? text : null;
    }

    @Override
    public void close() {
        closed = true;
        inFlight.forEach(request -> request.cancel(true));
    }
}
