//! The `rushgate` command.

mod rush;

fn main() {}
