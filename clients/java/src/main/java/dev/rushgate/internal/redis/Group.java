package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import java.util.List;

/** The keys of one thing, such as a lock. They share a hash tag. */
record Group(Contract.Group keys, String name, String end) {
    static Group lock(String name) {
        return new Group(Contract.LOCK_KEYS, name, "");
    }

    static Group queue(String name) {
        return new Group(Contract.QUEUE_KEYS, name, "");
    }

    static Group schedules(String queue) {
        return new Group(Contract.SCHEDULES_KEYS, queue, "");
    }

    static Group unique(String queue) {
        return new Group(Contract.UNIQUE_KEYS, queue, "");
    }

    static Group workers(String queue) {
        return new Group(Contract.WORKERS_KEYS, queue, "");
    }

    /** The replay cache of a client. */
    static Group answers(String queue, String client) {
        return new Group(Contract.ANSWERS_KEYS, queue, ":" + client);
    }

    static Group home(String sale) {
        return new Group(Contract.HOME_KEYS, sale, "");
    }

    static Group sale(String id) {
        return new Group(Contract.SALE_KEYS, id, "");
    }

    /** The key with an ending. */
    String key(String ending) {
        return Contract.KEY_PREFIX + "{" + keys.tag() + ":" + name + "}:" + ending + end;
    }

    /** The first key, from which a function derives the others. */
    List<String> first() {
        return List.of(key(keys.endings().get(0)));
    }

    /** All keys, which a Cluster needs. */
    List<String> all() {
        return keys.endings().stream().map(this::key).toList();
    }
}
