//! Dead letters.

use std::collections::BTreeSet;

use rushgate_core::{DeadLetter, DeadRequeued, Selection, TaskChange, TaskEnd, verb};
use rusqlite::Row;

use super::{Queue, key, payload, priority, read_line, read_past};
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{parsed, time};

pub(crate) fn dead(reader: &Reader<'_>, v: &verb::Dead) -> Result<Vec<DeadLetter>> {
    reader.rows(sql!("queue/dead", "page"), (v.queue.as_str(), &v.page.after, v.page.limit), read_dead)
}

pub(crate) fn dead_letter(reader: &Reader<'_>, v: &verb::DeadLetter) -> Result<Option<DeadLetter>> {
    reader.row(sql!("queue/dead", "one"), (v.queue.as_str(), v.id.as_str()), read_dead)
}

fn read_dead(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: parsed(row, 0)?,
        payload: payload(row, 1)?,
        priority: priority(row, 3)?,
        attempts: row.get(4)?,
        max_attempts: row.get(5)?,
        error: row.get(6)?,
        died_at: time(row, 7)?,
        key: key(row, 8)?,
        past: read_past(row, 9)?,
    })
}

impl Queue<'_, '_> {
    pub(crate) fn requeue_dead(&mut self, which: &Selection) -> Result<DeadRequeued> {
        let mut ids: Vec<String> = match which {
            Selection::Ids(ids) => ids.iter().map(ToString::to_string).collect(),
            Selection::All => self.step.rows(sql!("queue/dead", "ids"), [self.row.id], |row| row.get(0))?,
        };
        ids.sort();
        ids.dedup();
        let mut requeued = DeadRequeued::default();
        for id in &ids {
            let key = (self.row.id, id.as_str());
            let exists = self.step.row(sql!("queue/requeue_dead", "exists"), key, |row| read_line(row, 0))?;
            let Some(line) = exists else { continue };
            let full = self.row.limits.bound.is_some_and(|bound| self.row.len >= bound);
            let (revision, place) = (self.row.revision + 1, self.row.places + 1);
            let (revision, place) = (revision.cast_signed(), place.cast_signed());
            let params = (self.row.id, id.as_str(), self.now(), revision, place, self.gives_way());
            if full || self.step.exec(sql!("queue/requeue_dead", "requeue_dead"), params)? == 0 {
                requeued.kept += 1;
                continue;
            }
            let arrival = self.step.inserted();
            self.step.exec(sql!("queue/delete_dead", "delete_dead"), key)?;
            self.next_revision();
            self.next_place();
            self.row.len += 1;
            requeued.requeued += 1;
            self.note(self.now(), id, || TaskChange::DeadRequeued);
            self.stand(arrival, line, self.now())?;
        }
        Ok(requeued)
    }

    pub(crate) fn delete_dead(&mut self, which: &Selection) -> Result<u64> {
        for id in self.waited_for_dead(which)? {
            self.has_ended(self.now(), &id, TaskEnd::Deleted, None, None)?;
        }
        let Selection::Ids(ids) = which else {
            if self.keeps_events() {
                let ids: Vec<String> =
                    self.step.rows(sql!("queue/dead", "ids"), [self.row.id], |row| row.get(0))?;
                ids.iter().for_each(|id| self.note(self.now(), id, || TaskChange::DeadDeleted));
            }
            return Ok(self.step.exec(sql!("queue/delete_dead", "all"), [self.row.id])? as u64);
        };
        let mut deleted = 0;
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let gone =
                self.step.exec(sql!("queue/delete_dead", "delete_dead"), (self.row.id, id.as_str()))? as u64;
            if gone > 0 {
                self.note(self.now(), id.as_str(), || TaskChange::DeadDeleted);
            }
            deleted += gone;
        }
        Ok(deleted)
    }
}
