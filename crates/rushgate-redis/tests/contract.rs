//! The shared suite, on Redis and on Valkey.

mod common;

mod on_redis {
    use crate::common::redis;
    rushgate_testkit::contract_suite!(redis);
}

mod on_valkey {
    use crate::common::valkey;
    rushgate_testkit::contract_suite!(valkey);
}
