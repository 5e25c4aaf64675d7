package dev.rushgate;

import dev.rushgate.RushgateException.Details;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Transport;
import dev.rushgate.internal.http.HttpTransport;
import dev.rushgate.internal.redis.RedisTransport;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import javax.net.ssl.SSLContext;

/**
 * A client of locks, queues and sales. Over Redis it has a client ID, a connection for calls and one for notifications.
 *
 * <p>Any number of threads may share it, and everything that it returns. A call is not interrupted; a wait is.
 */
public final class Rushgate implements AutoCloseable {
    /** Version of this package. */
    public static final String VERSION = "0.1.0";

    private final Timers timers;
    private final Transport transport;

    private Rushgate(Timers timers, Transport transport) {
        this.timers = timers;
        this.transport = transport;
    }

    /**
     * Connects to a store by its URL: {@code redis:}, {@code rediss:}, with {@code +sentinel} or {@code +cluster}, or
     * {@code http:} or {@code https:}.
     */
    public static Rushgate connect(String url) {
        return builder(url).connect();
    }

    /** A builder for a client with other settings. */
    public static Builder builder(String url) {
        return new Builder(url);
    }

    /** Builds a client. */
    public static final class Builder {
        private static final Contract.Range TIMEOUT_US = new Contract.Range(100_000, Contract.WAIT_US.max());

        private final String url;
        private String token;
        private SSLContext ssl;
        private Duration timeout = Contract.DEFAULT_TIMEOUT;
        private Duration retryFor = Contract.DEFAULT_RETRY_FOR;

        private Builder(String url) {
            this.url = Check.present("url", url);
        }

        /** API token of a Rushgate server. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** Authorities and certificates for TLS. Default: those of the Java runtime. */
        public Builder ssl(SSLContext ssl) {
            this.ssl = ssl;
            return this;
        }

        /** Time limit of one try of a call, without the wait that the call asks for: at least 100 ms. Default: 5 s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Retry budget: how long a call is repeated after a lost connection, at least 100 ms. Default: 10 s. */
        public Builder retryFor(Duration retryFor) {
            this.retryFor = retryFor;
            return this;
        }

        /**
         * Connects. Throws {@link InvalidException} for a malformed URL, {@link UnavailableException} if nothing answers,
         * and {@link MisconfiguredException} if the function library is missing.
         */
        public Rushgate connect() {
            Check.micros("timeout", timeout, TIMEOUT_US);
            Check.micros("retryFor", retryFor, TIMEOUT_US);
            Timers timers = new Timers();
            try {
                return new Rushgate(timers, transport(timers));
            } catch (RuntimeException failed) {
                timers.close();
                throw failed;
            }
        }

        private Transport transport(Timers timers) {
            if (url.matches("https?:.*")) {
                return new HttpTransport(url, token, context(), timeout, retryFor);
            }
            if (token != null) {
                throw Check.invalid("token", "applies to a Rushgate server only");
            }
            return new RedisTransport(url, context(), timeout, retryFor, timers);
        }

        private SSLContext context() {
            try {
                return ssl == null ? SSLContext.getDefault() : ssl;
            } catch (NoSuchAlgorithmException cause) {
                throw new MisconfiguredException("The Java runtime has no TLS.", Details.cause(cause));
            }
        }
    }

    /** A lock by name, with a lease of 30 s that is renewed. */
    public Lock lock(String name) {
        return lock(name, LockOptions.DEFAULTS);
    }

    /** A lock by name. */
    public Lock lock(String name, LockOptions options) {
        return new Lock(transport, timers, name, options);
    }

    /** A queue by name. */
    public Queue queue(String name) {
        return new Queue(transport, name);
    }

    /** A builder for a worker of a queue. */
    public Worker.Builder worker(String queue) {
        return new Worker.Builder(queue(queue), timers);
    }

    /** A sale by ID. */
    public Sale sale(String id) {
        return new Sale(transport, id);
    }

    /** Creates a sale without opening it. */
    public Created createSale(NewSale sale) {
        return transport.sales().create(Check.present("sale", sale));
    }

    /** Closes the connections. Held locks end with their leases unless they were released. */
    @Override
    public void close() {
        transport.close();
        timers.close();
    }
}
