// The custom element `<rushgate-shop sale="…">`, for pages of other origins. See docs/how-to/shop-page.md.
import { openShop } from '/page/shop.js';

const link = (name) => {
  const style = document.createElement('link');
  style.rel = 'stylesheet';
  style.href = new URL(name, import.meta.url).href;
  return style;
};

class RushgateShop extends HTMLElement {
  #pay;
  #shop;

  /** Takes the payment. It resolves once the provider has accepted it, and rejects if it failed. */
  get pay() { return this.#pay; }
  set pay(provider) {
    this.#pay = provider;
    this.#shop?.payWith(provider);
  }

  connectedCallback() {
    if (this.shadowRoot) return;
    // A page may have set the property before this module was loaded.
    if (Object.hasOwn(this, 'pay')) {
      const { pay } = this;
      delete this.pay;
      this.pay = pay;
    }
    const root = this.attachShadow({ mode: 'open' });
    const place = document.createElement('div');
    root.append(link('page.css'), link('shop.css'), place);
    this.#shop = openShop({
      place, sale: this.getAttribute('sale'), token: this.getAttribute('token'), proof: this.getAttribute('proof'), isEmbedded: true, pay: this.#pay,
      onChange: (detail) => this.dispatchEvent(new CustomEvent('reservation', { detail })),
    });
  }
}

export { PaymentRefused } from '/page/shop.js';
customElements.define('rushgate-shop', RushgateShop);
