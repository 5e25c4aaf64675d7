//! Tests the tests: every bug planted in the model is caught, and the table shows by which tests.

use std::sync::Arc;

use rushgate_contract::{Case, cases};
use rushgate_test::{ModelHarness, Planted, history};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/planted-bugs.md");
/// Environment variable that makes the test rewrite the table.
const WRITE: &str = "RUSHGATE_WRITE_TABLES";
const SEEDS: u64 = 20;
/// Maximum number of seeds for a bug that no history has caught.
const SEEDS_MOST: u64 = 400;
const STEPS: usize = 400;

/// Cases that race on purpose catch a bug only sometimes, so the table omits them.
const RACES: [&str; 4] = [
    "lock::sixty_four_tasks_never_hold_it_together",
    "queue::eight_claimers_take_five_hundred_tasks_once_each",
    "sale::two_hundred_buyers_get_ten_units_between_them",
    "sale::one_row_decides_between_confirm_cancel_and_the_deadline",
];

const HEAD: &str = "\
# Planted bugs

How do we know that the tests would find a bug? We insert bugs on purpose. Each bug below is planted alone in the model,
the executable specification of a store. Then the tests of stores run on this model. Every bug is caught by at least one
case of the contract suite and by at least one random history, which is a random sequence of calls.

- **Caught by** names up to three cases of the contract suite. Cases with deliberate races are left out, because whether
  they catch a bug depends on timing, and three large ones, because they take most of the time.
- **Histories** says how many random histories of 400 steps caught the bug, out of how many. 20 histories run. If none
  of them catches the bug, more run until one does.

A test in `rushgate-contract` compares the table with the outcome. To rewrite the table, run
`RUSHGATE_WRITE_TABLES=1 cargo nextest run -p rushgate-contract planted`.

| bug | what is wrong | caught by | histories |
|---|---|---|---|
";

/// Cases of thousands of tasks, which take the model longer than all others together, and catch no bug alone.
const LARGE: [&str; 3] = [
    "listing::pages_of_an_unchanged_queue_have_each_task_once",
    "listing::pages_have_what_stays_while_others_change_the_queue",
    "listing::few_in_one_state_are_found_at_once",
];

async fn catchers(bug: Planted) -> Vec<&'static str> {
    let is_left_out = |case: &Case| RACES.contains(&case.name) || LARGE.contains(&case.name);
    let cases: Vec<Case> = cases().into_iter().filter(|case| !is_left_out(case)).collect();
    let runs: Vec<_> = cases
        .iter()
        .map(|case| (case.name, tokio::spawn((case.run)(Arc::new(ModelHarness::planted(bug))))))
        .collect();
    let mut caught = Vec::new();
    for (name, run) in runs {
        if run.await.is_err() {
            caught.push(name);
        }
    }
    caught
}

/// Number of histories that catch the bug, and of all that ran.
async fn histories(bug: Planted) -> (usize, u64) {
    let (mut caught, mut seed) = (0, 0);
    while seed < SEEDS || caught == 0 && seed < SEEDS_MOST {
        // A planted bug may also violate an assertion of the model: a panic counts as caught.
        let run = tokio::spawn(async move {
            history::run(Arc::new(ModelHarness::planted(bug)), seed, STEPS).await.is_err()
        });
        caught += usize::from(run.await.unwrap_or(true));
        seed += 1;
    }
    (caught, seed)
}

/// The table row of a bug, or an error if no test catches it.
async fn row(bug: Planted) -> Result<String, String> {
    let (cases, (histories, of)) = (catchers(bug).await, histories(bug).await);
    if cases.is_empty() {
        return Err(format!("no case of the contract catches {bug}"));
    }
    if histories == 0 {
        return Err(format!("no history catches {bug}"));
    }
    let names: Vec<String> = cases.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = match cases.len() - names.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Ok(format!("| `{bug}` | {} | {}{more} | {histories} of {of} |\n", bug.story(), names.join(", ")))
}

/// Asserts that the bug is caught and that the table has its current row.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn check(bug: Planted) {
    std::panic::set_hook(Box::new(|_| {}));
    let row = row(bug).await;
    drop(std::panic::take_hook());
    let row = row.unwrap_or_else(|why| panic!("{why}"));
    let table = std::fs::read_to_string(TABLE).expect("the table is there");
    let as_written = table.lines().find(|line| line.starts_with(&format!("| `{bug}` |")));
    assert_eq!(as_written, Some(row.trim_end()), "docs/planted-bugs.md is out of date: run with {WRITE}=1");
}

macro_rules! caught {
    ($($bug:ident)*) => {
        $(#[test]
        fn $bug() {
            if std::env::var_os(WRITE).is_none() {
                super::check(super::Planted::$bug);
            }
        })*
    };
}

mod caught {
    use super::WRITE;

    rushgate_test::every_planted!(caught);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_has_every_planted_bug_once_and_nothing_else() {
    if std::env::var_os(WRITE).is_some() {
        return write().await;
    }
    let table = std::fs::read_to_string(TABLE).expect("the table is there");
    let rows = table.strip_prefix(HEAD).expect("its head is as it is here");
    let named: Vec<&str> = rows.lines().filter_map(|row| row.split('`').nth(1)).collect();
    let planted: Vec<String> = Planted::ALL.iter().map(Planted::to_string).collect();
    assert_eq!(named, planted);
    assert_eq!(rows.lines().count(), planted.len());
}

async fn write() {
    std::panic::set_hook(Box::new(|_| {}));
    let (mut table, mut missed) = (HEAD.to_owned(), Vec::new());
    for bug in Planted::ALL {
        match row(*bug).await {
            Ok(row) => table.push_str(&row),
            Err(why) => missed.push(why),
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "{missed:#?}");
    std::fs::write(TABLE, &table).expect("the table can be written");
}
