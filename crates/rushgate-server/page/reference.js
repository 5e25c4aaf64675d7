// The API reference: colors, names and keys for RapiDoc, which renders `/openapi.json`.
const reference = document.getElementById('reference');
const dark = matchMedia('(prefers-color-scheme: dark)');
/** RapiDoc has no sidebar on a narrow screen. */
const narrow = matchMedia('(max-width: 768px)');

/** RapiDoc's colors, from those of the other pages. */
const COLORS = {
  'bg-color': '--card', 'text-color': '--ink', 'primary-color': '--accent', 'nav-bg-color': '--ground', 'nav-text-color': '--ink',
  'nav-hover-bg-color': '--line', 'nav-hover-text-color': '--ink', 'nav-accent-color': '--accent',
};

function paint() {
  const style = getComputedStyle(document.documentElement);
  reference.setAttribute('theme', dark.matches ? 'dark' : 'light');
  reference.setAttribute('render-style', narrow.matches ? 'view' : 'focused');
  for (const [attribute, name] of Object.entries(COLORS)) reference.setAttribute(attribute, style.getPropertyValue(name).trim());
}

const named = new WeakSet();
/** Names what RapiDoc leaves without a name, and does so again whenever it renders. */
function nameParts(root) {
  const name = () => {
    root.querySelector('nav.nav-bar')?.setAttribute('aria-label', 'Reference');
    root.querySelector('nav.nav-scroll')?.setAttribute('aria-label', 'Routes');
    root.querySelectorAll('textarea').forEach((field) => field.setAttribute('aria-label', 'Example of the body'));
    root.querySelectorAll('api-request').forEach(({ shadowRoot }) => { if (shadowRoot && !named.has(shadowRoot)) nameParts(shadowRoot); });
  };
  named.add(root);
  new MutationObserver(name).observe(root, { childList: true, subtree: true });
  name();
}

paint();
dark.addEventListener('change', paint);
narrow.addEventListener('change', paint);
addEventListener('keydown', (event) => {
  const search = reference.shadowRoot?.getElementById('nav-bar-search');
  if (event.key !== '/' || !search || event.composedPath()[0].matches('input, textarea')) return;
  event.preventDefault();
  search.focus();
});
await customElements.whenDefined('rapi-doc');
await reference.updateComplete;
nameParts(reference.shadowRoot);
