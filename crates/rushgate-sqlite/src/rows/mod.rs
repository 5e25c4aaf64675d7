//! Rows that a group of calls reads once and writes once.

pub(crate) mod queue;
pub(crate) mod sale;
