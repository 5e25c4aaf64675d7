import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.rushgate.CorruptException;
import dev.rushgate.InvalidException;
import dev.rushgate.internal.Json;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void valuesAreReadAsTheyWereWritten() {
        for (Object value : Arrays.asList(null, true, 0L, -5L, "Zoë \"x\" \\ \n\t\u0001 \ud83d\ude00", List.of(), Map.of(),
                List.of(1L, List.of("a"), Map.of("b", false)), new BigInteger("18446744073709551615"), new BigDecimal("1.50"))) {
            assertEquals(value, Json.read(Json.write(value)));
        }
        assertEquals(List.of(1L, 2L), Json.read(Json.write(new int[] {1, 2})));
        assertEquals("a\u00e9\ud83d\ude00/", Json.read("\"a\\u00e9\\ud83d\\ude00\\/\""));
        assertEquals(new BigDecimal("1E+2"), Json.read("1e2"));
    }

    @Test
    void whatIsNotJsonIsRefused() {
        for (String text : List.of("", " ", "{", "[1,]", "{\"a\" 1}", "01", "1.", "+1", "nul", "\"\n\"", "\"\\x\"", "1 2",
                "[".repeat(2_000), "'a'", "{a:1}", "\"\\u12g4\"")) {
            assertThrows(CorruptException.class, () -> Json.read(text), text);
        }
    }

    @Test
    void whatJsonDoesNotHaveIsRefused() {
        for (Object value : List.of(Double.NaN, Float.POSITIVE_INFINITY, new Object(), "\ud800")) {
            assertThrows(InvalidException.class, () -> Json.write(value));
        }
    }
}
