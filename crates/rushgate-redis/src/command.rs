use crate::scripts::Script;

/// A command with its arguments in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Command {
    pub(crate) fn new(name: &str) -> Self {
        Self::default().arg(name)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg.as_ref());
        self
    }

    pub(crate) fn push(&mut self, arg: &[u8]) {
        self.bytes.extend_from_slice(arg);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn extend(&mut self, args: &Self) {
        args.args().for_each(|arg| self.push(arg));
    }

    /// The argument behind the command's name: its key, if it has one.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.args().nth(1).unwrap_or_default()
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// A script with its keys and arguments: a step that is carried out whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) command: Command,
    /// One of many things that such a call may ask for, behind the arguments that are the same for all. The answer is
    /// a list with one for each.
    pub(crate) item: Option<Item>,
}

/// What one of several askers wants of a script that takes many.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) args: Command,
    /// How much work it is: so that no script that many share keeps the server for long.
    pub(crate) weight: u32,
}

impl Call {
    pub(crate) fn new(script: Script, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut of_keys = Command::default();
        let mut n = 0u32;
        for key in keys {
            of_keys.push(&key);
            n += 1;
        }
        let mut command = Command::new("EVALSHA").arg(script.sha()).arg(n.to_string());
        command.extend(&of_keys);
        Self { command, item: None }
    }

    /// The arguments of one item.
    pub(crate) fn item(mut self, weight: u32, args: Command) -> Self {
        self.item = Some(Item { args, weight });
        self
    }

    /// The first of its keys, which stand behind their count. Every script has one.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.command.args().nth(3).unwrap_or_default()
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.command.push(arg.as_ref());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.arg(number.to_string())
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }
}
