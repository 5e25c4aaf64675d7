/** Runs the test files on every target, and prints the totals. */

import { readdirSync } from 'node:fs'
import path from 'node:path'
import { run } from 'node:test'
import { fileURLToPath } from 'node:url'

import { targets } from './targets.mjs'

const folder = path.dirname(fileURLToPath(import.meta.url))
const files = (ending) => readdirSync(folder).filter((name) => name.endsWith(ending)).map((name) => path.join(folder, name))
const totals = { passed: 0, failed: 0 }
const only = process.argv.slice(2)

function count(event, name, { details, file }) {
  if (details.type === 'suite' || file === undefined) return
  totals[event]++
  if (event === 'failed') console.log(`✖ ${name}`, details.error.cause ?? details.error)
}

async function runFiles(name, list) {
  const before = { ...totals }
  const begun = performance.now()
  const stream = run({ files: list, concurrency: 1, timeout: 90_000 })
  // A file counts as a test of its own: only what it contains is counted, unless the file itself failed.
  stream.on('test:pass', (test) => { if (test.nesting > 0 || !list.includes(test.name)) count('passed', `${name}: ${test.name}`, test) })
  stream.on('test:fail', (test) => count('failed', `${name}: ${test.name}`, test))
  stream.on('test:stderr', ({ message }) => process.stderr.write(message))
  for await (const event of stream) void event
  const [passed, failed] = [totals.passed - before.passed, totals.failed - before.failed]
  console.log(`${name}: ${passed} passed, ${failed} failed, ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
}

for (const target of targets()) {
  if (only.length > 0 && !only.includes(target.name)) continue
  process.env.RUSHGATE_TARGET = JSON.stringify(target)
  await runFiles(target.name, files('.test.mjs'))
}
if (only.length === 0 || only.includes('cross')) await runFiles('cross', files('.cross.mjs'))
console.log(`${totals.passed} passed, ${totals.failed} failed`)
process.exit(totals.failed === 0 && totals.passed > 0 ? 0 : 1)
