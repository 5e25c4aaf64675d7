package dev.rushgate;

import dev.rushgate.internal.Check;
import dev.rushgate.internal.Transport;
import java.time.Duration;
import java.util.Optional;

/**
 * A sale of numbered units. N units are sold exactly once each, to any number of buyers.
 *
 * <p>Any number of threads may share it.
 */
public final class Sale {
    private final Transport.Sales sales;
    private final String id;

    Sale(Transport transport, String id) {
        sales = transport.sales();
        this.id = Check.name("sale", id);
    }

    /** ID of the sale. */
    public String id() {
        return id;
    }

    /** The sale and its stock. Throws {@link NotFoundException} if it does not exist. */
    public SaleState state() {
        return sales.show(id);
    }

    /** Opens the sale, from its opening time on if it has one. */
    public SaleStatus open() {
        return sales.open(id);
    }

    /** Ends the sale permanently. Holds can still be decided. */
    public SaleStatus end() {
        return sales.end(id);
    }

    /** Reserves units for a buyer, all lines or none. Repeating the call with the same key is an idempotent replay. */
    public Reserved reserve(Reservation reservation) {
        return sales.reserve(id, Check.present("reservation", reservation));
    }

    /** A reservation. */
    public Optional<Hold> reservation(String reservation) {
        return sales.reservation(id, Check.reservation(reservation));
    }

    /**
     * Confirms a reservation that is paid for. In a sale with a ledger the outcome is pending until the ledger has the
     * order. Refused: refund the payment.
     */
    public Decision confirm(String reservation) {
        return confirm(reservation, Duration.ZERO);
    }

    /** The same, and waits up to 24 h for the ledger. */
    public Decision confirm(String reservation, Duration wait) {
        Check.micros("wait", wait, Contract.WAIT_US);
        return settled(sales.confirm(id, Check.reservation(reservation)), HoldState.CONFIRMED, wait);
    }

    /** Cancels a reservation. In a sale with a ledger the outcome is pending until the ledger has the order. */
    public Decision cancel(String reservation) {
        return cancel(reservation, Duration.ZERO);
    }

    /** The same, and waits up to 24 h for the ledger. */
    public Decision cancel(String reservation, Duration wait) {
        Check.micros("wait", wait, Contract.WAIT_US);
        return settled(sales.cancel(id, Check.reservation(reservation)), HoldState.CANCELLED, wait);
    }

    private Decision settled(Decision decision, HoldState wanted, Duration wait) {
        if (!(decision instanceof Decision.Pending pending) || wait.isZero()) {
            return decision;
        }
        Optional<Hold> found = sales.waitFinal(id, pending.hold().id(), wait);
        if (found.isEmpty()) {
            return new Decision.Unknown();
        }
        Hold hold = found.get();
        if (hold.state() == wanted) {
            return new Decision.Done(hold);
        }
        return hold.state().isFinal() ? new Decision.Refused(hold.state()) : new Decision.Pending(hold);
    }

    /**
     * Waits up to 24 h until a reservation is final, and returns it. It is not final if the wait was too short. Throws
     * {@link WaitInterruptedException} if the thread is interrupted.
     */
    public Optional<Hold> waitFinal(String reservation, Duration wait) {
        Check.micros("wait", wait, Contract.WAIT_US);
        return sales.waitFinal(id, Check.reservation(reservation), wait);
    }

    /** Restores a reservation that the store has lost, from its receipt. */
    public Restored restore(String receipt) {
        return sales.restore(id, Check.present("receipt", receipt));
    }
}
