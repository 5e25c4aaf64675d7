import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { isHttp, target } from './options.mjs'

if (target.kind === 'redis' && !isHttp) {
  test('the example of the README runs', async () => {
    const readme = path.join(path.dirname(createRequire(import.meta.url).resolve('rushgate/package.json')), 'README.md')
    const [, example] = /<!-- example: run by a test -->\n```js\n([^]*?)```/.exec(readFileSync(readme, 'utf8'))
    const file = fileURLToPath(new URL('example.mjs', import.meta.url))
    writeFileSync(file, example)
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env: { ...process.env, RUSHGATE_URL: target.url } })
    assert.match(stdout, /^fencing token \d+\nsent to ann attempt 1\n$/)
  })
}
