//! The contract suite, over a real server with a store on a file.

mod two_clients {
    use crate::common::two_clients;
    rushgate_contract::contract_suite!(two_clients);
}

mod beside_a_file {
    use crate::common::beside_a_file;
    rushgate_contract::contract_suite!(beside_a_file);
}
