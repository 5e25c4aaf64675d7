import dev.rushgate.Rushgate;
import java.io.FileInputStream;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** A transport that the suite runs on. */
record Target(String name, String url) {
    static final Duration WAIT = Duration.ofSeconds(30);
    /** Tag of tests that put a proxy before the server. */
    static final String PROXY = "proxy";
    /** Tag of tests whose proxy reads the requests. */
    static final String PLAIN_PROXY = "plain_proxy";
    /** Tag of tests of the function library. */
    static final String FUNCTIONS = "functions";
    /** Tag of tests of a Rushgate server. */
    static final String SERVER = "server";
    /** Tag of tests of a Cluster. */
    static final String CLUSTER = "cluster";
    /** Tag of tests that need only run once: they start separate servers. */
    static final String ONCE = "once";
    private static final List<String> NAMES = List.of("redis", "cluster", "sentinel", "tls", "http", "http_redis");
    private static final AtomicLong NUMBER = new AtomicLong();
    private static final long RUN = System.nanoTime();

    /** The transport of the tests that this thread and those that it starts run now. */
    static final InheritableThreadLocal<Target> CURRENT = new InheritableThreadLocal<>();

    /** All whose URL is in the environment. */
    static List<Target> all() {
        List<Target> targets = new ArrayList<>();
        for (String name : NAMES) {
            String url = System.getenv("RUSHGATE_TEST_" + name.toUpperCase(Locale.ROOT));
            if (url != null) {
                targets.add(new Target(name, url));
            }
        }
        return targets;
    }

    boolean isHttp() {
        return url.startsWith("http");
    }

    /** Tags of the tests that do not apply to this transport. */
    List<String> exclusions() {
        List<String> tags = new ArrayList<>();
        // Sentinels and the nodes of a Cluster name the addresses of servers, so that a proxy is passed by.
        addUnless(!url.contains("+"), PROXY, tags);
        addUnless(!url.contains("+") && !url.startsWith("rediss"), PLAIN_PROXY, tags);
        addUnless(!isHttp(), FUNCTIONS, tags);
        addUnless(isHttp(), SERVER, tags);
        addUnless(name.equals("cluster"), CLUSTER, tags);
        addUnless(name.equals("redis"), ONCE, tags);
        return tags;
    }

    private static void addUnless(boolean applies, String tag, List<String> tags) {
        if (!applies) {
            tags.add(tag);
        }
    }

    /** Text of the requests of a verb. Any request has it if a proxy cannot read the transport. */
    String verb(String function, String path) {
        return isHttp() ? path : url.startsWith("rediss") ? "" : "rushgate_1_" + function;
    }

    /** Plain commands to the store. */
    Redis store() throws IOException {
        return Redis.connect(url);
    }

    Rushgate connect() {
        return builder(url).connect();
    }

    /** A client that connects through a proxy. */
    Rushgate.Builder through(Proxy proxy) {
        return builder(url.replaceAll("127\\.0\\.0\\.1:\\d+", "127.0.0.1:" + proxy.port()));
    }

    int port() {
        return Integer.parseInt(url.replaceAll(".*:(\\d+).*", "$1"));
    }

    static Rushgate.Builder builder(String url) {
        Rushgate.Builder builder = Rushgate.builder(url);
        if (url.startsWith("http")) {
            builder.token(System.getenv("RUSHGATE_TEST_TOKEN"));
        }
        if (url.startsWith("rediss")) {
            builder.ssl(authority());
        }
        return builder;
    }

    /** TLS with the authority of the tests. */
    static SSLContext authority() {
        try (FileInputStream in = new FileInputStream(System.getenv("RUSHGATE_TEST_CA"))) {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null);
            trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
            TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(trusted);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** A name that no other test has. */
    static String unique(String name) {
        return name + "-" + Long.toString(RUN, 36) + "-" + NUMBER.incrementAndGet();
    }
}
