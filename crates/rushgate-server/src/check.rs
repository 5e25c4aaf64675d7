//! The bot check: asks an external service, such as a CAPTCHA, whether a buyer is human.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use rushgate::BuyerId;
use rushgate::sale::SaleId;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::problem::{Code, Problem};

/// Header with the proof from the buyer's page.
pub(crate) const PROOF: HeaderName = HeaderName::from_static("rushgate-proof");
/// Maximum length of a proof, in bytes.
pub(crate) const PROOF_MAX: usize = 8 << 10;
/// Maximum number of concurrent checks. Others wait, and their wait counts toward the time limit.
const AT_A_TIME: usize = 256;
/// How long a refused proof is refused again without asking the service.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Maximum number of cached buyers, and of cached refused proofs.
const REMEMBERED_MAX: usize = 500_000;

/// A visit to check: a buyer who wants to join a waiting room, or to reserve where there is none.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The sale.
    pub sale: SaleId,
    /// The buyer.
    pub buyer: BuyerId,
    /// The client address.
    pub address: IpAddr,
    /// The proof: 1 to 8,192 visible ASCII characters.
    pub proof: String,
}

/// Verdict on a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The buyer is admitted.
    Yes,
    /// The buyer is refused.
    No,
    /// The service could not decide, with the reason.
    Unknown(String),
}

/// A service that checks buyers.
pub trait BuyerCheck: Send + Sync {
    /// Checks one visit. A call that exceeds the time limit is dropped and counts as [`Verdict::Unknown`].
    fn ask(&self, visit: Visit) -> BoxFuture<'static, Verdict>;
}

/// Settings of a [`BuyerCheck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckRules {
    /// Time limit of a check, including the wait for a free slot.
    pub timeout: Duration,
    /// How long an admitted buyer is admitted again at the same sale without a check.
    pub remember: Duration,
    /// Whether to admit buyers while the service cannot decide.
    pub admit_unknown: bool,
}

impl Default for CheckRules {
    /// 2 s; 10 minutes; and no admission while the service cannot decide, so that bringing it down does not let bots
    /// in.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), remember: Duration::from_secs(600), admit_unknown: false }
    }
}

/// The bot check of a server with its caches. Each process has its own.
pub(crate) struct Checker {
    check: Arc<dyn BuyerCheck>,
    rules: CheckRules,
    /// URL where a buyer's page gets a proof.
    page: Option<String>,
    places: Arc<Semaphore>,
    admitted: Arc<Memory>,
    refused: Arc<Memory>,
    /// Running checks. A repeated request waits for the answer to the first one, because many proofs can be redeemed
    /// only once.
    asking: Arc<Asking>,
}

/// Key of a running check: the buyer and the proof.
#[derive(Default)]
struct Asking(Mutex<HashMap<Key, WeakShared<BoxFuture<'static, Verdict>>>>);

impl Asking {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, WeakShared<BoxFuture<'static, Verdict>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a running check once it is answered or all its callers have left.
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

/// Key of a cached verdict, hashed: proofs are long, and secret.
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

/// How often a full cache looks for expired entries.
const SWEEP_EACH: Duration = Duration::from_secs(1);

/// A bounded cache whose entries expire.
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

    /// Expired entries make room. If none has expired the new entry is not cached, and the buyer is checked again.
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

    /// Admits the buyer or returns the reason for the refusal. Dropping the future leaves nothing behind except
    /// cached answers.
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
                tracing::warn!(%sale, why, admitted = self.rules.admit_unknown, "the bot check failed");
                if self.rules.admit_unknown { Ok(()) } else { Err(Problem::plain(Code::CheckUnavailable)) }
            }
        }
    }

    /// The cached or running answer. All places are searched under one lock, and a check is cached before it is
    /// removed from the running ones, so a caller always finds it in one of them.
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
                return Verdict::Unknown("the bot check is closed".to_owned());
            };
            check.ask(visit).await
        };
        async move {
            let _forgets = forgets;
            let verdict = tokio::time::timeout(rules.timeout, ask).await;
            let verdict = verdict.unwrap_or_else(|_| Verdict::Unknown("timed out".to_owned()));
            match verdict {
                Verdict::Yes => admitted.keep(who, Instant::now(), rules.remember),
                Verdict::No => refused.keep(with, Instant::now(), REFUSED_FOR),
                Verdict::Unknown(_) => {}
            }
            verdict
        }
        .boxed()
    }

    /// Adds the URL where the page gets a proof, if it is known.
    fn refusal(&self, code: Code) -> Problem {
        let problem = Problem::plain(code)
            .hint("get a proof in the page, then repeat the request with the header Rushgate-Proof");
        match &self.page {
            Some(page) => problem.with("prove_at", page.as_str()),
            None => problem,
        }
    }
}

/// Reads the proof of a request. A value that cannot be a proof is left to [`readable`].
pub(crate) fn proof(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(&PROOF).filter(|proof| !proof.is_empty()).cloned()
}

fn readable(proof: &HeaderValue) -> Result<&str, Problem> {
    let unusable = || {
        let why =
            format_args!("the header Rushgate-Proof must have 1 to {PROOF_MAX} visible ASCII characters");
        Problem::new(Code::Invalid, why).field("Rushgate-Proof")
    };
    let text = proof.to_str().map_err(|_| unusable())?;
    let is_good = text.len() <= PROOF_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_good.then_some(text).ok_or_else(unusable)
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

    /// Admits every buyer, and counts the calls.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl BuyerCheck for Counts {
        fn ask(&self, _: Visit) -> BoxFuture<'static, Verdict> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Verdict::Yes).boxed()
        }
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_bot_check() {
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
