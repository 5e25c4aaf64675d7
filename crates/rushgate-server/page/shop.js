// The buyer's page. Each attempt is stored before it is sent, so that a reload, a second click, the back button or a
// lost connection all lead to the same reservation.
import { Problem, api, at, bearer, h, number, path, pause, randomId, recall, say, setBearer, speak, spoken, standing, store, t } from '/page/common.js';

/** The sale in the URL. A malformed name stays as it is, and matches no sale. */
const sale = ((name) => { try { return decodeURIComponent(name); } catch { return name; } })(location.pathname.split('/').pop());
const base = `/v1/sales/${path(sale)}`;
const FINAL = { confirmed: 'paid', cancelled: 'calledOff', expired: 'expired', rejected: 'soldOut' };
const REFUSED = {
  sold_out: 'soldOut', limit_reached: 'limitReached', sale_ended: 'saleEnded', sale_not_open: 'notOpen',
  all_held: 'allHeld', sale_halted: 'saleHalted', room_closed: 'soldOut',
  proof_needed: 'proveFirst', proof_refused: 'proveFirst', check_unavailable: 'checkAway',
  unauthorized: 'signIn', forbidden: 'notAllowed', not_found: 'noSuchSale',
};
/** Refusals that leave the attempt undecided: the next try continues it. */
const UNDECIDED = ['proveFirst', 'signIn'];
/** The text for each refusal. */
const spell = ({ code, message }) => (REFUSED[code] ? t(REFUSED[code]) : t('refusedBecause', message));

// A shop's own page may pass a token for the buyer (`#token=…`) and a proof for the bot check (`#proof=…`).
let proof = null;
let buyer; // unset if the token names the buyer
let attempt = JSON.parse(recall(`attempt:${sale}`) ?? 'null'); // { key, sku, pass?, id? }
/** Buyer of a token. */
function who(token) {
  try { return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))).sub; } catch { return token; }
}
function takeOver() {
  const handed = new URLSearchParams(location.hash.slice(1));
  const token = handed.get('token');
  // Ask before the page switches to another buyer: a link may come from anywhere.
  if (token && (!bearer() || who(bearer()) === who(token) || confirm(t('otherBuyer')))) {
    if (bearer() && who(bearer()) !== who(token)) {
      attempt = null;
      store(`attempt:${sale}`, null);
    }
    setBearer(token);
    sessionStorage.setItem('named', 'yes');
    buyer = undefined;
  }
  proof = handed.get('proof') ?? proof;
  if (handed.has('token') || handed.has('proof')) history.replaceState(null, '', location.pathname);
}
takeOver();
addEventListener('hashchange', takeOver);

if (!sessionStorage.getItem('named')) {
  buyer = recall('buyer') ?? `web-${randomId()}`;
  store('buyer', buyer);
}
let skew = 0; // the server's clock minus this one's, in microseconds
let state = null;
let hold = null;
let word = null;
let refusal = null; // the server's message, if the page has no text for it
let trouble = null; // why the last refresh of the sale failed
let aside = null; // why a reservation could not be confirmed or canceled
let busy = false;
let mayPay = true; // until the server refuses a confirmation
let line = null; // position in the waiting room, while this buyer waits: { serial, ahead?, at? }
let pass = attempt?.pass; // admission token; null without a waiting room

const now = () => Date.now() * 1000 + skew;
const keep = (next) => { attempt = next; store(`attempt:${sale}`, next && JSON.stringify(next)); };
const keepPass = (given) => { pass = given; if (attempt) keep({ ...attempt, pass }); };

function chosen() {
  return document.querySelector('#choice input:checked')?.value ?? state?.skus[0]?.sku;
}

/** Why the chosen SKU cannot be reserved by any buyer. */
const CLOSED = { created: 'notOpen', opensLater: 'notOpen', sold: 'soldOut', over: 'saleEnded', ended: 'saleEnded' };

function draw() {
  const sku = state?.skus.find((of) => of.sku === chosen()) ?? state?.skus[0];
  if (sku) say(at('stock'), `${sku.sku}: ${number(sku.free)} ${t('left')}`);
  const stands = sku && standing({ ...state, skus: [sku] }, now());
  const waits = stands === 'opensLater';
  let text = word ? t(word) : refusal ? spell(refusal) : '';
  if (hold?.state === 'held') text = `${t('yours')} ${spoken(hold.deadline_us - now())}`;
  else if (line) text = line.at ? `${number(line.ahead)} ${t('ahead')} ${spoken(line.at - now())}` : line.ahead !== undefined ? `${number(line.ahead)} ${t('behind')}` : `${t('drawSoon')} ${t('yourNumber')} ${line.serial}`;
  else if (waits && !text) text = `${t('opensIn')} ${spoken(state.opens_at_us - now())}`;
  else if (!text && CLOSED[stands]) text = t(CLOSED[stands]);
  if (hold && hold.state !== 'expired' && hold.state !== 'cancelled') {
    text += ` (${hold.units.map((of) => `${of.sku}, ${t('unit')} ${of.unit}`).join('; ')})`;
  }
  // Without a known state, the problem is shown instead of the sale; otherwise beside it.
  const problem = trouble instanceof Problem ? spell(trouble) : trouble ? t(attempt ? 'lostWay' : 'noAnswer') : '';
  say(at('state'), text || (state ? '' : problem));
  say(at('note'), aside ? aside() : state && !word ? problem : '');
  say(at('buy'), t('buy'));
  at('buy').disabled = busy || attempt !== null || !state || stands in CLOSED;
  at('buy').hidden = hold !== null && ['held', 'confirming', 'confirmed'].includes(hold.state);
  at('cancel').hidden = hold?.state !== 'held';
  at('pay').hidden = hold?.state !== 'held' || !mayPay;
  at('pay').disabled = busy;
  at('choice').hidden = attempt !== null;
}

function choices() {
  if (state.skus.length < 2 || at('choice').children.length) return;
  at('choice').append(...state.skus.map((sku, n) =>
    h('label', {}, h('input', { type: 'radio', name: 'sku', value: sku.sku, checked: n === 0, onchange: draw }), ` ${sku.sku} `)));
}

/** Looks at the sale once. */
async function look() {
  try {
    state = await api('GET', base);
    skew = state.now_us - Date.now() * 1000;
    trouble = null;
    choices();
  } catch (error) {
    trouble = error;
  }
  draw();
}

/** Refreshes the sale repeatedly. After the first answer it resumes an earlier attempt. */
async function watch() {
  for (let isFirst = true; ;) {
    await look();
    if (isFirst && state && attempt) (attempt.id ? resume : reserve)();
    isFirst = !state;
    await pause(2000);
  }
}

const proofs = () => (proof ? { 'rushgate-proof': proof } : {});

/** Shows where to get a proof if the bot check refused the buyer. Each link is valid for one refusal. */
function showProof(error) {
  const wanted = error instanceof Problem && error.code.startsWith('proof_');
  if (wanted) proof = null;
  const page = wanted ? error.problem.prove_at : undefined;
  at('prove').hidden = !page;
  if (page && /^https?:/.test(page)) at('prove').href = page;
}

/** Waits for this buyer's turn. Returns the admission token, or null without a waiting room. Throws a permanent refusal. */
async function waitInLine() {
  for (let joined = false; ;) {
    try {
      // While the request waits, the page shows the position from the previous answer.
      const turn = await api('POST', `${base}/${joined ? 'passes' : 'tickets'}`, {
        body: { buyer }, more: joined ? { prefer: 'wait=20' } : proofs(),
      });
      line = turn.pass ? null : { serial: turn.serial, ahead: turn.ahead, at: turn.wait_ms === undefined ? null : now() + turn.wait_ms * 1000 };
      draw();
      if (turn.pass) return turn.pass;
      joined = true;
    } catch (error) {
      if (!(error instanceof Problem)) { word = 'lostWay'; draw(); await pause(1000); continue; }
      joined = false;
      if (error.code === 'not_found') { line = null; return null; }
      if (!['not_in_line', 'pass_missed'].includes(error.code) && !error.problem.retryable) { line = null; throw error; }
      if (error.problem.retryable) await pause(Math.min(error.problem.retry_after_ms ?? 1000, 5000));
    }
  }
}

/** Reserves with the stored key, until the answer is final. */
async function reserve() {
  busy = true;
  for (; attempt;) {
    try {
      if (pass === undefined && state?.waiting_room) keepPass(await waitInLine());
      hold = await api('POST', `${base}/reservations`, {
        body: { buyer, lines: [{ sku: attempt.sku }], ...(pass && { pass }) }, more: { 'idempotency-key': attempt.key, ...proofs() },
      });
      keep({ ...attempt, id: hold.id });
      showProof(null);
      word = FINAL[hold.state] ?? null;
      busy = false;
      draw();
      return follow();
    } catch (problem) {
      let error = problem;
      if (error instanceof Problem && error.code.startsWith('pass_')) {
        try { keepPass(await waitInLine()); continue; } catch (closed) { error = closed; }
      }
      const refused = error instanceof Problem;
      showProof(error);
      word = refused ? REFUSED[error.code] ?? null : 'lostWay';
      refusal = refused && !word ? error : null;
      draw();
      // Refresh the stock, so that it is not older than the refusal.
      if (refused) await look();
      if (refused && !error.problem.retryable) {
        store(`unproved:${sale}`, UNDECIDED.includes(word) ? JSON.stringify(attempt) : null);
        keep(null);
        break;
      }
      await pause(refused ? Math.min(error.problem.retry_after_ms ?? 1000, 5000) : 1000);
    }
  }
  busy = false;
  draw();
}

/** Resumes a known reservation without another wait in the waiting room. */
async function resume() {
  for (; ;) {
    try {
      hold = await api('GET', `${base}/reservations/${attempt.id}`);
      word = FINAL[hold.state] ?? null;
      draw();
      return follow();
    } catch (error) {
      if (error instanceof Problem && !error.problem.retryable) return reserve();
      word = 'lostWay';
      draw();
      await pause(1000);
    }
  }
}

/** Waits until the reservation ends. */
async function follow() {
  while (hold && !FINAL[hold.state]) {
    try {
      hold = { ...hold, ...await api('GET', `${base}/reservations/${hold.id}`, { more: { prefer: 'wait=20' } }) };
      word = FINAL[hold.state] ?? null;
    } catch (error) {
      // A buyer who must sign in again keeps the hold.
      if (error instanceof Problem && !error.problem.retryable && error.code !== 'unauthorized') { word = null; hold = null; break; }
      word = error instanceof Problem ? null : 'lostWay';
      await pause(1000);
    }
    draw();
  }
  // A hold that was not paid for may be followed by another attempt.
  if (!hold || hold.state !== 'confirmed') keep(null);
  draw();
}

at('buy').addEventListener('click', () => {
  if (attempt) return;
  // Continue an attempt that needed a proof or a token: it may have succeeded, and its answer may be lost.
  keep(JSON.parse(recall(`unproved:${sale}`) ?? 'null') ?? { key: randomId(), sku: chosen() });
  store(`unproved:${sale}`, null);
  hold = null;
  word = 'wait';
  refusal = aside = null;
  draw();
  reserve();
});

/** Confirms or cancels the hold. The buyer may have started another attempt by the time of the answer. */
async function decide(what, seconds) {
  const { id } = hold;
  const decided = await api('POST', `${base}/reservations/${id}/${what}`, { body: {}, more: { prefer: `wait=${seconds}` } });
  if (hold?.id !== id) return;
  hold = { ...hold, ...decided };
  word = FINAL[hold.state] ?? 'wait';
}

const excuse = (error) => (error instanceof Problem ? spell(error) : t('notSent'));

/** If the server requires no tokens, the page may confirm the payment itself. */
at('pay').addEventListener('click', async () => {
  busy = true;
  aside = null;
  draw();
  try {
    await decide('confirm', 10);
  } catch (error) {
    mayPay = !(error instanceof Problem && ['unauthorized', 'forbidden'].includes(error.code));
    aside = () => (!mayPay ? t('payElsewhere') : excuse(error));
  }
  busy = false;
  draw();
});
at('cancel').addEventListener('click', async () => {
  aside = null;
  try {
    await decide('cancel', 5);
  } catch (error) {
    aside = () => excuse(error);
  }
  draw();
});

document.title = sale;
say(at('name'), sale);
speak(draw);
setInterval(draw, 200);
watch();
