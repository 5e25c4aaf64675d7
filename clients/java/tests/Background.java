import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;

/** Work in a separate thread. */
final class Background<T> extends CompletableFuture<T> {
    private final Thread thread;

    Background(Callable<T> work) {
        thread = new Thread(() -> {
            try {
                complete(work.call());
            } catch (Throwable failed) {
                completeExceptionally(failed);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Whether it sleeps until a message or a time. A call of the package waits for its reply without a time. */
    boolean isAsleep() {
        return thread.getState() == Thread.State.TIMED_WAITING;
    }

    void interrupt() {
        thread.interrupt();
    }
}
