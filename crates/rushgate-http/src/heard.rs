//! The stream of a notification: server-sent events, of which the first one with data is the last.

use rushgate_core::{Error, FailureView, HeardView, Notification, Result};

/// Longest line of the stream, in bytes.
const LINE_MAX: usize = 64 << 10;

/// The lines of a stream, as they arrive in parts.
#[derive(Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Adds a part of the stream. Returns the notification, if the stream has one.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<Option<Option<Notification>>> {
        self.0.extend_from_slice(part);
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if let Some(data) = line.strip_prefix(b"data: ") {
                return read(data).map(Some);
            }
        }
        match self.0.len() > LINE_MAX {
            true => Err(unreadable()),
            false => Ok(None),
        }
    }
}

fn read(data: &[u8]) -> Result<Option<Notification>> {
    match serde_json::from_slice(data).map_err(|_| unreadable())? {
        HeardView { failure: Some(FailureView { code, detail }), .. } => Err(Error::reported(&code, detail)),
        HeardView { notification: Some(notification), .. } => {
            Notification::from_wire(notification).ok_or_else(unreadable).map(Some)
        }
        HeardView { notification: None, .. } => Ok(None),
    }
}

fn unreadable() -> Error {
    Error::bug("cannot read a notification of the server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_read_from_parts_of_any_size() {
        let text = b"retry: 1000\n\n: ping\n\nid: 1\nevent: heard\ndata: {\"notification\":\"Revoked\"}\n\n";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let heard = text.chunks(size).find_map(|part| lines.add(part).unwrap());
            assert_eq!(heard, Some(Some(Notification::Revoked)), "in parts of {size}");
        }
    }

    #[test]
    fn a_notification_that_is_none_is_an_error() {
        assert!(
            Lines::default()
                .add(b"data: {\"failure\":{\"code\":\"not_found\",\"detail\":\"no\"}}\n")
                .unwrap_err()
                .is_not_found()
        );
        assert!(Lines::default().add(b"data: {\"notification\":\"Other\"}\n").unwrap_err().is_bug());
        assert!(Lines::default().add(b"data: nothing\n").unwrap_err().is_bug());
        assert!(Lines::default().add(&vec![b'x'; LINE_MAX + 1]).unwrap_err().is_bug());
    }
}
