// Keyboard shortcuts.
import { html, signal, useEffect, useRef } from '/page/vendor/preact.js';
import { t } from '/page/common.js';
import { navigate } from '/page/router.js';

/** After `g`, the next key opens a screen. */
const SCREENS = { o: ['/', 'overview'], s: ['/sales', 'sales'], q: ['/queues', 'queues'], l: ['/locks', 'locks'], a: ['/log', 'log'], d: ['/docs', 'reference'] };
const GO_MS = 1500;

const isHelpOpen = signal(false);
const isTyping = (element) => element.matches?.('input:not([type=checkbox]):not([type=range]), textarea, select') || element.isContentEditable;

/** Opens the next tab of a sale or a queue, or the previous one. */
function turn(step) {
  const tabs = [...document.querySelectorAll('[data-tabs] a')];
  const current = tabs.findIndex((tab) => tab.hasAttribute('aria-current'));
  tabs.at((current + step) % tabs.length)?.click();
}

let wentAt = 0;
function press(event) {
  if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return;
  const search = document.querySelector('[data-search]');
  if (event.key === '?') isHelpOpen.value = true;
  else if (event.key === '/' && search) { event.preventDefault(); search.focus(); }
  else if (event.key === 't' || event.key === 'T') turn(event.key === 't' ? 1 : -1);
  else if (event.key === 'g') { wentAt = Date.now(); return; }
  else if (Date.now() - wentAt < GO_MS && SCREENS[event.key]) {
    const [url] = SCREENS[event.key];
    if (url === '/docs') location.href = url; else navigate(url);
  }
  wentAt = 0;
}

export function Keys() {
  const dialog = useRef();
  const open = isHelpOpen.value;
  useEffect(() => {
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
  useEffect(() => { if (open) dialog.current.showModal(); }, [open]);
  if (!open) return null;
  const rows = [['/', t('keySearch')], ['t', t('keyNextTab')], ['T', t('keyPreviousTab')], ['?', t('keyHelp')], ['Esc', t('keyClose')], ...Object.entries(SCREENS).map(([key, [, word]]) => [`g ${key}`, t(word)])];
  return html`<dialog ref=${dialog} aria-labelledby="keys-title" onClose=${() => { isHelpOpen.value = false; }}><form method="dialog"><h2 id="keys-title">${t('keys')}</h2>
    <table class="keys"><tbody>${rows.map(([key, text]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <div class="row ends"><button autofocus>${t('close')}</button></div></form></dialog>`;
}
