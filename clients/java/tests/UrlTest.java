import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.rushgate.InvalidException;
import dev.rushgate.Rushgate;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class UrlTest {
    @Test
    void aUrlThatNamesNoStoreIsRefused() {
        for (String url : List.of("", "localhost", "ftp://a", "redis://", "redis://a:b", "redis://a:0", "redis://a:70000",
                "redis://a/b", "redis://a/1/2", "redis://a/0?x", "redis://a#x", "redis://user@a", "redis://u:%zz@a", "redis://a,b",
                "redis://a,", "redis+cluster://a/1", "redis+sentinel://a", "redis+other://a", "http://", "http://a?b", "http://a#b",
                "http://user:password@a", "http://a b", "https:a")) {
            InvalidException refused = assertThrows(InvalidException.class, () -> Rushgate.connect(url), url);
            assertEquals("url", refused.field(), url);
        }
        assertThrows(InvalidException.class, () -> Rushgate.connect(null));
    }

    @Test
    void settingsOutOfRangeAreRefused() {
        Rushgate.Builder server = Rushgate.builder("http://127.0.0.1:1");
        for (String token : List.of("", "two words", "line\nbreak", "é")) {
            assertEquals("token", assertThrows(InvalidException.class, () -> server.token(token).connect()).field());
        }
        Rushgate.Builder redis = Rushgate.builder("redis://127.0.0.1:1");
        assertThrows(InvalidException.class, () -> redis.timeout(Duration.ofMillis(99)).connect());
        assertThrows(InvalidException.class, () -> redis.timeout(Duration.ofSeconds(1)).retryFor(Duration.ZERO).connect());
    }
}
