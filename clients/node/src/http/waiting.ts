import * as contract from '../contract.js'
import { now, sleep } from '../wait.js'

/** Shortest time between two requests that wait, in ms, if the server does not wait. */
const AGAIN_MS = 250

/** Repeats a request that the server lets wait, until its answer is final or the wait ends. Returns the last answer. */
export async function waiting<T>(
  waitMs: number, signal: AbortSignal | undefined, request: (partMs: number) => Promise<T>, isFinal: (answer: T) => boolean,
): Promise<T> {
  const until = now() + waitMs
  for (;;) {
    const sent = now()
    const answer = await request(Math.min(Math.max(until - sent, 0), contract.HTTP_WAIT))
    if (isFinal(answer) || until <= now()) return answer
    const early = AGAIN_MS - (now() - sent)
    if (early > 0) await sleep(Math.min(early, until - now()), signal)
  }
}
