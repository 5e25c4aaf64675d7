import { setTimeout as delay } from 'node:timers/promises'

/** Waits until a condition holds, for at most 20 s. Returns its value. */
export async function until(condition, what = 'the condition') {
  const end = performance.now() + 20_000
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() > end) throw new Error(`${what} did not come true`)
    await delay(10)
  }
}
