import * as contract from '../contract.js'
import { ClosedError, CorruptError, ForbiddenError, FullError, InvalidError, MisconfiguredError, OutcomeUnknownError, RushgateError, UnavailableError } from '../errors.js'
import { now, Pauses, sleep, within } from '../wait.js'
import { type Argument, type Connection, ConnectionError, type Driver, type Reply, ReplyError } from './driver.js'

/** Codes of answers that end by themselves: the server executed nothing. */
const PASSING = new RegExp(`^(${contract.PASSING_ERRORS.join('|')})\\b`)

/** Sends commands, and repeats a command whose answer was lost, with the same arguments. */
export class Link {
  readonly #driver: Driver
  readonly #timeoutMs: number
  readonly #retryForMs: number
  #connection: Promise<Connection> | undefined
  #closed = false

  constructor(driver: Driver, timeoutMs: number, retryForMs: number) {
    this.#driver = driver
    this.#timeoutMs = timeoutMs
    this.#retryForMs = retryForMs
  }

  /** Sends a command until it is answered, for as long as the retry budget lasts. */
  async send(command: Argument[], key: string): Promise<Reply> {
    const until = now() + this.#retryForMs
    const pauses = new Pauses()
    let mayHaveHappened = false
    for (;;) {
      try {
        const reply = await this.#try(command, key)
        if (!isStatus(reply, contract.AGAIN_STATUS)) return reply
      } catch (error) {
        mayHaveHappened ||= error instanceof ConnectionError
        const passes = error instanceof ConnectionError || (error instanceof ReplyError && PASSING.test(error.message))
        if (!passes) throw asRushgateError(error as Error)
        if (this.#closed) throw new ClosedError()
        const pause = pauses.draw()
        if (now() + pause >= until) throw gaveUp(error as Error, mayHaveHappened)
        await sleep(pause)
      }
    }
  }

  async #try(command: Argument[], key: string): Promise<Reply> {
    if (this.#closed) throw new ClosedError()
    const opening = this.#open()
    const answer = opening.then((connection) => connection.send(command, key))
    try {
      return await within(answer, this.#timeoutMs, () => new Stalled())
    } catch (error) {
      if (error instanceof Stalled) this.#discard(opening)
      throw error
    }
  }

  #open(): Promise<Connection> {
    if (!this.#connection) {
      const opening = this.#driver.connect()
      // The next attempt opens another one.
      opening.catch(() => this.#discard(opening))
      this.#connection = opening
    }
    return this.#connection
  }

  #discard(opening: Promise<Connection>): void {
    if (this.#connection === opening) this.#connection = undefined
    opening.then((connection) => connection.close(), () => {})
  }

  close(): void {
    this.#closed = true
    if (this.#connection) this.#discard(this.#connection)
  }
}

/** The connection does not answer, so it is replaced. */
class Stalled extends ConnectionError {
  constructor() {
    super('no answer in time')
  }
}

/** Whether an answer is this status. */
export function isStatus(reply: Reply, status: string): boolean {
  return Buffer.isBuffer(reply) && reply.toString('latin1') === status
}

function gaveUp(cause: Error, mayHaveHappened: boolean): UnavailableError {
  const Kind = mayHaveHappened ? OutcomeUnknownError : UnavailableError
  return new Kind(`The store did not answer: ${cause.message}.`, { cause })
}

function asRushgateError(cause: Error): RushgateError {
  if (cause instanceof RushgateError) return cause
  const [, code = '', text = cause.message] = /^([A-Z]+) (.*)$/s.exec(cause.message) ?? []
  if (/Function not found/i.test(text)) {
    return new MisconfiguredError('The function library of the server is missing, or older than this package.', { hint: 'Run `rushgate functions install --store URL`.', cause })
  }
  switch (code) {
    case 'INVALID':
    case 'DEADLINE':
      return new InvalidError(`The server refused an argument: ${text}.`, { cause })
    case 'OOM':
      return new FullError('The memory of the server is full.', { hint: 'Free memory, or raise `maxmemory`.', cause })
    case 'NOAUTH':
    case 'NOPERM':
    case 'WRONGPASS':
      return new ForbiddenError(`The server refused the user: ${text}.`, { cause })
    default:
      return new CorruptError(`The server refused the call: ${cause.message}.`, { cause })
  }
}
