//! Whoever is asked whether a buyer is let in at all: a captcha's service, or one that tells people from programs.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use rushgate::{BuyerId, SaleId};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::problem::{Code, Problem};

/// What the buyer's page has to show.
pub(crate) const PROOF: HeaderName = HeaderName::from_static("rushgate-proof");
/// The longest proof, in bytes.
pub(crate) const PROOF_MAX: usize = 8 << 10;
/// So many are asked about at a time; others wait, and the wait counts as time without an answer.
const AT_A_TIME: usize = 256;
/// A proof that was refused is refused again for so long without asking.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// So many buyers, and so many refused proofs, are remembered at most.
const REMEMBERED_MAX: usize = 500_000;

/// A buyer who wants to join a waiting room, or to reserve where there is none.
#[derive(Clone, Debug)]
pub struct Visit {
    /// At which sale.
    pub sale: SaleId,
    /// Who.
    pub buyer: BuyerId,
    /// From where.
    pub address: IpAddr,
    /// What his page has to show: 1 to 8,192 visible ASCII characters.
    pub proof: String,
}

/// What is said of a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// He is let in.
    Yes,
    /// He is not.
    No,
    /// Nobody could tell, and why.
    Unknown(String),
}

/// Whoever is asked about buyers.
pub trait BuyerCheck: Send + Sync {
    /// Looks at one visit. A call that takes too long is dropped, and counts as [`Verdict::Unknown`].
    fn ask(&self, visit: Visit) -> BoxFuture<'static, Verdict>;
}

/// How a [`BuyerCheck`] is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckRules {
    /// How long it may take, the wait for a free place included.
    pub timeout: Duration,
    /// How long a buyer who was let in is let in again, at the same sale, without asking.
    pub remember: Duration,
    /// Whether a buyer of whom nobody could tell is let in.
    pub admit_unknown: bool,
}

impl Default for CheckRules {
    /// 2 s; ten minutes; and nobody is let in of whom nobody could tell: whoever brings the service down must not get his
    /// programs in by it.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), remember: Duration::from_secs(600), admit_unknown: false }
    }
}

/// The check of a server, with what it remembers. Each process has its own.
pub(crate) struct Checker {
    check: Arc<dyn BuyerCheck>,
    rules: CheckRules,
    /// Where a buyer's page gets what it has to show.
    page: Option<String>,
    places: Arc<Semaphore>,
    admitted: Arc<Memory>,
    refused: Arc<Memory>,
    /// What is being asked: a request that is sent again waits for the answer to the first, because many a proof can be
    /// redeemed once only.
    asking: Arc<Asking>,
}

/// What is being asked, by who and with what.
#[derive(Default)]
struct Asking(Mutex<HashMap<Key, WeakShared<BoxFuture<'static, Verdict>>>>);

impl Asking {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, WeakShared<BoxFuture<'static, Verdict>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a question when it was answered, or everybody who asked has left.
struct Forgets(Arc<Asking>, Key);

impl Drop for Forgets {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Who, and for a refusal with what, hashed: proofs are long, and nobody else's business.
type Key = [u8; 16];

fn key(parts: [&str; 3]) -> Key {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let mut key = Key::default();
    key.copy_from_slice(&digest.finalize()[..16]);
    key
}

/// How often a memory that is full looks for what is over.
const SWEEP_EACH: Duration = Duration::from_secs(1);

/// What holds for a while, of so many at most.
#[derive(Default)]
struct Memory(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    until: HashMap<Key, Instant>,
    swept: Option<Instant>,
}

impl Memory {
    fn holds(&self, key: &Key, now: Instant) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.until.get(key).is_some_and(|until| now < *until)
    }

    /// What is over goes when there is no place. If nothing is over the newcomer is not remembered, and asked about again.
    fn keep(&self, key: Key, now: Instant, time: Duration) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.until.len() >= REMEMBERED_MAX && kept.swept.is_none_or(|swept| now >= swept + SWEEP_EACH) {
            kept.swept = Some(now);
            kept.until.retain(|_, until| now < *until);
        }
        if kept.until.len() < REMEMBERED_MAX {
            kept.until.insert(key, now + time);
        }
    }
}

impl Checker {
    pub fn new(check: Arc<dyn BuyerCheck>, rules: CheckRules, page: Option<String>) -> Self {
        Self {
            check,
            rules,
            page,
            places: Arc::new(Semaphore::new(AT_A_TIME)),
            admitted: Arc::default(),
            refused: Arc::default(),
            asking: Arc::default(),
        }
    }

    /// Lets the buyer in, or says why not. Dropped, it leaves nothing behind but what was answered.
    pub async fn admit(
        &self,
        sale: &SaleId,
        buyer: &BuyerId,
        address: IpAddr,
        proof: Option<&HeaderValue>,
    ) -> Result<(), Problem> {
        let who = key([sale.as_str(), buyer.as_str(), ""]);
        if self.admitted.holds(&who, Instant::now()) {
            return Ok(());
        }
        let proof = proof.ok_or_else(|| self.refusal(Code::ProofNeeded))?;
        let proof = readable(proof)?;
        let with = key([sale.as_str(), buyer.as_str(), proof]);
        let visit = Visit { sale: sale.clone(), buyer: buyer.clone(), address, proof: proof.to_owned() };
        match self.ask(visit, who, with).await {
            Verdict::Yes => Ok(()),
            Verdict::No => Err(self.refusal(Code::ProofRefused)),
            Verdict::Unknown(why) => {
                tracing::warn!(%sale, why, admitted = self.rules.admit_unknown, "a buyer could not be checked");
                if self.rules.admit_unknown { Ok(()) } else { Err(Problem::plain(Code::CheckUnavailable)) }
            }
        }
    }

    /// The answer, from the first place that has it. All places are looked at under one lock: a question is remembered
    /// before it is forgotten here, so whoever came while it was asked finds it in one of them.
    fn ask(&self, visit: Visit, who: Key, with: Key) -> Shared<BoxFuture<'static, Verdict>> {
        let mut asking = self.asking.lock();
        if let Some(shared) = asking.get(&with).and_then(WeakShared::upgrade) {
            return shared;
        }
        if let Some(verdict) = self.remembered(&who, &with) {
            return std::future::ready(verdict).boxed().shared();
        }
        let shared = self.asked(visit, who, with).shared();
        if let Some(weak) = shared.downgrade() {
            asking.insert(with, weak);
        }
        shared
    }

    fn remembered(&self, who: &Key, with: &Key) -> Option<Verdict> {
        let now = Instant::now();
        if self.admitted.holds(who, now) {
            return Some(Verdict::Yes);
        }
        self.refused.holds(with, now).then_some(Verdict::No)
    }

    fn asked(&self, visit: Visit, who: Key, with: Key) -> BoxFuture<'static, Verdict> {
        let (rules, check, places) = (self.rules, Arc::clone(&self.check), Arc::clone(&self.places));
        let (admitted, refused) = (Arc::clone(&self.admitted), Arc::clone(&self.refused));
        let forgets = Forgets(Arc::clone(&self.asking), with);
        let ask = async move {
            let Ok(_place) = places.acquire().await else {
                return Verdict::Unknown("it is closed".to_owned());
            };
            check.ask(visit).await
        };
        async move {
            let _forgets = forgets;
            let verdict = tokio::time::timeout(rules.timeout, ask).await;
            let verdict = verdict.unwrap_or_else(|_| Verdict::Unknown("no answer in time".to_owned()));
            match verdict {
                Verdict::Yes => admitted.keep(who, Instant::now(), rules.remember),
                Verdict::No => refused.keep(with, Instant::now(), REFUSED_FOR),
                Verdict::Unknown(_) => {}
            }
            verdict
        }
        .boxed()
    }

    /// With the place where the page gets a proof, if that is known.
    fn refusal(&self, code: Code) -> Problem {
        let problem = Problem::plain(code)
            .hint("have the page get a proof, and ask again with it in the header Rushgate-Proof");
        match &self.page {
            Some(page) => problem.with("prove_at", page.as_str()),
            None => problem,
        }
    }
}

/// The proof of a request: what cannot be one is left to [`readable`].
pub(crate) fn proof(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(&PROOF).filter(|proof| !proof.is_empty()).cloned()
}

fn readable(proof: &HeaderValue) -> Result<&str, Problem> {
    let amiss = || {
        let why = format_args!("the header Rushgate-Proof is not 1 to {PROOF_MAX} visible ASCII characters");
        Problem::new(Code::Invalid, why).field("Rushgate-Proof")
    };
    let text = proof.to_str().map_err(|_| amiss())?;
    let is_good = text.len() <= PROOF_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_good.then_some(text).ok_or_else(amiss)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_remembered_holds_for_its_time_and_no_longer() {
        let (memory, start) = (Memory::default(), Instant::now());
        let (ann, bob) = (key(["s", "ann", ""]), key(["s", "bob", ""]));
        memory.keep(ann, start, Duration::from_secs(10));
        assert!(memory.holds(&ann, start + Duration::from_secs(9)) && !memory.holds(&bob, start));
        assert!(!memory.holds(&ann, start + Duration::from_secs(10)));
    }

    /// Says yes, and counts how often it was asked.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl BuyerCheck for Counts {
        fn ask(&self, _: Visit) -> BoxFuture<'static, Verdict> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Verdict::Yes).boxed()
        }
    }

    #[tokio::test]
    async fn whoever_looked_before_the_answer_and_asks_after_it_is_not_a_second_question() {
        let counts = Arc::new(Counts::default());
        let checker = Checker::new(Arc::<Counts>::clone(&counts), CheckRules::default(), None);
        let visit = Visit {
            sale: SaleId::new("phones").unwrap(),
            buyer: BuyerId::new("ann").unwrap(),
            address: IpAddr::from([127, 0, 0, 1]),
            proof: "once".to_owned(),
        };
        let (who, with) = (key(["phones", "ann", ""]), key(["phones", "ann", "once"]));
        assert_eq!(checker.ask(visit.clone(), who, with).await, Verdict::Yes);
        assert_eq!(checker.ask(visit, who, with).await, Verdict::Yes);
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn names_do_not_run_together() {
        assert_ne!(key(["ab", "c", ""]), key(["a", "bc", ""]));
        assert_ne!(key(["a", "b", "c"]), key(["a", "bc", ""]));
    }

    #[test]
    fn a_proof_is_one_long_word_at_most() {
        let read = |text: &str| readable(&HeaderValue::from_str(text).unwrap()).is_ok();
        assert!(read("0.AbC-_~") && read(&"x".repeat(PROOF_MAX)));
        assert!(!read("a b") && !read(&"x".repeat(PROOF_MAX + 1)));
        let bytes = HeaderValue::from_bytes(b"\xff").unwrap();
        assert!(readable(&bytes).is_err());
    }
}
