/** Adds one to the number in a file, under a lock: `counter.mjs LOCK FILE TIMES`. */

import { readFile, writeFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'

import { Rushgate } from 'rushgate'

export async function countTo(client, lock, file, times) {
  for (let time = 0; time < Number(times); time++) {
    await client.lock(lock).run(async () => {
      await writeFile(file, String(Number(await readFile(file, 'utf8')) + 1))
    }, { waitMs: 60_000 })
  }
}

// A thread has the script of its process, and arguments of its own.
if (process.argv.length > 4 && (import.meta.url === pathToFileURL(process.argv[1]).href)) {
  const { options, target } = await import('./options.mjs')
  const client = await Rushgate.connect(target.url, options)
  await countTo(client, ...process.argv.slice(2))
  await client.close()
}
