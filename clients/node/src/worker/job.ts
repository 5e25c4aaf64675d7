import * as contract from '../contract.js'
import { checkProgress, type Queue } from '../queue.js'
import type { Progress, Task, Waited } from '../types.js'

/** One claimed task, as its handler gets it. */
export class Job {
  readonly id: string
  readonly queue: string
  readonly kind?: string
  readonly contentType: string
  readonly traceparent?: string
  /** Fencing token of the claim. It only grows within a queue: use it to fence the task's writes. */
  readonly fence: number
  /** Number of times that the task was claimed, this claim included. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly priority: number
  readonly key?: string
  readonly deadlineUs?: number
  /**
   * Aborted if the handler must stop. The reason is a `ClaimLostError`, `CanceledError` or `TimeoutError`, or at the end
   * of the worker's grace an `Error`.
   */
  readonly signal: AbortSignal
  readonly #queue: Queue
  #progress: Progress | undefined

  /** @internal */
  constructor(queue: Queue, task: Task, signal: AbortSignal) {
    this.#queue = queue
    this.queue = queue.name
    this.id = task.id
    this.kind = task.kind
    this.contentType = task.contentType
    this.traceparent = task.traceparent
    this.fence = task.fence!
    this.attempt = task.attempt
    this.maxAttempts = task.maxAttempts
    this.priority = task.priority
    this.key = task.key
    this.deadlineUs = task.deadlineUs
    this.signal = signal
  }

  /** Reports progress, which operators see after the next heartbeat. */
  progress(progress: Progress): void {
    this.#progress = checkProgress(progress)
  }

  /** Results of the tasks that this task waited for, by ID. */
  async *results(): AsyncGenerator<Waited> {
    let page: Waited[]
    let after = ''
    do {
      page = await this.#queue.waited(this.id, { after })
      yield* page
      after = page.at(-1)?.id ?? ''
    } while (page.length === contract.WAITED_PAGE.max)
  }

  /** Progress that no heartbeat has sent yet. @internal */
  takeProgress(): Progress | undefined {
    const progress = this.#progress
    this.#progress = undefined
    return progress
  }

  /** Keeps progress for the next heartbeat, unless there is newer one. @internal */
  putBack(progress: Progress | undefined): void {
    this.#progress ??= progress
  }
}

/** Thrown by a handler: the task becomes a dead letter now. */
export class GiveUp extends Error {}

/** Thrown by a handler: the task leaves the queue without work, because there is nothing to do. */
export class Discard extends Error {}

/** Thrown by a handler: the attempt failed, and the next one is due after `delayMs`. */
export class RetryAfter extends Error {
  constructor(readonly delayMs: number, message: string, options?: ErrorOptions) {
    super(message, options)
  }
}

/** Thrown by a handler: the task is due again after `delayMs`, and the attempt does not count. */
export class Snooze extends Error {
  constructor(readonly delayMs: number) {
    super(`due again after ${delayMs} ms`)
  }
}
