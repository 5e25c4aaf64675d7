import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Codec;
import dev.rushgate.Content;
import dev.rushgate.CorruptException;
import dev.rushgate.InvalidException;
import dev.rushgate.internal.Bodies;
import dev.rushgate.internal.ErrorText;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ContentTest {
    private static final String TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    @Test
    void kindAndTraceAreParametersOfTheContentType() {
        Content content = Content.json(1).withKind("mail:welcome").withTraceparent(TRACE);
        assertEquals("application/json;kind=\"mail:welcome\";traceparent=" + TRACE, Bodies.contentType(content));
        Content read = Bodies.content(content.bytes(), "a/b; KIND=x;x=\"1;kind=no\";traceparent=\"" + TRACE + "\"");
        assertEquals("x", read.kind());
        assertEquals(TRACE, read.traceparent());
        assertEquals("a/b;x=\"1;kind=no\"", read.contentType());
        assertEquals("a/b;kind=*", Bodies.content(new byte[0], "a/b;kind=*").contentType(), "of another program");
    }

    @Test
    void commonTypesAreOneByte() {
        assertArrayEquals(new byte[] {(byte) 255, '1'}, Bodies.write(Content.json(1)));
        assertArrayEquals(new byte[] {0, 7}, Bodies.write(Content.bytes(new byte[] {7})));
    }

    @Test
    void aCodecConvertsValues() {
        Codec<Integer> codec = new Codec<>() {
            @Override
            public byte[] encode(Integer value) {
                return value.toString().getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public Integer decode(byte[] json) {
                return Integer.valueOf(new String(json, StandardCharsets.UTF_8));
            }
        };
        assertEquals(5, Content.json(5, codec).as(codec));
        assertThrows(CorruptException.class, () -> Content.text("five").as(codec));
        assertThrows(InvalidException.class, () -> Content.json((Integer) null, codec));
    }

    @Test
    void limitsOfContentAreChecked() {
        assertThrows(InvalidException.class, () -> Content.bytes(new byte[1_048_577]));
        assertThrows(InvalidException.class, () -> Content.empty().withKind("two words"));
        assertThrows(InvalidException.class, () -> Content.empty().withTraceparent("00-0-0-01"));
        assertThrows(InvalidException.class, () -> Content.of(new byte[0], "no type"));
        assertThrows(InvalidException.class, () -> Content.of(new byte[0], "a/" + "b".repeat(190)).withKind("k".repeat(20)));
        assertThrows(InvalidException.class, () -> Content.json(Map.of("a", new Object())));
    }

    @Test
    void anErrorKeepsItsFirstLineAndTheEndOfItsTrace() {
        String text = ErrorText.of(new IllegalStateException("outer " + "é".repeat(3_000), new IllegalArgumentException("root")));
        assertTrue(text.startsWith("java.lang.IllegalStateException: outer é"), text);
        assertTrue(text.contains("Caused by: java.lang.IllegalArgumentException: root\n\tat ContentTest."), text);
        assertTrue(text.getBytes(StandardCharsets.UTF_8).length <= 2_000);
    }

    @Test
    void anExceptionThatCannotDescribeItselfHasItsName() {
        class Mute extends RuntimeException {
            private static final long serialVersionUID = 1;

            @Override
            public String getMessage() {
                throw new IllegalStateException("no message");
            }
        }
        assertTrue(ErrorText.of(new Mute()).startsWith("ContentTest$1Mute\n\tat "), ErrorText.of(new Mute()));
    }
}
