package dev.rushgate.internal.redis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.internal.Timers;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Which thread reads the replies of a connection. */
@Timeout(60)
public class ConnectionTest {
    private static final Duration LONG = Duration.ofMinutes(10);
    private static final Duration SHORT = Duration.ofMillis(200);

    private final Timers timers = new Timers();
    private Socket server;
    private Resp requests;
    /** The thread that reads at the moment. */
    private volatile Thread reader;

    private Connection connect(Duration timeout) throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Socket socket = new Socket(listener.getInetAddress(), listener.getLocalPort()) {
                @Override
                public InputStream getInputStream() throws IOException {
                    return new FilterInputStream(super.getInputStream()) {
                        @Override
                        public int read(byte[] into, int from, int length) throws IOException {
                            reader = Thread.currentThread();
                            try {
                                return super.read(into, from, length);
                            } finally {
                                reader = null;
                            }
                        }
                    };
                }
            };
            server = listener.accept();
            requests = new Resp(server.getInputStream());
            return new Connection(new Dialer.Line(socket, socket), timeout, timers);
        }
    }

    @AfterEach
    void close() throws IOException {
        server.close();
        timers.close();
    }

    /** Repeats the next requests. */
    private void answer(int count) throws IOException {
        for (int answered = 0; answered < count; answered++) {
            byte[] word = (byte[]) ((List<?>) requests.read()).get(0);
            server.getOutputStream().write(("+" + new String(word, StandardCharsets.UTF_8) + "\r\n").getBytes(StandardCharsets.UTF_8));
        }
    }

    private static String call(Connection connection, String word) throws IOException {
        return ((Resp.Status) connection.send(List.of(Resp.command(List.of(word))))).text();
    }

    /** A call in a thread of its own. */
    private static final class Caller<T> extends FutureTask<T> {
        final Thread thread = new Thread(this);

        Caller(Callable<T> work) {
            super(work);
            thread.setDaemon(true);
            thread.start();
        }

        T result() throws Exception {
            return get(30, TimeUnit.SECONDS);
        }
    }

    private static Caller<String> caller(Connection connection, String word) {
        return new Caller<>(() -> call(connection, word));
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        while (!condition.call()) {
            Thread.sleep(1);
        }
    }

    private static void untilWaiting(Caller<?> caller) throws Exception {
        until(() -> caller.thread.getState() == Thread.State.WAITING);
    }

    private boolean poolReads() {
        Thread reads = reader;
        return reads != null && reads.getName().startsWith("rushgate");
    }

    @Test
    void aThreadThatWaitsAloneReadsItsReply() throws Exception {
        Connection connection = connect(LONG);
        for (String word : List.of("a", "b")) {
            Caller<String> caller = caller(connection, word);
            until(() -> reader == caller.thread);
            answer(1);
            assertEquals(word, caller.result());
        }
    }

    @Test
    void thePoolReadsForThreadsThatWaitTogether() throws Exception {
        Connection connection = connect(LONG);
        Caller<String> first = caller(connection, "first");
        until(() -> reader == first.thread);
        Caller<String> second = caller(connection, "second");
        untilWaiting(second);
        Caller<String> third = caller(connection, "third");
        untilWaiting(third);
        answer(1);
        assertEquals("first", first.result());
        until(this::poolReads);
        answer(2);
        assertEquals(List.of("second", "third"), List.of(second.result(), third.result()));
        // Later, a thread that waits alone reads its reply again.
        Caller<Integer> alone = new Caller<>(() -> {
            int calls = 0;
            for (; calls < Connection.ALONE; calls++) {
                call(connection, "next");
            }
            return calls;
        });
        answer(Connection.ALONE);
        assertEquals(Connection.ALONE, alone.result());
        Caller<String> last = caller(connection, "last");
        until(() -> reader == last.thread);
        answer(1);
        assertEquals("last", last.result());
    }

    @Test
    void anInterruptOfTheThreadThatReadsDisturbsNobody() throws Exception {
        Connection connection = connect(LONG);
        Caller<Boolean> first = new Caller<>(() -> call(connection, "first").equals("first") && Thread.interrupted());
        until(() -> reader == first.thread);
        Caller<Boolean> second = new Caller<>(() -> call(connection, "second").equals("second") && Thread.interrupted());
        untilWaiting(second);
        first.thread.interrupt();
        second.thread.interrupt();
        answer(2);
        assertTrue(first.result(), "has its reply, and is still interrupted");
        assertTrue(second.result());
        assertTrue(connection.isOpen());
    }

    @Test
    void aReplyThatIsLateFailsAllThatWait() throws Exception {
        Connection connection = connect(SHORT);
        Caller<IOException> first = new Caller<>(() -> assertThrows(IOException.class, () -> call(connection, "first")));
        Caller<IOException> second = new Caller<>(() -> assertThrows(IOException.class, () -> call(connection, "second")));
        for (Caller<IOException> caller : List.of(first, second)) {
            assertEquals("no reply within 200 ms", caller.result().getMessage());
        }
        assertFalse(connection.isOpen());
    }

    @Test
    void anIdleConnectionNoticesItsEnd() throws Exception {
        Connection connection = connect(SHORT);
        server.close();
        until(() -> !connection.isOpen());
        assertThrows(NotSentException.class, () -> call(connection, "late"));
    }

    @Test
    void aCallAfterAnIdleTimeIsAnswered() throws Exception {
        Connection connection = connect(Duration.ofSeconds(2));
        until(this::poolReads);
        Caller<String> caller = caller(connection, "a");
        answer(1);
        assertEquals("a", caller.result());
    }

    @Test
    void theEndOfTheConnectionFailsTheThreadThatReads() throws Exception {
        Connection connection = connect(LONG);
        Caller<IOException> caller = new Caller<>(() -> assertThrows(IOException.class, () -> call(connection, "a")));
        until(() -> reader == caller.thread);
        server.close();
        assertEquals("the server closed the connection", caller.result().getMessage());
        Connection other = connect(LONG);
        Caller<IOException> closed = new Caller<>(() -> assertThrows(IOException.class, () -> call(other, "a")));
        until(() -> reader == closed.thread);
        other.close();
        assertEquals("the connection was closed", closed.result().getMessage());
    }

    @Test
    void manyThreadsGetTheirOwnReplies() throws Exception {
        Connection connection = connect(Duration.ofSeconds(20));
        int threads = 16;
        int calls = 500;
        List<Caller<Boolean>> callers = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            String name = "t" + thread + ":";
            callers.add(new Caller<>(() -> {
                boolean own = true;
                for (int number = 0; number < calls; number++) {
                    own &= call(connection, name + number).equals(name + number);
                    if (number % 50 == 0) {
                        // Sometimes alone, sometimes with others.
                        Thread.sleep(1);
                    }
                }
                return own;
            }));
        }
        answer(threads * calls);
        for (Caller<Boolean> caller : callers) {
            assertTrue(caller.result());
        }
    }
}
