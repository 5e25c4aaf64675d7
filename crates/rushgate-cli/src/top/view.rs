//! The dashboard's page: three tables and a line with the keys.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};
use rushgate::queue::{QueueName, QueueStats};
use rushgate::sale::ListedSale;
use rushgate::store::StoreInfo;

use super::look::Look;
use crate::sale::{standing, units};
use crate::{lock, queue};

/// A queue with tasks that are ready for longer than this has no worker, or too few.
const LATE: Duration = Duration::from_secs(60);

/// What is on the screen.
pub(super) struct View {
    info: StoreInfo,
    is_colored: bool,
    look: Option<Look>,
    before: Option<Look>,
    /// Why the latest snapshot failed.
    fault: Option<String>,
    panel: usize,
    /// First row of each panel.
    scrolled: [usize; 3],
}

/// A panel's rows, with its widths and head.
struct Panel<'a> {
    title: String,
    head: &'static [&'static str],
    widths: &'static [u16],
    rows: Vec<Row<'a>>,
}

impl View {
    pub(super) fn new(info: StoreInfo, is_colored: bool) -> Self {
        Self { info, is_colored, look: None, before: None, fault: None, panel: 0, scrolled: [0; 3] }
    }

    /// Shows a new snapshot.
    pub(super) fn update(&mut self, look: Look) {
        self.fault = None;
        self.before = self.look.replace(look);
    }

    /// Shows an error above the latest snapshot.
    pub(super) fn fails(&mut self, error: &rushgate::Error) {
        self.fault = Some(error.to_string());
    }

    pub(super) fn scroll(&mut self, by: i32) {
        let first = &mut self.scrolled[self.panel];
        let step = by.unsigned_abs() as usize;
        *first = if by < 0 { first.saturating_sub(step) } else { first.saturating_add(step) };
    }

    pub(super) fn next_panel(&mut self) {
        self.panel = (self.panel + 1) % 3;
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let thirds = [Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(1)];
        let [head, queues, locks, sales, keys] =
            Layout::vertical([Constraint::Length(1), thirds[0], thirds[1], thirds[2], Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        let panels = self.look.as_ref().map(|look| self.panels(look)).unwrap_or_default();
        let mut scrolled = self.scrolled;
        for (at, (panel, area)) in panels.into_iter().zip([queues, locks, sales]).enumerate() {
            scrolled[at] = self.show(frame, panel, area, at);
        }
        self.scrolled = scrolled;
        frame.render_widget(Paragraph::new("q quit   Tab next panel   ↑ ↓ scroll"), keys);
    }

    fn head(&self) -> Line<'static> {
        let StoreInfo { url, server, durability } = &self.info;
        match &self.fault {
            Some(fault) => Line::from(Span::styled(fault.clone(), self.paint(Color::Red))),
            None => Line::from(format!("{url}, {server}, {}", durability.name())),
        }
    }

    fn panels<'a>(&self, look: &'a Look) -> Vec<Panel<'a>> {
        let queues = look.queues.iter().map(|(name, stats)| self.queue(name, stats, look)).collect();
        vec![
            Panel {
                title: format!("Queues ({})", look.queues_all),
                head: &["QUEUE", "READY", "SCHEDULED", "LEASED", "BLOCKED", "DEAD", "LAG", "NET/s", "STATE"],
                widths: &[24, 8, 10, 8, 8, 8, 8, 8, 8],
                rows: queues,
            },
            Panel {
                title: format!("Locks ({})", look.locks.len()),
                head: &lock::HEAD,
                widths: &[24, 24, 20, 8, 30],
                rows: look.locks.iter().map(|of| Row::new(lock::row(of))).collect(),
            },
            Panel {
                title: format!("Sales ({})", look.sales.len()),
                head: &["SALE", "STATUS", "FREE", "HELD", "CONFIRMED", "TOTAL", "ORDERS FAILED"],
                widths: &[24, 16, 10, 10, 10, 10, 14],
                rows: look.sales.iter().map(|sale| self.sale(sale)).collect(),
            },
        ]
    }

    /// Draws a panel, and returns the first row that it shows.
    fn show(&self, frame: &mut Frame<'_>, panel: Panel<'_>, area: Rect, at: usize) -> usize {
        // Borders and head.
        let fit = usize::from(area.height.saturating_sub(3));
        let first = self.scrolled[at].min(panel.rows.len().saturating_sub(fit));
        let below = panel.rows.len().saturating_sub(first + fit);
        let mut block = Block::bordered().title(panel.title);
        if below > 0 {
            block = block.title_bottom(format!("{below} more"));
        }
        if at == self.panel {
            block = block.border_style(Style::new().add_modifier(Modifier::BOLD));
        }
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let table = Table::new(panel.rows.into_iter().skip(first), panel.widths.iter().copied())
            .header(Row::new(panel.head.iter().copied()).style(bold))
            .block(block);
        frame.render_widget(table, area);
        first
    }

    fn queue<'a>(&self, name: &QueueName, stats: &QueueStats, look: &Look) -> Row<'a> {
        let lag = Duration::from_millis(stats.lag_ms);
        let net = self.before.as_ref().and_then(|before| {
            let (last, passed) = (before.queues.get(name)?, look.at.duration_since(before.at));
            let change = stats.ready as f64 - last.ready as f64;
            Some(format!("{:+.0}", change / passed.as_secs_f64().max(1e-3)))
        });
        let row = Row::new(queue::row(name, stats, net.unwrap_or_else(|| "-".to_owned())));
        match () {
            () if stats.ready > 0 && lag > LATE => row.style(self.paint(Color::Red)),
            () if stats.paused || stats.dead > 0 => row.style(self.paint(Color::Yellow)),
            () => row,
        }
    }

    fn sale<'a>(&self, sale: &ListedSale) -> Row<'a> {
        let sale = match sale {
            ListedSale::Sound(sale) => sale,
            ListedSale::Damaged(sale) => {
                let row = Row::new([sale.id.to_string(), "damaged".to_owned()]);
                return row.style(self.paint(Color::Red));
            }
        };
        let [total, free, held, confirmed] = units(sale);
        let failed = sale.orders.map_or(0, |orders| orders.failed);
        let orders = if failed == 0 { "-".to_owned() } else { failed.to_string() };
        let row = Row::new([sale.spec.id.to_string(), standing(sale), free, held, confirmed, total, orders]);
        if failed > 0 || sale.halted.is_some() { row.style(self.paint(Color::Red)) } else { row }
    }

    fn paint(&self, color: Color) -> Style {
        if self.is_colored { Style::new().fg(color) } else { Style::new().add_modifier(Modifier::BOLD) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use rushgate::store::Durability;

    use super::*;

    fn stats(ready: u64, lag_ms: u64) -> QueueStats {
        QueueStats { ready, lag_ms, ..QueueStats::default() }
    }

    fn look(at: Instant, ready: u64, queues: usize) -> Look {
        let name = |n: usize| QueueName::new(format!("queue-{n:03}")).unwrap();
        let queues: BTreeMap<_, _> = (0..queues).map(|n| (name(n), stats(ready, 90_000))).collect();
        Look { at, queues_all: queues.len(), queues, locks: Vec::new(), sales: Vec::new() }
    }

    fn shown(view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn view() -> View {
        let info =
            StoreInfo { url: "sqlite:a.db".into(), server: "SQLite".into(), durability: Durability::D2 };
        View::new(info, true)
    }

    #[test]
    fn a_change_is_per_second_and_an_error_leaves_the_latest_snapshot() {
        let (mut view, now) = (view(), Instant::now());
        view.update(look(now, 10, 1));
        view.update(look(now + Duration::from_secs(2), 30, 1));
        let page = shown(&mut view);
        for text in ["sqlite:a.db, SQLite, D2", "queue-000", "30", "+10", "1m 30s", "Locks (0)"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        view.fails(&rushgate::Error::unavailable("the server is gone"));
        let page = shown(&mut view);
        assert!(page.contains("the server is gone") && page.contains("queue-000"), "{page}");
    }

    #[test]
    fn a_panel_scrolls_to_its_last_row_and_no_further() {
        let mut view = view();
        view.update(look(Instant::now(), 1, 50));
        assert!(shown(&mut view).contains("queue-000") && !shown(&mut view).contains("queue-049"));
        view.scroll(1_000);
        let page = shown(&mut view);
        assert!(page.contains("queue-049") && !page.contains("more"), "{page}");
        view.scroll(-1);
        assert!(shown(&mut view).contains("1 more"));
        view.scroll(-1_000);
        assert!(shown(&mut view).contains("queue-000"));
    }
}
