//! Runs the samples of the documentation: the blocks of shell commands, PHP, Python, Node, Go and Java in README and docs.
//! Programs use the packages that `clients/LANGUAGE/test --build` installs.
//!
//! The samples of a page run in its order, in one shell and one directory. A `text` or `json` block that follows a
//! sample in the same section is the end of its output; a `console` block contains its own output. Times and IDs may
//! differ. An ID of the page stands for the real one in later samples. `…` stands for any text, and a line of it for
//! any lines. Rust samples are documentation tests of the facade.
//!
//! Three comments, which readers of a page do not see, control the test:
//! - `<!-- sample: not run: REASON -->` before a block
//! - `<!-- sample: run: COMMAND -->` before a block: runs the command, with the block's file as `$sample`
//! - `<!-- sample: setup`, lines of shell commands, `-->`: what the page takes for granted

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use crate::common::{Shop, masked};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup, free_port};
use rustix::process::{Pid, Signal, kill_process_group};

/// Languages of samples. A block in one of them runs, or says why not.
const SAMPLES: [&str; 7] = ["sh", "console", "python", "php", "js", "java", "go"];
/// Data, and fragments in another language.
const OTHER: [&str; 8] = ["text", "json", "toml", "yaml", "http", "sql", "xml", "html"];
/// Commands in a comment.
const SETUP: &str = "setup";
/// What differs from the page: a run with fewer buyers, and servers that are not on this machine.
const INSTEAD: [(&str, &str); 5] = [
    ("--buyers 1000000", "--buyers 20000"),
    ("--stock 20000 --buyers 40000", "--stock 200 --buyers 400"),
    ("postgres://shop@db/orders", "sqlite:orders.db"),
    ("--entrants 5000", "--entrants 3"),
    ("0.0.0.0:7979", "127.0.0.1:7979"),
];

/// The text with each of these words replaced, also if what replaces one of them contains another.
fn replaced(text: &str, words: &[(&str, &str)]) -> String {
    let first = |text: &str| {
        let found = words.iter().filter_map(|(page, real)| Some((text.find(page)?, *page, *real)));
        found.min_by_key(|(at, page, _)| (*at, std::cmp::Reverse(page.len())))
    };
    let (mut out, mut rest) = (String::new(), text);
    while let Some((at, page, real)) = first(rest) {
        out += &rest[..at];
        out += real;
        rest = &rest[at + page.len()..];
    }
    out + rest
}

#[test]
fn a_port_that_contains_another_is_not_replaced_again() {
    let ports = [("7979", "18080"), ("8080", "27979"), ("6379", "1")];
    assert_eq!(replaced("a:7979 b:8080 c:6379 d", &ports), "a:18080 b:27979 c:1 d");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages: Vec<_> = ["README.md", "README.zh-CN.md"].map(|p| root.join(p)).into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|end| end == "md") {
                pages.push(entry);
            }
        }
    }
    pages.sort();
    pages
}

// ── the blocks of a page ────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Default)]
struct Block {
    line: usize,
    language: String,
    text: String,
    /// Reason for not running it.
    not_run: Option<String>,
    run: Option<String>,
    /// First block of its section.
    first: bool,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines().enumerate());
    let (mut not_run, mut run, mut first) = (None, None, true);
    while let Some((number, full)) = lines.next() {
        let line = full.trim_start();
        let mut until = |end: &str| {
            let rest = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != end);
            rest.fold(String::new(), |text, line| {
                text + line.strip_prefix(&full[..full.len() - full.trim_start().len()]).unwrap_or(line) + "\n"
            })
        };
        let directive = |name| {
            Some(line.strip_prefix("<!-- sample: ")?.strip_prefix(name)?.strip_suffix(" -->")?.to_owned())
        };
        let block = Block { line: number + 1, ..Block::default() };
        if line == "<!-- sample: setup" {
            blocks.push(Block { language: SETUP.into(), text: until("-->"), ..block });
        } else if let Some(language) = line.strip_prefix("```") {
            let (not_run, run) = (not_run.take(), run.take());
            blocks.push(Block {
                language: language.into(),
                text: until("```"),
                not_run,
                run,
                first,
                ..block
            });
            first = false;
        } else if line.starts_with('#') {
            first = true;
        } else {
            not_run = directive("not run: ").or(not_run);
            run = directive("run: ").or(run);
        }
    }
    blocks
}

// ── expected output ─────────────────────────────────────────────────────────────────────────────────────────────────

/// Compares the lines of an output with those of a page. Returns the values of the page with the real ones.
fn compare(page: &[&str], real: &[&str]) -> Option<Vec<(String, String)>> {
    match page {
        [] => real.is_empty().then(Vec::new),
        ["…", page @ ..] => (0..=real.len()).find_map(|skipped| compare(page, &real[skipped..])),
        [line, page @ ..] => {
            let (head, real) = real.split_first()?;
            let ((fixed, values), (same, found)) = (masked(line), masked(head));
            let mut ids = (fixed == same).then(|| compare(page, real)).flatten()?;
            ids.extend(
                values.iter().zip(found).map(|(value, found)| ((*value).to_owned(), found.to_owned())),
            );
            Some(ids)
        }
    }
}

// ── running them ────────────────────────────────────────────────────────────────────────────────────────────────────

/// A language that the programs of a page are in, and how they find its installed package.
struct Language {
    block: &'static str,
    /// What the installed package has: files and folders of the client. Those with a name are linked to the directory.
    files: &'static [(&'static str, &'static str)],
    run: &'static str,
}

/// The interpreter of the environment with the Python package.
const PYTHON: &str = "python/.env/test/bin/python";

const LANGUAGES: [Language; 5] = [
    Language {
        block: "go",
        files: &[("go/.build/project/go.mod", "go.mod"), ("go/.build/project/go.sum", "go.sum")],
        run: "GOMODCACHE=\"$CLIENTS/go/.build/modules\" GOFLAGS=-mod=mod GOPROXY=off \
              \"$CLIENTS/go/.build/venv/bin/go\" run \"$sample\"",
    },
    Language {
        block: "java",
        files: &[("java/.env/rushgate.jar", "rushgate.jar")],
        run: "java -cp rushgate.jar \"$sample\"",
    },
    Language {
        block: "js",
        files: &[("node/.env/node_modules", "node_modules")],
        run: "cp \"$sample\" sample.mjs && node sample.mjs",
    },
    Language {
        block: "php",
        files: &[("php/.build/project/vendor", "vendor")],
        run: "{ echo '<?php'; cat \"$sample\"; } >sample.php && php sample.php",
    },
    Language { block: "python", files: &[(PYTHON, "")], run: "python3 \"$sample\"" },
];

impl Language {
    fn of(block: &Block) -> Option<&'static Self> {
        LANGUAGES.iter().find(|language| language.block == block.language)
    }

    /// Adds the package to a directory.
    fn install(&self, shop: &Shop) -> Result<(), String> {
        for (file, name) in self.files {
            let from = root().join("clients").join(file);
            if !from.exists() {
                let client = file.split('/').next().unwrap();
                return Err(format!("the package is missing: run clients/{client}/test --build"));
            }
            if !name.is_empty() {
                symlink(from, shop.path(name)).unwrap();
            }
        }
        Ok(())
    }
}

/// A shell in a directory with the packages of some languages. It and its processes are ended on drop.
struct Shell {
    shop: Shop,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    ports: Vec<(&'static str, String)>,
    ids: Vec<(String, String)>,
    _redis: Option<RedisServer>,
}

impl Shell {
    fn start(needs_redis: bool, languages: &BTreeSet<&str>) -> Result<Self, String> {
        let (shop, root) = (Shop::new(), root());
        let redis = needs_redis.then(|| RedisSetup::new(Kind::Redis).start());
        let [port, receiver] = [(); 2].map(|()| free_port().to_string());
        let redis_port = redis.as_ref().map_or(0, RedisServer::port).to_string();
        for language in LANGUAGES.iter().filter(|language| languages.contains(language.block)) {
            language.install(&shop)?;
        }
        let path = Path::new(env!("CARGO_BIN_EXE_rushgate")).parent().unwrap().display().to_string();
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "150", "bash"]).arg(root.join("crates/rushgate-cli/tests/it/samples.sh"));
        command.current_dir(shop.dir.path()).process_group(0).env_clear();
        command.envs(["HOME", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
        command.env("CLIENTS", root.join("clients"));
        command.env("PYTHON", root.join("clients").join(PYTHON));
        command.env("RUSHGATE_SERVE_LISTEN", format!("127.0.0.1:{port}"));
        // The default needs more open files than some machines allow.
        command.env("RUSHGATE_SERVE_CONNECTIONS", "100");
        command.env("REDIS_PORT", &redis_port).env("RECEIVER_PORT", &receiver);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let ports = vec![("7979", port), ("8080", receiver), ("6379", redis_port)];
        Ok(Self { shop, child, stdin, stdout, ports, ids: Vec::new(), _redis: redis })
    }

    /// Runs a script, and returns its output.
    fn run(&mut self, name: &str, script: &str) -> Result<String, String> {
        fs::write(self.shop.path(name), script).unwrap();
        // The shell has ended if an earlier sample failed, and then gives no answer.
        let _ = writeln!(self.stdin, "{}", self.shop.path(name).display());
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        let read = |name: &str| {
            fs::read(self.shop.path(name)).map_or(String::new(), |b| String::from_utf8_lossy(&b).into_owned())
        };
        let out = read(&format!("{name}.out"));
        if answer == "done\n" { Ok(out) } else { Err(format!("failed:\n{out}{}", read("background.log"))) }
    }

    fn real(&self, text: &str) -> String {
        let text = INSTEAD.iter().fold(text.to_owned(), |text, (page, real)| text.replace(page, real));
        let ports = self.ports.iter().map(|(page, real)| (*page, real.as_str()));
        let ids = self.ids.iter().map(|(page, real)| (page.as_str(), real.as_str()));
        replaced(&text, &ports.chain(ids).collect::<Vec<_>>())
    }

    fn sample(&mut self, block: &Block, output: Option<&Block>) -> Result<(), String> {
        let (name, text) = (format!("sample-{}", block.line), self.real(&block.text));
        let file = format!("{name}.{}", block.language);
        if block.language == "console" {
            for (n, part) in format!("\n{text}").split("\n$ ").skip(1).enumerate() {
                let (command, page) = part.split_once('\n').unwrap_or((part, ""));
                let real = self.run(&format!("{name}-{n}.console"), command)?;
                self.expect(page, &real)?;
            }
            return Ok(());
        }
        let command = match &block.run {
            Some(run) => self.real(run),
            None => Language::of(block).map_or_else(|| text.clone(), |language| language.run.into()),
        };
        fs::write(self.shop.path(&file), text).unwrap();
        let real = self.run(&format!("{name}.run"), &format!("sample={file}\n{command}"))?;
        output.map_or(Ok(()), |output| self.expect(&format!("…\n{}", output.text), &real))
    }

    fn expect(&mut self, page: &str, real: &str) -> Result<(), String> {
        let lines =
            |text| str::lines(text).map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>();
        let ids = compare(&lines(page), &lines(real))
            .ok_or_else(|| format!("the page prints:\n{page}but the real output is:\n{real}"))?;
        self.ids.extend(ids.into_iter().filter(|(page, _)| page.chars().count() >= 10));
        Ok(())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = kill_process_group(group, Signal::TERM);
        let _ = self.child.wait();
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Runs the samples of a page, and returns how many ran. The error names the page and the line.
fn check(page: &Path, guides: &str) -> Result<usize, String> {
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    let name = page.strip_prefix(root()).unwrap().display().to_string();
    let at = |block: &Block, error: &str| format!("{name}:{}: {error}", block.line);
    for block in &blocks {
        let language = &*block.language;
        if ["rust", "rust,no_run"].contains(&language) {
            if !guides.contains(&format!("\"{name}\"")) {
                return Err(at(block, "add the page to `guides` of the facade, which compiles its code"));
            }
        } else if !SAMPLES.contains(&language) && !OTHER.contains(&language) && language != SETUP {
            return Err(at(block, &format!("`{language}` is not a language of samples")));
        }
    }
    let is_run = |block: &Block| {
        let is_sample = SAMPLES.contains(&&*block.language) || block.run.is_some();
        block.language == SETUP || is_sample && block.not_run.is_none()
    };
    let runs = || blocks.iter().enumerate().filter(|(_, block)| is_run(block));
    if runs().next().is_none() {
        return Ok(0);
    }
    let needs_redis = |block: &Block| ["6379", "redis-cli"].iter().any(|word| block.text.contains(word));
    let languages = runs().map(|(_, block)| &*block.language).collect();
    let mut shell = Shell::start(runs().any(|(_, block)| needs_redis(block)), &languages)
        .map_err(|error| format!("{name}: {error}"))?;
    for (n, block) in runs() {
        let is_output = |next: &&Block| {
            let is_text = ["text", "json"].contains(&&*next.language);
            is_text && !next.first && next.run.is_none() && next.not_run.is_none()
        };
        let output = blocks.get(n + 1).filter(is_output);
        shell.sample(block, output).map_err(|error| at(block, &error))?;
    }
    shell.run("stop.run", "stop").map_err(|error| format!("{name}: a program in the background {error}"))?;
    Ok(runs().filter(|(_, block)| block.language != SETUP).count())
}

#[test]
fn every_sample_runs_or_says_why_not() {
    let guides = fs::read_to_string(root().join("crates/rushgate/src/lib.rs")).unwrap();
    let (pages, results) = (Mutex::new(pages()), Mutex::new(Vec::new()));
    let next = || pages.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(page) = next() {
                    let result = check(&page, &guides);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    let (ran, wrong): (Vec<_>, Vec<_>) = results.into_inner().unwrap().into_iter().partition(Result::is_ok);
    let wrong: Vec<_> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran.into_iter().flatten().sum::<usize>() > 50, "the blocks of the pages are found");
}
