use std::time::Duration;

use crate::function::Function;
use crate::keys::Group;

/// Whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

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

    /// The length of all arguments in bytes.
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

    /// The first argument: the key, if the command has one.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.args().nth(1).unwrap_or_default()
    }

    /// Whether the command writes nothing. Of the commands that are sent beside functions, only ZADD writes.
    pub(crate) fn only_looks(&self) -> bool {
        self.args().next() != Some(b"ZADD")
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// A function with its keys and arguments, which the server executes atomically.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    function: Function,
    keys: Vec<Group>,
    args: Command,
    /// One item of a function that takes many, behind the arguments that all items share. The answer is a list with one
    /// entry per item.
    pub(crate) item: Option<Item>,
}

/// What one caller requests from a function that takes many items.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The item's own keys.
    keys: Option<Group>,
    args: Command,
    /// The amount of work, which limits how many items share a call.
    pub(crate) weight: u32,
}

impl Item {
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }
}

/// Which keys a call passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The first of each group. The library derives the others, which costs the server less.
    First,
    /// All. A node of a Cluster checks them before it executes a call, because their slot may be moving.
    All,
}

impl Call {
    pub(crate) fn new(function: Function, keys: impl IntoIterator<Item = Group>) -> Self {
        Self { function, keys: keys.into_iter().collect(), args: Command::default(), item: None }
    }

    /// Appends a group of keys.
    pub(crate) fn group(mut self, keys: Group) -> Self {
        self.keys.push(keys);
        self
    }

    /// Adds the arguments of an item.
    pub(crate) fn item(mut self, weight: u32, args: Command) -> Self {
        self.item = Some(Item { keys: None, args, weight });
        self
    }

    /// Adds an item with its own keys, which follow the shared keys.
    pub(crate) fn item_with_keys(mut self, weight: u32, keys: Group, args: Command) -> Self {
        self.item = Some(Item { keys: Some(keys), args, weight });
        self
    }

    /// The first key. Every function that is called has one.
    pub(crate) fn first_key(&self) -> Vec<u8> {
        let of_item = self.item.iter().filter_map(|item| item.keys.as_ref());
        self.keys.iter().chain(of_item).next().map(Group::first).unwrap_or_default()
    }

    pub(crate) fn function(&self) -> Function {
        self.function
    }

    /// The same request to a server whose memory is full, if that may succeed.
    pub(crate) fn when_full(&self) -> Option<Self> {
        Some(Self { function: self.function.when_full()?, ..self.clone() })
    }

    pub(crate) fn is(&self, function: Function) -> bool {
        self.function == function
    }

    /// Whether both calls are equal apart from their items.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        self.function == other.function && self.keys == other.keys && self.args == other.args
    }

    /// The FCALL command for a list of items.
    pub(crate) fn command<'a>(
        &self,
        items: impl Iterator<Item = &'a Item> + Clone,
        passed: Passed,
    ) -> Command {
        let groups = self.keys.iter().chain(items.clone().filter_map(|item| item.keys.as_ref()));
        let mut keys = Command::default();
        for group in groups {
            match passed {
                Passed::First => keys.push(&group.first()),
                Passed::All => group.all().for_each(|key| keys.push(&key)),
            }
        }
        let mut command = Command::new("FCALL").arg(self.function.name()).arg(keys.ends.len().to_string());
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
