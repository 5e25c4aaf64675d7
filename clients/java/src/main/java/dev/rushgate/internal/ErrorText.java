package dev.rushgate.internal;

import dev.rushgate.Contract;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** What operators see of a failure. */
public final class ErrorText {
    private static final int HEAD_BYTES = 400;
    private static final int CAUSES = 10;
    private static final int FRAMES = 8;
    private static final String CUT = "\n…\n";

    private ErrorText() {}

    /** A failure and its causes, each with the innermost frames of its trace. */
    public static String of(Throwable failure) {
        StringBuilder text = new StringBuilder();
        String prefix = "";
        int causes = 0;
        for (Throwable one = failure; one != null && causes < CAUSES; one = one.getCause(), causes++) {
            text.append(prefix).append(describe(one));
            Arrays.stream(one.getStackTrace()).limit(FRAMES).forEach(frame -> text.append("\n\tat ").append(frame));
            prefix = "\nCaused by: ";
        }
        return of(text.toString());
    }

    /** An exception whose own description fails still ends its task. */
    private static String describe(Throwable failure) {
        try {
            return String.valueOf(failure);
        } catch (RuntimeException broken) {
            return failure.getClass().getName();
        }
    }

    /** Text of at most 2,000 bytes: its first line, and as much of its end as there is room for. */
    public static String of(String text) {
        byte[] bytes = Check.present("error", text).getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= Contract.ERROR_BYTES) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        String head = Check.cut(text.lines().findFirst().orElse(""), HEAD_BYTES) + CUT;
        int begin = bytes.length - (Contract.ERROR_BYTES - head.getBytes(StandardCharsets.UTF_8).length);
        while (begin < bytes.length && (bytes[begin] & 0xc0) == 0x80) {
            begin++;
        }
        return head + new String(Arrays.copyOfRange(bytes, begin, bytes.length), StandardCharsets.UTF_8);
    }
}
