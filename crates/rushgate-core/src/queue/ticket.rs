use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::text::json_text;
use crate::{Error, Fence, Field, Result, Revision, TaskId, Timestamp};

/// Proof of what was read or claimed: the record, its revision and the claim.
///
/// As text it is one opaque word made of the three and the ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticket {
    /// The task.
    pub id: TaskId,
    /// When it was due.
    pub due: Timestamp,
    /// The revision.
    pub revision: Revision,
    /// Fencing token of the claim, as for a lock; `None` if the task was only read.
    pub claim: Option<Fence>,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim.map_or(0, Fence::as_u64);
        write!(f, "{:x}.{:x}.{:x}.{}", self.revision.as_u64(), claim, self.due.as_micros(), self.id)
    }
}

impl std::str::FromStr for Ticket {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(Field::Ticket, "is malformed; pass it exactly as Rushgate issued it");
        let mut parts = text.splitn(4, '.');
        let mut number = || {
            let part = parts.next().ok_or_else(wrong)?;
            u64::from_str_radix(part, 16).map_err(|_| wrong())
        };
        let (revision, claim, due) = (number()?, number()?, number()?);
        let id = TaskId::as_stored(parts.next().ok_or_else(wrong)?).map_err(|_| wrong())?;
        Ok(Self {
            id,
            due: Timestamp::from_micros(due),
            revision: Revision::from_u64(revision),
            claim: (claim != 0).then(|| Fence::from_u64(claim)),
        })
    }
}

json_text!(Ticket, ToString::to_string);

/// A ticket and its parts, as fields of a task.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TicketFields<'a> {
    /// ID of the task.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    id: &'a TaskId,
    /// Ticket of the task, for this revision and this claim. Pass it to complete, retry, release and extend.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 251)))]
    ticket: &'a Ticket,
    /// When it was due.
    #[serde(rename = "due_us")]
    due: Timestamp,
    /// Revision of the payload.
    revision: Revision,
    /// Fencing token of the claim. Absent if the task was only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// When it was claimed, exact to the duration of the claiming call. Absent if the task was only read.
    #[serde(rename = "claimed_us", skip_serializing_if = "Option::is_none")]
    claimed: Option<Timestamp>,
}

pub(super) fn ticket_fields<S: Serializer>(ticket: &Ticket, serializer: S) -> Result<S::Ok, S::Error> {
    let Ticket { id, due, revision, claim } = ticket;
    // Claims are numbered by the time, so that their numbers grow.
    let claimed = claim.map(|claim| Timestamp::from_micros(claim.as_u64()));
    let fields = TicketFields { id, ticket, due: *due, revision: *revision, fence: *claim, claimed };
    fields.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_text_and_a_made_up_one_is_refused() {
        let ticket = Ticket {
            id: TaskId::new("mail.to.ann:7").unwrap(),
            due: Timestamp::from_micros(1_700_000_000_000_000),
            revision: Revision::from_u64(3),
            claim: Some(Fence::from_u64(99)),
        };
        assert_eq!(ticket.to_string().parse::<Ticket>().unwrap(), ticket);
        let looked_at = Ticket { claim: None, ..ticket };
        assert_eq!(looked_at.to_string().parse::<Ticket>().unwrap(), looked_at);
        for wrong in ["", "1.2.3", "x.2.3.id", "1.2.3.", "1.2.3.a b"] {
            assert!(wrong.parse::<Ticket>().unwrap_err().is_invalid(), "{wrong:?}");
        }
    }
}
