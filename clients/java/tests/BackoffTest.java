package dev.rushgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** In the package of the class, because only workers draw delays. */
public class BackoffTest {
    @Test
    void delaysGrowToTheLongest() {
        Backoff backoff = new Backoff(Duration.ofMillis(100), 2, Duration.ofSeconds(1), false);
        assertEquals("[100, 200, 400, 800, 1000, 1000]",
                IntStream.of(1, 2, 3, 4, 5, 1_000).mapToObj(attempt -> backoff.draw(attempt).toMillis()).toList().toString());
        assertEquals(Duration.ofSeconds(3), Backoff.constant(Duration.ofSeconds(3)).draw(20));
        assertEquals(Duration.ZERO, Backoff.constant(Duration.ZERO).draw(1_000));
    }

    @Test
    void jitterDrawsFromZeroToTheDelay() {
        LongStream drawn = LongStream.range(0, 200).map(draw -> Backoff.DEFAULTS.draw(3).toMillis());
        var summary = drawn.summaryStatistics();
        assertTrue(summary.getMax() <= 4_000, summary.toString());
        assertTrue(summary.getMax() - summary.getMin() > 1_000, summary.toString());
    }

    @Test
    void settingsOutOfRangeAreRefused() {
        Duration second = Duration.ofSeconds(1);
        assertEquals("factor", assertThrows(InvalidException.class, () -> new Backoff(second, 0.5, second, true)).field());
        assertEquals("factor", assertThrows(InvalidException.class, () -> new Backoff(second, Double.NaN, second, true)).field());
        assertEquals("max", assertThrows(InvalidException.class, () -> new Backoff(second, 2, Duration.ofDays(401), true)).field());
    }
}
