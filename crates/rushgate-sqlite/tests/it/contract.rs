//! The contract suite, on a file and in memory.

mod on_file {
    use crate::common::file;
    rushgate_contract::contract_suite!(file);
}

mod in_memory {
    use crate::common::memory;
    rushgate_contract::contract_suite!(memory);
}
