package dev.rushgate;

import java.time.Instant;
import java.util.List;

/**
 * A reservation.
 *
 * @param id reservation ID, 32 hexadecimal digits
 * @param buyer buyer
 * @param units units, by line and then by number
 * @param state state
 * @param deadline deadline for the confirmation
 * @param seq number of its event
 * @param generation generation of the sale
 * @param receipt signed receipt, which restores the units if the store loses the reservation, or null
 */
public record Hold(
        String id,
        String buyer,
        List<Unit> units,
        HoldState state,
        Instant deadline,
        long seq,
        long generation,
        String receipt) {}
