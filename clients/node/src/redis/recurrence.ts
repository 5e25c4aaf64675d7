/** When a schedule fires. Moments are in µs. */

import { invalid } from '../check.js'
import * as contract from '../contract.js'
import type { Recurrence } from '../types.js'
import { Pattern } from './cron.js'

/** How many occurrences a schedule lists. */
const UPCOMING = 5
/** How late an occurrence may be noticed before it counts as missed. */
const LATE_US = 60_000_000

/** What a schedule does now. */
export interface Due {
  /** Occurrences to enqueue tasks for. */
  runs: number[]
  /** Next occurrence. 0 if there is none. */
  next: number
}

/** The stored form of a recurrence, which Rust programs read. */
export function wireRecurrence({ cron, zone, everyMs, missed }: Recurrence): object {
  return cron === undefined ? { every_ms: everyMs, missed } : { cron, ...(zone !== undefined && { zone }), missed }
}

/** The first occurrence after a moment. */
export function nextAfter(recurrence: Recurrence, moment: number): number {
  const next = find(recurrence, moment)
  if (next === undefined) throw invalid('cron', `\`${recurrence.cron}\` never matches`)
  return next
}

/** The next occurrences of a schedule, from its next one on. A recurrence that cannot be read has no others. */
export function upcoming(recurrence: Recurrence, next: number | undefined): number[] {
  const moments: number[] = []
  try {
    while (next !== undefined && moments.length < UPCOMING) {
      moments.push(next)
      next = find(recurrence, next)
    }
  } catch {
    // Another client's recurrence.
  }
  return moments
}

/** What a schedule does at `now` whose next occurrence is `first`. At most `most` runs; the rest is due again at once. */
export function dueOf(recurrence: Recurrence, first: number, now: number, most: number): Due {
  if (recurrence.missed === 'all') {
    const runs = [first]
    let next = find(recurrence, first)
    while (next !== undefined && next <= now && runs.length < most) {
      runs.push(next)
      next = find(recurrence, next)
    }
    return { runs, next: next ?? 0 }
  }
  const latest = latestUntil(recurrence, first, now)
  const counts = recurrence.missed !== 'skip' || now - latest <= LATE_US
  return { runs: counts ? [latest] : [], next: find(recurrence, now) ?? 0 }
}

/** The latest occurrence at or before a moment. `first`: an earlier one. */
export function latestUntil(recurrence: Recurrence, first: number, moment: number): number {
  // The latest one is after `low`, and none is after `high`.
  let [low, high] = [Math.floor(first / 1_000), Math.floor(moment / 1_000)]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if ((find(recurrence, middle * 1_000) ?? Infinity) <= moment) low = middle + 1
    else high = middle
  }
  return Math.max(first, low * 1_000)
}

/** A moment as in the IDs of tasks: `2026-11-22T03:30:00Z`. */
export function written(moment: number): string {
  return new Date(moment / 1_000).toISOString().replace(/\.?0*Z$/, 'Z')
}

function find({ cron, zone = 'UTC', everyMs }: Recurrence, moment: number): number | undefined {
  if (cron === undefined) {
    const interval = everyMs * 1_000
    return Math.min((Math.floor(moment / interval) + 1) * interval, contract.MOMENT_US.max)
  }
  const next = new Pattern(cron, zone).nextAfter(moment / 1_000)
  return next === undefined ? undefined : next * 1_000
}
