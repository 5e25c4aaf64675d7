import { setMaxListeners } from 'node:events'

import * as contract from '../contract.js'
import {
  ClosedError, ConflictError, CorruptError, type ErrorDetails, ForbiddenError, FullError, InvalidError, MisconfiguredError, NotFoundError,
  OutcomeUnknownError, RushgateError, UnavailableError,
} from '../errors.js'
import { now, Pauses, sleep } from '../wait.js'
import type { Operation } from './operations.js'

/** A request to the API. */
export interface Request {
  operation: Operation
  /** Parameters of the path, in their order. */
  path: readonly string[]
  query?: Record<string, string>
  body?: object
  /** Sent as `Idempotency-Key`, so that a repeat gets the same answer. */
  key?: string
  /** Longest time for which the server may wait, in ms. */
  waitMs?: number
  signal?: AbortSignal
}

/** An answer: JSON, and whether it is an idempotent replay. */
export interface Answer {
  status: number
  body: any
  replayed: boolean
}

/** A problem that the server answered. */
export class Problem extends Error {
  constructor(readonly status: number, readonly body: any) {
    super(body.detail ?? body.title ?? `HTTP status ${status}`)
  }

  get code(): string {
    return this.body.code ?? ''
  }
}

const PASSING = new Set<string>(contract.PASSING_PROBLEMS)

export interface HttpSettings {
  token?: string
  timeoutMs: number
  retryForMs: number
}

/** Sends requests, and repeats a request whose answer was lost, with the same key. */
export class HttpClient {
  readonly #base: string
  readonly #settings: HttpSettings
  readonly #closing = new AbortController()

  constructor(url: string, settings: HttpSettings) {
    this.#base = url.replace(/\/+$/, '')
    this.#settings = settings
    // Each request in flight listens.
    setMaxListeners(0, this.#closing.signal)
  }

  /** Sends a request until it is answered, for as long as the retry budget lasts. Throws a `Problem` for a refusal. */
  async send(request: Request): Promise<Answer> {
    const until = now() + this.#settings.retryForMs + (request.waitMs ?? 0)
    const pauses = new Pauses()
    let mayHaveHappened = false
    for (;;) {
      if (this.#closing.signal.aborted) throw new ClosedError()
      try {
        return await this.#try(request)
      } catch (error) {
        request.signal?.throwIfAborted()
        if (error instanceof Problem && !PASSING.has(error.code)) throw error
        mayHaveHappened ||= error instanceof Problem ? error.code === 'outcome_unknown' : !isRefused(error as Error)
        const pause = error instanceof Problem ? error.body.retry_after_ms ?? pauses.draw() : pauses.draw()
        if (now() + pause >= until) throw gaveUp(error as Error, mayHaveHappened)
        await sleep(pause, request.signal)
      }
    }
  }

  /** The same, with every refusal as an error of this package. */
  async ask(request: Request): Promise<Answer> {
    try {
      return await this.send(request)
    } catch (error) {
      throw asRushgateError(error as Error)
    }
  }

  async #try({ operation, path, query, body, key, waitMs = 0, signal }: Request): Promise<Answer> {
    const limit = new AbortController()
    const abort = () => limit.abort()
    const timer = setTimeout(abort, this.#settings.timeoutMs + waitMs)
    const signals = [signal, this.#closing.signal].filter((one) => one !== undefined)
    for (const one of signals) one.addEventListener('abort', abort)
    try {
      signal?.throwIfAborted()
      const response = await fetch(this.#base + pathOf(operation, path, query), {
        method: operation[0],
        headers: this.#headers(body, key, waitMs),
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: limit.signal,
      })
      return await read(response)
    } finally {
      clearTimeout(timer)
      for (const one of signals) one.removeEventListener('abort', abort)
    }
  }

  #headers(body: object | undefined, key: string | undefined, waitMs: number): Record<string, string> {
    const { token } = this.#settings
    return {
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...(key !== undefined && { [contract.HTTP_KEY_HEADER]: key }),
      ...(waitMs > 0 && { Prefer: `wait=${Math.ceil(waitMs / 1_000)}` }),
    }
  }

  close(): void {
    this.#closing.abort()
  }
}

function pathOf([, path]: Operation, parameters: readonly string[], query: Request['query']): string {
  const [...left] = parameters
  const filled = path.replace(/\{\w+\}/g, () => encodeURIComponent(left.shift()!))
  return query === undefined ? filled : `${filled}?${new URLSearchParams(query)}`
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text()
  const isProblem = response.headers.get('content-type')?.startsWith(contract.HTTP_PROBLEM_TYPE)
  if (!response.ok) throw new Problem(response.status, isProblem ? JSON.parse(text) : {})
  const body = text === '' ? undefined : JSON.parse(text)
  return { status: response.status, body, replayed: response.headers.get(contract.HTTP_REPLAYED_HEADER) === 'true' }
}

/** Whether the server was not reached, so that nothing can have happened. */
function isRefused(error: Error): boolean {
  const code = (error.cause as NodeJS.ErrnoException | undefined)?.code
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND'
}

function gaveUp(cause: Error, mayHaveHappened: boolean): UnavailableError {
  const Kind = mayHaveHappened ? OutcomeUnknownError : UnavailableError
  const why = (cause.cause as Error | undefined)?.message ?? cause.message
  return new Kind(`The server did not answer: ${why}.`, { cause })
}

/** The error for a problem. Other errors stay as they are. */
export function asRushgateError(error: Error): Error {
  if (!(error instanceof Problem)) return error
  const { detail, title, code, hint, field, retry_after_ms: retryAfterMs } = error.body
  const details: ErrorDetails = { code, hint, field, retryAfterMs, cause: error }
  return kindOf(error.status, code, detail ?? title ?? error.message, details)
}

function kindOf(status: number, code: string | undefined, message: string, details: ErrorDetails): RushgateError {
  switch (code) {
    case 'corrupt': return new CorruptError(message, details)
    case 'misconfigured': return new MisconfiguredError(message, details)
    case 'full': return new FullError(message, details)
    case 'not_found': return new NotFoundError(message, details)
    case 'nothing_kept': return new InvalidError(message, details)
    case 'idempotency_key_reused': return new ConflictError(message, details)
    default: break
  }
  if (status === 401 || status === 403) return new ForbiddenError(message, details)
  if (status === 409) return new ConflictError(message, details)
  if (status === 429 || status === 503) return new UnavailableError(message, details)
  if (status < 500) return new InvalidError(message, details)
  return new RushgateError(message, details)
}
