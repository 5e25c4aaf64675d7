/** Runs the test files on every target, and prints the totals. */

import { spawnSync } from 'node:child_process'
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

/** Runs the tests of other packages, which have a test runner of their own. */
function runOutside() {
  const begun = performance.now()
  const { stdout } = spawnSync(process.execPath, [path.join(folder, 'outside/run.mjs')], { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' })
  const [, problems, passed, failed] = /^([^]*?)(\d+) passed, (\d+) failed\n$/.exec(stdout) ?? [, stdout, 0, 1]
  totals.passed += Number(passed)
  totals.failed += Number(failed)
  console.log(`${problems}redlock: ${passed} passed, ${failed} failed, ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
}

const isChosen = (name) => only.length === 0 || only.includes(name)

for (const target of targets()) {
  if (!isChosen(target.name)) continue
  process.env.RUSHGATE_TARGET = JSON.stringify(target)
  await runFiles(target.name, files('.test.mjs'))
}
if (isChosen('cross')) await runFiles('cross', files('.cross.mjs'))
if (isChosen('outside') && process.env.RUSHGATE_TEST_REDIS) runOutside()
console.log(`${totals.passed} passed, ${totals.failed} failed`)
process.exit(totals.failed === 0 && totals.passed > 0 ? 0 : 1)
