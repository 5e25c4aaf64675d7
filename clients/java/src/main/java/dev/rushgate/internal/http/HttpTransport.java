package dev.rushgate.internal.http;

import dev.rushgate.internal.Transport;
import java.time.Duration;
import javax.net.ssl.SSLContext;

/** A Rushgate server, by the HTTP API. */
public final class HttpTransport implements Transport {
    private final HttpLink link;
    private final Locks locks;
    private final Queues queues;
    private final Sales sales;

    /** Opens no connection before the first request. */
    public HttpTransport(String url, String token, SSLContext ssl, Duration timeout, Duration retryFor) {
        link = new HttpLink(url, token, ssl, timeout, retryFor);
        locks = new HttpLocks(link);
        queues = new HttpQueues(link);
        sales = new HttpSales(link);
    }

    @Override
    public Locks locks() {
        return locks;
    }

    @Override
    public Queues queues() {
        return queues;
    }

    @Override
    public Sales sales() {
        return sales;
    }

    @Override
    public void close() {
        link.close();
    }
}
