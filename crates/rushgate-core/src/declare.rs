//! The effect and the target of a verb, and the macro that makes everything of a verb from its declaration in `verb.rs`.

use crate::{Extend, LockName, QueueName, SaleId};

/// What a request does to the store, and what happens if it is sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Carries an [`Op`](crate::Op), by which the store remembers the answer. Sent again, it changes nothing and gets that answer.
    Replayed,
    /// Sent again, it changes nothing more and gets the same answer, as long as nothing else changed the record.
    Idempotent,
    /// Sent again, it may change something again or get another answer.
    Write,
}

/// What a request is about. The scopes of a token are checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// One lock.
    Lock(&'a LockName),
    /// One lock, and a queue that gets a task.
    LockAndQueue(&'a LockName, &'a QueueName),
    /// The locks of several leases.
    Leases(&'a [Extend]),
    /// Locks of any name.
    AnyLock,
    /// One queue.
    Queue(&'a QueueName),
    /// One sale.
    Sale(&'a SaleId),
    /// A listing of locks.
    LockList,
    /// A listing of queues.
    QueueList,
    /// A listing of sales.
    SaleList,
}

/// Fields of a request own what the method borrows.
macro_rules! field {
    ($lt:lifetime $ty:ty) => {
        <$ty as ToOwned>::Owned
    };
    ($ty:ty) => {
        $ty
    };
}
pub(crate) use field;

/// The method clones what it borrows.
macro_rules! own {
    ($lt:lifetime $arg:ident) => {
        $arg.to_owned()
    };
    ($arg:ident) => {
        $arg
    };
}
pub(crate) use own;

/// A verb of one sale is [`OfSale`](crate::verb::OfSale).
macro_rules! of_sale {
    (Sale $Verb:ident $($field:ident).+) => {
        impl OfSale for $Verb {
            fn sale(&self) -> &SaleId {
                &self.$($field).+
            }
        }
    };
    ($($other:tt)*) => {};
}
pub(crate) use of_sale;

/// From each declaration it makes the type of the request, its variants in `Request` and `Reply`, and its method in
/// `Verbs`. A declaration has the documentation, the [`Effect`], the type, the method with its arguments (`ref '_` for
/// those that the method borrows) and answer, what an error says was being done, the [`Target`] with the fields that name
/// it, and the check of the limits, if any.
macro_rules! verbs {
    (
        $(#[$intro:meta])*
        pub trait Verbs { $($notification:tt)* }
    $(
        $(#[$doc:meta])*
        $effect:ident $Verb:ident $verb:ident ($($arg:ident: $(ref $lt:lifetime)? $ty:ty),*) -> $Answer:ty,
            $doing:literal on $Target:ident $(($($($field:ident).+),+))? $(, $check:expr)?;
    )*) => {
        $(
            #[doc = concat!("The request of [`Verbs::", stringify!($verb), "`].")]
            #[derive(Clone, Debug)]
            #[allow(missing_docs, reason = "the method documents its arguments")]
            pub struct $Verb { $(pub $arg: field!($($lt)? $ty),)* }

            impl From<$Verb> for Request {
                fn from(verb: $Verb) -> Self {
                    Self::$Verb(verb)
                }
            }

            impl Verb for $Verb {
                type Answer = $Answer;
                const NAME: &'static str = stringify!($verb);
                const DOING: &'static str = $doing;
                const EFFECT: Effect = Effect::$effect;

                fn target(&self) -> Target<'_> {
                    Target::$Target $(($(&self.$($field).+),+))?
                }

                fn check(&self) -> Result<()> {
                    $(
                        let check: fn(&Self) -> Result<()> = $check;
                        check(self)?;
                    )?
                    Ok(())
                }

                fn reply(answer: Self::Answer) -> Reply {
                    Reply::$Verb(answer)
                }

                fn answer(reply: Reply) -> Option<Self::Answer> {
                    match reply {
                        Reply::$Verb(answer) => Some(answer),
                        _ => None,
                    }
                }
            }

            of_sale!($Target $Verb $($($($field).+),+)?);
        )*

        /// A request of any verb.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each variant holds the verb of its name")]
        pub enum Request { $($Verb($Verb),)* }

        /// The answer to a request of any verb.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each variant holds the answer to the verb of its name")]
        pub enum Reply { $($Verb($Answer),)* }

        impl Request {
            $(
                #[doc = concat!("Creates a request of [`Verbs::", stringify!($verb), "`].")]
                pub fn $verb($($arg: field!($($lt)? $ty)),*) -> Self {
                    Self::$Verb($Verb { $($arg,)* })
                }
            )*

            /// The verb's [name](Verb::NAME).
            pub fn name(&self) -> &'static str {
                match self { $(Self::$Verb(_) => $Verb::NAME,)* }
            }

            /// The verb's [effect](Verb::EFFECT).
            pub fn effect(&self) -> Effect {
                match self { $(Self::$Verb(_) => $Verb::EFFECT,)* }
            }

            /// What an error [says](Verb::DOING) was being done.
            pub fn doing(&self) -> &'static str {
                match self { $(Self::$Verb(_) => $Verb::DOING,)* }
            }

            /// What it is [about](Verb::target).
            pub fn target(&self) -> Target<'_> {
                match self { $(Self::$Verb(verb) => verb.target(),)* }
            }

            /// Checks the [limits](Verb::check).
            ///
            /// # Errors
            /// [`is_invalid`](crate::Error::is_invalid) for a request outside its limits.
            pub fn check(&self) -> Result<()> {
                match self { $(Self::$Verb(verb) => verb.check(),)* }
            }

            /// Name and effect of every verb.
            pub const VERBS: &'static [(&'static str, Effect)] = &[$(($Verb::NAME, $Verb::EFFECT),)*];

            #[cfg(test)]
            const TARGETS: &'static [(&'static str, &'static str)] = &[$(($Verb::NAME, stringify!($Target)),)*];

            /// The fields as lossless JSON, for a server's store API.
            pub fn to_wire(&self) -> serde_json::Value {
                match self {
                    $(Self::$Verb($Verb { $($arg),* }) => object([$((stringify!($arg), $arg.to_wire()),)*]),)*
                }
            }

            /// The request of the verb `name` with these fields.
            ///
            /// # Errors
            /// [`is_not_found`](crate::Error::is_not_found) for an unknown verb, and
            /// [`is_invalid`](crate::Error::is_invalid) for fields of another form.
            pub fn from_wire(name: &str, fields: serde_json::Value) -> Result<Self> {
                let fields = Fields::of(fields);
                let mut fields = fields.ok_or_else(|| Error::invalid("the request", "must be an object"))?;
                let request = match name {
                    $(name if name == $Verb::NAME =>
                        Self::$Verb($Verb { $($arg: fields.ask(stringify!($arg))?,)* }),)*
                    _ => return Err(Error::not_found(format_args!("the verb `{name}`"))),
                };
                fields.end()?;
                Ok(request)
            }
        }

        impl Reply {
            /// The answer as lossless JSON.
            pub fn to_wire(&self) -> serde_json::Value {
                match self { $(Self::$Verb(answer) => answer.to_wire(),)* }
            }

            /// The answer to the verb `name`.
            ///
            /// # Errors
            /// [`is_bug`](crate::Error::is_bug) for JSON of another form.
            pub fn from_wire(name: &str, json: serde_json::Value) -> Result<Self> {
                let read = match name {
                    $(name if name == $Verb::NAME => Wire::from_wire(json).map(Self::$Verb),)*
                    _ => None,
                };
                read.ok_or_else(|| Error::bug(format_args!("cannot read the answer to `{name}`")))
            }
        }

        $(#[$intro])*
        pub trait Verbs: Store {
            $(
                $(#[$doc])*
                fn $verb(&self, $($arg: $(&$lt)? $ty),*) -> Answer<'static, $Answer> {
                    send(self, $Verb { $($arg: own!($($lt)? $arg),)* }.into(), $Verb::answer)
                }
            )*

            /// Sends the request of any verb.
            fn carry_out(&self, request: Request) -> Answer<'static, Reply> {
                send(self, request, Some)
            }

            $($notification)*
        }

        impl<S: Store + ?Sized> Verbs for S {}

        /// Checks the limits and sends the request at once. `answer` unwraps the reply. Names the verb in errors.
        fn send<T: 'static>(
            store: &(impl Store + ?Sized),
            request: Request,
            answer: fn(Reply) -> Option<T>,
        ) -> Answer<'static, T> {
            let doing = request.doing();
            let sent = request.check().map(|()| store.step(request));
            Box::pin(async move {
                let reply = match sent {
                    Ok(reply) => reply.await,
                    Err(error) => Err(error),
                };
                let reply = reply.map_err(|error| error.doing(doing))?;
                answer(reply).ok_or_else(|| Error::bug("the store answered another verb"))
            })
        }
    };
}
pub(crate) use verbs;
