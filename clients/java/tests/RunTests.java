import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import dev.rushgate.BackoffTest;
import dev.rushgate.internal.redis.ConnectionTest;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs the suite on every transport, and prints how many tests passed. */
final class RunTests implements TestExecutionListener {
    private static final List<Class<?>> PURE = List.of(JsonTest.class, CronTest.class, ContentTest.class,
            UrlTest.class, BackoffTest.class, ConnectionTest.class);
    private static final List<Class<?>> SUITE = List.of(LocksTest.class, QueuesTest.class, WhyTest.class, WorkerTest.class,
            SalesTest.class, SafetyTest.class, SchedulesTest.class, ProcessesTest.class, FaultsTest.class, ReadmeTest.class);
    /** One store over Redis and over HTTP. */
    private static final String SHARED = "shared";
    /** Parts that run one after the other. The lanes run at the same time, because tests wait for most of their time. */
    private static final List<List<String>> LANES =
            List.of(List.of("redis", "http_redis", SHARED, "sentinel"), List.of("cluster", "tls", "http"));
    private static final PrintWriter OUT = new PrintWriter(System.out, true);
    private static final AtomicInteger ALL_PASSED = new AtomicInteger();
    private static final AtomicInteger ALL_FAILED = new AtomicInteger();

    private final String part;
    private final AtomicInteger passed = new AtomicInteger();

    private RunTests(String part) {
        this.part = part;
    }

    public static void main(String[] names) throws InterruptedException {
        new RunTests("without a server").run(PURE, List.of());
        List<Thread> lanes = new ArrayList<>();
        for (List<String> parts : LANES) {
            Thread lane = new Thread(() -> parts.stream()
                    .filter(part -> names.length == 0 || Arrays.asList(names).contains(part)).forEach(RunTests::runPart));
            lane.start();
            lanes.add(lane);
        }
        for (Thread lane : lanes) {
            lane.join();
        }
        OUT.printf("%d passed, %d failed%n", ALL_PASSED.get(), ALL_FAILED.get());
        System.exit(ALL_FAILED.get() == 0 && ALL_PASSED.get() > 0 ? 0 : 1);
    }

    /** Runs a part, if the environment has the URLs that it needs. */
    private static void runPart(String part) {
        List<Target> targets = Target.all();
        if (part.equals(SHARED)) {
            if (targets.stream().map(Target::name).toList().containsAll(SharedTest.BOTH)) {
                new RunTests(part).run(List.of(SharedTest.class), List.of());
            }
            return;
        }
        targets.stream().filter(target -> target.name().equals(part)).forEach(target -> {
            Target.CURRENT.set(target);
            new RunTests(part).run(SUITE, target.exclusions());
        });
    }

    private void run(List<Class<?>> tests, List<String> exclusions) {
        long began = System.nanoTime();
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request();
        tests.forEach(test -> request.selectors(selectClass(test)));
        if (!exclusions.isEmpty()) {
            request.filters(TagFilter.excludeTags(exclusions));
        }
        LauncherDiscoveryRequest built = request.build();
        LauncherFactory.create().execute(built, this);
        OUT.printf("%s: %d passed in %.1f s%n", part, passed.get(), (System.nanoTime() - began) / 1e9);
    }

    /** A test that does not apply to a transport has a tag. No test is skipped. */
    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        fail(test, new AssertionError("skipped: " + reason));
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        if (result.getStatus() != TestExecutionResult.Status.SUCCESSFUL) {
            fail(test, result.getThrowable().orElseGet(() -> new AssertionError("aborted")));
        } else if (test.isTest()) {
            passed.incrementAndGet();
            ALL_PASSED.incrementAndGet();
        }
    }

    private void fail(TestIdentifier test, Throwable why) {
        ALL_FAILED.incrementAndGet();
        StringBuilder text = new StringBuilder("FAILED " + part + ": " + test.getLegacyReportingName() + "\n");
        for (Throwable cause = why; cause != null; cause = cause.getCause()) {
            text.append("  ").append(cause).append('\n');
            // The frames of the runner say nothing about a test.
            Arrays.stream(cause.getStackTrace()).filter(frame -> !frame.getClassName().matches("(org\\.junit|java|jdk)\\..*"))
                    .forEach(frame -> text.append("    at ").append(frame).append('\n'));
        }
        OUT.print(text);
        OUT.flush();
    }
}
