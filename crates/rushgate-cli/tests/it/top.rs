//! `rushgate top` and `queue watch`, each on a terminal of its own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use crate::common::Shop;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A command on a terminal.
struct OnTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl OnTerminal {
    fn start(shop: &Shop, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let slave = || Stdio::from(OpenOptions::new().read(true).write(true).open(&name).unwrap());
        let mut command = shop.command(args);
        let child =
            command.stdin(slave()).stdout(slave()).stderr(slave()).env("TERM", "xterm").spawn().unwrap();
        Self { child, terminal: File::from(master), shown: String::new() }
    }

    /// Reads until the screen has shown this text.
    fn until(&mut self, text: &str) {
        let mut part = vec![0; 4_096];
        while !self.shown.contains(text) {
            let read = self
                .terminal
                .read(&mut part)
                .unwrap_or_else(|error| panic!("{text}: {error}: {}", self.shown));
            self.shown += &String::from_utf8_lossy(&part[..read]);
        }
    }

    fn press(&mut self, key: &str) {
        self.terminal.write_all(key.as_bytes()).unwrap();
    }

    fn end(mut self) -> i32 {
        // The alternate screen is left.
        self.until("\u{1b}[?1049l");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for OnTerminal {
    /// Kills the process, so that a failed test leaves none behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn filled() -> Shop {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    shop.ok(&["sale", "create", "phones", "--sku", "phone=10:1"]);
    shop
}

#[test]
fn queues_locks_and_sales_are_shown_and_refreshed_until_q() {
    let shop = filled();
    let mut held = shop.start(&["lock", "run", "nightly", "--", "sh", "-c", "echo held; sleep 60"]);
    assert_eq!(held.line(), "held");
    let mut dashboard = OnTerminal::start(&shop, &["top", "--every", "100ms"]);
    // A space is written as a movement of the cursor.
    for text in ["Queues", "mail", "Locks", "nightly", "Sales", "phones", "created"] {
        dashboard.until(text);
    }
    shop.ok(&["queue", "enqueue", "reports", "b"]);
    dashboard.until("reports");
    dashboard.press("q");
    assert_eq!(dashboard.end(), 0);
}

#[test]
fn ctrl_c_ends_it_and_restores_the_terminal() {
    let shop = filled();
    let mut dashboard = OnTerminal::start(&shop, &["top"]);
    dashboard.until("phones");
    dashboard.press("\u{3}");
    assert_eq!(dashboard.end(), 0);
}

#[test]
fn without_a_terminal_it_is_refused() {
    let said = filled().run(&["top"]);
    assert_eq!(said.status, 2);
    assert!(said.err.contains("needs a terminal") && said.err.contains("queue watch --json"), "{}", said.err);
}

#[test]
fn a_counted_watch_leaves_its_lines_on_the_terminal() {
    let shop = filled();
    let mut watch = OnTerminal::start(&shop, &["queue", "watch", "-n", "1"]);
    watch.until("mail: ready 1");
    assert!(!watch.shown.contains("\u{1b}[?1049h"), "the alternate screen vanishes: {:?}", watch.shown);
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}
