//! Rows of a database, and every change to one of them. Values are SQL literals in the database's notation.

use rusqlite::Connection;
use tokio_postgres::NoTls;

/// A column of the schema.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    /// SQL type, in lower case.
    kind: String,
    nullable: bool,
    /// True if the column is part of the primary key.
    key: bool,
}

/// One change to a row, and how to undo it.
pub struct Damage {
    /// What is changed.
    pub label: String,
    /// The row.
    pub which: String,
    pub harm: String,
    pub repair: String,
}

/// A database with the tables of a sale.
#[allow(async_fn_in_trait)]
pub trait Rows {
    /// Drops the constraints that would reject damage: checks, triggers and foreign keys. Keys stay.
    async fn strip(&mut self);
    async fn tables(&mut self) -> Vec<(String, Vec<Column>)>;
    /// All rows, each value as a literal.
    async fn rows(&mut self, table: &str, columns: &[Column]) -> Vec<Vec<String>>;
    /// Executes a statement. False if a key constraint rejected it.
    async fn change(&mut self, sql: &str) -> bool;
    /// Operator that compares two values which may be NULL.
    fn is(&self) -> &'static str;
    /// A row to insert into a table that has none.
    fn plausible(&self, table: &str) -> Option<String>;
}

pub struct SqliteRows {
    conn: Connection,
    tables: Vec<String>,
}

impl SqliteRows {
    /// Opens the file. `wished` selects its tables by name and columns.
    pub fn open(path: &str, wished: impl Fn(&str, &[String]) -> bool) -> Self {
        let conn = Connection::open(path).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let names = list(&conn, names);
        let columns = |table: &String| list(&conn, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let tables = names.into_iter().filter(|table| wished(table, &columns(table))).collect();
        Self { conn, tables }
    }

    pub fn leave_out(&mut self, table: &str) {
        let n = self.tables.len();
        self.tables.retain(|name| name != table);
        assert_eq!(self.tables.len(), n - 1, "there is a table {table}");
    }
}

fn list(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

impl Rows for SqliteRows {
    async fn strip(&mut self) {
        let pragmas = "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON";
        self.conn.execute_batch(pragmas).unwrap();
        for trigger in list(&self.conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger'") {
            self.conn.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
        }
    }

    async fn tables(&mut self) -> Vec<(String, Vec<Column>)> {
        let columns = |table: &String| {
            let sql = format!("SELECT name, lower(type), \"notnull\", pk FROM pragma_table_info('{table}')");
            let mut statement = self.conn.prepare(&sql).unwrap();
            let column = |row: &rusqlite::Row<'_>| {
                let key = row.get::<_, i64>(3)? > 0;
                let nullable = !row.get::<_, bool>(2)? && !key;
                Ok(Column { name: row.get(0)?, kind: row.get(1)?, nullable, key })
            };
            statement.query_map([], column).unwrap().collect::<Result<_, _>>().unwrap()
        };
        self.tables.iter().map(|table| (table.clone(), columns(table))).collect()
    }

    async fn rows(&mut self, table: &str, columns: &[Column]) -> Vec<Vec<String>> {
        let quoted: Vec<_> = columns.iter().map(|column| format!("quote({})", column.name)).collect();
        let mut statement = self.conn.prepare(&format!("SELECT {} FROM {table}", quoted.join(", "))).unwrap();
        let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|at| row.get(at)).collect();
        statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    }

    async fn change(&mut self, sql: &str) -> bool {
        match self.conn.execute(sql, []) {
            Ok(changed) => {
                assert!(changed > 0, "{sql}");
                true
            }
            Err(rusqlite::Error::SqliteFailure(fault, _))
                if fault.code == rusqlite::ErrorCode::ConstraintViolation =>
            {
                false
            }
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    fn is(&self) -> &'static str {
        "IS"
    }

    fn plausible(&self, table: &str) -> Option<String> {
        (table == "refusal").then(|| {
            "INSERT INTO refusal SELECT sale, reservation, generation, 'unit_taken', 1 FROM orders LIMIT 1".into()
        })
    }
}

pub struct PostgresRows {
    client: tokio_postgres::Client,
}

impl PostgresRows {
    pub async fn connect(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SET search_path TO rushgate").await.unwrap();
        Self { client }
    }

    async fn list(&self, sql: &str) -> Vec<String> {
        self.client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

impl Rows for PostgresRows {
    async fn strip(&mut self) {
        let checks = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
                      FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = 'rushgate'::regnamespace";
        let identities =
            "SELECT format('ALTER TABLE %I ALTER %I SET GENERATED BY DEFAULT', table_name, column_name)
                          FROM information_schema.columns
                          WHERE table_schema = 'rushgate' AND is_identity = 'YES'";
        for sql in [checks, identities] {
            for statement in self.list(sql).await {
                self.client.batch_execute(&statement).await.unwrap();
            }
        }
        self.client.batch_execute("SET session_replication_role = replica").await.unwrap();
    }

    async fn tables(&mut self) -> Vec<(String, Vec<Column>)> {
        // Outbox tables hold the application's tasks, and the version is the schema's.
        let names = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'rushgate'
                     AND table_name NOT LIKE 'outbox%' AND table_name <> 'schema_version' ORDER BY 1";
        let mut tables = Vec::new();
        for table in self.list(names).await {
            let sql = format!(
                "SELECT column_name::text, data_type::text, is_nullable = 'YES', EXISTS (
                     SELECT FROM pg_index WHERE indrelid = 'rushgate.{table}'::regclass AND indisprimary
                     AND ordinal_position = ANY (indkey))
                 FROM information_schema.columns
                 WHERE table_schema = 'rushgate' AND table_name = '{table}' ORDER BY ordinal_position"
            );
            let columns = self.client.query(&sql, &[]).await.unwrap();
            let column = |row: &tokio_postgres::Row| Column {
                name: row.get(0),
                kind: row.get(1),
                nullable: row.get(2),
                key: row.get(3),
            };
            tables.push((table, columns.iter().map(column).collect()));
        }
        tables
    }

    async fn rows(&mut self, table: &str, columns: &[Column]) -> Vec<Vec<String>> {
        let quoted: Vec<_> =
            columns.iter().map(|column| format!("quote_nullable({}::text)", column.name)).collect();
        let rows =
            self.client.query(&format!("SELECT {} FROM {table}", quoted.join(", ")), &[]).await.unwrap();
        rows.iter().map(|row| (0..columns.len()).map(|at| row.get(at)).collect()).collect()
    }

    async fn change(&mut self, sql: &str) -> bool {
        match self.client.execute(sql, &[]).await {
            Ok(changed) => {
                assert!(changed > 0, "{sql}");
                true
            }
            Err(error) => {
                let code = error.code().map(tokio_postgres::error::SqlState::code);
                assert!(code.is_some_and(|code| code.starts_with("23")), "{sql}: {error:?}");
                false
            }
        }
    }

    fn is(&self) -> &'static str {
        "IS NOT DISTINCT FROM"
    }

    fn plausible(&self, table: &str) -> Option<String> {
        (table == "refusal").then(|| {
            "INSERT INTO refusal SELECT sale, reservation, generation, 'unit_taken', 1 FROM orders LIMIT 1".into()
        })
    }
}

/// Other values for the column, each with a description of the change.
fn other_values(column: &Column, value: &str, others: &[String]) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    let bare = value.trim_matches('\'');
    let number = || bare.parse::<i64>().unwrap_or(0);
    let is_number = ["int", "integer", "bigint"].contains(&column.kind.as_str());
    match column.kind.as_str() {
        _ if value == "NULL" && is_number => values.push(("set", "1".to_owned())),
        "blob" if value == "NULL" => values.push(("set", format!("X'{:032x}'", 1))),
        _ if value == "NULL" => values.push(("set", "'x'".to_owned())),
        "boolean" => values.push(("not", (bare != "true").to_string())),
        _ if is_number => {
            let far = if column.name.ends_with("_us") { 3_600_000_000 } else { 1_000 };
            values.push(("next", (number() + 1).to_string()));
            values.push(("far", (number() + far).to_string()));
            if !column.key && number() != 0 {
                values.push(("zero", "0".to_owned()));
            }
        }
        "blob" | "bytea" => values.push(("longer", flipped(value))),
        _ => {
            values.push(("longer", format!("{}x'", &value[..value.len() - 1])));
            values.extend(
                others
                    .iter()
                    .find(|other| *other != value && *other != "NULL")
                    .map(|other| ("other", other.clone())),
            );
        }
    }
    if column.nullable && value != "NULL" {
        values.push(("none", "NULL".to_owned()));
    }
    values
}

/// The literal with its last digit changed.
fn flipped(literal: &str) -> String {
    let (head, last) = literal.split_at(literal.len() - 2);
    format!("{head}{}'", if last.starts_with('0') { '1' } else { '0' })
}

/// Kind of row, where one table has several.
fn sort_of(table: &str, columns: &[Column], row: &[String]) -> String {
    let value = |name: &str| columns.iter().position(|column| column.name == name).map(|at| row[at].as_str());
    match table {
        "buyer" if value("units") == Some("0") => "buyer at zero".into(),
        // Index in `EventKind::ALL`.
        "event" if value("kind") != Some("0") => "event of another kind".into(),
        _ => table.into(),
    }
}

/// All changes to all rows of all tables.
pub async fn damages(rows: &mut impl Rows) -> Vec<Damage> {
    rows.strip().await;
    let mut damages = Vec::new();
    for (table, columns) in rows.tables().await {
        let content = rows.rows(&table, &columns).await;
        if let Some(harm) = rows.plausible(&table).filter(|_| content.is_empty()) {
            let repair = format!("DELETE FROM {table}");
            damages.push(Damage { label: format!("{table}: added"), which: harm.clone(), harm, repair });
        }
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        let that = |row: &[String]| {
            let terms: Vec<_> =
                names.iter().zip(row).map(|(name, value)| format!("{name} {} {value}", rows.is())).collect();
            format!("WHERE {}", terms.join(" AND "))
        };
        let insert = |row: &[String]| {
            format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), row.join(", "))
        };
        for row in &content {
            let (which, sort) = (format!("{row:?}"), sort_of(&table, &columns, row));
            let mut add = |what: &str, harm, repair| {
                damages.push(Damage { label: format!("{sort}{what}"), which: which.clone(), harm, repair });
            };
            add(": lost", format!("DELETE FROM {table} {}", that(row)), insert(row));
            for (at, column) in columns.iter().enumerate() {
                let others: Vec<_> = content.iter().map(|row| row[at].clone()).collect();
                for (how, value) in other_values(column, &row[at], &others) {
                    let mut changed = row.clone();
                    changed[at].clone_from(&value);
                    add(
                        &format!(".{}: {how}", column.name),
                        format!("UPDATE {table} SET {} = {value} {}", column.name, that(row)),
                        format!("UPDATE {table} SET {} = {} {}", column.name, row[at], that(&changed)),
                    );
                }
            }
            // The key would reject an exact copy, so the last part of the key differs.
            let last = columns.iter().rposition(|column| column.key).expect("every table has a key");
            if let Some((_, value)) = other_values(&columns[last], &row[last], &[]).pop() {
                let mut copy = row.clone();
                copy[last] = value;
                add(": added", insert(&copy), format!("DELETE FROM {table} {}", that(&copy)));
            }
        }
    }
    damages
}
