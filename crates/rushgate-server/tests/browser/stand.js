// What the browser tests share: servers, requests, and pages with their faults.
'use strict';
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join, resolve } = require('node:path');

const [command, pictures] = process.argv.slice(2);
const rushgate = resolve(command);
const phone = { width: 390, height: 780 };
const desk = { width: 1200, height: 900 };
// Directory of the pages' files, to test a change of them without a build. Default: the files in the binary.
const pagesFrom = process.env.RUSHGATE_PAGES;
const patience = 60000; // generous, for a busy machine
const faults = [];
// A name that resolves to this machine but is not loopback. Over plain HTTP, its pages are not a secure context.
const elsewhere = 'shop.test';
// `away`: browsers log an error for each failed request while the network is down.
const state = { away: false, server: undefined, url: undefined };

/** Starts a server in this directory, and returns it with its address. */
async function start(directory, listen, more = [], store = 'sqlite:shop.db') {
  const args = ['serve', '--quiet', '--listen', listen, '--store', store, '--orders', 'sqlite:orders.db', ...more];
  const server = spawn(rushgate, args, { cwd: directory, stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise((resolve, reject) => {
    server.stdout.once('data', (line) => resolve(String(line).trim()));
    server.once('exit', () => reject(new Error('the server has ended')));
  });
  return { server, address };
}

/** Starts the main server, on a free port or on its previous one. */
async function serve(directory) {
  const { server, address } = await start(directory, state.url ? new URL(state.url).host : '127.0.0.1:0', ['--host', elsewhere, '--audit-log', 'audit.log']);
  state.server = server;
  state.url = address;
}

async function end(server, signal) {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.kill(signal);
  await new Promise((resolve) => { server.once('exit', resolve); });
}

async function send(method, path, body, headers) {
  const answer = await fetch(new URL(path, state.url), {
    method, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
  });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

const post = (path, body, headers) => send('POST', path, body, headers);
const put = (path, body) => send('PUT', path, body);

/** Replaces the content of a file of the pages, and keeps its headers. */
async function fromDirectory(asked) {
  const url = new URL(asked.request().url());
  // Only the browser resolves the other name of this machine.
  url.hostname = '127.0.0.1';
  try {
    const body = readFileSync(join(pagesFrom, url.pathname.replace('/page/', '')));
    await asked.fulfill({ response: await asked.fetch({ url: url.href }), status: 200, body });
  } catch {
    await asked.abort().catch(() => {});
  }
}

async function open(browser, path, { refusals = [], ...options } = {}) {
  const context = await browser.newContext({ locale: 'en', ...options });
  context.setDefaultTimeout(patience);
  if (pagesFrom) await context.route(/\/page\/[^?]+$/, fromDirectory);
  const page = await context.newPage();
  const complains = (line) => ['error', 'warning'].includes(line.type()) && !(state.away && /ERR_|503/.test(line.text()));
  // Refusals are expected, and browsers log each of them.
  const isRefusal = (line) => [409, ...refusals].some((status) => line.text().includes(`status of ${status}`));
  page.on('console', (line) => complains(line) && !isRefusal(line) && faults.push(`${path}: ${line.text()}`));
  page.on('pageerror', (error) => faults.push(`${path}: ${error.message}`));
  await page.goto(new URL(path, state.url).href);
  return page;
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

const has = (page, text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text);

/** Presses the button of the open dialog that carries out the command, typing a name if it asks for one. */
async function confirm(page, typed) {
  const dialog = page.locator('dialog[open]');
  if (typed) await dialog.locator('input[type=text]').last().fill(typed);
  await dialog.locator('.ends button').last().click();
  await dialog.waitFor({ state: 'detached' });
}

/** Presses the button of the open dialog that changes nothing. */
async function refuse(page) {
  await page.locator('dialog[open] .ends button').first().click();
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
}

/** Presses a button of a place. If it is in a menu, opens the menu first. Some menus have their verbs only while open. */
async function press(place, name) {
  const button = place.getByRole('button', { name, exact: true, includeHidden: true }).first();
  const menu = place.locator('details.menu > summary');
  await button.or(menu).first().waitFor({ state: 'attached' });
  const within = await button.count() ? button.locator('xpath=ancestor::details[contains(@class, "menu")]/summary') : menu.first();
  if (!await button.isVisible()) await within.click();
  await button.click();
}

/** Waits until the page has this path and query. */
const at = (page, path) => page.waitForURL((now) => now.pathname + now.search === path);

/** Waits until the page has this title. */
const titled = (page, title) => page.waitForFunction((wanted) => document.title === wanted, title);

const rowOf = (page, text) => page.locator('tbody tr:visible').filter({ hasText: text });

/** Elements that cannot be reached without horizontal scrolling. */
async function fits(page, what) {
  const out = await page.evaluate(() => {
    const isOut = (element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width > 0 && (left < 0 || right > innerWidth);
    };
    const reached = [...document.querySelectorAll('button, a, input, summary')].filter((element) => element.checkVisibility());
    return [...(document.documentElement.scrollWidth > innerWidth ? ['the page'] : []), ...reached.filter(isOut).map((element) => element.outerHTML)];
  });
  assert.deepEqual(out, [], what);
}

const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** What axe-core finds wrong on the page. */
async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await globalThis.axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(' ')}`));
  assert.deepEqual(found, [], what);
}

module.exports = {
  accessible, assert, at, confirm, desk, elsewhere, end, faults, fits, has, join, mkdtempSync, open, patience,
  phone, picture, pictures, post, press, put, refuse, readFileSync, rmSync, rowOf, rushgate, serve, spawn, spawnSync,
  start, state, titled, tmpdir,
};
