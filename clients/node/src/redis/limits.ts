/** Limits of a queue, as `queue_limit` takes them and `queue_stats` returns them. */

import * as contract from '../contract.js'
import type { QueueLimits, Rate } from '../types.js'
import { meaning, strange } from './packed.js'

const NONE = '-'
const WORDS = 11

export function writeLimits({ bound, concurrency, rate, perKey, retention, overflow = 'refuse', events }: QueueLimits): string[] {
  const text = (number: number | undefined) => number === undefined ? '' : String(number)
  const micros = (ms: number | undefined) => ms === undefined ? '' : String(Math.round(ms * 1_000))
  return [
    text(bound), text(concurrency), text(rate?.n), micros(rate?.perMs), text(perKey?.concurrency), text(perKey?.rate?.n),
    micros(perKey?.rate?.perMs), perKey?.fifo ? '1' : '0', micros(retention?.ageMs), text(retention?.count),
    String(contract.OVERFLOW.indexOf(overflow)), text(events),
  ]
}

export function readLimits(bound: number | undefined, text: string): QueueLimits {
  const words = text.split(' ').filter((word) => word !== '')
  if (words.length === 0) return { bound, overflow: 'refuse', perKey: { fifo: false } }
  if (words.length < WORDS) throw strange()
  const number = (at: number) => words[at] === NONE ? undefined : Number(words[at])
  const ms = (at: number) => words[at] === NONE ? undefined : Number(words[at]) / 1_000
  const rate = (at: number): Rate | undefined => words[at] === NONE ? undefined : { n: Number(words[at]), perMs: ms(at + 1)! }
  const retention = words[7] === NONE ? undefined : { ageMs: ms(7)!, count: number(8)! }
  return {
    bound,
    concurrency: number(0),
    rate: rate(1),
    perKey: { concurrency: number(3), rate: rate(4), fifo: words[6] === '1' },
    retention,
    overflow: meaning(contract.OVERFLOW, number(9) ?? 0),
    events: number(10),
  }
}
