//! The contract suite, on Redis and on Valkey: on a standalone server, behind sentinels, and on a Cluster.

mod on_redis {
    use crate::common::redis;
    rushgate_contract::contract_suite!(redis);
}

mod on_valkey {
    use crate::common::valkey;
    rushgate_contract::contract_suite!(valkey);
}

mod on_redis_sentinel {
    use crate::common::redis_sentinel;
    rushgate_contract::contract_suite!(redis_sentinel);
}

mod on_valkey_sentinel {
    use crate::common::valkey_sentinel;
    rushgate_contract::contract_suite!(valkey_sentinel);
}

mod on_redis_cluster {
    use crate::common::redis_cluster;
    rushgate_contract::contract_suite!(redis_cluster);
}

mod on_valkey_cluster {
    use crate::common::valkey_cluster;
    rushgate_contract::contract_suite!(valkey_cluster);
}
