use rushgate_core::{Coded, Error, Result, Timestamp};

/// A reply of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Status(String),
    List(Vec<Reply>),
}

/// An error reply: its code, such as `OOM`, and the rest of its text.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) text: String,
}

/// The reply to one command.
pub(crate) type Answered = std::result::Result<Reply, Refusal>;

/// Conversions to the shape that a reply must have. Another shape means that the functions or the data are not
/// Rushgate's.
impl Reply {
    pub(crate) fn int(self) -> Result<u64> {
        match self {
            Self::Int(n) => u64::try_from(n).map_err(|_| strange("a negative number")),
            Self::Bytes(bytes) => {
                let text = std::str::from_utf8(&bytes).map_err(|_| strange("not a number"))?;
                text.parse().map_err(|_| strange("not a number"))
            }
            _ => Err(strange("not a number")),
        }
    }

    pub(crate) fn small(self) -> Result<u32> {
        u32::try_from(self.int()?).map_err(|_| strange("a number that is too large"))
    }

    pub(crate) fn bytes(self) -> Result<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Status(text) => Ok(text.into_bytes()),
            _ => Err(strange("not bytes")),
        }
    }

    pub(crate) fn text(self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| strange("not text"))
    }

    pub(crate) fn list(self) -> Result<Fields> {
        match self {
            Self::List(list) => Ok(Fields(list.into_iter())),
            _ => Err(strange("no list")),
        }
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Status(status) if status == word)
    }
}

/// Reads the entries of a list in order.
pub(crate) struct Fields(std::vec::IntoIter<Reply>);

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn next(&mut self) -> Result<Reply> {
        self.0.next().ok_or_else(|| strange("a list that is too short"))
    }

    pub(crate) fn int(&mut self) -> Result<u64> {
        self.next()?.int()
    }

    pub(crate) fn small(&mut self) -> Result<u32> {
        self.next()?.small()
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.next()?.bytes()
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.next()?.text()
    }

    pub(crate) fn list(&mut self) -> Result<Fields> {
        self.next()?.list()
    }

    /// A number, or '' for none.
    pub(crate) fn optional(&mut self) -> Result<Option<u64>> {
        match self.next()? {
            Reply::Bytes(none) if none.is_empty() => Ok(None),
            number => number.int().map(Some),
        }
    }

    /// A moment, or '' for none.
    pub(crate) fn moment(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.optional()?.map(Timestamp::from_micros))
    }

    /// Reads items until the list ends.
    pub(crate) fn each<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(read(self)?);
        }
        Ok(items)
    }
}

/// Reads packed bytes from the front. Numbers are big-endian.
pub(crate) struct Packed<'a>(pub(crate) &'a [u8]);

impl<'a> Packed<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or_else(|| strange("a record that is too short"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn number(&mut self, bytes: usize) -> Result<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(crate) fn small(&mut self, bytes: usize) -> Result<u32> {
        u32::try_from(self.number(bytes)?).map_err(|_| strange("a number that is too large"))
    }

    pub(crate) fn id(&mut self) -> Result<[u8; 16]> {
        self.take(16)?.try_into().map_err(|_| strange("an ID that is too short"))
    }

    /// A text, preceded by its length in 1 byte.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let n = self.number(1)? as usize;
        str_of(self.take(n)?)
    }
}

/// A moment, or 0 for none.
pub(crate) fn nonzero(micros: u64) -> Option<Timestamp> {
    (micros > 0).then(|| Timestamp::from_micros(micros))
}

/// The variant with a stored number.
pub(crate) fn coded<T: Coded>(code: u64) -> Result<T> {
    T::from_code(code).ok_or_else(|| strange("an unknown state number"))
}

pub(crate) fn read_code<T: Coded>(reply: Reply) -> Result<T> {
    coded(reply.int()?)
}

pub(crate) fn read_codes<T: Coded>(reply: Reply) -> Result<Vec<T>> {
    reply.list()?.each(|fields| coded(fields.int()?))
}

/// The outcome of a call for one item, of a function that answers a list.
pub(crate) fn read_only_code<T: Coded>(reply: Reply) -> Result<T> {
    coded(reply.list()?.int()?)
}

pub(crate) fn str_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| strange("not text"))
}

pub(crate) fn id_of(bytes: &[u8]) -> Result<[u8; 16]> {
    bytes.try_into().map_err(|_| strange("not an ID of 16 bytes"))
}

pub(crate) fn strange(what: &str) -> Error {
    Error::corrupt(format_args!("unexpected reply from the store: {what}"))
        .hint("let only one version of Rushgate write keys that begin with `rg:`")
}
