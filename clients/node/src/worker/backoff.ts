import * as contract from '../contract.js'

/** Retry delay of failed tasks: exponential, capped, with full jitter. */
export interface Backoff {
  /** Delay after the first failure, in ms. Default: 1,000. */
  baseMs?: number
  /** Multiplier for each further failure: 1 or more. Default: 2. */
  factor?: number
  /** Longest delay in ms: at most 400 days. Default: 3,600,000. */
  maxMs?: number
  /** Whether to draw each delay evenly from zero to that delay. Default: true. */
  jitter?: boolean
}

/** Delay in ms after attempt number `attempt` (1 for the first). */
export function drawDelay(attempt: number, backoff: Backoff = {}): number {
  const {
    baseMs = contract.DEFAULT_BACKOFF_BASE, factor = contract.DEFAULT_BACKOFF_FACTOR, maxMs = contract.DEFAULT_BACKOFF_MAX, jitter = true,
  } = backoff
  const longest = Math.min(baseMs * Math.max(factor, 1) ** Math.max(attempt - 1, 0), maxMs, contract.DELAY_US.max / 1_000)
  return jitter ? Math.random() * longest : longest
}
