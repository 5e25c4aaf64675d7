//! `rushgate top`: a dashboard of queues, locks and sales on the terminal.

mod look;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rushgate::Rushgate;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::look::Look;
use self::view::View;
use crate::args::tools::TopArgs;
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::output::Output;
use crate::signals::Signals;

/// Shortest refresh interval.
const EVERY_MIN: Duration = Duration::from_millis(100);

pub(crate) async fn run(args: TopArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    if output.json || !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(Fault::usage("`rushgate top` needs a terminal")
            .hint("for programs there are `queue watch --json`, `lock ls --json` and `sale ls --json`")
            .into());
    }
    globals.with_client(async |client| watch(&client, args, output).await).await
}

async fn watch(client: &Rushgate, args: TopArgs, output: Output) -> Result<Exit> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let mut ticks = interval(args.every.max(EVERY_MIN));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen = Screen::open()?;
    let mut keys = keys();
    let mut view = View::new(client.info(), output.color);
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(Exit::Done),
            key = keys.recv() => match key.map(action) {
                None | Some(Action::Quit) => return Ok(Exit::Done),
                Some(Action::Move(by)) => view.scroll(by),
                Some(Action::Next) => view.next_panel(),
                Some(Action::Redraw) => {}
            },
            _ = ticks.tick() => match Look::at(client).await {
                Ok(look) => view.update(look),
                // Keep watching: the store may come back.
                Err(error) if error.is_unavailable() => view.fails(&error),
                Err(error) => return Err(error.into()),
            },
        }
        screen.terminal.draw(|frame| view.draw(frame))?;
    }
}

/// What a key does.
enum Action {
    Quit,
    Move(i32),
    Next,
    Redraw,
}

fn action(event: Event) -> Action {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return Action::Redraw;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Move(-10),
        KeyCode::PageDown => Action::Move(10),
        KeyCode::Tab => Action::Next,
        _ => Action::Redraw,
    }
}

/// The terminal's alternate screen. Dropping it restores the terminal.
struct Screen {
    terminal: ratatui::DefaultTerminal,
}

impl Screen {
    fn open() -> Result<Self> {
        Ok(Self { terminal: ratatui::try_init().context("cannot use this terminal")? })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys and changes of the terminal's size. The thread ends with the process, because a read cannot be interrupted.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
