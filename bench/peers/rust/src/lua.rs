//! A sale as one handwritten script, over one connection shared by all callers. It counts units and buyers,
//! but has no holds, unit numbers, orders or idempotent replays.

use anyhow::Result;
use redis::{Script, cmd};

use crate::record::{Records, now};
use crate::{Settings, together, url};

const SCRIPT: &str = "if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 0 end \
    if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end \
    redis.call('DECR', KEYS[1]) return 1";

pub async fn sale(settings: &Settings) -> Result<()> {
    let mut connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let (callers, buyers) = (settings.get("callers"), settings.get("n"));
    cmd("SET").arg("{sale}:stock").arg(settings.get("units")).exec_async(&mut connection).await?;
    let records = Records::new()?;
    together(callers, |n| {
        let (mut connection, records, script) = (connection.clone(), records.clone(), Script::new(SCRIPT));
        async move {
            for buyer in (n..buyers).step_by(callers as usize) {
                let asked = now();
                let mut step = script.key("{sale}:stock");
                let sold: u64 = step.key("{sale}:buyers").arg(buyer).invoke_async(&mut connection).await?;
                records.add([buyer, asked, now(), sold]);
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}
