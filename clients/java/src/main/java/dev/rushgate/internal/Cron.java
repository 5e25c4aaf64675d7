package dev.rushgate.internal;

import dev.rushgate.InvalidException;
import dev.rushgate.Recurrence;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A cron pattern: five fields, six with seconds in front, or seven with a year at the end; or a nickname such as
 * {@code @daily}. A pattern that restricts both the day and the weekday matches either. {@code L} is the last day of the
 * month; after a weekday, {@code #2} is the second and {@code L} the last of the month.
 */
public final class Cron {
    private static final int SEARCHED_DAYS = 366 * 100;
    private static final Map<String, String> NICKNAMES = Map.of("@yearly", "0 0 1 1 *", "@annually", "0 0 1 1 *",
            "@monthly", "0 0 1 * *", "@weekly", "0 0 * * 0", "@daily", "0 0 * * *", "@hourly", "0 * * * *");
    private static final List<String> MONTHS =
            List.of("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC");
    private static final List<String> WEEKDAYS = List.of("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT");
    private static final int DAYS_PER_WEEK = 7;
    private static final String LAST = "L";

    private final String pattern;
    private final BitSet seconds;
    private final BitSet minutes;
    private final BitSet hours;
    private final BitSet days;
    private final boolean lastDay;
    private final boolean anyDay;
    private final BitSet months;
    private final BitSet weekdays = new BitSet();
    private final Set<String> nthWeekdays = new HashSet<>();
    private final boolean anyWeekday;
    private final BitSet years;

    private Cron(String pattern) {
        this.pattern = pattern;
        String[] fields = fieldsOf(pattern);
        seconds = numbers(fields[0], 0, 59, List.of());
        minutes = numbers(fields[1], 0, 59, List.of());
        hours = numbers(fields[2], 0, 23, List.of());
        anyDay = fields[3].equals("*");
        lastDay = List.of(fields[3].split(",")).contains(LAST);
        days = numbers(without(fields[3]), 1, 31, List.of());
        months = numbers(fields[4], 1, 12, MONTHS);
        anyWeekday = fields[5].equals("*");
        readWeekdays(fields[5]);
        years = numbers(fields[6], 1, 9_999, List.of());
    }

    /** The first occurrence of a recurrence after a moment. Throws {@link InvalidException} if there is none. */
    public static Instant next(Recurrence recurrence, Instant after) {
        return find(recurrence, after).orElseThrow(() -> Check.invalid("cron", "`" + recurrence.cron() + "` never matches"));
    }

    /** The first occurrence after a moment, if there is one. Throws {@link InvalidException} for a malformed pattern. */
    public static Optional<Instant> find(Recurrence recurrence, Instant after) {
        if (recurrence.every() != null) {
            long interval = Times.micros(recurrence.every());
            return Optional.of(Times.instant((Times.micros(after) / interval + 1) * interval));
        }
        ZoneId zone = ZoneId.of(recurrence.zone() == null ? "UTC" : recurrence.zone());
        return Optional.ofNullable(new Cron(recurrence.cron()).next(zone, after));
    }

    private InvalidException invalid(String why) {
        return Check.invalid("cron", "`" + pattern + "` " + why);
    }

    /** Seven fields. Question marks are stars. */
    private String[] fieldsOf(String text) {
        String known = NICKNAMES.getOrDefault(text.strip().toLowerCase(Locale.ROOT), text);
        String[] fields = known.strip().toUpperCase(Locale.ROOT).replace('?', '*').split("\\s+");
        return switch (fields.length) {
            case 5 -> ("0 " + String.join(" ", fields) + " *").split(" ");
            case 6 -> (String.join(" ", fields) + " *").split(" ");
            case 7 -> fields;
            default -> throw invalid("has " + fields.length + " fields; use `minute hour day month weekday`");
        };
    }

    private static String without(String field) {
        return String.join(",", List.of(field.split(",")).stream().filter(part -> !part.equals(LAST)).toList());
    }

    private void readWeekdays(String field) {
        for (String part : field.split(",")) {
            int nth = part.endsWith(LAST) ? part.length() - 1 : part.indexOf('#');
            if (nth <= 0) {
                numbers(part, 0, DAYS_PER_WEEK, WEEKDAYS).stream().forEach(day -> weekdays.set(day % DAYS_PER_WEEK));
                continue;
            }
            String which = part.substring(nth).replace("#", "");
            if (!which.matches("[1-5L]")) {
                throw invalid("has a malformed weekday");
            }
            int day = number(part.substring(0, nth).replace("#", ""), 0, DAYS_PER_WEEK, WEEKDAYS);
            nthWeekdays.add(day % DAYS_PER_WEEK + which);
        }
    }

    /** The numbers of a field: a list of stars, numbers and ranges, with steps. */
    private BitSet numbers(String field, int min, int max, List<String> names) {
        BitSet numbers = new BitSet();
        for (String part : field.isEmpty() ? new String[0] : field.split(",", -1)) {
            String[] stepped = part.split("/", -1);
            int step = stepped.length == 1 ? 1 : number(stepped[1], 1, max, List.of());
            String[] range = stepped[0].split("-", -1);
            boolean isStar = stepped[0].equals("*");
            int first = isStar ? min : number(range[0], min, max, names);
            int last = isStar ? max : number(range[range.length - 1], min, max, names);
            boolean isMalformed = stepped.length > 2 || range.length > 2 || first > last
                    || stepped.length == 2 && !isStar && range.length == 1;
            if (isMalformed) {
                throw invalid("has the malformed part `" + part + "`");
            }
            for (int value = first; value <= last; value += step) {
                numbers.set(value);
            }
        }
        return numbers;
    }

    private int number(String text, int min, int max, List<String> names) {
        if (names.contains(text)) {
            return names.indexOf(text) + (names == MONTHS ? 1 : 0);
        }
        int number = text.matches("\\d{1,4}") ? Integer.parseInt(text) : -1;
        if (number < min || number > max) {
            throw invalid("has `" + text + "`, which is not " + min + " to " + max);
        }
        return number;
    }

    /** Null if there is none. */
    private Instant next(ZoneId zone, Instant after) {
        LocalDate day = after.atZone(zone).toLocalDate();
        for (int searched = 0; searched < SEARCHED_DAYS; searched++, day = day.plusDays(1)) {
            Instant first = matches(day) ? firstOf(day, zone, after) : null;
            if (first != null) {
                return first;
            }
        }
        return null;
    }

    private boolean matches(LocalDate day) {
        if (!months.get(day.getMonthValue()) || !years.get(day.getYear())) {
            return false;
        }
        boolean dayMatches = days.get(day.getDayOfMonth()) || lastDay && day.getDayOfMonth() == day.lengthOfMonth();
        boolean weekdayMatches = weekdayMatches(day);
        return anyDay || anyWeekday ? dayMatches && weekdayMatches : dayMatches || weekdayMatches;
    }

    private boolean weekdayMatches(LocalDate day) {
        int weekday = day.getDayOfWeek().getValue() % DAYS_PER_WEEK;
        boolean isLast = day.getDayOfMonth() + DAYS_PER_WEEK > day.lengthOfMonth();
        return weekdays.get(weekday)
                || nthWeekdays.contains(weekday + "" + ((day.getDayOfMonth() - 1) / DAYS_PER_WEEK + 1))
                || isLast && nthWeekdays.contains(weekday + LAST);
    }

    /** The first occurrence of a day after a moment, or null. */
    private Instant firstOf(LocalDate day, ZoneId zone, Instant after) {
        ZoneOffset offset = zone.getRules().getOffset(day.atStartOfDay());
        if (!zone.getRules().getOffset(day.atTime(LocalTime.MAX)).equals(offset)) {
            return firstWhereClocksChange(day, zone, after);
        }
        LocalDateTime past = LocalDateTime.ofInstant(after, offset);
        for (int hour = hours.nextSetBit(0); hour >= 0; hour = hours.nextSetBit(hour + 1)) {
            if (day.atTime(hour, 59, 59).compareTo(past) <= 0) {
                continue;
            }
            for (int minute = minutes.nextSetBit(0); minute >= 0; minute = minutes.nextSetBit(minute + 1)) {
                for (int second = seconds.nextSetBit(0); second >= 0; second = seconds.nextSetBit(second + 1)) {
                    LocalDateTime found = day.atTime(hour, minute, second);
                    if (found.isAfter(past)) {
                        return found.toInstant(offset);
                    }
                }
            }
        }
        return null;
    }

    private Instant firstWhereClocksChange(LocalDate day, ZoneId zone, Instant after) {
        Instant first = null;
        for (int hour = hours.nextSetBit(0); hour >= 0; hour = hours.nextSetBit(hour + 1)) {
            for (int minute = minutes.nextSetBit(0); minute >= 0; minute = minutes.nextSetBit(minute + 1)) {
                for (int second = seconds.nextSetBit(0); second >= 0; second = seconds.nextSetBit(second + 1)) {
                    for (Instant found : instants(day.atTime(hour, minute, second), zone)) {
                        if (found.isAfter(after) && (first == null || found.isBefore(first))) {
                            first = found;
                        }
                    }
                }
            }
        }
        return first;
    }

    /**
     * The moments of a local time. A fixed time that the clocks skip moves to the next time that exists, and one that they
     * repeat counts once. Other times follow the local clock.
     */
    private List<Instant> instants(LocalDateTime local, ZoneId zone) {
        boolean isFixed = hours.cardinality() == 1 && minutes.cardinality() == 1 && seconds.cardinality() == 1;
        ZoneOffsetTransition transition = zone.getRules().getTransition(local);
        if (transition == null) {
            return List.of(local.atZone(zone).toInstant());
        }
        if (transition.isGap()) {
            return isFixed ? List.of(transition.getInstant()) : List.of();
        }
        Instant once = local.toInstant(transition.getOffsetBefore());
        return isFixed ? List.of(once) : List.of(once, local.toInstant(transition.getOffsetAfter()));
    }
}
