/** Runs the tests that redlock 4 publishes, and prints the totals. A test that is neither run nor listed fails. */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import vm from 'node:vm'

import Mocha from 'mocha'

import { notApplicable } from './not-applicable.mjs'
import { modules } from './redlock.mjs'

const require = createRequire(import.meta.url)
const listed = Object.values(notApplicable).flat()
const mocha = new Mocha({ reporter: function silent() {}, timeout: 10_000 })

/** Declares the tests of a file. */
function load(path) {
  mocha.suite.emit('pre-require', globalThis, path, mocha)
  const file = vm.compileFunction(readFileSync(path, 'utf8'), ['require'], { filename: path })
  file((name) => modules[name] ?? require(name))
}

/** Removes the tests that are listed. Returns the titles of the list that were found. */
function withoutListed(suite) {
  const isListed = (one) => listed.includes(one.fullTitle())
  const removed = [...suite.suites, ...suite.tests].filter(isListed)
  suite.suites = suite.suites.filter((one) => !isListed(one))
  suite.tests = suite.tests.filter((one) => !isListed(one))
  return [...removed.map((one) => one.fullTitle()), ...suite.suites.flatMap(withoutListed)]
}

load(require.resolve('redlock/test.js'))
const found = withoutListed(mocha.suite)
const unknown = listed.filter((title) => !found.includes(title))
for (const title of unknown) console.log(`✖ listed as not applicable, but not a test: ${title}`)

let [passed, failed] = [0, unknown.length]
mocha.run()
  .on('pass', () => { passed++ })
  .on('fail', (test, error) => { failed++; console.log(`✖ ${test.fullTitle()}`, error) })
  .on('pending', (test) => { failed++; console.log(`✖ skipped, but not listed: ${test.fullTitle()}`) })
  .on('end', () => {
    console.log(`${passed} passed, ${failed} failed`)
    process.exit(failed === 0 && passed > 0 ? 0 : 1)
  })
