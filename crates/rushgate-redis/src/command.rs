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

    fn of(args: impl IntoIterator<Item = Vec<u8>>) -> Self {
        args.into_iter().fold(Self::default(), Self::arg)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg.as_ref());
        self
    }

    /// How many bytes its arguments have.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
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

    /// Whether it writes nothing. Of those that are sent beside scripts, one does.
    pub(crate) fn only_looks(&self) -> bool {
        self.args().next() != Some(b"ZADD")
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// A script with its keys and arguments: a step that is carried out whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    script: Script,
    keys: Command,
    args: Command,
    /// One of many things that such a call may ask for, behind what is the same for all. The answer is a list with one
    /// for each.
    pub(crate) item: Option<Item>,
}

/// What one of several askers wants of a script that takes many.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Keys of its own.
    keys: Command,
    args: Command,
    /// How much work it is: so that no script that many share keeps the server for long.
    pub(crate) weight: u32,
}

impl Item {
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.ends.is_empty()
    }
}

impl Call {
    pub(crate) fn new(script: Script, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { script, keys: Command::of(keys), args: Command::default(), item: None }
    }

    /// One key more, behind the others.
    pub(crate) fn key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(&key);
        self
    }

    /// The arguments of one item.
    pub(crate) fn item(self, weight: u32, args: Command) -> Self {
        self.item_with_keys(weight, [], args)
    }

    /// An item that has keys of its own, behind those that are the same for all.
    pub(crate) fn item_with_keys(
        mut self,
        weight: u32,
        keys: impl IntoIterator<Item = Vec<u8>>,
        args: Command,
    ) -> Self {
        self.item = Some(Item { keys: Command::of(keys), args, weight });
        self
    }

    /// The first of its keys. Every script has one.
    pub(crate) fn first_key(&self) -> &[u8] {
        let of_items = self.item.iter().flat_map(|item| item.keys.args());
        self.keys.args().chain(of_items).next().unwrap_or_default()
    }

    pub(crate) fn script(&self) -> Script {
        self.script
    }

    pub(crate) fn is(&self, script: Script) -> bool {
        self.script == script
    }

    /// Whether both are the same but for their items.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        self.script == other.script && self.keys == other.keys && self.args == other.args
    }

    /// The command, with the items of all who asked.
    pub(crate) fn command<'a>(&self, items: impl Iterator<Item = &'a Item> + Clone) -> Command {
        let mut keys = self.keys.clone();
        items.clone().for_each(|item| keys.extend(&item.keys));
        let mut command = Command::new("EVALSHA").arg(self.script.sha()).arg(keys.ends.len().to_string());
        command.extend(&keys);
        command.extend(&self.args);
        items.for_each(|item| command.extend(&item.args));
        command
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args.push(arg.as_ref());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.arg(number.to_string())
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }
}
