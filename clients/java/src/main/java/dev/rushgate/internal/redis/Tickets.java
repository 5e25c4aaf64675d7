package dev.rushgate.internal.redis;

import dev.rushgate.internal.Check;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Tickets as text, in the form of the HTTP API: revision, claim number and due time in hexadecimal digits, and the ID. */
record Tickets(String id, long revision, long claim) {
    private static final Pattern TICKET = Pattern.compile("([0-9a-f]{1,16})\\.([0-9a-f]{1,16})\\.[0-9a-f]{1,16}\\.(.+)");

    static String write(long revision, long claim, long dueUs, String id) {
        return Long.toHexString(revision) + "." + Long.toHexString(claim) + "." + Long.toHexString(dueUs) + "." + id;
    }

    static Tickets read(String ticket) {
        Matcher parts = TICKET.matcher(ticket);
        if (!parts.matches()) {
            throw Check.invalid("ticket", "is malformed");
        }
        return new Tickets(parts.group(3), Long.parseUnsignedLong(parts.group(1), 16),
                Long.parseUnsignedLong(parts.group(2), 16));
    }
}
