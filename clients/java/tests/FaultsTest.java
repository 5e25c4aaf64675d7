import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.ClaimedTask;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.CorruptException;
import dev.rushgate.Enqueued;
import dev.rushgate.FullException;
import dev.rushgate.HeldLock;
import dev.rushgate.Lock;
import dev.rushgate.MisconfiguredException;
import dev.rushgate.Queue;
import dev.rushgate.Rushgate;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Servers without the library or without memory, broken keys, a primary that is replaced, and a slot that moves. */
class FaultsTest extends Suite {
    @TempDir
    Path folder;

    /** A Redis server of a test, without the function library. */
    private record Server(Process process, int port) implements AutoCloseable {
        static Server start(Path parent, String... options) throws Exception {
            int port;
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = free.getLocalPort();
            }
            Path folder = Files.createDirectory(parent.resolve(Integer.toString(port)));
            // A sentinel needs a file of settings.
            Path settings = Files.writeString(folder.resolve("settings.conf"),
                    "port " + port + "\nbind 127.0.0.1\ndir " + folder + "\n" + String.join("\n", options) + "\n");
            List<String> command = new ArrayList<>(List.of("redis-server", settings.toString()));
            if (String.join("", options).contains("sentinel")) {
                command.add("--sentinel");
            }
            Process process = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            Server server = new Server(process, port);
            until(() -> {
                try (Redis store = Redis.connect(server.url())) {
                    return Redis.text(store.command("PING")).equals("PONG");
                } catch (IOException notYet) {
                    return false;
                }
            });
            return server;
        }

        String url() {
            return "redis://127.0.0.1:" + port;
        }

        @Override
        public void close() throws InterruptedException {
            process.destroy();
            process.waitFor();
        }
    }

    private static void fill(Redis store) {
        try {
            store.command("CONFIG", "SET", "maxmemory", "1");
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    private void copyLibrary(Redis to) throws IOException {
        try (Redis from = target.store()) {
            to.command("FUNCTION", "RESTORE", from.command("FUNCTION", "DUMP"));
        }
    }

    @Test
    @Tag(Target.ONCE)
    void aServerWithoutTheLibraryIsMisconfigured() throws Exception {
        try (Server server = Server.start(folder, "save \"\"")) {
            MisconfiguredException refused =
                    assertThrows(MisconfiguredException.class, () -> Rushgate.connect(server.url()));
            assertTrue(refused.hint().contains("rushgate functions install"), refused.hint());
            assertTrue(refused.getMessage().contains("is missing, or older than this package"), refused.getMessage());
        }
    }

    @Test
    @Tag(Target.ONCE)
    void aFullServerTakesNoTasksAndLetsWorkFinish() throws Exception {
        try (Server server = Server.start(folder, "save \"\""); Redis store = Redis.connect(server.url());
                Proxy proxy = new Proxy(server.port())) {
            copyLibrary(store);
            try (Rushgate own = Rushgate.connect("redis://127.0.0.1:" + proxy.port())) {
                Queue queue = own.queue("mail");
                queue.enqueue("a", Content.empty());
                ClaimedTask task = queue.claim(WAIT).orElseThrow();
                HeldLock held = own.lock("nightly").acquire().orElseThrow();
                fill(store);
                assertThrows(FullException.class, () -> queue.enqueue("b", Content.empty()));
                assertThrows(FullException.class, () -> own.lock("other").acquire());
                held.extend();
                assertTrue(held.release());
                assertEquals(Completed.DONE, task.complete());
                store.command("CONFIG", "SET", "maxmemory", "0");
                // The memory is full when the call whose answer was lost is sent again.
                CountDownLatch lost = proxy.lose("rushgate_1_queue_enqueue");
                proxy.onLoss(() -> fill(store));
                assertInstanceOf(Enqueued.Added.class, queue.enqueue("c", Content.empty()));
                assertEquals(0, lost.getCount());
            }
        }
    }

    @Test
    @Tag(Target.ONCE)
    void callsFollowAPrimaryThatIsReplaced() throws Exception {
        try (Server primary = Server.start(folder, "save \"\""); Redis store = Redis.connect(primary.url());
                Server replica = Server.start(folder, "save \"\"", "repl-diskless-sync-delay 0",
                        "replicaof 127.0.0.1 " + primary.port());
                Server sentinel = Server.start(folder, "sentinel monitor shop 127.0.0.1 " + primary.port() + " 1",
                        "sentinel down-after-milliseconds shop 300", "sentinel failover-timeout shop 1000");
                Redis asked = Redis.connect(sentinel.url())) {
            copyLibrary(store);
            String url = "redis+sentinel://127.0.0.1:" + sentinel.port() + "/shop";
            try (Rushgate own = Rushgate.builder(url).timeout(Duration.ofSeconds(1)).retryFor(WAIT).connect()) {
                Queue queue = own.queue("mail");
                queue.enqueue("a", Content.empty());
                until(() -> store.command("WAIT", "1", "1000").equals(1L));
                until(() -> !((List<?>) asked.command("SENTINEL", "REPLICAS", "shop")).isEmpty());
                primary.process().destroyForcibly().waitFor();
                assertInstanceOf(Enqueued.Added.class, queue.enqueue("b", Content.empty()));
                Object now = asked.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop");
                assertEquals(Integer.toString(replica.port()), Redis.text(((List<?>) now).get(1)));
                assertEquals(2, queue.stats().ready());
                assertTrue(own.lock("nightly").acquire(WAIT).orElseThrow().release());
            }
        }
    }

    @Test
    @Tag(Target.ONCE)
    void aKeyOfAnotherTypeIsCorrupt() throws Exception {
        Queue queue = newQueue();
        try (Redis store = target.store()) {
            store.command("SET", "rg:{q:" + queue.name() + "}:meta", "of another type");
        }
        assertThrows(CorruptException.class, queue::stats);
    }

    @Test
    @Tag(Target.CLUSTER)
    void callsFollowASlotThatMoves() throws Exception {
        Lock lock = client.lock(Target.unique("lock"));
        assertTrue(lock.state().waiters().isEmpty(), "the client knows the owner of the slot");
        try (Redis any = target.store()) {
            Object slot = any.command("CLUSTER", "KEYSLOT", "{l:" + lock.name() + "}");
            Node from = null;
            Node to = null;
            for (Object entry : (List<?>) any.command("CLUSTER", "SLOTS")) {
                List<?> range = (List<?>) entry;
                boolean isOwner = (Long) range.get(0) <= (Long) slot && (Long) slot <= (Long) range.get(1);
                from = isOwner ? Node.of(range) : from;
                to = isOwner ? to : Node.of(range);
            }
            try (Redis old = Redis.connect(from.url()); Redis next = Redis.connect(to.url())) {
                next.command("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id());
                old.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id());
                next.command("CONFIG", "RESETSTAT");
                Background<Optional<HeldLock>> acquiring = async(lock::acquire);
                // Until the slot has moved, its new node takes no calls with several keys.
                until(() -> Redis.text(next.command("INFO", "errorstats")).contains("TRYAGAIN"));
                next.command("CLUSTER", "SETSLOT", slot, "NODE", to.id());
                old.command("CLUSTER", "SETSLOT", slot, "NODE", to.id());
                HeldLock held = get(acquiring).orElseThrow();
                assertEquals(1L, next.command("CLUSTER", "COUNTKEYSINSLOT", slot));
                assertTrue(held.release());
            }
        }
    }

    /** A node of a Cluster. */
    private record Node(String host, Object port, String id) {
        static Node of(List<?> range) {
            List<?> node = (List<?>) range.get(2);
            return new Node(Redis.text(node.get(0)), node.get(1), Redis.text(node.get(2)));
        }

        String url() {
            return "redis://" + host + ":" + port;
        }
    }
}
