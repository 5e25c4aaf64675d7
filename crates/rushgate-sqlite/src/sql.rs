//! SQL statements. Each method's statements are in `sql/{lock,queue,room,sale}/<method>.sql`, each under a `name`
//! comment.

/// The statement `$name` of `sql/$file`, resolved at compile time. An unknown name is a compile error.
macro_rules! sql {
    ($file:literal, $name:literal) => {
        const {
            $crate::sql::statement(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $file, ".sql")),
                $name,
            )
        }
    };
}
pub(crate) use sql;

/// The text between the line `-- name: NAME` and the next such line.
pub(crate) const fn statement(file: &'static str, name: &str) -> &'static str {
    const MARK: &[u8] = b"-- name: ";
    let (text, name) = (file.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < text.len() {
        if starts_with(text, at, MARK) && starts_with(text, at + MARK.len(), name) {
            let start = at + MARK.len() + name.len();
            if start < text.len() && text[start] == b'\n' {
                let mut end = start;
                while end < text.len() && !starts_with(text, end, MARK) {
                    end += 1;
                }
                let (head, _) = file.split_at(end);
                let (_, body) = head.split_at(start + 1);
                return body;
            }
        }
        at += 1;
    }
    panic!("the SQL file has no statement of that name")
}

const fn starts_with(text: &[u8], at: usize, part: &[u8]) -> bool {
    if at + part.len() > text.len() {
        return false;
    }
    let mut i = 0;
    while i < part.len() {
        if text[at + i] != part[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn finds_a_statement_by_its_whole_name() {
        let file = "-- name: take_all\nA;\n-- name: take\nB;\n";
        assert_eq!(statement(file, "take"), "B;\n");
        assert_eq!(statement(file, "take_all"), "A;\n");
    }
}
