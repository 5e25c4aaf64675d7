import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.rushgate.InvalidException;
import dev.rushgate.Recurrence;
import dev.rushgate.internal.Cron;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class CronTest {
    private static final String SUNDAY_NOON = "2026-11-22T12:00:00Z";

    private static String next(Recurrence recurrence, String after) {
        return Cron.next(recurrence, Instant.parse(after)).toString();
    }

    @Test
    void patternsHaveTheSameOccurrencesAsInRust() {
        Map<String, String> expected = Map.ofEntries(
                Map.entry("30 3 * * *", "2026-11-23T03:30:00Z"), Map.entry("*/10 * * * * *", "2026-11-22T12:00:10Z"),
                Map.entry("@hourly", "2026-11-22T13:00:00Z"), Map.entry("0 0 L 2 *", "2027-02-28T00:00:00Z"),
                Map.entry("0 9 * * MON-FRI", "2026-11-23T09:00:00Z"), Map.entry("0 0 29 2 *", "2028-02-29T00:00:00Z"),
                Map.entry("0 0 1 * MON", "2026-11-23T00:00:00Z"), Map.entry("0 0 * * 5#2", "2026-12-11T00:00:00Z"),
                Map.entry("0 0 * * FRIL", "2026-11-27T00:00:00Z"), Map.entry("0 0 1 JAN ? 2030", "2030-01-01T00:00:00Z"),
                Map.entry("0 0 * * 7", "2026-11-29T00:00:00Z"), Map.entry("5,10-12/2 12 * * *", "2026-11-22T12:05:00Z"));
        expected.forEach((pattern, occurrence) -> {
            String text = pattern.endsWith("2030") ? "0 " + pattern : pattern;
            assertEquals(occurrence, next(Recurrence.cron(text), SUNDAY_NOON), pattern);
        });
    }

    @Test
    void aNightIsOneNightWhenClocksChange() {
        Recurrence nightly = Recurrence.cron("30 2 * * *").in("Europe/Berlin");
        assertEquals("2027-03-28T01:00:00Z", next(nightly, "2027-03-27T12:00:00Z"));
        assertEquals("2027-03-29T00:30:00Z", next(nightly, "2027-03-28T01:00:00Z"));
        assertEquals("2027-10-31T00:30:00Z", next(nightly, "2027-10-30T12:00:00Z"));
        assertEquals("2027-11-01T01:30:00Z", next(nightly, "2027-10-31T00:30:00Z"));
    }

    @Test
    void intervalsCountFrom1970() {
        assertEquals("2026-11-22T12:00:30Z", next(Recurrence.every(Duration.ofSeconds(30)), "2026-11-22T12:00:07Z"));
        assertEquals("2026-11-22T12:01:00Z", next(Recurrence.every(Duration.ofSeconds(30)), "2026-11-22T12:00:30Z"));
    }

    @Test
    void whatNamesNoMomentIsRefused() {
        for (String pattern : List.of("", "* * *", "61 * * * *", "0 0 31 2 *", "soon", "5/15 * * * *", "0 0 15W * *",
                "0 0 * * +MON", "1-70 * * * *", "9-5 * * * *", "* * * * MONX", "*/0 * * * *")) {
            assertThrows(InvalidException.class, () -> next(Recurrence.cron(pattern), SUNDAY_NOON), pattern);
        }
        assertThrows(InvalidException.class, () -> Recurrence.cron("@daily").in("Europe/Nowhere"));
        assertThrows(InvalidException.class, () -> Recurrence.every(Duration.ofMillis(999)));
        assertThrows(InvalidException.class, () -> Recurrence.every(Duration.ofMinutes(1)).in("Europe/Berlin"));
    }
}
