use rushgate_core::{Result, verb::CountAttempts};

use crate::command::Call;
use crate::function::Function;
use crate::keys;
use crate::reply::Reply;

pub(crate) fn count_attempts(verb: &CountAttempts) -> Call {
    let call = Call::new(Function::SaleCountAttempts, [keys::attempts(&verb.sale)])
        .arg(verb.server.as_u64().to_be_bytes());
    verb.answers.iter().fold(call, |call, (answer, n)| call.arg(answer).number(*n))
}

pub(crate) fn read_attempts(reply: Reply) -> Result<Vec<(String, u64)>> {
    let mut sums = reply.list()?.each(|fields| Ok((fields.text()?, fields.int()?)))?;
    sums.sort();
    Ok(sums)
}
