/** Checks of arguments against the limits of the protocol, before anything is sent. */

import * as contract from './contract.js'
import { InvalidError } from './errors.js'

const FORBIDDEN_IN_NAMES = /[\p{White_Space}\p{Cc}{}]/u
const FORBIDDEN_IN_LABELS = /\p{Cc}/u
const LONE_SURROGATE = /\p{Cs}/u
const KIND = /^[A-Za-z0-9._:/-]+$/
const VISIBLE_ASCII = /^[!-~]+$/
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** Range of a number, inclusive. */
export interface Range {
  readonly min: number
  readonly max: number
}

function invalid(field: string, why: string): InvalidError {
  return new InvalidError(`${field} ${why}.`, { field })
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text)
}

function isInvisible(character: string): boolean {
  const code = character.codePointAt(0) ?? 0
  return contract.INVISIBLE.some(([first, last]) => code >= first && code <= last)
}

function checkText(field: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(field, 'must be a string')
  if (LONE_SURROGATE.test(value)) throw invalid(field, 'is not valid Unicode')
  return value
}

/** A name in Normalization Form C: 1 to 200 bytes without white space, control or invisible characters, and braces. */
export function name(field: string, value: unknown, maxBytes: number = contract.NAME_BYTES): string {
  const text = checkText(field, value).normalize('NFC')
  const length = bytesOf(text)
  if (length < 1 || length > maxBytes) throw invalid(field, `has ${length} bytes; it must have 1 to ${maxBytes}`)
  if (text === '.' || text === '..') throw invalid(field, `is \`${text}\`, which is reserved in URLs`)
  if (FORBIDDEN_IN_NAMES.test(text) || [...text].some(isInvisible)) {
    throw invalid(field, 'contains white space, a brace, or a control or invisible character')
  }
  return text
}

/** Text for operators: at most 200 bytes without control characters. */
export function label(field: string, value: unknown): string {
  const text = checkText(field, value)
  if (bytesOf(text) > contract.LABEL_BYTES) throw invalid(field, `has more than ${contract.LABEL_BYTES} bytes`)
  if (FORBIDDEN_IN_LABELS.test(text)) throw invalid(field, 'contains a control character')
  return text
}

/** Kind of a task: 1 to 80 ASCII letters, digits and `. _ : / -`. */
export function kind(value: unknown): string {
  const text = checkText('kind', value)
  if (text.length > contract.KIND_BYTES || !KIND.test(text)) {
    throw invalid('kind', `is \`${text}\`; it must be 1 to ${contract.KIND_BYTES} ASCII letters, digits and . _ : / -`)
  }
  return text
}

/** A W3C `traceparent`. */
export function traceparent(value: unknown): string {
  const text = checkText('traceparent', value)
  if (!TRACEPARENT.test(text)) throw invalid('traceparent', 'is not a W3C traceparent')
  return text
}

/** A content type: visible ASCII characters with a slash. White space around parameters is removed. */
export function contentType(value: unknown): string {
  const text = checkText('contentType', value).trim().replace(/\s*;\s*/g, ';')
  if (!VISIBLE_ASCII.test(text) || !text.includes('/') || bytesOf(text) > contract.CONTENT_TYPE_BYTES || /[{}]/.test(text)) {
    throw invalid('contentType', 'is not a media type')
  }
  return text
}

/** An idempotency key: 1 to 128 visible ASCII characters without braces. */
export function idempotencyKey(value: unknown): string {
  const text = name('key', value, contract.IDEMPOTENCY_KEY_BYTES)
  if (!VISIBLE_ASCII.test(text)) throw invalid('key', 'contains a character that is not visible ASCII')
  return text
}

/** A whole number within a range. */
export function whole(field: string, value: unknown, { min, max }: Range): number {
  if (typeof value !== 'number' || !Number.isInteger(value)) throw invalid(field, 'must be a whole number')
  if (value < min || value > max) throw invalid(field, `is ${value}; it must be ${min} to ${max}`)
  return value
}

/** A duration in ms, which may have a fraction, as whole µs within a range of µs. */
export function micros(field: string, ms: unknown, { min, max }: Range): number {
  if (typeof ms !== 'number' || !Number.isFinite(ms)) throw invalid(field, 'must be a number of milliseconds')
  const us = Math.round(ms * 1_000)
  if (us < min || us > max) throw invalid(field, `is ${ms} ms; it must be ${min / 1_000} to ${max / 1_000} ms`)
  return us
}

/** A lease in ms, as µs: 10 ms to 24 h. */
export function lease(ms: unknown): number {
  return micros('leaseMs', ms, contract.LEASE_US)
}

/** A wait in ms: 0 to 24 h. */
export function wait(ms: unknown): number {
  return micros('waitMs', ms, contract.WAIT_US) / 1_000
}

/** A delay in ms, as µs: 0 to 400 days. */
export function delay(field: string, ms: unknown): number {
  return micros(field, ms, contract.DELAY_US)
}

/** A timestamp in µs since 1970. */
export function moment(field: string, value: unknown): number {
  return whole(field, value, contract.MOMENT_US)
}

/** An interval of a schedule in whole ms: 1 s to 400 days. */
export function interval(ms: unknown): number {
  const { min, max } = contract.INTERVAL_US
  return whole('everyMs', ms, { min: min / 1_000, max: max / 1_000 })
}

/** The position of a word in a list. */
export function choice(field: string, value: unknown, words: readonly string[]): number {
  const at = (words as readonly unknown[]).indexOf(value)
  if (at < 0) throw invalid(field, `is \`${String(value)}\`; it must be one of ${words.join(', ')}`)
  return at
}

/** A list of at most `max` entries, and at least one. */
export function list<T>(field: string, values: readonly T[], max: number = contract.BATCH.max): readonly T[] {
  if (!Array.isArray(values)) throw invalid(field, 'must be an array')
  if (values.length < 1 || values.length > max) throw invalid(field, `has ${values.length} entries; it must have 1 to ${max}`)
  return values
}

/** Refuses two options of which only one may be set. */
export function oneOf(first: string, isFirst: boolean, second: string, isSecond: boolean): void {
  if (isFirst && isSecond) throw invalid(first, `cannot be set together with ${second}`)
}

/** Cuts a text to at most `max` bytes of UTF-8, between characters. */
export function cut(text: string, max: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= max) return bytes.toString()
  let end = max
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return bytes.subarray(0, end).toString()
}

export { invalid }
