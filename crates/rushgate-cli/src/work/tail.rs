//! The end of a command's stderr: the error of a failed task.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Longest end that is kept, in bytes. With the exit status before it, it fits into the error of a task.
const KEPT_MAX: usize = 1_500;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    /// Copies a command's stderr to that of this process until it ends, and keeps its end.
    pub(super) async fn copied(pipe: Option<impl AsyncRead + Unpin>) -> Self {
        let (mut tail, mut part, mut stderr) = (Self::default(), vec![0; 8 << 10], tokio::io::stderr());
        let Some(mut pipe) = pipe else { return tail };
        // An unreadable pipe has ended, and nobody reads a closed stderr.
        while let Ok(read @ 1..) = pipe.read(&mut part).await {
            let _ = stderr.write_all(&part[..read]).await;
            let _ = stderr.flush().await;
            tail.add(&part[..read]);
        }
        tail
    }

    fn add(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        if let Some(more) = self.bytes.len().checked_sub(KEPT_MAX).filter(|more| *more > 0) {
            self.bytes.drain(..more);
            self.is_cut = true;
        }
    }

    /// The last lines. The first of them is left out if only its end was kept, unless it is the only one.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim();
        let text = match text.split_once('\n') {
            Some((_, rest)) if self.is_cut => rest,
            _ => text,
        };
        text.chars().filter(|c| !c.is_control() || *c == '\n').collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(parts: &[&str]) -> String {
        let mut tail = Tail::default();
        parts.iter().for_each(|part| tail.add(part.as_bytes()));
        tail.text()
    }

    #[test]
    fn the_last_lines_are_kept_whole() {
        assert_eq!(tail(&[]), "");
        assert_eq!(tail(&["one\ntw", "o\n\n"]), "one\ntwo");
        let long = "x".repeat(KEPT_MAX);
        assert_eq!(tail(&[&long, "y\nlast\r\n"]), "last");
        assert_eq!(tail(&[&long, "y"]).len(), KEPT_MAX);
        assert_eq!(tail(&["\u{1b}[31mred\u{1b}[0m"]), "[31mred[0m");
    }
}
