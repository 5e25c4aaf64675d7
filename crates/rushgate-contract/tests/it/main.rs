//! Integration tests: the suite and the histories on the model itself, and with bugs planted in it.

mod model;
mod planted;
