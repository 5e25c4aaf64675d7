import dev.rushgate.HeldLock;
import dev.rushgate.LockOptions;
import dev.rushgate.Outcome;
import dev.rushgate.Rushgate;
import dev.rushgate.Worker;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** A process of a test: URL ROLE ARGUMENT… */
final class Child {
    private Child() {}

    /** Starts a process with the class path of this one. */
    static Process start(Class<?> program, Object... words) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElse("java"),
                "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"), program.getName()));
        for (Object word : words) {
            command.add(word.toString());
        }
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    public static void main(String[] words) throws Exception {
        Rushgate client = Target.builder(words[0]).connect();
        switch (words[1]) {
            case "count" -> LocksTest.count(client, words[2], Integer.parseInt(words[3]), Path.of(words[4]));
            case "hold" -> hold(client, words[2], words[3]);
            case "serve" -> serve(client, words[2]);
            default -> throw new IllegalArgumentException("unknown role " + words[1]);
        }
        client.close();
    }

    /** Holds a lock and a task until the process is killed. */
    private static void hold(Rushgate client, String lock, String queue) throws Exception {
        Duration lease = Duration.ofSeconds(2);
        HeldLock held = client.lock(lock, LockOptions.DEFAULTS.lease(lease)).acquire().orElseThrow();
        client.worker(queue).lease(lease).handle("*", job -> {
            System.out.println(held.fence());
            new CountDownLatch(1).await();
            return Outcome.done();
        }).build().run();
    }

    /** Works until the process is terminated. Each task ends when the process reads a line. */
    private static void serve(Rushgate client, String queue) {
        Worker worker = client.worker(queue).handle("*", job -> {
            System.out.println("running");
            System.in.read();
            return Outcome.done();
        }).build();
        var running = worker.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            worker.stop();
            System.out.println("stopping");
            System.out.println(running.join().done());
        }));
        running.join();
    }
}
