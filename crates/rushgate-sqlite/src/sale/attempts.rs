//! Attempts at sales, as servers count them.

use rushgate_core::{ATTEMPT_ANSWERS_MAX, ATTEMPT_SERVERS_MAX, verb::CountAttempts};

use crate::fault::Result;
use crate::sql::sql;
use crate::step::Step;

pub(crate) fn count_attempts(step: &mut Step<'_>, verb: &CountAttempts) -> Result<Vec<(String, u64)>> {
    let (sale, server) = (verb.sale.as_str(), format!("{:016x}", verb.server.as_u64()));
    for (answer, n) in &verb.answers {
        let known: Option<i64> = step.value(sql!("sale/attempts", "knows"), (sale, answer))?;
        let answers: Option<i64> = step.value(sql!("sale/attempts", "answers"), [sale])?;
        if *n > 0 && (known.is_some() || answers.unwrap_or_default() < ATTEMPT_ANSWERS_MAX as i64) {
            let params = (sale, answer, &server, n.cast_signed(), step.now_us());
            step.exec(sql!("sale/attempts", "count"), params)?;
        }
    }
    let oldest: Option<String> = step.value(sql!("sale/attempts", "oldest"), (sale, ATTEMPT_SERVERS_MAX))?;
    if let Some(oldest) = oldest {
        step.exec(sql!("sale/attempts", "fold"), (sale, &oldest))?;
        step.exec(sql!("sale/attempts", "forget"), (sale, &oldest))?;
    }
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
    step.rows(sql!("sale/attempts", "sums"), [sale], read)
}
