package dev.rushgate.internal.http;

import java.time.Duration;
import java.util.Map;

/** A refusal that the server answered, as {@code application/problem+json}. */
final class Problem extends Exception {
    private static final long serialVersionUID = 1;

    private final int status;
    private final transient Map<?, ?> body;

    Problem(int status, Map<?, ?> body) {
        super(body.get("detail") instanceof String detail ? detail : "HTTP status " + status);
        this.status = status;
        this.body = body;
    }

    int status() {
        return status;
    }

    String code() {
        return body.get("code") instanceof String code ? code : "";
    }

    Map<?, ?> body() {
        return body;
    }

    /** Delay after which a retry may succeed, or null. */
    Duration retryAfter() {
        return body.get("retry_after_ms") instanceof Number ms ? Duration.ofMillis(ms.longValue()) : null;
    }
}
