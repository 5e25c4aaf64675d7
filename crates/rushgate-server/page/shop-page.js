// The page of a sale at `/shop/{sale}`, with a payment provider for demos.
import { html, render } from '/page/vendor/preact.js';
import { language, t } from '/page/common.js';
import { MODES, demoPayment, mode } from '/page/demo-payment.js';
import { openShop } from '/page/shop.js';

/** The sale in the URL. A malformed name stays as it is, and matches no sale. */
const sale = ((name) => { try { return decodeURIComponent(name); } catch { return name; } })(location.pathname.split('/').pop());

/** A shop's own page may pass a token for the buyer (`#token=…`) and a proof for the bot check (`#proof=…`). */
function handed() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has('token') || given.has('proof')) history.replaceState(null, '', location.pathname);
  // Ask before the page switches to another buyer: a link may come from anywhere.
  return { token: given.get('token'), proof: given.get('proof'), isAsked: true };
}

const Demo = () => html`<details class="demo"><summary>${t('demoPayment')}</summary>
  <p class="soft">${t('demoSays')}</p>
  <select id="demo" aria-label=${t('demoPayment')} onChange=${(event) => { mode.value = event.target.value; }}>
    ${MODES.map((one) => html`<option key=${one} value=${one} selected=${one === mode.value}>${t(`demo_${one}`)}</option>`)}</select></details>`;

language.subscribe((now) => { document.documentElement.lang = now; });
document.title = sale;
const shop = openShop({ place: document.getElementById('app'), sale, pay: demoPayment, ...handed() });
addEventListener('hashchange', () => shop.identify(handed()));
render(html`<${Demo} />`, document.getElementById('aside'));
