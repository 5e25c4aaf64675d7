package dev.rushgate.internal;

import java.net.InetAddress;
import java.net.UnknownHostException;

/** This process, as operators see it. */
public final class Host {
    /** Process ID. */
    public static final long PID = ProcessHandle.current().pid();
    /** Name of the host. */
    public static final String NAME = name();

    private Host() {}

    private static String name() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            return "localhost";
        }
    }
}
