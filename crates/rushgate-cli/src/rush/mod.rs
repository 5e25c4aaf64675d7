//! `rushgate rush`: a sale, a crowd, and the audit.
