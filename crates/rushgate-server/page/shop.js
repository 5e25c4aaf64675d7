// A shop for one sale: the buyer's page, and the element that other pages embed. Each attempt is stored before it is
// sent, so that a reload, a second click, the back button or a lost connection all lead to the same reservation.
import { html, render, signal } from '/page/vendor/preact.js';
import { Problem, api, bearer, countdown, moment, money, number, otherLanguage, path, pause, randomId, recall, recallInTab, setBearer, spoken, standing, store, storeInTab, t } from '/page/common.js';

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

/** Buyer of a token. */
function who(token) {
  try { return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))).sub; } catch { return token; }
}

/** Most units in one request. */
const QUANTITY_MAX = 32;

/** Most units of a SKU that this buyer can choose. */
const mostOf = (sku) => Math.max(1, Math.min(QUANTITY_MAX, sku.per_buyer || QUANTITY_MAX, sku.free || 1));

/** SKUs that are shown at first, and how many more each time a buyer asks for more. A sale with more has a search. */
const SKUS_SHOWN = 24;

/** Why the chosen SKU cannot be reserved by any buyer. */
const CLOSED = { halted: 'saleHaltedNow', created: 'notOpen', opensLater: 'notOpen', sold: 'soldOut', over: 'saleEnded', ended: 'saleEnded' };

/** What the button says when there is nothing to reserve anymore. */
const BUY = { sold: 'soldOut', over: 'saleEnded', ended: 'saleEnded' };

/** How much of a SKU is left. */
function stockOf(sku) {
  if (sku.free) return t('leftOf', number(sku.free));
  return t(sku.held ? 'onHoldShort' : 'soldOutShort');
}

const PAYING = { isOpen: true, text: () => t('paying') };
const PAID = { isOpen: true, text: () => t('paymentTaken') };
const CANCELING = { isOpen: true, text: () => t('wait') };
const failed = (text) => ({ isOpen: false, text });

/** Thrown by a payment provider that has refused the payment for good. */
export class PaymentRefused extends Error {}

/**
 * Shows the shop of a sale. A page may embed several, each with its own state, token and payment provider. `pay` takes the
 * payment; see docs/how-to/shop-page.md. Without it there is no button to pay. `onChange` is called at each change of the
 * buyer's reservation.
 */
export function openShop({ place, sale, pay: takePayment, onChange = () => {}, isEmbedded = false, ...identity }) {
  const base = `/v1/sales/${path(sale)}`;
  // The page around an embedded shop has a heading and a `main` of its own.
  const [Heading, Main] = isEmbedded ? ['h2', 'div'] : ['h1', 'main'];

  // The page of a sale keeps a token in the tab, so that it survives a reload. An embedded shop gets it at each load, and
  // only has to know whether it is of another buyer than before.
  const tokenKey = `bearer:${sale}`;
  let embeddedToken = recallInTab(tokenKey);
  const tokenNow = () => (isEmbedded ? embeddedToken : bearer());
  function setToken(given) {
    if (isEmbedded) {
      embeddedToken = given;
      storeInTab(tokenKey, given);
    } else {
      setBearer(given);
      storeInTab('named', 'yes');
    }
  }
  const isNamed = () => (isEmbedded ? embeddedToken !== null : recallInTab('named') !== null);
  const ask = (method, url, options) => api(method, url, { ...options, token: tokenNow() });

  let proof = null;
  let buyer; // unset if the token names the buyer
  let attempt = JSON.parse(recall(`attempt:${sale}`) ?? 'null'); // { key, sku, quantity?, pass?, id?, receipt? }
  /** Takes a token for the buyer, and a proof for the bot check. `isAsked`: the buyer agrees before the page changes to another buyer. */
  function identify({ token, proof: given, isAsked = false }) {
    proof = given ?? proof;
    if (!token) return;
    const isOther = tokenNow() && who(tokenNow()) !== who(token);
    if (isOther && isAsked && !confirm(t('otherBuyer'))) return;
    if (isOther) {
      attempt = null;
      store(`attempt:${sale}`, null);
    }
    setToken(token);
    buyer = undefined;
  }

  let skew = 0; // the server's clock minus this one's, in microseconds
  let state = null;
  let hold = null;
  let catalog = null; // what the sale's metadata says of the SKUs
  let word = null;
  let refusal = null; // the server's message, if the page has no text for it
  let trouble = null; // why the last refresh of the sale failed
  let proveAt = null; // where to get a proof for the bot check
  let busy = false;
  let mayPay = true; // until the provider says that this page cannot pay
  /** The buyer's latest request for each hold, to pay or to cancel: its text, and whether it excludes another request. */
  const requests = new Map();
  let line = null; // position in the waiting room, while this buyer waits: { serial, ahead?, at? }
  let pass = attempt?.pass; // admission token; null without a waiting room

  const now = () => Date.now() * 1000 + skew;
  const keep = (next) => { attempt = next; store(`attempt:${sale}`, next && JSON.stringify(next)); };
  const keepPass = (given) => { pass = given; if (attempt) keep({ ...attempt, pass }); };

  const turn = signal(0);
  let told = null;
  function draw() {
    turn.value += 1;
    const latest = hold && `${hold.id} ${hold.state}`;
    if (latest === told) return;
    told = latest;
    if (hold) onChange({ reservation: hold.id, state: hold.state, units: hold.units, deadline_us: hold.deadline_us });
  }

  let wanted = { sku: null, quantity: 1 };
  let search = '';
  let shownMost = SKUS_SHOWN;

  /** The chosen SKU: the buyer's choice, or the first one that can be reserved. */
  function chosen() {
    const all = state?.skus ?? [];
    return all.find(({ sku }) => sku === (attempt?.sku ?? wanted.sku)) ?? all.find(({ free, held }) => free || held) ?? all[0];
  }

  function standingOf(sku) {
    const stands = sku && standing({ ...state, skus: [sku] }, now());
    return stands && state.halted && !(stands in CLOSED) ? 'halted' : stands;
  }

  /** Title, text, price and picture of a SKU, as far as the metadata has them. An amount that is no integer is no price. */
  function about(sku) {
    const { price, ...rest } = catalog?.skus?.[sku] ?? {};
    return { ...rest, price: Number.isSafeInteger(price?.amount) ? price : undefined };
  }
  const titleOf = (sku) => String(about(sku).title ?? sku);

  /** The units of a hold, in words. */
  const unitsOf = ({ units }) => units.map((of) => `${titleOf(of.sku)}, ${t('unit')} ${of.unit}`).join('; ');

  /** The price of a hold: { amount, currency } in the smallest unit of the currency; undefined if a SKU has none. */
  function priceOf({ units }) {
    const prices = units.map(({ sku }) => about(sku).price);
    if (prices.some((price) => !price || price.currency !== prices[0]?.currency)) return undefined;
    return { amount: prices.reduce((sum, { amount }) => sum + amount, 0), currency: prices[0].currency };
  }

  /** What the buyer has to know now, in one sentence. */
  function sentence(stands) {
    if (hold?.state === 'held') return t('payWithin');
    if (line) {
      if (line.at) return `${number(line.ahead)} ${t('ahead')} ${spoken(line.at - now())}`;
      return line.ahead === undefined ? `${t('drawSoon')} ${t('yourNumber')} ${line.serial}` : `${number(line.ahead)} ${t('behind')}`;
    }
    if (word) return t(word);
    if (refusal) return spell(refusal);
    if (stands === 'opensLater') return t('opensIn');
    // The button says that a sale is over.
    return CLOSED[stands] && !BUY[stands] ? t(CLOSED[stands]) : '';
  }

  /** A SKU to choose. The parts of this page are functions and not components, because its state is no property. */
  function choiceOf(sku) {
    const { picture, text, price } = about(sku.sku);
    const isGone = ['sold', 'over', 'ended'].includes(standingOf(sku));
    const choose = () => { wanted = { sku: sku.sku, quantity: 1 }; draw(); };
    return html`<label key=${sku.sku} class="sku ${isGone ? 'is-gone' : ''}">
      <input type="radio" name="sku" value=${sku.sku} checked=${chosen()?.sku === sku.sku} disabled=${isGone || attempt !== null} onChange=${choose} />
      ${picture && html`<img src=${picture} alt="" width="72" height="72" loading="lazy" onError=${(event) => { event.target.hidden = true; }} />`}
      <span class="sku-text"><span class="sku-name">${titleOf(sku.sku)}</span>${text && html`<small>${text}</small>`}
        ${sku.per_buyer > 0 && sku.per_buyer < QUANTITY_MAX && html`<small class="soft">${t('perBuyer', number(sku.per_buyer))}</small>`}</span>
      <span class="sku-side">${price && html`<b class="sku-price">${money(price)}</b>`}<span class="sku-left">${stockOf(sku)}</span></span>
    </label>`;
  }

  /** The SKUs to choose from. The chosen one is always among them. */
  function choices() {
    const all = state.skus;
    const text = search.trim().toLowerCase();
    const found = all.filter(({ sku }) => `${sku} ${titleOf(sku)}`.toLowerCase().includes(text));
    const [shown, one] = [found.slice(0, shownMost), chosen()];
    if (one && !shown.includes(one)) shown.unshift(one);
    const left = found.filter((sku) => !shown.includes(sku)).length;
    const find = (event) => { search = event.target.value; shownMost = SKUS_SHOWN; draw(); };
    const more = () => { shownMost += SKUS_SHOWN; draw(); };
    return html`<fieldset id="choice" disabled=${attempt !== null}><legend class="unseen">${t('chooseSku')}</legend>
      ${all.length > SKUS_SHOWN && html`<input type="search" id="find" placeholder=${t('findSku')} aria-label=${t('findSku')} value=${search} onInput=${find} />`}
      ${shown.map(choiceOf)}
      ${left > 0 && html`<button type="button" id="more" class="plain" onClick=${more}>${t('moreSkus', number(left))}</button>`}</fieldset>`;
  }

  function quantityOf(sku) {
    const most = mostOf(sku);
    const set = (quantity) => { wanted = { sku: sku.sku, quantity: Math.min(most, Math.max(1, quantity)) }; draw(); };
    if (most < 2) return null;
    return html`<div class="quantity"><span id="quantity-label">${t('quantity')}</span>
      <button type="button" aria-label=${t('fewer')} disabled=${wanted.quantity <= 1} onClick=${() => set(wanted.quantity - 1)}>−</button>
      <output id="quantity" aria-labelledby="quantity-label">${number(Math.min(wanted.quantity, most))}</output>
      <button type="button" aria-label=${t('moreUnits')} disabled=${wanted.quantity >= most} onClick=${() => set(wanted.quantity + 1)}>+</button></div>`;
  }

  /** Saves the receipt as a file. */
  function saveReceipt() {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([attempt.receipt], { type: 'text/plain' }));
    link.download = `receipt-${attempt.id}.txt`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** The order: its number, its units and its receipt. */
  function order() {
    if (!hold || !['held', 'confirming', 'confirmed'].includes(hold.state)) return null;
    const price = priceOf(hold);
    return html`<dl class="order"><div><dt>${t('orderNumber')}</dt><dd><code id="order">${hold.id}</code></dd></div>
      <div><dt>${t('yourUnits')}</dt><dd id="units">${unitsOf(hold)}</dd></div>
      ${price && html`<div><dt>${t('sum')}</dt><dd id="sum">${money(price)}</dd></div>`}
      ${attempt?.receipt && html`<div><dt>${t('receipt')}</dt><dd><button type="button" id="receipt" class="small" onClick=${saveReceipt}>${t('saveReceipt')}</button> <small class="soft">${t('receiptSays')}</small></dd></div>`}</dl>`;
  }

  /** The time that is left: to the opening, or to pay. */
  function clock(stands) {
    if (hold?.state === 'held') {
      const left = hold.deadline_us - now();
      return html`<p class="clock ${left < 60e6 ? 'bad' : ''}" id="clock" role="timer">${countdown(left)}</p>`;
    }
    if (stands !== 'opensLater' || word || refusal) return null;
    return html`<p class="clock" id="clock" role="timer">${countdown(state.opens_at_us - now())}</p><p class="soft">${t('opensAt', moment(state.opens_at_us))}</p>`;
  }

  function Shop() {
    void turn.value;
    const sku = chosen();
    const stands = standingOf(sku);
    const { code, name, choose } = otherLanguage();
    const text = sentence(stands);
    // Without a known state, the problem is shown instead of the sale; otherwise beside it.
    const problem = trouble instanceof Problem ? spell(trouble) : trouble ? t(attempt ? 'lostWay' : 'noAnswer') : '';
    const isMine = hold !== null && ['held', 'confirming', 'confirmed'].includes(hold.state);
    const isPaid = hold?.state === 'confirmed';
    const price = hold && priceOf(hold);
    const request = hold?.state === 'held' ? requests.get(hold.id) : undefined;
    return html`<header><${Heading} id="name">${catalog?.title ?? sale}<//><button id="language" class="plain" lang=${code} onClick=${() => { choose(); draw(); }}>${name}</button></header>
    <${Main} class="shop">
      ${catalog?.text && !isMine && html`<p class="about">${catalog.text}</p>`}
      ${state && !isMine && html`${choices()}
        ${!attempt && !(stands in CLOSED) && quantityOf(sku)}`}
      <p id="state" class="state ${isPaid ? 'good' : ''}" role="status" aria-live="polite">${text || (state ? '' : problem)}</p>
      ${clock(stands)}
      ${order()}
      ${proveAt && html`<a id="prove" href=${proveAt}>${t('prove')}</a>`}
      ${!isMine && html`<button id="buy" class="buy" disabled=${busy || attempt !== null || !state || stands in CLOSED} onClick=${buy}>${t(BUY[stands] ?? 'buy')}</button>`}
      ${hold?.state === 'held' && mayPay && takePayment && html`<button id="pay" class="buy" disabled=${request?.isOpen} onClick=${pay}>${price ? t('paySum', money(price)) : t('pay')}</button>`}
      ${hold?.state === 'held' && html`<button id="cancel" class="plain" disabled=${request?.isOpen} onClick=${cancel}>${t('callOff')}</button>`}
      <p id="note" class="soft" role="status" aria-live="polite">${request?.text() ?? (state && !word ? problem : '')}</p>
    <//>`;
  }

  /** Looks at the sale once. */
  async function look() {
    try {
      state = await ask('GET', base);
      skew = state.now_us - Date.now() * 1000;
      trouble = null;
      // Without its metadata, the sale is shown with the names of its SKUs.
      catalog ??= await ask('GET', `${base}/metadata`, { cache: 'no-cache' }).catch(() => null);
    } catch (error) {
      trouble = error;
    }
    draw();
  }

  /** Refreshes the sale repeatedly. After the first answer it resumes an earlier attempt. */
  async function watch() {
    for (let isFirst = true; ;) {
      // An element that was removed from its page asks for nothing.
      if (place.isConnected) await look();
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
    proveAt = page && /^https?:/.test(page) ? page : null;
  }

  /** Waits for this buyer's turn. Returns the admission token, or null without a waiting room. Throws a permanent refusal. */
  async function waitInLine() {
    for (let joined = false; ;) {
      try {
        // While the request waits, the page shows the position from the previous answer.
        const turn = await ask('POST', `${base}/${joined ? 'passes' : 'tickets'}`, {
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
        hold = await ask('POST', `${base}/reservations`, {
          body: { buyer, lines: [{ sku: attempt.sku, quantity: attempt.quantity ?? 1 }], ...(pass && { pass }) }, more: { 'idempotency-key': attempt.key, ...proofs() },
        });
        keep({ ...attempt, id: hold.id, receipt: hold.receipt });
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
        hold = await ask('GET', `${base}/reservations/${attempt.id}`);
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
        hold = { ...hold, ...await ask('GET', `${base}/reservations/${hold.id}`, { more: { prefer: 'wait=20' } }) };
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

  function buy() {
    if (attempt) return;
    // Continue an attempt that needed a proof or a token: it may have succeeded, and its answer may be lost.
    const { sku } = chosen();
    keep(JSON.parse(recall(`unproved:${sale}`) ?? 'null') ?? { key: randomId(), sku, quantity: wanted.sku === sku ? wanted.quantity : 1 });
    store(`unproved:${sale}`, null);
    hold = null;
    word = 'wait';
    refusal = null;
    draw();
    reserve();
  }

  /** Why a payment failed. After an error of an unknown kind, the provider may have charged the buyer. */
  function whyUnpaid(error) {
    if (!mayPay) return t('payElsewhere');
    if (error instanceof PaymentRefused) return t('paymentRefused');
    return error instanceof Problem ? spell(error) : t('paymentUnknown');
  }

  /** Starts the payment. The order is paid once the reservation is confirmed, which `follow` notices. */
  async function pay() {
    // By the time of the answer, the buyer may have another hold.
    const { id, units, deadline_us } = hold;
    requests.set(id, PAYING);
    draw();
    try {
      await takePayment({ sale, reservation: id, units, price: priceOf(hold), deadline_us });
      requests.set(id, PAID);
      // After a reload, the page must not ask for a second payment.
      if (attempt?.id === id) keep({ ...attempt, isPaid: true });
    } catch (error) {
      mayPay = !(error instanceof Problem && ['unauthorized', 'forbidden'].includes(error.code));
      requests.set(id, failed(() => whyUnpaid(error)));
    }
    draw();
  }

  async function cancel() {
    const { id } = hold;
    requests.set(id, CANCELING);
    draw();
    try {
      const decided = await ask('POST', `${base}/reservations/${id}/cancel`, { body: {}, more: { prefer: 'wait=5' } });
      // The buyer may have started another attempt by now.
      if (hold?.id === id) {
        hold = { ...hold, ...decided };
        word = FINAL[hold.state] ?? 'wait';
      }
      requests.delete(id);
    } catch (error) {
      requests.set(id, failed(() => (error instanceof Problem ? spell(error) : t('notSent'))));
    }
    draw();
  }

  function payWith(provider) {
    takePayment = provider;
    draw();
  }

  if (attempt?.isPaid) requests.set(attempt.id, PAID);
  // Without a token nobody is signed in at an embedded shop: one from an earlier load may be another buyer's.
  if (isEmbedded && !identity.token) setToken(null);
  identify(identity);
  if (!isNamed()) {
    buyer = recall('buyer') ?? `web-${randomId()}`;
    store('buyer', buyer);
  }
  render(html`<${Shop} />`, place);
  setInterval(draw, 200);
  watch();
  return { identify, payWith };
}
