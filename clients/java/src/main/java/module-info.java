/** Distributed locks, durable task queues and oversell-proof flash-sale inventory. */
module dev.rushgate {
    requires java.net.http;

    exports dev.rushgate;
}
