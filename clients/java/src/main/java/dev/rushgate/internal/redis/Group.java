package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import java.util.List;

/** The keys of one thing, such as a lock. They share a hash tag. */
record Group(String tag, String name, List<String> endings, String end) {
    static Group lock(String name) {
        return new Group(Contract.LOCK_TAG, name, Contract.LOCK_KEYS, "");
    }

    static Group queue(String name) {
        return new Group(Contract.QUEUE_TAG, name, Contract.QUEUE_KEYS, "");
    }

    static Group schedules(String queue) {
        return new Group(Contract.QUEUE_TAG, queue, Contract.SCHEDULE_KEYS, "");
    }

    static Group unique(String queue) {
        return new Group(Contract.QUEUE_TAG, queue, Contract.UNIQUE_KEYS, "");
    }

    static Group workers(String queue) {
        return new Group(Contract.QUEUE_TAG, queue, Contract.WORKER_KEYS, "");
    }

    /** The replay cache of a client. */
    static Group answers(String queue, String client) {
        return new Group(Contract.QUEUE_TAG, queue, Contract.ANSWER_KEYS, ":" + client);
    }

    static Group home(String sale) {
        return new Group(Contract.SALE_TAG, sale, Contract.HOME_KEYS, "");
    }

    static Group sale(String id) {
        return new Group(Contract.SALE_TAG, id, Contract.SALE_KEYS, "");
    }

    /** The key with an ending. */
    String key(String ending) {
        return Contract.KEY_PREFIX + "{" + tag + ":" + name + "}:" + ending + end;
    }

    /** The first key, from which a function derives the others. */
    List<String> first() {
        return List.of(key(endings.get(0)));
    }

    /** All keys, which a Cluster needs. */
    List<String> all() {
        return endings.stream().map(this::key).toList();
    }
}
