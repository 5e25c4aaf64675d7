package dev.rushgate.internal.redis;

import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Transport;
import java.time.Duration;
import javax.net.ssl.SSLContext;

/** A Redis or Valkey server, a service behind sentinels, or a Cluster, by the function library. */
public final class RedisTransport implements Transport {
    private final Store store;
    private final Locks locks;
    private final Queues queues;
    private final Sales sales;

    /** Connects, and refuses a library of another protocol. */
    public RedisTransport(String url, SSLContext ssl, Duration timeout, Duration retryFor, Timers timers) {
        RedisUrl target = RedisUrl.parse(url);
        Dialer dialer = new Dialer(target, ssl, timeout);
        store = new Store(router(target, dialer, timers), timers, timeout, retryFor);
        locks = new RedisLocks(store);
        queues = new RedisQueues(store);
        sales = new RedisSales(store);
        try {
            store.checkProtocol();
        } catch (RuntimeException failed) {
            store.close();
            throw failed;
        }
    }

    private static Router router(RedisUrl url, Dialer dialer, Timers timers) {
        return switch (url.kind()) {
            case SERVER -> new ServerRouter(() -> url.nodes().get(0), dialer, timers);
            case SENTINEL -> new ServerRouter(new Sentinels(url, dialer), dialer, timers);
            case CLUSTER -> new ClusterRouter(url, dialer, timers);
        };
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
        store.close();
    }
}
